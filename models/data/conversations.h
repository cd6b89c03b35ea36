// JSON lines of conversations and texts, read as samples to learn from.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "models/chat/conversation.h"

namespace genesis::data {

struct Conversations {
  std::vector<chat::Sample> samples;  // in the order of their lines, of which one may give several
  int64_t skipped = 0;                // lines that were wrong
  std::string first_skipped = {};     // what was wrong with the first of them, and where
};

// Each line is {"messages": [{"role": ..., "content": ...}, ...]} or {"text": ...}; empty lines are nothing. Beside messages the
// template sees "tools", "documents" and what "chat_template_kwargs" has; other keys are passed over. By all cores, with one
// result. Throws Error naming the file, the line and what is wrong with it, unless `skip_bad`.
Conversations read_conversations(const std::vector<std::filesystem::path>& files,
                                 const chat::SampleMaker& maker, bool skip_bad = false);

}  // namespace genesis::data
