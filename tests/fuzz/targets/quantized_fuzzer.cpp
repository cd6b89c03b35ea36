// A libFuzzer target for quantized checkpoints: a quantization_config, a zero byte, a .safetensors file.
#include <cstdint>

#include "schema/file/json_text.h"
#include "tests/fuzz/try_quantized.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  const size_t end = bytes.find('\0');
  if (end == std::string::npos) return 0;
  const auto config = genesis::try_parse_json_text(bytes.substr(0, end));
  if (!config.is_discarded()) genesis::testing::try_quantized(config, bytes.substr(end + 1));
  return 0;
}
