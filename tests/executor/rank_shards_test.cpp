// Tests which values of a state a rank keeps, without other ranks. tests/distributed has the exchanges.
#include "executor/states/rank_shards.h"

#include <gtest/gtest.h>

#include "tests/op_harness.h"

namespace genesis {
namespace {

const Tensor kAll = Tensor::of<float>({2, 4}, {0, 1, 2, 3, 4, 5, 6, 7});
// The second of two ranks: a row of the matrix, or two of its four columns.
const Shard kRow{.axis = "data", .first = 4, .count = 4};
const Shard kColumns{.axis = "tensor", .first = 2, .count = 2, .runs = 2, .shape = {2, 2}};

TEST(RankShards, AreCutFromWholeValues) {
  const Tensor row = cut(kRow, kAll), columns = cut(kColumns, kAll);
  EXPECT_EQ(row.type().to_string(), "f32[4]");
  EXPECT_EQ(row.to_doubles(), (std::vector<double>{4, 5, 6, 7}));
  EXPECT_EQ(row.data(), kAll.data() + 16) << "one run is no copy";
  EXPECT_EQ(columns.type().to_string(), "f32[2,2]");
  EXPECT_EQ(columns.to_doubles(), (std::vector<double>{2, 3, 6, 7}));
  EXPECT_TRUE(cut(kRow, {}).empty_handle()) << "zeros stay unspoken";
}

TEST(RankShards, AreJoinedInTheOrderOfTheAxis) {
  const Tensor of_ranks = Tensor::of<float>({2, 4}, {0, 1, 4, 5, 2, 3, 6, 7});
  EXPECT_EQ(joined(kColumns, kAll.type(), of_ranks).to_doubles(), kAll.to_doubles());
  EXPECT_EQ(joined(kRow, kAll.type(), kAll).data(), kAll.data());
}

TEST(RankShards, CannotBeGatheredAlone) {
  const auto device = open_cpu_device(1);
  const RankShards ranks(*device, nullptr);
  EXPECT_EQ(ranks.failure(), "");
  EXPECT_NO_THROW(ranks.check("gathering"));
  testing::expect_error([&] { ranks.gathered(kRow, kAll.data(), 4, DType::f32, "w"); },
                        {"'data'", "state 'w'", "SessionOptions::collectives"});
}

}  // namespace
}  // namespace genesis
