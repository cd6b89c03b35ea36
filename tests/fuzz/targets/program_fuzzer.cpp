// A libFuzzer target for programs of torch.export. Its seeds are the .pt2 files in tests/models/pt2.
#include <cstdint>

#include "tests/fuzz/try_program.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  genesis::testing::try_program(std::string(reinterpret_cast<const char*>(data), size));
  return 0;
}
