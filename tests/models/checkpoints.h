// The checkpoints that tests/models/hugging_face/make_checkpoints.py makes.
#pragma once

#include <filesystem>

#include "schema/file/io/read_file.h"
#include "schema/file/json_text.h"

namespace genesis::testing {

inline std::filesystem::path checkpoints() {
  return std::filesystem::path(GENESIS_SOURCE_ROOT) / "tests/models/hugging_face";
}

inline nlohmann::json read_json(const std::filesystem::path& path) {
  return parse_json_text(read_whole_file(path));
}

}  // namespace genesis::testing
