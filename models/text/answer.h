// One answer of a Generator: starts steps of decode_and_sample, reads their tokens, perhaps a step behind, and finds
// out where the text ends. Used by models/text/generator.cpp.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "executor/session.h"
#include "models/text/generator.h"
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
std::string entry_for(const GenerateOptions& options);

class Answer {
 public:
  struct Way {
    bool runs_ahead = false;  // start a step before the token of the one before is read
    TokenText stream;
    const std::function<bool(const Piece&)>& on_piece;
  };
  // The session's states are those of the text, whose last token is the first step's. `result` gets all that comes,
  // also where a step throws.
  Answer(Session& session, TextSoFar& text, const GenerateOptions& options, Way way, GenerateResult& result);
  ~Answer() { forget_steps(); }
  Answer(const Answer&) = delete;
  Answer& operator=(const Answer&) = delete;

  void run();

 private:
  void start();
  void take();
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
  const std::string entry_;
  const int64_t steps_;              // that the answer can have
  int64_t started_ = 0, taken_ = 0;  // steps
  int64_t token_ = -1;               // taken last
};

}  // namespace genesis::text
