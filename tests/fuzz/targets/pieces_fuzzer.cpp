// A libFuzzer target for tokenizer.model. Its seeds are the files in tests/models/tokenizer/sentence_pieces.
#include <cstdint>

#include "tests/fuzz/try_pieces.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  genesis::testing::try_pieces(std::string(reinterpret_cast<const char*>(data), size));
  return 0;
}
