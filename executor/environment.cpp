#include "executor/environment.h"

#include <cstdlib>
#include <sstream>

#include "schema/core/error.h"

namespace genesis {
namespace {

std::string variable(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value && *value ? value : otherwise;
}

std::set<std::string> split(const std::string& list) {
  std::set<std::string> items;
  std::istringstream in(list);
  for (std::string item; std::getline(in, item, ',');)
    if (!item.empty()) items.insert(item);
  return items;
}

double positive(const char* name, const char* otherwise) {
  const std::string text = variable(name, otherwise);
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (*end != '\0' || !(value > 0)) fail("{} is '{}', expected a number of seconds above 0", name, text);
  return value;
}

}  // namespace

const Environment& environment() {
  static const Environment values{variable("GENESIS_LOG", "info"),
                                  variable("GENESIS_DUMP", ""),
                                  split(variable("GENESIS_DISABLE", "")),
                                  variable("GENESIS_PLUGINS", ""),
                                  positive("GENESIS_COLLECTIVE_TIMEOUT", "600"),
                                  variable("GENESIS_STDOUT", ""),
                                  !variable("GENESIS_ONE_COMMAND", "").empty()};
  return values;
}

}  // namespace genesis
