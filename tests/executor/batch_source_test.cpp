// Tests the prefetcher: batches in order, errors at the right batch, and an end at any time.
#include "executor/training/batch_source.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "tests/op_harness.h"

namespace genesis {
namespace {

class Counting final : public BatchSource {
 public:
  explicit Counting(int64_t fails_at = -1) : fails_at_(fails_at) {}
  NamedTensors batch(int64_t position) override {
    ++made;
    if (position == fails_at_) fail("no batch {}", position);
    return {{"position", Tensor::scalar<int64_t>(position)}};
  }
  int64_t items_per_batch() const override { return 1; }
  std::atomic<int> made{0};

 private:
  int64_t fails_at_;
};

int64_t position_of(const NamedTensors& batch) { return batch.at("position").as<int64_t>()[0]; }

TEST(Prefetcher, GivesBatchesInOrderFromTheFirst) {
  Counting source;
  Prefetcher batches(source, 7);
  for (int64_t i = 7; i < 200; ++i) ASSERT_EQ(position_of(batches.next()), i);
}

TEST(Prefetcher, PreparesNoMoreThanItsDepth) {
  Counting source;
  Prefetcher batches(source, 0, 3);
  while (source.made < 3) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(source.made, 3);
  batches.next();
  while (source.made < 4) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(source.made, 4);
}

TEST(Prefetcher, AnErrorComesAfterTheGoodBatchesAndAgainWhenAskedAgain) {
  Counting source(2);
  Prefetcher batches(source, 0);
  EXPECT_EQ(position_of(batches.next()), 0);
  EXPECT_EQ(position_of(batches.next()), 1);
  for (int i = 0; i < 2; ++i) testing::expect_error([&] { batches.next(); }, {"no batch 2"});
}

TEST(Prefetcher, ShowsWhatIsReadyWithoutTakingIt) {
  Counting source(1);
  Prefetcher batches(source, 0);
  while (source.made < 2) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  std::optional<NamedTensors> shown;
  while (!(shown = batches.peek())) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(position_of(*shown), 0);
  EXPECT_EQ(batches.next().at("position").data(), shown->at("position").data());
  EXPECT_FALSE(batches.peek()) << "what could not be made is not shown";
  testing::expect_error([&] { batches.next(); }, {"no batch 1"});
}

TEST(Prefetcher, MayEndAtAnyTime) {
  for (int used = 0; used < 4; ++used)
    for (int round = 0; round < 20; ++round) {
      Counting source(3);
      Prefetcher batches(source, 0);
      for (int i = 0; i < used && i < 3; ++i) batches.next();
    }
}

TEST(Prefetcher, NeedsADepth) {
  Counting source;
  testing::expect_error([&] { Prefetcher(source, 0, 0); }, {"depth 0"});
}

}  // namespace
}  // namespace genesis
