#include "executor/environment.h"

#include <cstdlib>
#include <sstream>

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

}  // namespace

const Environment& environment() {
  static const Environment values{variable("GENESIS_LOG", "info"), variable("GENESIS_DUMP", ""),
                                  split(variable("GENESIS_DISABLE", ""))};
  return values;
}

}  // namespace genesis
