// Reads the quantization_config of a config.json. The file is not trusted: an entry of another type than expected is an Error that
// names it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "schema/core/error.h"

namespace genesis::models::hugging_face::quantized {

// Returns the entry, or null if it is absent.
inline const nlohmann::json& entry_of(const nlohmann::json& config, const char* name) {
  static const nlohmann::json kNone;
  if (!config.is_object()) return kNone;
  const auto at = config.find(name);
  return at == config.end() ? kNone : *at;
}

inline std::string text_in(const nlohmann::json& config, const char* name, std::string standard) {
  const nlohmann::json& entry = entry_of(config, name);
  if (entry.is_null()) return standard;
  if (!entry.is_string()) fail("{} is {}, expected a text", name, entry.dump().substr(0, 60));
  return entry.get<std::string>();
}

inline int64_t size_in(const nlohmann::json& config, const char* name, int64_t standard) {
  const nlohmann::json& entry = entry_of(config, name);
  if (entry.is_null()) return standard;
  constexpr int64_t kLimit = int64_t{1} << 31;
  const int64_t size = entry.is_number_integer() ? entry.get<int64_t>() : kLimit;
  if (size >= kLimit || size < -kLimit)
    fail("{} is {}, expected an integer below 2^31", name, entry.dump().substr(0, 60));
  return size;
}

// Returns the number of inputs in a group; -1: all inputs are one group.
inline int64_t group_size_in(const nlohmann::json& config, const char* name, int64_t standard) {
  const int64_t size = size_in(config, name, standard);
  if (size == 0 || size < -1) fail("{} is {}, expected one from 1 on, or -1 for all inputs", name, size);
  return size;
}

inline bool is_on(const nlohmann::json& config, const char* name) {
  const nlohmann::json& entry = entry_of(config, name);
  return entry.is_boolean() && entry.get<bool>();
}

}  // namespace genesis::models::hugging_face::quantized
