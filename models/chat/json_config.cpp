#include "models/chat/json_config.h"

#include "schema/file/io/read_file.h"
#include "schema/file/json_nesting.h"

namespace genesis::chat {
namespace {

constexpr uintmax_t kMaxBytes = uintmax_t{16} << 20;  // tokenizer_config.json of Llama 3 has 50 KB

}  // namespace

std::string read_limited(const std::filesystem::path& path) {
  std::error_code error;
  if (const uintmax_t bytes = std::filesystem::file_size(path, error); !error && bytes > kMaxBytes)
    fail("{} has {} bytes, the limit is {}", path.string(), bytes, kMaxBytes);
  return read_whole_file(path);
}

nlohmann::json read_json_object(const std::filesystem::path& path) {
  const std::string text = read_limited(path);
  JsonNesting nesting(64, "lists and objects are nested more than 64 deep");
  with_context([&] { nlohmann::json::sax_parse(text, &nesting); }, [&] { return path.string(); });
  nlohmann::json config = nlohmann::json::parse(text, nullptr, false);
  if (!config.is_object()) fail("{} is not a JSON object", path.string());
  return config;
}

}  // namespace genesis::chat
