#include "tools/build/brought_settings.h"

#include <spdlog/spdlog.h>

#include "models/chat/chat_template.h"
#include "models/chat/generation_config.h"
#include "schema/file/attached_files.h"

namespace genesis::tools {
namespace {

constexpr const char* kGeneration = "generation_config.json";
constexpr const char* kTokenizer = "tokenizer_config.json";
constexpr const char* kTemplate = "chat_template.jinja";

// Reads a file as later commands will, by itself. Throws Error naming it.
void check_generation(const chat::ConfigFiles& files) { chat::read_generation_config(files, {}); }
void check_tokenizer(const chat::ConfigFiles& files) { files.object(kTokenizer); }

void check(Model& model, const std::string& source, const char* name, void (*read)(const chat::ConfigFiles&),
           const char* lost) {
  const auto bytes = attached_file(model, name);
  if (!bytes) return;
  Model alone;
  attach_file(alone, name, *bytes);
  try {
    read(chat::ConfigFiles::of_model(alone, source));
  } catch (const Error& error) {
    spdlog::warn("{}: the file is left out, and with it {}", error.message(), lost);
    model.files.erase(name);
  }
}

bool has_template(const Model& model, const chat::ConfigFiles& files) {
  if (attached_file(model, kTemplate)) return true;
  const auto config = files.object(kTokenizer);
  return config && !config->value("chat_template", nlohmann::json()).is_null();
}

}  // namespace

void leave_out_broken_settings(Model& model, const std::string& source) {
  check(model, source, kGeneration, check_generation, "how the makers sample and which tokens end a text");
  check(model, source, kTokenizer, check_tokenizer, "the names of special tokens and the chat template");
  const chat::ConfigFiles files = chat::ConfigFiles::of_model(model, source);
  if (!has_template(model, files)) return;
  try {
    chat::ChatTemplate::from(files);
  } catch (const Error& error) {
    spdlog::warn("conversations will need another chat template (--template): {}", error.message());
  }
}

}  // namespace genesis::tools
