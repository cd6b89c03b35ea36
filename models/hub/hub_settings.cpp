#include "models/hub/hub_settings.h"

#include <cstdlib>
#include <fstream>

namespace genesis::hub {
namespace {

namespace fs = std::filesystem;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

std::string line_of(const fs::path& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  line.erase(line.find_last_not_of(" \t\r\n") + 1);
  return line;
}

}  // namespace

HubSettings settings() {
  HubSettings settings;
  const std::string home = variable("HOME"), own = variable("HF_HOME"), cache = variable("HF_HUB_CACHE"),
                    endpoint = variable("HF_ENDPOINT"), offline = variable("HF_HUB_OFFLINE");
  const fs::path folder = own.empty() ? fs::path(home) / ".cache/huggingface" : fs::path(own);
  settings.cache = cache.empty() ? folder / "hub" : fs::path(cache);
  settings.token = variable("HF_TOKEN");
  if (settings.token.empty()) settings.token = line_of(folder / "token");
  if (!endpoint.empty()) settings.endpoint = endpoint;
  while (settings.endpoint.ends_with('/')) settings.endpoint.pop_back();
  settings.is_offline =
      !offline.empty() && offline != "0" && offline != "false" && offline != "no" && offline != "off";
  return settings;
}

}  // namespace genesis::hub
