// A libFuzzer target for chat templates. Its seeds are the templates of tests/models/chat/templates.json.
#include <cstdint>

#include "tests/fuzz/try_render.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  genesis::testing::try_render(std::string(reinterpret_cast<const char*>(data), size));
  return 0;
}
