// The lines that `genesis-run chat` shows before a conversation: the model, the chat template, the context, and how
// tokens are chosen.
#pragma once

#include <map>
#include <string>

#include "models/generation/generate_options.h"
#include "schema/graph/model.h"
#include "tools/common/command.h"

namespace genesis::tools {

// Says where each sampling setting comes from.
struct SettingSources {
  std::string otherwise;  // source of the settings that are not in `given`: a file, or the tool's defaults
  std::map<std::string, std::string> given;  // source by setting name: "the command line", "/set"
};
// Returns the sources: "the command line" for the settings given there, `otherwise` for the rest.
SettingSources setting_sources(const Command& command, const std::string& otherwise);

// Returns "temperature 0.7, top_k 20 (m.genesis/generation_config.json); seed 1 (the command line)". Settings that
// change nothing are left out.
std::string sampling_text(const text::GenerateOptions& options, const SettingSources& sources);

// Returns one line: "qwen2, 494.03 M parameters in bf16 (m.genesis)".
std::string model_text(const Model& model, const std::string& file);
// Returns "4096 tokens, and up to 32768 as the conversation grows".
std::string context_text(int64_t positions, int64_t longest);

}  // namespace genesis::tools
