// Stop strings against looking for them in the whole text, and how prompts are cut.
#include "models/text/stop_strings.h"

#include <gtest/gtest.h>

#include <random>

#include "models/text/prompt_reader.h"

namespace genesis::text {
namespace {

// What stands before the first of the stops in a text that is whole.
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
      // Nothing is given that a stop string may begin with, and nothing is held back that none begins with.
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

TEST(PrefillChunks, ArePowersOfTwoThatFit) {
  for (int64_t most = 1; most <= 64; most *= 2)
    for (int64_t room = 1; room <= 150; ++room)
      for (int64_t unread = 1; unread <= room; ++unread) {
        const int64_t size = next_chunk(unread, room, most);
        ASSERT_TRUE(size > 0 && (size & (size - 1)) == 0 && size <= most && size <= room) << size;
        ASSERT_LE(3 * size, std::max<int64_t>(4 * unread, 96)) << "too much of it is for nothing";
      }
  EXPECT_EQ(next_chunk(1000, 1000, 512), 512);
  EXPECT_EQ(next_chunk(5, 100, 512), 8);
  EXPECT_EQ(next_chunk(5, 7, 512), 4);
  EXPECT_EQ(next_chunk(33, 100, 512), 32);
  EXPECT_EQ(next_chunk(60, 100, 512), 64);
}

}  // namespace
}  // namespace genesis::text
