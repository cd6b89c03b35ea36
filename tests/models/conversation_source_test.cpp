// Tests conversations from JSON lines as rows: packed rows have the same tokens as separate ones, and a resumed run
// sees the same batches.
#include "models/data/conversation_source.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <numeric>
#include <random>

#include "models/data/conversations.h"
#include "models/data/packing.h"
#include "tests/error_of.h"
#include "tests/schema/file_models.h"

namespace genesis::data {
namespace {

using namespace testing;
using Ids = std::vector<int64_t>;

// Returns tokens first, first + 1, ... of which the first half is not learned.
chat::Sample sample_of(int first, int size) {
  chat::Sample sample;
  for (int i = 0; i < size; ++i) {
    sample.tokens.push_back(first + i);
    sample.is_target.push_back(i >= size / 2);
  }
  return sample;
}

std::vector<chat::Sample> samples(int count, int longest = 20) {
  std::mt19937 random(1);
  std::vector<chat::Sample> all;
  for (int i = 0; i < count; ++i)
    all.push_back(
        sample_of(1000 * (i + 1), 2 + static_cast<int>(random() % static_cast<unsigned>(longest - 1))));
  return all;
}

Ids row_of(const NamedTensors& batch, const char* name, size_t row, size_t length) {
  const auto all = batch.at(name).as<int64_t>();
  return {all.begin() + static_cast<std::ptrdiff_t>(row * length),
          all.begin() + static_cast<std::ptrdiff_t>((row + 1) * length)};
}

TEST(Packing, FillsRowsAndLosesNothing) {
  std::mt19937 random(5);
  for (const int64_t row : {1, 7, 64}) {
    std::vector<int64_t> lengths(500);
    for (int64_t& length : lengths) length = 1 + static_cast<int64_t>(random() % static_cast<unsigned>(row));
    const auto rows = pack(lengths, row);
    std::vector<int> seen(lengths.size());
    for (const auto& one : rows) {
      int64_t sum = 0;
      for (const size_t sample : one) sum += lengths[sample], ++seen[sample];
      EXPECT_LE(sum, row);
    }
    EXPECT_EQ(seen, std::vector<int>(lengths.size(), 1));
    const int64_t total = std::accumulate(lengths.begin(), lengths.end(), int64_t{0}),
                  fewest = (total + row - 1) / row;
    EXPECT_LE(static_cast<int64_t>(rows.size()), fewest * 11 / 9 + 1);
  }
  EXPECT_EQ(pack({3, 5, 2, 4}, 7),
            (std::vector<std::vector<size_t>>{{1, 2}, {3, 0}}));  // best fit: the fullest row takes it
  EXPECT_TRUE(pack({}, 7).empty());
}

TEST(ConversationSource, PadsARowPerSample) {
  ConversationSource source({sample_of(10, 5), sample_of(20, 3)},
                            {.batch_size = 2, .sequence_length = 6, .shuffle = false, .pad_token = 9});
  const NamedTensors batch = source.batch(0);
  EXPECT_EQ(row_of(batch, "tokens", 0, 6), (Ids{10, 11, 12, 13, 9, 9}));
  EXPECT_EQ(row_of(batch, "targets", 0, 6), (Ids{-100, 12, 13, 14, -100, -100}));
  EXPECT_EQ(row_of(batch, "tokens", 1, 6), (Ids{20, 21, 9, 9, 9, 9}));
  EXPECT_EQ(row_of(batch, "targets", 1, 6), (Ids{21, 22, -100, -100, -100, -100}));
  EXPECT_EQ(batch.size(), 2u);
  EXPECT_EQ(source.items_per_batch(), 6);
}

// In an evaluation padding rows have no targets, and fewer rows than a batch suffice.
TEST(ConversationSource, FillsUpTheLastBatch) {
  for (const bool pack : {false, true}) {
    ConversationSource source(
        {sample_of(10, 5), sample_of(20, 5), sample_of(30, 5)},
        {.batch_size = 2, .sequence_length = 5, .shuffle = false, .pack = pack, .fill_last = true});
    ASSERT_EQ(source.batches_per_epoch(), 2);
    const NamedTensors last = source.batch(1);
    EXPECT_EQ(row_of(last, "tokens", 0, 5), (Ids{30, 31, 32, 33, 0}));
    EXPECT_EQ(row_of(last, "targets", 1, 5), Ids(5, -100));
    if (pack) {
      EXPECT_EQ(row_of(last, "segments", 1, 5), Ids(5, -1));
    }
    EXPECT_EQ(row_of(source.batch(2), "tokens", 0, 5)[0], 10);
  }
  ConversationSource few({sample_of(10, 5)}, {.batch_size = 8, .sequence_length = 5, .fill_last = true});
  EXPECT_EQ(few.batches_per_epoch(), 1);
  EXPECT_EQ(few.batch(0).at("tokens").numel(), 40);
}

TEST(ConversationSource, PacksSeveralIntoARow) {
  ConversationSource source({sample_of(10, 4), sample_of(20, 3), sample_of(30, 2)},
                            {.batch_size = 1, .sequence_length = 7, .shuffle = false, .pack = true});
  const NamedTensors batch = source.batch(0);
  EXPECT_EQ(row_of(batch, "tokens", 0, 7), (Ids{10, 11, 12, 20, 21, 30, 0}));
  EXPECT_EQ(row_of(batch, "targets", 0, 7), (Ids{-100, 12, 13, 21, 22, 31, -100}));
  EXPECT_EQ(row_of(batch, "positions", 0, 7), (Ids{0, 1, 2, 0, 1, 0, 0}));
  EXPECT_EQ(row_of(batch, "segments", 0, 7), (Ids{0, 0, 0, 1, 1, 2, -1}));
}

// In a packed epoch, every sample has the same tokens and targets as alone.
TEST(ConversationSource, PackedRowsHoldWhatSamplesAre) {
  const std::vector<chat::Sample> all = samples(200);
  ConversationSource packed(all, {.batch_size = 1, .sequence_length = 32, .seed = 3, .pack = true});
  std::map<int64_t, std::pair<Ids, Ids>> found;  // by first token
  for (int64_t i = 0; i < packed.statistics().rows; ++i) {
    const NamedTensors batch = packed.batch(i);
    const Ids tokens = row_of(batch, "tokens", 0, 32), targets = row_of(batch, "targets", 0, 32),
              positions = row_of(batch, "positions", 0, 32), segments = row_of(batch, "segments", 0, 32);
    int64_t first = -1;
    for (size_t at = 0; at < 32 && segments[at] >= 0; ++at) {
      if (positions[at] == 0) first = tokens[at];
      found[first].first.push_back(tokens[at]);
      found[first].second.push_back(targets[at]);
    }
  }
  ASSERT_EQ(found.size(), all.size());
  for (const chat::Sample& sample : all) {
    const auto& [tokens, targets] = found.at(sample.tokens[0]);
    EXPECT_EQ(tokens, Ids(sample.tokens.begin(), sample.tokens.end() - 1));
    for (size_t i = 0; i < targets.size(); ++i)
      EXPECT_EQ(targets[i], sample.is_target[i + 1] ? sample.tokens[i + 1] : -100);
  }
  EXPECT_GT(packed.statistics().tokens, packed.statistics().rows * 32 * 9 / 10);
}

TEST(ConversationSource, IsAFunctionOfThePosition) {
  for (const bool pack : {false, true}) {
    const ConversationOptions options = {.batch_size = 3, .sequence_length = 24, .seed = 8, .pack = pack};
    ConversationSource one(samples(50), options), other(samples(50), options);
    std::vector<Ids> in_order;
    for (int64_t i = 0; i < 60; ++i) in_order.push_back(row_of(one.batch(i), "tokens", 0, 72));
    for (int64_t i = 59; i >= 0; i -= 7)
      EXPECT_EQ(row_of(other.batch(i), "tokens", 0, 72), in_order[static_cast<size_t>(i)]);
    EXPECT_NE(in_order[0],
              in_order[static_cast<size_t>(one.statistics().rows / 3)]);  // the next epoch has another order
  }
}

TEST(ConversationSource, CutsLongSamplesAndLeavesOutThoseWithoutTargets) {
  ConversationSource source(
      {sample_of(10, 30), sample_of(50, 9), chat::Sample{{1, 2, 3}, {true, false, false}},
       chat::Sample{{4}, {true}}, chat::Sample{}},
      {.batch_size = 1, .sequence_length = 20, .shuffle = false});
  EXPECT_EQ(source.statistics().samples, 2);
  EXPECT_EQ(source.statistics().cut, 1);
  EXPECT_EQ(source.statistics().without_targets, 3);
  EXPECT_LT(source.statistics().targets, source.statistics().tokens);
  EXPECT_EQ(row_of(source.batch(0), "targets", 0, 20).back(), 30);
  EXPECT_THROW(ConversationSource({}, {}), Error);
  const std::string why =
      error_of([] { ConversationSource({sample_of(10, 60)}, {.batch_size = 1, .sequence_length = 20}); });
  EXPECT_NE(why.find("1 samples have nothing to learn in their first 20 tokens"), std::string::npos) << why;
  EXPECT_THROW(ConversationSource(samples(3), {.batch_size = 4}), Error);
  EXPECT_THROW(ConversationSource(samples(3), {.batch_size = 0}), Error);
}

class Lines : public ::testing::Test {
 protected:
  std::string error_of(const std::string& text, bool skip = false) {
    std::ofstream(folder_ / "a.jsonl") << text;
    try {
      read_conversations({folder_ / "a.jsonl"}, maker_, skip);
      return "";
    } catch (const Error& error) {
      return error.message();
    }
  }

  TemporaryFolder folder_;
  chat::SampleMaker maker_{chat::ChatTemplate::parse("{% for m in messages %}{{ m.role }}: {% generation "
                                                     "%}{{ m.content }}{% endgeneration %}{% endfor %}"),
                           text::Tokenizer::load(GENESIS_SOURCE_ROOT "/tests/models/tokenizer/qwen.json")};
};

TEST_F(Lines, AreReadInTheirOrder) {
  std::string text = "\n";
  for (int i = 0; i < 100; ++i)
    text += i % 2 ? R"({"text": "no )" + std::to_string(i) + "\"}\n"
                  : R"({"messages": [{"role": "assistant", "content": "no )" + std::to_string(i) +
                        "\"}]}\r\n  \n";
  std::ofstream(folder_ / "b.jsonl") << text << R"({"text": "last"})";
  const Conversations all = read_conversations({folder_ / "b.jsonl", folder_ / "b.jsonl"}, maker_);
  ASSERT_EQ(all.samples.size(), 202u);
  const auto by = text::Tokenizer::load(GENESIS_SOURCE_ROOT "/tests/models/tokenizer/qwen.json");
  for (size_t i = 0; i < 202; ++i) {
    const std::string said =
        i % 101 == 100 ? "last"
                       : std::string(i % 101 % 2 ? "" : "assistant: ") + "no " + std::to_string(i % 101);
    EXPECT_EQ(by.decode(Ids(all.samples[i].tokens.begin(), all.samples[i].tokens.end())), said);
  }
}

TEST_F(Lines, ThatAreWrongNameTheirPlace) {
  const std::string good = R"({"messages": [{"role": "assistant", "content": "a"}]})"
                           "\n";
  const std::vector<std::pair<std::string, std::string>> bad = {
      {"{\"messages\": [", "JSON"},
      {"3", "object"},
      {"{}", "either"},
      {R"({"text": 3})", "text"},
      {R"({"messages": [{"role": "user", "content": "a"}]})", "assistant"},
      {R"({"messages": [{"role": 1, "content": "a"}]})", "role"},
      {R"({"messages": [], "text": ""})", "either"},
      {"\xff\xfe", "JSON"},
      {std::string(200, '['), "nested"}};
  for (const auto& [line, expected] : bad) {
    const std::string error = error_of(good + "\n" + line + "\n" + good);
    EXPECT_NE(error.find("a.jsonl:3:"), std::string::npos) << error;
    EXPECT_NE(error.find(expected), std::string::npos) << error;
    EXPECT_EQ(error_of(good + line + "\n" + good, true), "");
  }
}

TEST_F(Lines, ThatAreWrongAreCounted) {
  std::ofstream(folder_ / "c.jsonl") << "{\n"
                                     << R"({"text": "a"})"
                                     << "\n[]\n";
  const Conversations all = read_conversations({folder_ / "c.jsonl"}, maker_, true);
  EXPECT_EQ(all.samples.size(), 1u);
  EXPECT_EQ(all.skipped, 2);
  EXPECT_NE(all.first_skipped.find("c.jsonl:1:"), std::string::npos);
}

}  // namespace
}  // namespace genesis::data
