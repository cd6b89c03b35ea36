// A libFuzzer target for ONNX models. Its seeds are the models in tests/models/onnx/cases.
#include <cstdint>

#include "tests/fuzz/try_onnx.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  genesis::testing::try_onnx(std::string(reinterpret_cast<const char*>(data), size));
  return 0;
}
