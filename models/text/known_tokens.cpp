#include "models/text/known_tokens.h"

#include <nlohmann/json.hpp>

#include "models/generation/vocabulary.h"
#include "schema/file/json_text.h"

namespace genesis::text {

std::optional<int64_t> known_tokens(const Model& model) {
  if (model.find_entry("hidden")) {
    const auto written = model.metadata.find("config");
    const auto config =
        written == model.metadata.end() ? nlohmann::json() : try_parse_json_text(written->second);
    const auto size = config.is_object() ? config.value("vocab_size", nlohmann::json()) : nlohmann::json();
    if (size.is_number_integer()) return size.get<int64_t>();
    fail("the model's config has no vocab_size: the number of its tokens is unknown");
  }
  const Graph* forward = model.find_entry("forward");
  return forward ? std::optional(vocabulary_of(*forward, 3)) : std::nullopt;
}

}  // namespace genesis::text
