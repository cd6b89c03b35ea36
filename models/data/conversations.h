// Reads JSON lines of conversations and texts as training samples.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "models/chat/conversation.h"

namespace genesis::data {

struct Conversations {
  std::vector<chat::Sample> samples;  // in the order of their lines; one line may give several
  int64_t skipped = 0;                // lines that were invalid
  std::string first_skipped = {};     // error message of the first of them, with its place
};

// Reads lines that are {"messages": [{"role": ..., "content": ...}, ...]} or {"text": ...}; empty lines are skipped. Beside the
// messages, the template sees "tools", "documents" and the entries of "chat_template_kwargs"; other keys are ignored. Runs on all
// cores; the result does not depend on their number. Throws Error naming the file, the line and the problem, unless `skip_bad`.
Conversations read_conversations(const std::vector<std::filesystem::path>& files,
                                 const chat::SampleMaker& maker, bool skip_bad = false);

}  // namespace genesis::data
