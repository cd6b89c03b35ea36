// The prompts of a command line: given there, in a file each, or one a line of a file. Used by `genesis-run generate`.
#pragma once

#include <string>
#include <vector>

#include "tools/common/tool.h"

namespace genesis::tools {

struct Prompt {
  std::string text;
  std::string place = {};  // " of FILE, line N"; empty: the command line
};

struct PromptFlags {
  std::vector<std::string> texts, files;
  std::string lines;

  void add_to(Command& app);
  // In the order: texts, files, lines. Lines are JSON, but for those of a file whose name ends in .txt, which are prompts
  // themselves; empty ones are left out. Throws UsageError when there is none, and Error naming the file and the line
  // that is not a JSON string or an object with a string "prompt".
  std::vector<Prompt> read() const;
};

}  // namespace genesis::tools
