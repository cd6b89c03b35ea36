// Runs steps of decode_and_sample over the rows of a KV cache, all or the first ones: starts them, reads their tokens, possibly one step later, and
// passes these to the tasks of the rows.
#pragma once

#include <deque>
#include <exception>
#include <string>
#include <vector>

#include "executor/generation/cache_budget.h"
#include "executor/generation/cache_rows.h"
#include "executor/generation/entry_points.h"
#include "executor/generation/sampling_states.h"
#include "executor/generation/speculation.h"
#include "executor/generation/stopwatch.h"
#include "executor/session.h"

namespace genesis::generation {

// Returns the error of a step, for the row whose logits made the step fail.
std::exception_ptr error_of_row(const std::exception_ptr& error, const Row& row);

// The numbers of rows that steps can have: those of the session's entry points with first_rows_suffix(), and all.
class StepRows {
 public:
  // With `only_all`, steps have all rows.
  StepRows(const Session& session, size_t rows, bool only_all);

  // Returns the smallest number of rows, of those that steps can have, that is not below `count`.
  size_t at_least(size_t count) const;
  // Returns the entry point of these rows in place of `entry`, which has all of them.
  std::string entry(const std::string& entry, size_t rows) const;

 private:
  std::vector<size_t> sizes_;  // ascending
};

class Decoding {
 public:
  // An optional step before those of decode_and_sample, for a cache with one row.
  struct First {
    std::string entry;  // empty: there is no such step
    NamedTensors inputs;
  };

  // With `runs_ahead`, a step is started before the tokens of the previous one are read. With `idles_at_begin`, rows without a
  // request read the first token of their text again and not the last one, so that steps do not read their caches; the last bits
  // of what the cache holds of that token may change. `speculation` chooses several tokens in a step; null: each step chooses one.
  // `work` counts each step when its tokens are taken, and must outlive this object.
  Decoding(Session& session, std::vector<Row>& rows, int64_t vocabulary, bool runs_ahead, bool idles_at_begin,
           Work& work, std::unique_ptr<Speculation> speculation = {})
      : session_(session),
        rows_(rows),
        step_rows_(session, rows.size(), speculation || (session.is_asynchronous() && !idles_at_begin)),
        vocabulary_(vocabulary),
        runs_ahead_(runs_ahead),
        idles_at_begin_(idles_at_begin),
        work_(work),
        speculation_(std::move(speculation)) {}
  ~Decoding() { forget(); }
  Decoding(const Decoding&) = delete;
  Decoding& operator=(const Decoding&) = delete;

  bool goes_on() const;  // true if any row does
  // Returns the features that the steps need while these rows go on.
  SamplingFeatures features() const;
  // Returns the entry point of the steps behind the next begin().
  std::string entry() const { return step_rows_.entry(decode_name(features()), wanted_size()); }
  int64_t size() const { return static_cast<int64_t>(size_); }  // rows of the steps
  // Returns true if steps have more rows than the requests need, and fewer have requests than when this was asked for last.
  bool can_shrink() const;
  // Moves requests to the first rows, so that steps need no others; one that cannot be moved stays. Returns true if begin() must follow.
  // No step may be under way.
  bool shrink(CacheRows& rows, CacheBudget& budget);
  // Prepares the next steps for the present state of the rows. No step may be under way.
  void begin(First first = {});
  // Does the same if rows have only read more of their prompts since begin().
  void continue_beside_reading();
  // Chooses one token for each row that goes on, or several where drafts are accepted. Returns false if none does. Throws Error if the run fails; then begin() must
  // follow.
  bool step();
  // Takes the tokens of all steps under way.
  void drain();
  // Discards the steps under way. A superfluous step has only written to the cache behind the texts, where the next prompts go,
  // and counted its tokens; the next call of begin() counts them anew.
  void forget();
  // Returns the rows, of several, whose logits at their present position are not numbers. No step may be under way.
  std::vector<size_t> rows_of_nan();

 private:
  // A step that was started.
  struct Step {
    std::vector<size_t> rows;        // rows that it chooses a token for
    std::vector<int64_t> positions;  // positions of the chosen tokens
    RunTimes* times = nullptr;       // counts it as a run of this size
    int64_t size = 0;
    double seconds = 0;  // its start took so long
  };
  bool start();
  void launch(Step& step);
  bool start_steps();
  bool speculate();
  bool follows_text() const;
  bool has_ended_rows() const;
  void take();
  void take(const Step& step);
  [[noreturn]] void drain_before(const std::exception_ptr& error);
  std::vector<SamplingRow> sampling_rows(size_t count) const;
  size_t wanted_size() const;
  template <class Body>
  void naming_positions(const Step& step, const Body& body) const;

  Session& session_;
  std::vector<Row>& rows_;
  const StepRows step_rows_;
  const int64_t vocabulary_;
  const bool runs_ahead_, idles_at_begin_;
  Work& work_;
  const std::unique_ptr<Speculation> speculation_;
  bool has_old_positions_ = false, has_old_bias_ = false;  // states that the next step of decode_ needs anew
  size_t size_ = 0;                                        // rows of the steps, the first ones
  size_t busy_ = 0;                                        // rows with a request when shrink() was called
  ptrdiff_t set_rows_ = 0;                                 // rows that went on when positions were set
  First first_;
  std::string decode_;
  std::deque<Step> under_way_;
};

}  // namespace genesis::generation
