// A request to a Generator, and the conversion of its tokens to text (models/generation/generator.h).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "models/generation/generate_options.h"

namespace genesis::text {

// Converts the tokens of one answer to text, one by one.
struct TokenText {
  std::function<std::string(int64_t token)> add;  // returns the text that is complete by now
  std::function<std::string()> finish;            // returns the rest
};

// One request of generate_all().
struct Request {
  std::vector<int64_t> prompt;
  GenerateOptions options = {};
  std::function<bool(const Piece&)> on_piece = {};  // the same as for continue_with()
  bool shares_prompt = false;                       // see generation::Request
};

}  // namespace genesis::text
