// What the tests of passes share: a pass run over the text of a model, compared with the text expected after
// it.
#pragma once

#include <gtest/gtest.h>

#include "passes/core/pass.h"
#include "schema/graph/text.h"
#include "schema/graph/verify.h"

namespace genesis::passes {

// The first entry point of `before` after `pass`; the pass is run twice to see that its result is the same.
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

// A model of one entry point.
inline std::string entry(const std::string& inputs, const std::string& body) {
  return "entry f(" + inputs + ") {\n" + body + "\n}";
}

// The same entry point as it stands, types written out: what `text_after` is compared with.
inline std::string normal_text(const std::string& text) {
  const auto model = parse_text(text);
  return to_text(*model->entries()[0]);
}

// Target::is_native of a device that does everything in parts.
inline bool never_native(const KernelQuery&) { return false; }

// A device that starts steps about as fast as a large GPU, and whose memory is as fast.
inline Target large_gpu() { return {.launch_seconds = 1e-6, .bytes_per_second = 3.35e12}; }

}  // namespace genesis::passes
