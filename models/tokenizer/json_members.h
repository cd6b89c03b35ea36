// Reads members of a tokenizer.json and checks their types. Messages name each by its path: "pre_tokenizer.pattern".
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "schema/core/error.h"

namespace genesis::text {

inline constexpr size_t kMaxToken = 64 << 10;  // limit in bytes of a token or an expression
inline constexpr uint32_t kMaxId = (1 << 22) - 1;

// Returns a member of an object; null if it is missing.
inline const nlohmann::json& member(const nlohmann::json& object, const char* name) {
  static const nlohmann::json kNull;
  const auto found = object.is_object() ? object.find(name) : object.end();
  return found == object.end() ? kNull : *found;
}

inline std::string text_of(const nlohmann::json& value, const std::string& what, size_t limit = kMaxToken) {
  if (!value.is_string()) fail("'{}' is not a text", what);
  auto text = value.get<std::string>();
  if (text.size() > limit) fail("'{}' has {} bytes, the limit is {}", what, text.size(), limit);
  return text;
}

inline bool bool_of(const nlohmann::json& value, bool otherwise, const std::string& what) {
  if (value.is_null()) return otherwise;
  if (!value.is_boolean()) fail("'{}' is neither true nor false", what);
  return value.get<bool>();
}

inline const nlohmann::json& list_of(const nlohmann::json& value, const std::string& what) {
  if (!value.is_array()) fail("'{}' is not a list", what);
  return value;
}

// Returns the id of the token `what`.
inline uint32_t id_of(const nlohmann::json& value, const std::string& what) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() > kMaxId)
    fail("the id of '{}' is not a number from 0 to {}", what, kMaxId);
  return value.get<uint32_t>();
}

// Returns the type of a part, for messages; "null" if there is none.
inline std::string type_of(const nlohmann::json& part, const std::string& where) {
  if (part.is_null()) return "null";
  return text_of(member(part, "type"), where + ".type").substr(0, 40);
}

}  // namespace genesis::text
