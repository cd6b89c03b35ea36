// Tests work split among cores: every index once, errors reach the caller, and hashes and files equal those of one
// thread.
#include "schema/core/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <vector>

#include "schema/file/format/hash.h"

namespace genesis {
namespace {

TEST(Parallel, EveryIndexOnce) {
  for (const int64_t count : {0, 1, 6, 7, 8, 1000}) {
    std::vector<std::atomic<int>> seen(static_cast<size_t>(count));
    in_parallel(count, 7, [&](int64_t first, int64_t last) {
      EXPECT_EQ(first % 7, 0);
      EXPECT_LE(last, std::min(first + 7, count));
      for (int64_t i = first; i < last; ++i) ++seen[static_cast<size_t>(i)];
    });
    for (const auto& times : seen) EXPECT_EQ(times, 1);
  }
}

TEST(Parallel, AnErrorReachesTheCaller) {
  std::atomic<int> begun{0};
  const auto work = [&](int64_t first, int64_t) {
    ++begun;
    if (first == 0) throw std::runtime_error("no");
  };
  EXPECT_THROW(in_parallel(1, 1, work), std::runtime_error);
  EXPECT_THROW(in_parallel(1000, 1, work), std::runtime_error);
}

TEST(Parallel, HashesAreThoseOfOneThread) {
  std::vector<std::byte> bytes(9 << 20);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 2654435761u >> 24);
  const std::span<const std::byte> all(bytes);
  const std::vector<std::span<const std::byte>> pieces = {all, all.first(0), all.first(1), all.subspan(1)};
  uint64_t last = 0;
  const auto hashes = file::hashes_of(pieces, [&](uint64_t done, uint64_t total) {
    EXPECT_GT(done, last);
    EXPECT_EQ(total, 2 * all.size());
    last = done;
  });
  EXPECT_EQ(last, 2 * all.size());
  ASSERT_EQ(hashes.size(), pieces.size());
  for (size_t i = 0; i < pieces.size(); ++i) EXPECT_EQ(hashes[i], file::hash_of(pieces[i])) << i;
}

}  // namespace
}  // namespace genesis
