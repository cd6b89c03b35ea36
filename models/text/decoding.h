// Steps of decode_and_sample over all rows of a KV cache: starts them, reads their tokens, perhaps a step behind, and
// gives them to the answers of the rows. Used by models/text/generator.cpp.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "executor/session.h"
#include "models/text/answer.h"

namespace genesis::text {

// A row of the cache.
struct Row {
  TextSoFar text;
  Request request;    // of the answer, which refers to it and to the result
  size_t number = 0;  // of the request
  GenerateResult result;
  std::optional<Answer> answer;  // empty, or done: the row rests
  bool goes_on() const { return answer && !answer->is_done(); }
};

class Decoding {
 public:
  // A step in front of those of decode_and_sample, as a cache of one row may have it.
  struct First {
    std::string entry;  // empty: there is none
    NamedTensors inputs;
  };

  // `runs_ahead`: start a step before the tokens of the one before are read.
  Decoding(Session& session, std::vector<Row>& rows, int64_t vocabulary, bool runs_ahead)
      : session_(session), rows_(rows), vocabulary_(vocabulary), runs_ahead_(runs_ahead) {}
  ~Decoding() { forget(); }
  Decoding(const Decoding&) = delete;
  Decoding& operator=(const Decoding&) = delete;

  bool goes_on() const;  // whether any row does
  // Entry points that the steps need while these rows go on.
  SamplingFeatures features() const;
  // The steps to come are those of the rows as they are now. No step is under way.
  void begin(First first = {});
  // One token for each row that goes on; false when none does.
  bool step();
  // Takes what is under way.
  void drain();

 private:
  // A step that was started.
  struct Step {
    std::vector<size_t> rows;        // that it chooses a token for
    std::vector<int64_t> positions;  // of these tokens
  };
  bool start();
  void take();
  void forget();
  template <class Body>
  void naming_positions(const Step& step, const Body& body) const;

  Session& session_;
  std::vector<Row>& rows_;
  const int64_t vocabulary_;
  const bool runs_ahead_;
  First first_;
  std::string decode_;
  std::deque<Step> under_way_;
};

}  // namespace genesis::text
