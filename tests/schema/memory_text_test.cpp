#include "schema/graph/memory_text.h"

#include <gtest/gtest.h>

#include <limits>

namespace genesis {
namespace {

TEST(HumanBytes, HasTwoDigitsOfTheUnitThatFits) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(1023), "1023 B");
  EXPECT_EQ(human_bytes(1024), "1.00 KiB");
  EXPECT_EQ(human_bytes(1536), "1.50 KiB");
  EXPECT_EQ(human_bytes(1397117659400.0), "1.27 TiB");
  EXPECT_EQ(human_bytes(0x1p50), "1.00 PiB");
  EXPECT_EQ(human_bytes(static_cast<double>(std::numeric_limits<int64_t>::max())), "8.00 EiB");
  EXPECT_EQ(human_bytes(-1), "-1 B");
  EXPECT_EQ(human_bytes(-1536), "-1.50 KiB");
  EXPECT_EQ(human_bytes(static_cast<double>(std::numeric_limits<int64_t>::min())), "-8.00 EiB");
}

TEST(HumanBytes, WhatWouldRoundTo1024IsOneOfTheNextUnit) {
  EXPECT_EQ(human_bytes(1024 * 1024 - 1), "1.00 MiB");
  EXPECT_EQ(human_bytes(1023.99 * 1024), "1023.99 KiB");
}

TEST(FoldTensors, LayersAlikeAreOneLine) {
  const std::vector<FoldedTensors> folded = fold_tensors({{"logits", 500},
                                                          {"model.layers.0.mlp.gate_proj.linear", 200},
                                                          {"model.layers.1.mlp.gate_proj.linear", 200},
                                                          {"model.layers.2.mlp.gate_proj.linear", 200},
                                                          {"model.layers.3.mlp.gate_proj.linear", 100},
                                                          {"model.layers.0.norm2", 10},
                                                          {"7", 1}});
  ASSERT_EQ(folded.size(), 5u);
  EXPECT_EQ(label_of(folded[0]), "model.layers.*.mlp.gate_proj.linear x3");
  EXPECT_EQ(folded[0].bytes, 600);
  EXPECT_EQ(label_of(folded[1]), "logits");
  EXPECT_EQ(label_of(folded[2]), "model.layers.3.mlp.gate_proj.linear") << "another size is another line";
  EXPECT_EQ(label_of(folded[3]), "model.layers.0.norm2");
  EXPECT_EQ(label_of(folded[4]), "7");
}

TEST(FoldTensors, SeveralTensorsOfOneNameKeepIt) {
  const std::vector<FoldedTensors> folded = fold_tensors({{"layers.0.split", 8}, {"layers.0.split", 8}});
  ASSERT_EQ(folded.size(), 1u);
  EXPECT_EQ(label_of(folded[0]), "layers.0.split x2");
}

TEST(MemoryLines, SayWhatIsLeftOut) {
  EXPECT_EQ(memory_lines({}), "");
  EXPECT_EQ(memory_lines({{"a", 2048}, {"b", 1024}, {"c", 100}, {"d", 28}}, 2),
            "\n      2.00 KiB  a"
            "\n      1.00 KiB  b"
            "\n         128 B  in 2 other tensors");
}

}  // namespace
}  // namespace genesis
