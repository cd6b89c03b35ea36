// The settings of a hub: the place that models are fetched from, and the folder that keeps them.
#pragma once

#include <filesystem>
#include <string>

#include "schema/messages/progress.h"

namespace genesis::hub {

struct HubSettings {
  std::string endpoint = "https://huggingface.co";
  std::string token = {};  // empty: none
  std::filesystem::path cache = {};
  bool is_offline = false;  // use what the cache has
  OnProgress progress = {};
};

// Returns the settings of the environment: HF_ENDPOINT, HF_TOKEN or the file $HF_HOME/token, HF_HUB_CACHE or $HF_HOME/hub, and
// HF_HUB_OFFLINE. HF_HOME is ~/.cache/huggingface without a value.
HubSettings settings();

}  // namespace genesis::hub
