#include "tools/common/option_values.h"

#include "executor/runtime/device.h"
#include "executor/switches.h"
#include "tools/common/meant_words.h"

namespace genesis::tools {

void check_device(const std::string& option, const std::string& device) {
  if (device == "auto") return;
  try {
    resolve_device(device);  // does not open the device
  } catch (const Error& error) {
    fail_usage("{} {}: {}{}", option, device, error.message(),
               meant_value(device, {"cpu", "cuda", "cuda:0", "auto"}));
  }
}

Option* add_device(Command& app, const std::string& name, std::string& device, const std::string& what) {
  const auto read = [&device, name](const std::vector<std::string>& words) {
    check_device(name, words.back());
    device = words.back();
  };
  return app.add_option(name, read, what)->type_name("TEXT")->default_str(device);
}

void check_disabled(const std::set<std::string>& names, const std::string& device) {
  if (names.empty() || device == "auto") return;  // the names of kernels depend on the device
  const Target target = target_of(device);
  for (const std::string& name : names)
    read_value("--disable " + name, [&] { parse_switches({name}, target); });
}

}  // namespace genesis::tools
