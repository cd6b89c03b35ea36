// The prompts of a command line: given there, in a file each, or one a line of a file. Used by `genesis-run generate`.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tools/common/tool.h"

namespace genesis::tools {

struct Prompt {
  std::string text;
  std::string place = {};  // " of FILE, line N"; empty: the command line
};

// Prompts one after the other, in the order: texts, files, lines. A file of lines is held as it was read, and each line becomes a
// prompt when its turn has come, so that many prompts take no more memory than their file. Lines are JSON, but for those
// of a file whose name ends in .txt, which are prompts themselves; empty ones are left out.
class Prompts {
 public:
  Prompts(std::vector<Prompt> whole, std::string lines_path, std::string lines)
      : whole_(std::move(whole)), path_(std::move(lines_path)), lines_(std::move(lines)) {}

  // Nothing where there are no more. Throws Error naming the file and the line that is not a JSON string or an object with a
  // string "prompt".
  std::optional<Prompt> next();
  void rewind();  // to the first

  // For ranks that have no stdin of their own.
  nlohmann::json to_json() const;
  static Prompts from_json(const nlohmann::json& json);

 private:
  std::optional<std::string> next_line();

  std::vector<Prompt> whole_;
  std::string path_, lines_;
  size_t whole_taken_ = 0, at_ = 0, line_ = 0;  // at_: in lines_; line_: lines before it
};

struct PromptFlags {
  std::vector<std::string> texts, files;
  std::string lines;

  void add_to(Command& app);
  // Reads the files. Throws UsageError where no prompt was asked for, and Error where a file cannot be read.
  Prompts read() const;
};

}  // namespace genesis::tools
