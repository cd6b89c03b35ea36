// Makes the text of one answer from the tokens that an Engine chooses, and ends it at stop strings. Generator uses it, and so can
// other callers of an Engine:
//
//     const auto answer = std::make_shared<Answer>(byte_text(), options);
//     engine.submit({.prompt = prompt,
//                    .options = options,
//                    .on_token = [answer](const generation::NewToken& token) { return answer->take(token.token); },
//                    .on_result = [answer](generation::Result result) {
//                      std::cout << (result.error ? result.error_text() : answer->finish(std::move(result)).text);
//                    }});
#pragma once

#include "models/generation/generate_options.h"
#include "models/generation/stop_strings.h"

namespace genesis::text {

class Answer {
 public:
  // `on_piece` may end the answer by returning false.
  Answer(TokenText stream, const GenerateOptions& options, std::function<bool(const Piece&)> on_piece = {})
      : stream_(std::move(stream)), stops_(options.stop_strings), on_piece_(std::move(on_piece)) {}
  Answer(const Answer&) = delete;
  Answer& operator=(const Answer&) = delete;

  // Takes the next token, which is no stop token. Returns false if the answer ends with it.
  bool take(int64_t token);
  // Returns the answer, once the engine has ended the request without an error. Gives on_piece the text that was held back.
  GenerateResult finish(generation::Result result);

 private:
  bool give(int64_t token, const std::string& text);
  void give_rest(StopReason reason);

  const TokenText stream_;
  StopStrings stops_;
  const std::function<bool(const Piece&)> on_piece_;
  std::string text_;
};

}  // namespace genesis::text
