// A text that a Generator is asked for, and how its tokens become text (models/text/generator.h).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "models/text/generate_options.h"

namespace genesis::text {

// Tokens of one answer as text, as they come.
struct TokenText {
  std::function<std::string(int64_t token)> add;  // what is whole by now
  std::function<std::string()> finish;            // the rest
};

// A text to be made in generate_all().
struct Request {
  std::vector<int64_t> prompt;
  GenerateOptions options = {};
  std::function<bool(const Piece&)> on_piece = {};  // as continue_with() has it
};

}  // namespace genesis::text
