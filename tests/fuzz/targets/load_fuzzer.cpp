// A libFuzzer target for the readers; the first byte selects one. For models the header is corrected first, because
// no mutation would ever guess a hash.
#include <cstdint>

#include "tests/fuzz/try_load.h"
#include "tests/schema/file_models.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  std::string bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 4) {
    case 0:
      genesis::testing::fix_header(bytes);
      genesis::testing::try_load_model(bytes);
      break;
    case 1:
      genesis::testing::try_load_npy(bytes);
      break;
    case 2:
      genesis::testing::try_load_safetensors(bytes);
      break;
    default:
      genesis::testing::try_load_gguf(bytes);
  }
  return 0;
}
