#include "schema/file/json_text.h"

#include "schema/file/json_nesting.h"

namespace genesis {

nlohmann::json parse_json_text(std::string_view text) { return nlohmann::json::parse(text); }

nlohmann::ordered_json parse_ordered_json_text(std::string_view text) {
  return nlohmann::ordered_json::parse(text);
}

nlohmann::json try_parse_json_text(std::string_view text) {
  return nlohmann::json::parse(text, nullptr, false);
}

bool check_shallow_json(std::string_view text) {
  JsonNesting nesting(64, "lists and objects are nested more than 64 deep");
  return nlohmann::json::sax_parse(text, &nesting);
}

nlohmann::json parse_shallow_json(std::string_view text) {
  return check_shallow_json(text) ? try_parse_json_text(text)
                                  : nlohmann::json(nlohmann::json::value_t::discarded);
}

}  // namespace genesis
