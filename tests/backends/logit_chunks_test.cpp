// Tests how linear_cross_entropy splits its rows on the CPU.
#include "backends/cpu/loss/logit_chunks.h"

#include <gtest/gtest.h>

#include "schema/graph/op.h"
#include "schema/ops/nn/loss.h"

namespace genesis::cpu {
namespace {

LogitChunks chunks_of(int64_t rows, int64_t classes) {
  const std::vector<TensorType> inputs = {{DType::f32, Shape::of({rows, 8})},
                                          {DType::f32, Shape::of({classes, 8})},
                                          {DType::i64, Shape::of({rows})}};
  const std::vector<TensorType> outputs = {{DType::f32, {}}};
  const Attributes attributes = to_attributes(ops::LinearCrossEntropy{});
  return cut_rows({*find_op("linear_cross_entropy"), attributes, inputs, outputs});
}

// Returns how many rows are multiplied for `count` rows that count.
int64_t multiplied(const LogitChunks& chunks, int64_t count) {
  int64_t rows = 0;
  for (int64_t left = count; left > 0;) {
    const ChunkProducts& next = chunks.next(left, count == chunks.rows);
    rows += next.rows;
    left -= next.rows;
  }
  return rows;
}

TEST(LogitChunks, FewRowsAreMultipliedInVain) {
  for (const int64_t classes : {30, 8192, 20000})
    for (const int64_t rows : {1, 63, 64, 127, 128, 513, 1024, 1500, 2100}) {
      const LogitChunks chunks = chunks_of(rows, classes);
      const int64_t smallest = chunks.sizes.back().rows;
      EXPECT_LE(smallest, 128);
      EXPECT_GE(smallest, std::min<int64_t>(rows, 64));
      EXPECT_EQ(multiplied(chunks, rows), rows);
      EXPECT_EQ(multiplied(chunks, 0), 0);
      for (int64_t count = 1; count < rows; ++count) {
        ASSERT_GE(multiplied(chunks, count), count) << rows;
        ASSERT_LT(multiplied(chunks, count), count + smallest) << rows;
      }
    }
}

// The weight is packed once per chunk, so a nearly full chunk is not split further.
TEST(LogitChunks, AChunkThatIsNearlyFullIsOne) {
  const LogitChunks chunks = chunks_of(2048, 30);
  EXPECT_EQ(chunks.most_rows(), 1024);
  EXPECT_EQ(chunks.next(1000, false).rows, 1024);
  EXPECT_EQ(chunks.next(896, false).rows, 512);
  EXPECT_EQ(chunks.next(1, false).rows, 128);
}

}  // namespace
}  // namespace genesis::cpu
