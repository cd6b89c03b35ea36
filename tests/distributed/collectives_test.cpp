// Tests every call of RankGroup against results that each rank computes itself: inputs are functions of the rank, so
// each rank knows those of all others. Every rank of a launch runs these tests (launch_test.cpp).
#include "backends/collectives.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "schema/core/error.h"
#include "tests/distributed/test_ranks.h"

namespace genesis {
namespace {

// Joins the run once per process.
RankLink& link() {
  static const std::unique_ptr<RankLink> link = testing::join_test_ranks({});
  return *link;
}

std::string line_mesh() { return "data=" + std::to_string(link().size()); }

// All ranks along one mesh axis.
struct Line {
  std::unique_ptr<Collectives> collectives = link().collectives(Mesh::parse(line_mesh()));
  RankGroup& group = *collectives->group("data");
  int rank = group.rank(), size = group.size();

  ~Line() { EXPECT_EQ(collectives->failure(), ""); }
};

// period of values, in elements; not a power of two, since shards have such sizes
constexpr int64_t kPeriod = 199;

// Returns an element of a rank's input: integers that differ between ranks, with fractions if the type has them. Sums
// in f16 stay finite.
template <class T>
T value(int rank, int64_t i) {
  const int64_t whole = (i * 37 + rank * 101) % kPeriod - 80;
  if constexpr (std::is_same_v<T, bool>)
    return whole % 3 == 0;
  else if constexpr (std::is_integral_v<T>)
    return static_cast<T>(whole * 1234567890123);
  else
    return static_cast<T>(static_cast<float>(whole) / 7.0f * (rank % 2 ? 1.0f : 1e-3f));
}

template <class T>
struct Buffer {  // std::vector<bool> has no addressable elements
  std::unique_ptr<T[]> data;
  int64_t count;

  explicit Buffer(int64_t n) : data(new T[static_cast<size_t>(n)]()), count(n) {}
  std::string bytes() const {
    return {reinterpret_cast<const char*>(data.get()), sizeof(T) * static_cast<size_t>(count)};
  }
};

// Returns the input of a rank from its element `first` on.
template <class T>
Buffer<T> values(int rank, int64_t count, int64_t first = 0) {
  Buffer<T> buffer(count);
  T* const x = buffer.data.get();
  for (int64_t i = 0; i < std::min(count, kPeriod); ++i) x[i] = value<T>(rank, first + i);
  for (int64_t i = kPeriod; i < count; ++i) x[i] = x[i - kPeriod];
  return buffer;
}

// Reduces in double precision, or in the integer's own arithmetic.
template <class T>
T reduced(RankReduction reduction, int ranks, int64_t i) {
  const auto of = [&](int rank) { return value<T>(rank, i); };
  if constexpr (std::is_integral_v<T>) {
    T result = of(0);
    for (int rank = 1; rank < ranks; ++rank) {
      const T next = of(rank);
      if (reduction == RankReduction::kSum)
        result = static_cast<T>(static_cast<uint64_t>(result) + static_cast<uint64_t>(next));
      else
        result = reduction == RankReduction::kMax ? std::max(result, next) : std::min(result, next);
    }
    return result;
  } else {
    double result = static_cast<double>(of(0));
    for (int rank = 1; rank < ranks; ++rank) {
      const auto next = static_cast<double>(of(rank));
      if (reduction == RankReduction::kMax)
        result = std::max(result, next);
      else if (reduction == RankReduction::kMin)
        result = std::min(result, next);
      else
        result += next;
    }
    if (reduction == RankReduction::kMean) result /= ranks;
    if constexpr (std::is_same_v<T, double>)
      return result;
    else
      return static_cast<T>(static_cast<float>(result));
  }
}

template <class T>
double tolerance() {
  if constexpr (std::is_same_v<T, bf16>) return 0x1p-8;
  if constexpr (std::is_same_v<T, f16>) return 0x1p-11;
  if constexpr (std::is_same_v<T, double>) return 0x1p-50;
  return 0x1p-21;
}

template <class T>
void expect_reduced(const Buffer<T>& got, RankReduction reduction, int ranks, int64_t total, int64_t first) {
  for (int64_t i = 0; i < got.count; i += std::max<int64_t>(1, got.count / 61)) {
    const T expected = reduced<T>(reduction, ranks, first + i), there = got.data[static_cast<size_t>(i)];
    if constexpr (std::is_integral_v<T>)
      ASSERT_EQ(there, expected) << "element " << first + i << " of " << total;
    else
      ASSERT_NEAR(static_cast<double>(there), static_cast<double>(expected),
                  tolerance<T>() * (1 + std::abs(static_cast<double>(expected))) * ranks)
          << "element " << first + i << " of " << total;
  }
}

// Includes odd sizes, zero, less than an element per rank, and more than a block of scratch memory.
const std::vector<int64_t> kCounts = {0, 1, 2, 5, 1023, 300007};

template <class T>
std::vector<RankReduction> reductions() {
  if (std::is_same_v<T, int16_t> && testing::ranks_have_gpus()) return {};  // not in NCCL
  std::vector<RankReduction> all = {RankReduction::kMax, RankReduction::kMin};
  if (!std::is_same_v<T, bool>) all.push_back(RankReduction::kSum);
  if (!std::is_integral_v<T>) all.push_back(RankReduction::kMean);
  return all;
}

template <class T>
class RanksOf : public ::testing::Test {};
using Elements = ::testing::Types<float, double, bf16, f16, int8_t, uint8_t, int16_t, int32_t, int64_t, bool>;
TYPED_TEST_SUITE(RanksOf, Elements);

TYPED_TEST(RanksOf, AllReduceReducesOnAllRanks) {
  using T = TypeParam;
  Line line;
  for (const int64_t count : kCounts)
    for (const RankReduction reduction : reductions<T>()) {
      Buffer<T> mine = values<T>(line.rank, count), apart(count);
      const Exchange exchange{mine.data.get(), apart.data.get(), count, dtype_of<T>()};
      line.group.all_reduce({&exchange, 1}, reduction, nullptr);
      expect_reduced(apart, reduction, line.size, count, 0);
      const Exchange in_place{mine.data.get(), mine.data.get(), count, dtype_of<T>()};
      line.group.all_reduce({&in_place, 1}, reduction, nullptr);
      ASSERT_EQ(mine.bytes(), apart.bytes()) << "in place, " << count << " elements";
    }
}

TYPED_TEST(RanksOf, ReduceScatterAndAllGatherGiveTheBitsOfAllReduce) {
  using T = TypeParam;
  Line line;
  for (const int64_t part : kCounts)
    for (const RankReduction reduction : reductions<T>()) {
      const int64_t count = part * line.size;
      Buffer<T> mine = values<T>(line.rank, count), sum(count), own(part), gathered(count);
      const Exchange whole{mine.data.get(), sum.data.get(), count, dtype_of<T>()};
      line.group.all_reduce({&whole, 1}, reduction, nullptr);
      const Exchange scattered{mine.data.get(), own.data.get(), part, dtype_of<T>()};
      line.group.reduce_scatter({&scattered, 1}, reduction, nullptr);
      expect_reduced(own, reduction, line.size, count, part * line.rank);
      const Exchange gather{own.data.get(), gathered.data.get(), part, dtype_of<T>()};
      line.group.all_gather({&gather, 1}, nullptr);
      ASSERT_EQ(gathered.bytes(), sum.bytes()) << part << " elements a rank";
      // In place: the result starts where the input started.
      const Exchange in_place{mine.data.get(), mine.data.get(), part, dtype_of<T>()};
      line.group.reduce_scatter({&in_place, 1}, reduction, nullptr);
      ASSERT_EQ(mine.bytes().substr(0, own.bytes().size()), own.bytes())
          << "in place, " << part << " elements a rank";
    }
}

TYPED_TEST(RanksOf, AllGatherPutsPartsInTheOrderOfRanks) {
  using T = TypeParam;
  Line line;
  for (const int64_t part : kCounts) {
    std::string expected;
    for (int rank = 0; rank < line.size; ++rank) expected += values<T>(rank, part).bytes();
    const Buffer<T> mine = values<T>(line.rank, part);
    // The input is separate memory, this rank's shard of the result, or the start of the result.
    for (const int64_t at : {int64_t{-1}, part * line.rank, int64_t{0}}) {
      Buffer<T> all(part * line.size);
      if (at >= 0) std::memcpy(all.data.get() + at, mine.data.get(), static_cast<size_t>(part) * sizeof(T));
      const Exchange exchange{at < 0 ? mine.data.get() : all.data.get() + at, all.data.get(), part,
                              dtype_of<T>()};
      line.group.all_gather({&exchange, 1}, nullptr);
      ASSERT_EQ(all.bytes(), expected) << part << " elements a rank, from " << at;
    }
  }
}

TYPED_TEST(RanksOf, AllToAllTransposesPartsAndRanks) {
  using T = TypeParam;
  Line line;
  for (const int64_t part : kCounts) {
    std::string expected;
    for (int rank = 0; rank < line.size; ++rank) expected += values<T>(rank, part, part * line.rank).bytes();
    const Buffer<T> mine = values<T>(line.rank, part * line.size);
    Buffer<T> turned(part * line.size);
    const Exchange exchange{mine.data.get(), turned.data.get(), part, dtype_of<T>()};
    line.group.all_to_all({&exchange, 1}, nullptr);
    ASSERT_EQ(turned.bytes(), expected) << part << " elements a part";
  }
}

TYPED_TEST(RanksOf, BroadcastSendAndReceiveMoveWhatOneRankHas) {
  using T = TypeParam;
  Line line;
  for (const int64_t count : kCounts)
    for (int root = 0; root < line.size; ++root) {
      const Buffer<T> mine = values<T>(line.rank, count);
      const std::string expected = values<T>(root, count).bytes();
      Buffer<T> got(count);
      const Exchange exchange{mine.data.get(), got.data.get(), count, dtype_of<T>()};
      line.group.broadcast({&exchange, 1}, root, nullptr);
      ASSERT_EQ(got.bytes(), expected) << count << " elements from rank " << root;
      // Sends once around the ring: each rank receives from its predecessor.
      const int next = (line.rank + 1) % line.size, before = (line.rank + line.size - 1) % line.size;
      if (line.size == 1) continue;
      Buffer<T> passed(count);
      const Exchange receive{nullptr, passed.data.get(), count, dtype_of<T>()};
      if (line.rank % 2 == 0 || line.rank == line.size - 1) {
        if (line.rank == 0 || line.rank % 2 == 0) line.group.send({&exchange, 1}, next, nullptr);
        line.group.receive({&receive, 1}, before, nullptr);
        if (line.rank % 2 != 0) line.group.send({&exchange, 1}, next, nullptr);
      } else {
        line.group.receive({&receive, 1}, before, nullptr);
        line.group.send({&exchange, 1}, next, nullptr);
      }
      ASSERT_EQ(passed.bytes(), values<T>(before, count).bytes()) << count << " elements";
    }
}

// The order of a sum decides its bits. Every run and every rank must give the same bits, with many tensors at once or
// one.
TEST(Ranks, SumsHaveTheSameBitsHoweverTheyAreAsked) {
  Line line;
  const std::vector<int64_t> counts = {7, 0, 400001, 3, 2500000, 1};
  std::vector<std::vector<float>> inputs;
  for (const int64_t count : counts) {
    const Buffer<float> x = values<float>(line.rank, count);
    inputs.emplace_back(x.data.get(), x.data.get() + count);
  }
  std::vector<std::vector<float>> alone = inputs;
  for (std::vector<float>& tensor : alone) {
    const Exchange exchange{tensor.data(), tensor.data(), static_cast<int64_t>(tensor.size()), DType::f32};
    line.group.all_reduce({&exchange, 1}, RankReduction::kMean, nullptr);
  }
  for (int repetition = 0; repetition < 3; ++repetition) {
    std::vector<std::vector<float>> together = inputs;
    std::vector<Exchange> exchanges;
    for (std::vector<float>& tensor : together)
      exchanges.push_back({tensor.data(), tensor.data(), static_cast<int64_t>(tensor.size()), DType::f32});
    line.group.all_reduce(exchanges, RankReduction::kMean, nullptr);
    EXPECT_EQ(together, alone) << "repetition " << repetition;
  }
  for (const std::vector<float>& tensor : alone) {
    const std::string bytes(reinterpret_cast<const char*>(tensor.data()), tensor.size() * sizeof(float));
    for (const std::string& other : link().gather(bytes)) EXPECT_TRUE(other == bytes) << "ranks differ";
  }
}

TEST(Ranks, NanAndInfinityReachAllRanks) {
  Line line;
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  for (const RankReduction reduction : {RankReduction::kSum, RankReduction::kMax, RankReduction::kMin}) {
    std::vector<float> x = {1, 2, 3};
    if (line.rank == line.size - 1) x = {nan, inf, 3};
    const Exchange exchange{x.data(), x.data(), 3, DType::f32};
    line.group.all_reduce({&exchange, 1}, reduction, nullptr);
    const bool may_pass_over_nan = testing::ranks_have_gpus() && reduction != RankReduction::kSum;
    EXPECT_TRUE(std::isnan(x[0]) || may_pass_over_nan);
    EXPECT_EQ(std::isinf(x[1]), reduction != RankReduction::kMin || line.size == 1);
  }
}

TEST(Ranks, AxesOfAMeshAreGroupsOfTheirOwn) {
  const int size = link().size();
  if (size % 2 != 0) GTEST_SKIP() << "an odd number of ranks has no mesh of two axes here";
  const Mesh mesh = Mesh::parse("data=" + std::to_string(size / 2) + ",tensor=2");
  const std::unique_ptr<Collectives> collectives = link().collectives(mesh);
  EXPECT_EQ(collectives->group("pipeline"), nullptr);
  for (const char* axis : {"tensor", "data", "tensor"}) {
    RankGroup& group = *collectives->group(axis);
    const std::vector<int64_t> ranks = mesh.group(link().rank(), axis);
    ASSERT_EQ(group.size(), static_cast<int>(ranks.size()));
    EXPECT_EQ(group.rank(), mesh.place(link().rank(), axis));
    int64_t mine = link().rank() + 1, sum = 0;
    const Exchange exchange{&mine, &sum, 1, DType::i64};
    group.all_reduce({&exchange, 1}, RankReduction::kSum, nullptr);
    EXPECT_EQ(sum, std::accumulate(ranks.begin(), ranks.end(), static_cast<int64_t>(ranks.size())));
  }
  EXPECT_EQ(collectives->failure(), "");
}

TEST(Ranks, TextsOfAnyLengthAreGathered) {
  for (const size_t length : {size_t{0}, size_t{3}, size_t{100000}}) {
    const auto text = [&](int rank) {
      return std::string(length * static_cast<size_t>(rank), static_cast<char>('a' + rank));
    };
    const std::vector<std::string> texts = link().gather(text(link().rank()));
    ASSERT_EQ(texts.size(), static_cast<size_t>(link().size()));
    for (int rank = 0; rank < link().size(); ++rank)
      EXPECT_TRUE(texts[static_cast<size_t>(rank)] == text(rank));
  }
}

TEST(Ranks, AMeshOfOtherSizeIsRefused) {
  EXPECT_THROW(link().collectives(Mesh::parse("data=" + std::to_string(link().size() + 1))), Error);
}

}  // namespace
}  // namespace genesis
