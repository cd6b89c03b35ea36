// Names of attached files that lie in a folder of their own beside config.json: a name in a .genesis file holds no '/'.
#pragma once

#include <algorithm>
#include <string>

namespace genesis::models::hugging_face {

// Returns "1_Pooling:config.json" for "1_Pooling/config.json".
inline std::string attached_name(std::string path) {
  std::ranges::replace(path, '/', ':');
  return path;
}

// Returns the path for such a name. The name is not trusted: callers compare the path with those that they know.
inline std::string path_of_attached(std::string name) {
  std::ranges::replace(name, ':', '/');
  return name;
}

}  // namespace genesis::models::hugging_face
