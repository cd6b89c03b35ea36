// Makes JSON of the texts of a request: each API has a format of its own.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "models/generation/generate_options.h"
#include "models/serving/json.h"

namespace genesis::serving {

// Counts tokens over all texts of a request; a prompt counts once.
struct Usage {
  int64_t prompt = 0, cached = 0, generated = 0;
};

// Returns a server-sent event with this JSON.
std::string event(const Json& data);
// Returns the same with a name.
std::string event(const std::string& name, const Json& data);

// Takes what becomes known of the texts of one request, which are numbered from 0, and keeps what the answer needs. If the answer
// is streamed, the functions return the events to send now. One thread at a time may use it.
class AnswerFormat {
 public:
  virtual ~AnswerFormat() = default;
  virtual std::string begin() { return ""; }
  // New text, and the log-probabilities of the tokens behind it if they were asked for.
  virtual std::string add(size_t text, const std::string& piece,
                          std::span<const text::TokenLogprob> logprobs) = 0;
  virtual std::string end(size_t text, const text::GenerateResult& result) = 0;
  virtual std::string finish(const Usage& usage) = 0;  // the last events
  virtual Json whole(const Usage& usage) = 0;          // the answer that is not streamed
};

// Returns "stop" or "length".
std::string finish_reason(text::StopReason reason);
// Returns 24 random hexadecimal digits behind `prefix`.
std::string random_id(const std::string& prefix);
int64_t seconds_now();  // since 1970

}  // namespace genesis::serving
