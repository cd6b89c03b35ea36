// A libFuzzer target for what describes the texts of an answer. The first byte chooses: a schema of JSON, a regular expression, or a
// grammar of llama.cpp.
#include <cstdint>

#include "schema/core/error.h"
#include "tests/fuzz/try_grammar.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using genesis::testing::Description;
  if (size == 0) return 0;
  const Description kinds[] = {Description::kSchema, Description::kRegex, Description::kGbnf};
  try {
    genesis::testing::try_grammar(kinds[data[0] % 3],
                                  std::string(reinterpret_cast<const char*>(data) + 1, size - 1));
  } catch (const genesis::Error&) {
  }
  return 0;
}
