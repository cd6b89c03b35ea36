#include "models/generation/vocabulary.h"
#include "schema/file/json_text.h"

#include <nlohmann/json.hpp>

namespace genesis::text {

std::optional<int64_t> positions_of(const Model& model) {
  const auto written = model.metadata.find("config");
  if (written == model.metadata.end()) return std::nullopt;
  const auto config = try_parse_json_text(written->second);
  if (!config.is_object()) return std::nullopt;
  const auto at = config.find("n_positions");
  if (at == config.end() || !at->is_number_integer()) return std::nullopt;
  return at->get<int64_t>();
}

void check_positions(const Model& model, int64_t seq) {
  if (const auto positions = positions_of(model); positions && seq > *positions)
    fail(
        "texts of {} tokens (--seq), and the model knows {} positions (its n_positions): give --seq {} or "
        "less",
        seq, *positions, *positions);
}

}  // namespace genesis::text
