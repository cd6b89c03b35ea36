// The prompts of a command line: given there, one per file, or one per line of a file.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tools/common/tool.h"

namespace genesis::tools {

struct Prompt {
  std::string text;
  std::string place = {};  // " of FILE, line N"; empty for a prompt on the command line
};

// Returns prompts one by one, in this order: texts, files, lines. A file of lines is kept as it was read, and a line
// becomes a prompt only when its turn comes, so many prompts take no more memory than their file. Lines are JSON,
// except in a .txt file, whose lines are the prompts themselves. Empty lines are skipped.
class Prompts {
 public:
  Prompts(std::vector<Prompt> whole, std::string lines_path, std::string lines)
      : whole_(std::move(whole)), path_(std::move(lines_path)), lines_(std::move(lines)) {}

  // Returns the next prompt, or nothing at the end. Throws Error naming the file and the line if a line is neither a
  // JSON string nor an object with a string "prompt".
  std::optional<Prompt> next();
  void rewind();  // returns to the first prompt

  // Serializes the prompts for ranks that have no stdin of their own.
  nlohmann::json to_json() const;
  static Prompts from_json(const nlohmann::json& json);

 private:
  std::optional<std::string> next_line();

  std::vector<Prompt> whole_;
  std::string path_, lines_;
  size_t whole_taken_ = 0, at_ = 0, line_ = 0;  // at_: offset in lines_; line_: number of lines read
};

struct PromptFlags {
  std::vector<std::string> texts, files;
  std::string lines;

  void add_to(Command& app);
  // Reads the files. Throws UsageError if no prompt was given, and Error if a file cannot be read.
  Prompts read() const;
};

}  // namespace genesis::tools
