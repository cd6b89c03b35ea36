#include "tools/build/brought_settings.h"

#include "models/chat/chat_template.h"
#include "models/chat/generation_config.h"
#include "models/generation/vocabulary.h"
#include "schema/file/attached_files.h"
#include "schema/messages/log.h"

namespace genesis::tools {
namespace {

constexpr const char* kGeneration = "generation_config.json";
constexpr const char* kEnds = "eos_token_id";
constexpr const char* kTokenizer = "tokenizer_config.json";
constexpr const char* kTemplate = "chat_template.jinja";

// Reads the file in the way later commands will read it. Throws Error naming the file.
void check_generation(const chat::ConfigFiles& files) { chat::read_generation_config(files, {}); }
void check_tokenizer(const chat::ConfigFiles& files) { files.object(kTokenizer); }

// Returns true if this setting can be used when it is the only one.
bool is_usable(const std::string& name, const nlohmann::json& value) try {
  Model alone;
  attach_file(alone, kGeneration, nlohmann::json({{"do_sample", true}, {name, value}}).dump());
  check_generation(chat::ConfigFiles::of_model(alone, "the model"));
  return true;
} catch (const Error&) {
  return false;
}

// Returns the settings that can be used. Each one is tried alone, and so is each of the tokens that end a text.
nlohmann::json usable_part(const nlohmann::json& settings) {
  nlohmann::json usable = nlohmann::json::object();
  for (const auto& [name, value] : settings.items()) {
    if (is_usable(name, value)) usable[name] = value;
    if (name != kEnds || !value.is_array() || usable.contains(name)) continue;
    for (const nlohmann::json& end : value)
      if (is_usable(name, end)) usable[name].push_back(end);
  }
  return usable;
}

// Returns an empty object if the file cannot be read.
nlohmann::json generation_settings(const chat::ConfigFiles& files) try {
  return files.object(kGeneration).value_or(nlohmann::json::object());
} catch (const Error&) {
  return nlohmann::json::object();
}

// Keeps the usable settings of a broken generation_config.json that says which tokens end a text. A model that does
// not know where its texts end is of little use, so a bad temperature must not cost this setting too.
void keep_usable_generation(Model& model, const std::string& source) {
  const auto files = chat::ConfigFiles::of_model(model, source);
  try {
    check_generation(files);
  } catch (const Error& error) {
    const nlohmann::json usable = usable_part(generation_settings(files));
    if (!usable.contains(kEnds)) return;
    log_warning("{}: this setting is left out, and the others of the file are kept", error.message());
    attach_file(model, kGeneration, usable.dump(2) + "\n");
  }
}

void check(Model& model, const std::string& source, const char* name, void (*read)(const chat::ConfigFiles&),
           const char* lost) {
  const auto bytes = attached_file(model, name);
  if (!bytes) return;
  Model alone;
  attach_file(alone, name, *bytes);
  try {
    read(chat::ConfigFiles::of_model(alone, source));
  } catch (const Error& error) {
    log_warning("{}: the file is left out, and with it {}", error.message(), lost);
    model.files.erase(name);
  }
}

bool has_template(const Model& model, const chat::ConfigFiles& files) {
  if (attached_file(model, kTemplate)) return true;
  const auto config = files.object(kTokenizer);
  return config && !config->value("chat_template", nlohmann::json()).is_null();
}

// Warns once, when the model is made. Commands that read the file later give the same warnings.
void tell_of_generation(const Model& model, const std::string& source) {
  const Graph* forward = model.find_entry("forward");
  if (!forward) return;
  const auto files = chat::ConfigFiles::of_model(model, source);
  try {
    for (const std::string& warning : chat::generation_warnings(files, text::vocabulary_of(*forward, 3)))
      log_warning("{}", warning);
  } catch (const Error&) {
    // The file could not be read because of config.json, which has no settings to leave out.
  }
}

}  // namespace

void leave_out_broken_settings(Model& model, const std::string& source) {
  keep_usable_generation(model, source);
  check(model, source, kGeneration, check_generation, "how the makers sample and which tokens end a text");
  check(model, source, kTokenizer, check_tokenizer, "the names of special tokens and the chat template");
  tell_of_generation(model, source);
  const chat::ConfigFiles files = chat::ConfigFiles::of_model(model, source);
  if (!has_template(model, files)) return;
  try {
    chat::ChatTemplate::from(files);
  } catch (const Error& error) {
    log_warning("conversations will need another chat template (--template): {}", error.message());
  }
}

}  // namespace genesis::tools
