#include "tools/common/model_name.h"

#include "models/hub/hub.h"
#include "models/hub/open_any.h"
#include "models/open_model.h"
#include "tools/common/file_progress.h"
#include "tools/common/usage.h"

namespace genesis::tools {

void add_hub_name(Command& command, std::string& hub_name) {
  command
      .add_option("--hf", hub_name,
                  "a model of Hugging Face in place of the file: OWNER/NAME, or OWNER/NAME:Q4_K_M for a GGUF "
                  "file; it is fetched "
                  "once, into the cache of Hugging Face")
      ->type_name("NAME");
}

void add_model_name(Command& command, std::string& file, std::string& hub_name, const std::string& what) {
  command.add_option("file", file, what);
  add_hub_name(command, hub_name);
}

std::string fetched(const std::string& hub_name, bool quiet) {
  FileProgress progress(quiet);
  hub::HubSettings settings = hub::settings();
  settings.progress = progress.hook();
  return hub::fetch(hub_name, settings);
}

std::shared_ptr<const Model> open_named(std::string& file, const std::string& hub_name, World& world) {
  if (!file.empty() && !hub_name.empty()) fail_usage("--hf {}: there is a model already, {}", hub_name, file);
  if (file.empty() && hub_name.empty()) fail_missing("file, or --hf NAME");
  if (hub_name.empty()) {
    file = models::model_file(file, world);
    return load_model(file);
  }
  file = world.said_by_first(world.is_first() ? fetched(hub_name) : "");
  return models::open_any(file);
}

}  // namespace genesis::tools
