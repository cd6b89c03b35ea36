// Tests stop strings against a search in the whole text, and how prompts are split.
#include "models/generation/stop_strings.h"

#include <gtest/gtest.h>

#include <random>

#include "executor/generation/prompt_reader.h"

namespace genesis::text {
namespace {

using generation::ChunkSize;
using generation::next_chunk;

// Returns the part of a complete text before the first stop string.
std::string before_first(const std::string& text, const std::vector<std::string>& stops, size_t seen) {
  size_t first = std::string::npos;
  for (const std::string& stop : stops)
    if (const size_t at = text.substr(0, seen).find(stop); at < first) first = at;
  return first == std::string::npos ? text : text.substr(0, first);
}

std::string random_text(std::mt19937& random, size_t most) {
  std::string text(random() % most + 1, 'a');
  for (char& c : text) c = static_cast<char>('a' + random() % 2);
  return text;
}

TEST(StopStrings, AreFoundWhereverThePiecesAreCut) {
  std::mt19937 random(1);
  int found = 0;
  for (int round = 0; round < 20000; ++round) {
    std::vector<std::string> stops;
    for (size_t i = random() % 3 + 1; i > 0; --i) stops.push_back(random_text(random, 6));
    StopStrings finder(stops);
    std::string all, given;
    for (int piece = 0; piece < 12 && finder.found().empty(); ++piece) {
      const std::string next = random_text(random, 4);
      all += next;
      given += finder.add(next);
      // No text is given that may begin a stop string, and no text is held back unless it may begin one.
      ASSERT_TRUE(all.starts_with(given));
      if (finder.found().empty()) {
        const std::string held = all.substr(given.size());
        const auto begins_with = [&](const std::string& stop) { return stop.starts_with(held); };
        ASSERT_TRUE(held.empty() || std::any_of(stops.begin(), stops.end(), begins_with)) << held;
      }
    }
    if (finder.found().empty()) given += finder.finish();
    found += !finder.found().empty();
    ASSERT_EQ(given, before_first(all, stops, all.size()));
  }
  EXPECT_GT(found, 1000);
}

TEST(StopStrings, NoneIsNoStop) {
  StopStrings finder({});
  EXPECT_EQ(finder.add("abc"), "abc");
  EXPECT_EQ(finder.finish(), "");
}

// Returns true for a power of two and, where a text need not be read in the same chunks as elsewhere, three quarters of one.
bool is_chunk_size(int64_t size, bool alone) {
  const auto is_power = [](int64_t of) { return (of & (of - 1)) == 0; };
  return is_power(size) || (!alone && size % 3 == 0 && is_power(size / 3));
}

TEST(PrefillChunks, HaveFewSizesThatFit) {
  for (const bool alone : {false, true})
    for (int64_t most = 1; most <= 64; most *= 2)
      for (int64_t room = 1; room <= 150; room += room < 40 ? 1 : 7)
        for (int64_t unread = 1; unread <= room; ++unread)
          for (const int64_t read : {0, 3, 40}) {
            const auto [size, repeated] = next_chunk(unread, read, room, {most, alone});
            ASSERT_TRUE(size > 0 && size <= most && size <= room + repeated) << size;
            ASSERT_TRUE(is_chunk_size(size, alone) || (alone && size == unread && size < 32)) << size;
            ASSERT_TRUE(repeated >= 0 && repeated <= read && repeated < size) << repeated;
            ASSERT_TRUE(repeated == 0 || size - repeated == unread) << repeated;
            ASSERT_TRUE(3 * size <= std::max<int64_t>(4 * unread, 96) || (!alone && size - unread < 32))
                << "too much of it is for nothing";
          }
  const auto size = [](int64_t unread, int64_t room, bool alone) {
    return next_chunk(unread, 0, room, {512, alone}).size;
  };
  EXPECT_EQ(size(1000, 1000, true), 512);
  EXPECT_EQ(size(5, 100, true), 8);
  EXPECT_EQ(size(5, 7, false), 4);
  EXPECT_EQ(size(5, 7, true), 5);
  EXPECT_EQ(size(33, 100, true), 32);
  EXPECT_EQ(size(60, 100, false), 64);
  EXPECT_EQ(size(400, 448, false), 384);
}

// A prompt is read in one run where that takes no longer than two runs, each of which reads the weights.
TEST(PrefillChunks, ArePaddedWhereWeightsDecide) {
  const auto size = [](int64_t unread, int64_t read = 0) {
    return next_chunk(unread, read, 4096, {2048, false, true, 128});
  };
  EXPECT_EQ(size(5), (ChunkSize{8}));
  EXPECT_EQ(size(100), (ChunkSize{128}));
  EXPECT_EQ(size(130), (ChunkSize{192}));
  EXPECT_EQ(size(205), (ChunkSize{256}));
  EXPECT_EQ(size(500), (ChunkSize{512}));
  EXPECT_EQ(size(1100), (ChunkSize{1024}));
  EXPECT_EQ(size(1500), (ChunkSize{1536}));
  EXPECT_EQ(size(1500, 100), (ChunkSize{1536, 36}));
  EXPECT_EQ(size(5000), (ChunkSize{2048}));
}

// Applies to 32 positions or more.
TEST(PrefillChunks, FollowFromTheLengthOfTheText) {
  const auto cut = [](int64_t length, int64_t positions) {
    std::vector<std::pair<int64_t, int64_t>> chunks;
    for (int64_t at = 0; at < length;) {
      const auto [size, repeated] = next_chunk(length - at, at, positions - at, {64, true});
      chunks.emplace_back(at - repeated, size);
      at = std::min(length, at - repeated + size);
    }
    return chunks;
  };
  for (int64_t length = 1; length <= 300; ++length)
    for (const int64_t positions : {std::max<int64_t>(length, 32), length + 35, int64_t{1024}})
      ASSERT_EQ(cut(length, positions), cut(length, 4096)) << length << " of " << positions;
  using Chunks = std::vector<std::pair<int64_t, int64_t>>;
  EXPECT_EQ(cut(31, 40), (Chunks{{0, 32}}));
  EXPECT_EQ(cut(60, 1024), (Chunks{{0, 32}, {28, 32}}));
  EXPECT_EQ(cut(190, 1024), (Chunks{{0, 64}, {64, 64}, {126, 64}}));
}

}  // namespace
}  // namespace genesis::text
