// A libFuzzer target for the bodies of requests to the server.
#include <cstdint>

#include "tests/fuzz/try_request.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  genesis::testing::try_request(std::string(reinterpret_cast<const char*>(data), size));
  return 0;
}
