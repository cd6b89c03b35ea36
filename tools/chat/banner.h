// What `genesis-run chat` says of a conversation ahead of it: the model, the chat template, the context and how tokens are chosen.
#pragma once

#include <map>
#include <string>

#include "models/text/generate_options.h"
#include "schema/graph/model.h"
#include "tools/common/command.h"

namespace genesis::tools {

// SettingSources says where the sampling settings come from.
struct SettingSources {
  std::string otherwise;  // of those that are not in the map: a file, or the tool's defaults
  std::map<std::string, std::string> given;  // by name: "the command line", "/set"
};
// Returns the settings that the command line gave, and `otherwise` for the rest.
SettingSources setting_sources(const Command& command, const std::string& otherwise);

// "temperature 0.7, top_k 20 (m.genesis/generation_config.json); seed 1 (the command line)". Settings that change nothing are left
// out.
std::string sampling_text(const text::GenerateOptions& options, const SettingSources& sources);

// Each in a line: "qwen2, 494.03 M parameters in bf16 (m.genesis)".
std::string model_text(const Model& model, const std::string& file);
// "4096 tokens, and up to 32768 as the conversation grows".
std::string context_text(int64_t positions, int64_t longest);

}  // namespace genesis::tools
