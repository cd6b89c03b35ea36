// JSON files of settings that stand beside a tokenizer. What they hold is not trusted.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

namespace genesis::chat {

// A file of at most 16 MiB. Throws Error naming the path.
std::string read_limited(const std::filesystem::path& path);
// Throws Error naming the path where it is no JSON object, or nests deeper than 64.
nlohmann::json read_json_object(const std::filesystem::path& path);

}  // namespace genesis::chat
