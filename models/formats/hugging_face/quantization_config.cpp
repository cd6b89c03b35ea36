#include "models/formats/hugging_face/quantization_config.h"

#include "schema/file/json_text.h"
#include "models/formats/hugging_face/quantized/methods.h"

namespace genesis::models::hugging_face {
namespace {

using nlohmann::json;

// A file that a library wrote before config.json had an entry for it, and the method that it is of.
struct OwnFile {
  const char* name;
  const char* method;
};
constexpr OwnFile kFiles[] = {
    {"hf_quant_config.json", "modelopt"}, {"quantize_config.json", "gptq"}, {"quant_config.json", "awq"}};

json find_in(const json& config) {
  for (const char* name : {"quantization_config", "compression_config"})
    if (config.is_object() && config.contains(name) && !config.at(name).is_null()) return config.at(name);
  return nullptr;
}

json in_own_file(const std::filesystem::path& folder) {
  for (const auto& [name, method] : kFiles) {
    if (!std::filesystem::exists(folder / name)) continue;
    json read = read_json_file(folder / name);
    if (read.is_object() && !read.contains("quant_method")) read["quant_method"] = method;
    return read;
  }
  return nullptr;
}

}  // namespace

json quantization_of(const json& config, const std::filesystem::path& folder) {
  json found = find_in(config);
  if (found.is_null() && config.is_object() && config.contains("text_config"))
    found = find_in(config.at("text_config"));
  if (found.is_null()) found = in_own_file(folder);
  if (!found.is_null()) with_context([&] { quantized::method_of(found); }, [&] { return folder.string(); });
  return found;
}

}  // namespace genesis::models::hugging_face
