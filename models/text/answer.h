// One answer of a Generator: starts steps of decode_and_sample, reads their tokens, perhaps a step behind, and finds
// out where the text ends. Used by models/text/generator.cpp.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "executor/session.h"
#include "models/text/generator.h"
#include "models/text/sampling_entries.h"
#include "models/text/stop_strings.h"

namespace genesis::text {

// What a Generator's cache is of.
struct TextSoFar {
  std::vector<int64_t> tokens;
  int64_t cached = 0;    // of them, those that the cache holds
  int64_t capacity = 0;  // positions of the cache
  int64_t size() const { return static_cast<int64_t>(tokens.size()); }
};

bool has_penalties(const GenerateOptions& options);
SamplingFeatures features_of(const GenerateOptions& options);

class Answer {
 public:
  // The step that comes before those of decode_and_sample, where the last token of the text is not the only one that
  // the cache does not hold.
  struct Prefill {
    std::string entry;  // empty: there is none
    NamedTensors inputs;
  };
  struct Way {
    Prefill first;
    bool runs_ahead = false;  // start a step before the token of the one before is read
    TokenText stream;
    const std::function<bool(const Piece&)>& on_piece;
  };
  // The session's states are those of the text. `result` gets all that comes, also where a step throws.
  Answer(Session& session, TextSoFar& text, const GenerateOptions& options, Way way, GenerateResult& result);
  ~Answer() { forget_steps(); }
  Answer(const Answer&) = delete;
  Answer& operator=(const Answer&) = delete;

  void run();

 private:
  void start();
  void take();
  template <class Body>
  void naming_position(int64_t step, const Body& body) const;
  void add_logprobs(const NamedTensors& outputs);
  bool accept();
  bool ends(StopReason reason);
  bool give(int64_t token, const std::string& text);
  void forget_steps();
  void finish();

  Session& session_;
  TextSoFar& text_;
  const GenerateOptions& options_;
  const Way way_;
  GenerateResult& result_;
  StopStrings stops_;
  const std::string decode_;
  const int64_t steps_;              // that the answer can have
  int64_t started_ = 0, taken_ = 0;  // steps
  int64_t token_ = -1;               // taken last
};

}  // namespace genesis::text
