// A libFuzzer target for JPEG and PNG files. Its seeds are the pictures in tests/models/images.
#include <cstdint>

#include "tests/fuzz/try_program.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  genesis::testing::try_picture(std::string(reinterpret_cast<const char*>(data), size));
  return 0;
}
