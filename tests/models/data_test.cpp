// Tests training data: permutations, windows of text, rows of arrays, files of every kind and their errors.
#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "models/data/permutation.h"
#include "models/data/sources.h"
#include "schema/file/other_formats/npy.h"
#include "schema/file/other_formats/safetensors.h"
#include "tests/op_harness.h"
#include "tests/schema/file_models.h"

namespace genesis::data {
namespace {

using namespace testing;
using Ints = std::vector<int64_t>;

bool is_bijection(int64_t size, uint64_t seed, uint64_t epoch) {
  const Permutation order(size, seed, epoch);
  std::vector<bool> seen(static_cast<size_t>(size));
  for (int64_t i = 0; i < size; ++i) {
    const int64_t at = order[i];
    if (at < 0 || at >= size || seen[static_cast<size_t>(at)]) return false;
    seen[static_cast<size_t>(at)] = true;
  }
  return true;
}

Ints order_of(int64_t size, uint64_t seed, uint64_t epoch) {
  const Permutation order(size, seed, epoch);
  Ints values;
  for (int64_t i = 0; i < size; ++i) values.push_back(order[i]);
  return values;
}

TEST(Permutation, IsABijectionForEverySize) {
  for (int64_t size = 1; size <= 1000; ++size) ASSERT_TRUE(is_bijection(size, 3, 0)) << size;
  for (int64_t size : {4095, 4096, 4097, 65536, 65537, 1000003})
    ASSERT_TRUE(is_bijection(size, 7, 2)) << size;
}

TEST(Permutation, StaysInRangeForHugeSizes) {
  const int64_t size = (int64_t{1} << 40) + 12345;
  const Permutation order(size, 1, 0);
  std::set<int64_t> seen;
  for (int64_t i = 0; i < 1000; ++i) {
    const int64_t at = order[i * 999999937 % size];
    EXPECT_TRUE(at >= 0 && at < size);
    seen.insert(at);
  }
  EXPECT_EQ(seen.size(), 1000u);
}

TEST(Permutation, DiffersByEpochAndSeedAndIsTheSameAgain) {
  for (int64_t size : {20, 64, 1000}) {
    std::set<Ints> orders;
    for (uint64_t seed : {0, 1, 2})
      for (uint64_t epoch : {0, 1, 2}) orders.insert(order_of(size, seed, epoch));
    EXPECT_EQ(orders.size(), 9u) << size;
    EXPECT_EQ(order_of(size, 5, 5), order_of(size, 5, 5));
  }
}

// Over many epochs every element is first about equally often (chi-squared, 99.99% for 9 degrees of freedom: 33.7).
TEST(Permutation, HasNoFavorites) {
  std::vector<double> counts(10);
  for (uint64_t epoch = 0; epoch < 10000; ++epoch)
    ++counts[static_cast<size_t>(Permutation(10, 0, epoch)[0])];
  double chi = 0;
  for (double count : counts) chi += (count - 1000) * (count - 1000) / 1000;
  EXPECT_LT(chi, 33.7);
}

std::string alphabet(int64_t size) {
  std::string text;
  for (int64_t i = 0; i < size; ++i) text += static_cast<char>(i);
  return text;
}

Ints ints(const NamedTensors& batch, const char* name) {
  const auto values = batch.at(name).as<int64_t>();
  return {values.begin(), values.end()};
}

TEST(TextSource, InOrderGivesWindowsAndTheirNextBytes) {
  const auto source = text_source(alphabet(200), {.batch_size = 2, .sequence_length = 4, .shuffle = false});
  const NamedTensors batch = source->batch(1);
  EXPECT_EQ(batch.size(), 2u);
  EXPECT_EQ(batch.at("tokens").type().to_string(), "i64[2,4]");
  EXPECT_EQ(ints(batch, "tokens"), (Ints{8, 9, 10, 11, 12, 13, 14, 15}));
  EXPECT_EQ(ints(batch, "targets"), (Ints{9, 10, 11, 12, 13, 14, 15, 16}));
  EXPECT_EQ(source->items_per_batch(), 8);
  // Bytes above 127 are tokens 128 to 255, not negative numbers.
  EXPECT_EQ(ints(source->batch(20), "tokens"), (Ints{160, 161, 162, 163, 164, 165, 166, 167}));
}

TEST(TextSource, AnEpochReadsEveryWindowOnceAndTheNextInAnotherOrder) {
  const SourceOptions options{.batch_size = 3, .sequence_length = 4, .seed = 2};
  const auto source = text_source(alphabet(49), options);  // 12 windows, 4 batches
  std::vector<Ints> epochs;
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    Ints starts;
    for (int64_t b = 0; b < 4; ++b) {
      const Ints tokens = ints(source->batch(epoch * 4 + b), "tokens");
      for (size_t row = 0; row < 3; ++row) {
        starts.push_back(tokens[row * 4]);
        for (size_t i = 1; i < 4; ++i)
          EXPECT_EQ(tokens[row * 4 + i], tokens[row * 4] + static_cast<int64_t>(i));
      }
    }
    epochs.push_back(starts);
    const std::set<int64_t> all(starts.begin(), starts.end());
    EXPECT_EQ(all.size(), 12u);
    EXPECT_EQ(*all.rbegin(), 44);
  }
  EXPECT_NE(epochs[0], epochs[1]);
  EXPECT_NE(epochs[1], epochs[2]);
  EXPECT_EQ(ints(source->batch(5), "targets"), ints(text_source(alphabet(49), options)->batch(5), "targets"));
  EXPECT_EQ(ints(source->batch(int64_t{4} << 40), "tokens").size(), 12u);
}

// In an evaluation of 11 tokens each one except the first is a target once, and padding has no targets.
TEST(TextSource, TheLastBatchIsFilledUp) {
  const SourceOptions options{.batch_size = 2, .sequence_length = 4, .shuffle = false, .fill_last = true};
  const auto source = text_source(alphabet(11), options);
  ASSERT_EQ(source->batches_per_epoch(), 2);
  EXPECT_EQ(ints(source->batch(0), "targets"), (Ints{1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(ints(source->batch(1), "tokens"), (Ints{8, 9, 10, 0, 0, 0, 0, 0}));
  EXPECT_EQ(ints(source->batch(1), "targets"), (Ints{9, 10, -100, -100, -100, -100, -100, -100}));
  EXPECT_EQ(ints(source->batch(2), "tokens"), ints(source->batch(0), "tokens"));
  EXPECT_EQ(ints(text_source(alphabet(2), options)->batch(0), "targets")[0], 1);
  expect_error([&] { text_source("a", options); }, {"1 bytes", "needs 2"});
}

TEST(TextSource, TooShortTextIsRefusedAndTheShortestAccepted) {
  const SourceOptions options{.batch_size = 2, .sequence_length = 4};
  expect_error([&] { text_source(alphabet(8), options); }, {"8 bytes", "2 x 4", "needs 9"});
  expect_error([&] { text_source("", options); }, {"0 bytes"});
  EXPECT_EQ(text_source(alphabet(9), options)->batch(0).size(), 2u);
  expect_error([&] { text_source("text", {.batch_size = 0}); }, {"batch size 0"});
  expect_error([&] { text_source("text", {.batch_size = 1, .sequence_length = 0}); }, {"sequence length 0"});
}

NamedTensors rows(int64_t count) {
  std::vector<float> x;
  Ints y;
  for (int64_t i = 0; i < count; ++i)
    x.push_back(static_cast<float>(i)), x.push_back(static_cast<float>(-i)), y.push_back(10 * i);
  return {{"x", Tensor::of<float>({count, 2}, x)}, {"y", Tensor::of<int64_t>({count}, y)}};
}

TEST(ArraySource, RowsOfAllArraysStayTogether) {
  const auto source = array_source(rows(11), {.batch_size = 4, .seed = 1});
  std::set<int64_t> seen;
  for (int64_t b = 0; b < 2; ++b) {
    const NamedTensors batch = source->batch(b);
    EXPECT_EQ(batch.at("x").type().to_string(), "f32[4,2]");
    const auto x = batch.at("x").as<float>();
    const Ints y = ints(batch, "y");
    for (size_t i = 0; i < 4; ++i) {
      EXPECT_EQ(10 * x[2 * i], static_cast<float>(y[i]));
      EXPECT_EQ(x[2 * i + 1], -x[2 * i]);
      seen.insert(y[i]);
    }
  }
  EXPECT_EQ(seen.size(), 8u);  // three rows do not fill a batch
  EXPECT_EQ(source->items_per_batch(), 4);
  EXPECT_EQ(ints(source->batch(1), "y"), ints(source->batch(1), "y"));
  EXPECT_NE(ints(source->batch(0), "y"), ints(source->batch(2), "y"));
  const auto ordered = array_source(rows(5), {.batch_size = 2, .shuffle = false});
  EXPECT_EQ(ints(ordered->batch(1), "y"), (Ints{20, 30}));
  EXPECT_EQ(ints(ordered->batch(2), "y"), (Ints{0, 10}));
}

TEST(ArraySource, MistakesAreNamed) {
  expect_error([] { array_source({}, {}); }, {"no arrays"});
  expect_error([] { array_source(rows(3), {.batch_size = 4}); }, {"3 rows", "needs 4"});
  expect_error([] { array_source(rows(3), {.batch_size = 0}); }, {"batch size 0"});
  expect_error([] { array_source({{"s", Tensor::scalar<float>(1)}}, {.batch_size = 1}); }, {"'s'", "scalar"});
  NamedTensors uneven = rows(3);
  uneven["z"] = Tensor::of<float>({2}, {1, 2});
  expect_error([&] { array_source(uneven, {.batch_size = 1}); }, {"'z'", "2 rows", "3"});
}

class OpenSource : public ::testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& text) {
    write_bytes(folder_ / name, text);
    return (folder_ / name).string();
  }
  NamedTensors first(const std::vector<std::string>& files, int64_t batch = 2) {
    return open_source(files, {.batch_size = batch, .sequence_length = 3, .shuffle = false})->batch(0);
  }
  void expect_line_error(const std::string& text, const std::vector<std::string>& parts) {
    const std::string path = write("bad.jsonl", text);
    expect_error([&] { first({path}); }, parts);
  }
  TemporaryFolder folder_;
};

TEST_F(OpenSource, TextFilesFollowOneAnother) {
  const NamedTensors batch = first({write("a.txt", "abcd"), write("b.unknown", "efg")});
  EXPECT_EQ(ints(batch, "tokens"), (Ints{'a', 'b', 'c', 'd', 'e', 'f'}));
  EXPECT_EQ(ints(batch, "targets"), (Ints{'b', 'c', 'd', 'e', 'f', 'g'}));
}

TEST_F(OpenSource, JsonLinesOfText) {
  const NamedTensors batch =
      first({write("a.jsonl", "{\"text\": \"ab\"}\n\n  \r\n{\"text\": \"\\u00e9\", \"id\": 3}\n")});
  EXPECT_EQ(ints(batch, "tokens"), (Ints{'a', 'b', '\n', '\n', 0xc3, 0xa9}));
  EXPECT_EQ(ints(batch, "targets")[5], '\n');
}

TEST_F(OpenSource, JsonLinesHaveTwoNamesInAnyCase) {
  for (const char* name : {"a.ndjson", "a.JSONL", "a.NdJson"}) {
    const std::string file = write(name, "{\"text\": \"abc\"}\n");
    EXPECT_EQ(ints(first({file}, 1), "tokens"), (Ints{'a', 'b', 'c'})) << name;
  }
}

TEST_F(OpenSource, JsonLinesOfNumbers) {
  const NamedTensors batch = first(
      {write("a.jsonl",
             "{\"x\": [[1, 2.5], [3, 4]], \"y\": 7}\n{\"y\": 9007199254740993, \"x\": [[5, 6], [7, 8]]}\n")});
  EXPECT_EQ(batch.at("x").type().to_string(), "f32[2,2,2]");
  EXPECT_EQ(batch.at("x").to_doubles(), (std::vector<double>{1, 2.5, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(batch.at("y").type().to_string(), "i64[2]");
  EXPECT_EQ(ints(batch, "y"), (Ints{7, 9007199254740993}));  // 2^53 + 1, which no double can represent
}

// The dtypes of the entry point's inputs, if known, determine the dtypes. Only integral numbers become integers.
TEST_F(OpenSource, JsonNumbersTakeTheDtypeAskedFor) {
  const std::string path = write("a.jsonl", "{\"x\": 1, \"y\": 2.5}\n{\"x\": 300, \"y\": 3}\n");
  const auto first_as = [&](DType x, DType y) {
    return open_source({path}, {.batch_size = 2, .shuffle = false, .dtypes = {{"x", x}, {"y", y}}})->batch(0);
  };
  EXPECT_EQ(first_as(DType::f32, DType::f64).at("x").type().to_string(), "f32[2]");
  EXPECT_EQ(first_as(DType::i32, DType::f64).at("x").to_doubles(), (std::vector<double>{1, 300}));
  EXPECT_EQ(first_as(DType::bf16, DType::f64).at("y").to_doubles(), (std::vector<double>{2.5, 3}));
  EXPECT_EQ(first_as(DType::i64, DType::i64).at("y").type().to_string(), "f32[2]");
  expect_error([&] { first_as(DType::u8, DType::f32); }, {"'x'", "300", "u8", "cannot hold"});
}

TEST_F(OpenSource, BadLinesAreNamedWithFileAndLine) {
  const std::string good = "{\"x\": [1, 2]}\n";
  expect_line_error(good + "\nnot json\n", {"JSON object", "bad.jsonl:3"});
  expect_line_error(good + "[1, 2]\n", {"JSON object", "bad.jsonl:2"});
  expect_line_error(good + "{\"x\": [1, 2]", {"JSON object", "bad.jsonl:2"});
  expect_line_error(good + "{\"x\": [1, 2, 3]}\n", {"'x'", "another shape", "bad.jsonl:2"});
  expect_line_error(good + "{\"x\": 1}\n", {"'x'", "another shape", "bad.jsonl:2"});
  expect_line_error(good + "{\"y\": [1, 2]}\n", {"'y'", "bad.jsonl:2"});
  expect_line_error(good + "{}\n", {"'x'", "missing", "bad.jsonl:2"});
  expect_line_error(good + "{\"x\": [1, 2], \"y\": 1}\n", {"'y'", "bad.jsonl:2"});
  expect_line_error(good + "{\"text\": \"a\"}\n", {"'text'", "bad.jsonl:2"});
  expect_line_error("{\"text\": \"a\"}\n" + good, {"'text'", "bad.jsonl:2"});
  expect_line_error("{\"text\": 5}\n", {"'text'", "not a string", "bad.jsonl:1"});
  expect_line_error("{\"x\": \"a\"}\n", {"'x'", "not a number", "bad.jsonl:1"});
  expect_line_error("{\"x\": null}\n", {"'x'", "not a number", "bad.jsonl:1"});
  for (const char* ragged : {"[[1, 2], [3]]", "[1, [2]]", "[1, [2, 3]]", "[[1], 2]", "[[], [1]]"})
    expect_line_error(std::string("{\"x\": ") + ragged + "}\n", {"'x'", "ragged", "bad.jsonl:1"});
  expect_line_error("{\"x\": [[[[[[[[[[1]]]]]]]]]]}\n", {"'x'", "bad.jsonl:1"});
  expect_line_error("{\"x\": 1e400}\n", {"bad.jsonl:1"});
  expect_line_error("{\"x\": 18446744073709551615}\n", {"'x'", "bad.jsonl:1"});
}

TEST_F(OpenSource, ArraysOfNpyAndSafetensors) {
  const NamedTensors data = rows(4);
  write_npy(folder_ / "x.npy", data.at("x"));
  write_npy(folder_ / "y.npy", data.at("y"));
  write_safetensors(folder_ / "z.safetensors", {{{"z", data.at("x")}}, {}});
  const std::string x = (folder_ / "x.npy").string(), y = (folder_ / "y.npy").string();
  const NamedTensors batch = first({"x=" + x, "target=" + y, (folder_ / "z.safetensors").string()}, 3);
  EXPECT_EQ(batch.size(), 3u);
  EXPECT_EQ(ints(batch, "target"), (Ints{0, 10, 20}));
  EXPECT_EQ(batch.at("z").to_doubles(), batch.at("x").to_doubles());
  expect_error([&] { first({x}); }, {"x.npy", "NAME="});
  expect_error([&] { first({"x=" + x, "x=" + y}); }, {"'x'", "y.npy", "already"});
  expect_error([&] { first({"x=" + x, write("a.txt", "some text")}); }, {"mix"});
}

TEST_F(OpenSource, FilesThatCannotBeRead) {
  expect_error([&] { first({}); }, {"no data"});
  expect_error([&] { first({(folder_ / "none.txt").string()}); }, {"none.txt", "No such file"});
  expect_error([&] { first({folder_.path().string()}); }, {folder_.path().string(), "folder"});
  expect_error([&] { first({"x=" + (folder_ / "none.npy").string()}); }, {"none.npy"});
  expect_error([&] { first({"x=" + write("broken.npy", "no array")}); }, {"broken.npy"});
  expect_error([&] { first({write("empty.txt", "")}); }, {"0 bytes"});
  expect_error([&] { first({write("packed.gz", "\x1f\x8b text")}); }, {"packed.gz' is no text", "gzip"});
  expect_error([&] { first({write("nul.jsonl", std::string("{}\n\0", 4))}); },
               {"nul.jsonl' is no text", "byte 3 is NUL"});
  expect_error([&] { first({write("empty.jsonl", "\n")}); }, {"0 bytes"});
}

}  // namespace
}  // namespace genesis::data
