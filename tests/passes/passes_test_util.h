// Helpers of the tests of passes: run a pass over the text of a model and compare it with the expected text.
#pragma once

#include <gtest/gtest.h>

#include "passes/core/pass.h"
#include "schema/graph/text.h"
#include "schema/graph/verify.h"

namespace genesis::passes {

// Returns the first entry point of `before` after `pass`. The pass runs twice, to check that its result is
// repeatable.
inline std::string text_after(const std::string& before, Graph (*pass)(const Graph&, const PassContext&),
                              const PassContext& context = {}) {
  std::string texts[2];
  for (std::string& text : texts) {
    const auto model = parse_text(before);
    const Graph result = pass(*model->entries()[0], context);
    verify(result);
    text = to_text(result);
  }
  EXPECT_EQ(texts[0], texts[1]) << "two runs differ";
  return texts[0];
}

// Returns a model of one entry point.
inline std::string entry(const std::string& inputs, const std::string& body) {
  return "entry f(" + inputs + ") {\n" + body + "\n}";
}

// Returns the same entry point unchanged, with types written out, for comparison with `text_after`.
inline std::string normal_text(const std::string& text) {
  const auto model = parse_text(text);
  return to_text(*model->entries()[0]);
}

// Target::is_native of a device that decomposes every op.
inline bool never_native(const KernelQuery&) { return false; }

// Returns a device that launches steps about as fast as a large GPU, and whose memory is as fast.
inline Target large_gpu() { return {.launch_seconds = 1e-6, .bytes_per_second = 3.35e12}; }

}  // namespace genesis::passes
