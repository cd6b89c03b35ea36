// Tests text as tokens on disk: they are the tokenizer's tokens for every document with any number of threads. They
// are computed once. Errors in a corpus name its file and line.
#include <gtest/gtest.h>
#include <tbb/task_arena.h>

#include <cstdlib>
#include <fstream>

#include "models/corpus/documents.h"
#include "models/data/sources.h"
#include "models/data/token_corpus.h"
#include "schema/core/error.h"
#include "schema/file/io/read_file.h"
#include "tests/error_of.h"

namespace genesis::data {
namespace {

namespace fs = std::filesystem;
using Ids = std::vector<int64_t>;

const std::string kTokenizer = GENESIS_SOURCE_ROOT "/tests/models/tokenizer/qwen.json";

class TokenCorpusTest : public ::testing::Test {
 protected:
  TokenCorpusTest() {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    options_.cache = folder_ / "cache";
  }
  ~TokenCorpusTest() override { fs::remove_all(folder_); }

  fs::path write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return folder_ / name;
  }
  TokenCorpus open(const std::vector<fs::path>& files) const {
    return open_token_corpus(files, tokens_, options_);
  }
  // Returns the tokens of documents one after another, each with its end token.
  Ids expected(const std::vector<std::string>& documents) const {
    Ids ids;
    for (const std::string& document : documents) {
      const Ids own = tokens_.tokenizer.encode(document);
      ids.insert(ids.end(), own.begin(), own.end());
      ids.push_back(tokens_.end_of_text);
    }
    return ids;
  }

  const fs::path folder_ = fs::path(::testing::TempDir()) / ("corpus" + std::to_string(::getpid()));
  const text::Tokenizer tokenizer_ = text::Tokenizer::load(kTokenizer);
  const TextTokens tokens_ = {tokenizer_, read_whole_file(kTokenizer),
                              tokenizer_.token_to_id("<|endoftext|>").value()};
  CorpusOptions options_;
};

Ids all(const TokenStream& stream) {
  Ids ids(static_cast<size_t>(stream.size()));
  stream.read(0, stream.size(), ids.data());
  return ids;
}

// Returns lines with more text than one chunk.
std::string long_text(size_t bytes) {
  std::string text;
  for (uint32_t state = 7; text.size() < bytes;) {
    state = state * 1664525u + 1013904223u;
    text += "verse " + std::to_string(state >> 22) + (state % 5 == 0 ? ",\n\n  and \u4f60" : " begat\n");
  }
  return text;
}

// The default cache folder may belong to another user, or be on a read-only disk.
TEST_F(TokenCorpusTest, ACacheThatCannotBeWrittenIsDoneWithout) {
  const fs::path text = write("a.txt", "In the beginning");
  options_.cache.clear();
  const char* before = std::getenv("XDG_CACHE_HOME");
  const std::string kept = before ? before : "";
  setenv("XDG_CACHE_HOME", write("file", "").c_str(), 1);
  const TokenCorpus corpus = open({text});
  EXPECT_EQ(all(corpus.training), expected({"In the beginning"}));
  EXPECT_TRUE(open({text}).was_there);
  before ? setenv("XDG_CACHE_HOME", kept.c_str(), 1) : unsetenv("XDG_CACHE_HOME");
}

TEST_F(TokenCorpusTest, HoldsEveryDocumentWithItsEnd) {
  const auto text = write("a.txt", "In the beginning<|endoftext|>\u4f60\u597d\n<|endoftext|>"),
             lines =
                 write("b.jsonl",
                       "{\"text\": \"and the earth\"}\n\n{\"text\": \"\", \"id\": 3}\n{\"text\":\"was\\n\"}"),
             empty = write("c.txt", "");
  const TokenCorpus corpus = open({text, lines, empty});
  EXPECT_EQ(all(corpus.training), expected({"In the beginning", "\u4f60\u597d\n", "and the earth", "was\n"}));
  EXPECT_EQ(corpus.held_out.size(), 0);
  EXPECT_EQ(corpus.bytes, static_cast<int64_t>(fs::file_size(text) + fs::file_size(lines)));
}

TEST_F(TokenCorpusTest, CutsLongTextsWhereWordsBegin) {
  const std::string text = long_text(3 << 20);
  EXPECT_EQ(all(open({write("long.txt", text)}).training), expected({text}));
}

TEST_F(TokenCorpusTest, AMarkMayStandAtTheEndOfAChunk) {
  const std::string text = long_text(1 << 20) + "end\n", both = text + "<|endoftext|>" + text;
  const auto chunks = corpus::chunks_of("x.txt", both, text.size() - 2, "<|endoftext|>");
  ASSERT_GE(chunks.size(), 2u);
  EXPECT_EQ(chunks[0].end, text.size() + 13);
  EXPECT_EQ(all(open({write("marks.txt", both)}).training), expected({text, text}));
}

TEST_F(TokenCorpusTest, IsTheSameByAnyNumberOfThreads) {
  const auto file = write("long.txt", long_text(5 << 20));
  options_.held_out = 0.2;
  const TokenCorpus many = open({file});
  options_.cache = folder_ / "one";
  tbb::task_arena(1).execute([&] {
    const TokenCorpus one = open({file});
    EXPECT_EQ(all(one.training), all(many.training));
    EXPECT_EQ(all(one.held_out), all(many.held_out));
  });
}

TEST_F(TokenCorpusTest, IsMadeOnceUntilTheTextChanges) {
  const auto file = write("a.txt", "In the beginning");
  const TokenCorpus first = open({file}), again = open({file});
  EXPECT_FALSE(first.was_there);
  EXPECT_TRUE(again.was_there);
  EXPECT_EQ(all(first.training), all(again.training));
  write("a.txt", "In the end it was so");
  const TokenCorpus changed = open({file});
  EXPECT_FALSE(changed.was_there);
  EXPECT_EQ(all(changed.training), expected({"In the end it was so"}));
}

// cp -p and rsync -t keep the time, and so does an editor faster than the resolution of file times.
TEST_F(TokenCorpusTest, IsMadeAnewOfAFileThatLooksTheSame) {
  const auto file = write("a.txt", "In the beginning");
  const auto time = std::filesystem::last_write_time(file);
  for (const std::string text : {"In the beginning", "In the last days", "It was beginning"}) {
    write("a.txt", text);
    std::filesystem::last_write_time(file, time);
    EXPECT_EQ(all(open({file}).training), expected({text}));
  }
  EXPECT_TRUE(open({file}).was_there);
}

TEST_F(TokenCorpusTest, HoldsOutWholeDocuments) {
  std::string lines;
  std::vector<std::string> documents;
  for (int i = 0; i < 2000; ++i) {
    documents.push_back("document " + std::to_string(i));
    lines += "{\"text\": \"" + documents.back() + "\"}\n";
  }
  options_.held_out = 0.1;
  const TokenCorpus corpus = open({write("a.jsonl", lines)});
  const int64_t end = tokens_.end_of_text;
  const Ids training = all(corpus.training), held = all(corpus.held_out);
  const auto ends = std::count(held.begin(), held.end(), end);
  EXPECT_NEAR(static_cast<double>(ends), 200, 50);
  EXPECT_EQ(ends + std::count(training.begin(), training.end(), end), 2000);
  EXPECT_EQ(training.size() + held.size(), expected(documents).size());
  const auto first = static_cast<size_t>(std::find(held.begin(), held.end(), end) - held.begin());
  EXPECT_TRUE(tokenizer_.decode({held.data(), first}, true).starts_with("document "));
}

TEST_F(TokenCorpusTest, HoldsOutTheLastPartWhereTheShareIsLessThanOne) {
  options_.held_out = 1e-5;
  const TokenCorpus corpus = open({write("a.jsonl", "{\"text\": \"one\"}\n{\"text\": \"two\"}\n")});
  EXPECT_EQ(all(corpus.training), expected({"one"}));
  EXPECT_EQ(all(corpus.held_out), expected({"two"}));
}

TEST_F(TokenCorpusTest, NamesTheFileAndLineOfWhatIsNoDocument) {
  const std::string good = "{\"text\": \"a\"}\n";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"{\"text\": \"a\"\n", "not JSON"},
      {"[1]\n", "got array"},
      {"{\"t\": \"a\"}\n", "no field 'text'"},
      {"{\"text\": 3}\n", "is not a text but number"},
      {"{\"text\": \"a\", \"n\": NaN}\n", "NaN at byte 20 is no JSON"},
      {"{\"text\": \"a\", \"n\": 1e999}\n", "a number is too large"},
      {"{\"text\": \"\xff\"}\n", "not JSON"},
      {std::string(500, '[') + "\n", "more than 64 deep"}};
  for (const auto& [line, reason] : cases) {
    const auto file = write("bad.jsonl", good + "\n" + line + good);
    const std::string message = testing::error_of([&] { open({file}); });
    EXPECT_NE(message.find("bad.jsonl:3: "), std::string::npos) << message;
    EXPECT_NE(message.find(reason), std::string::npos) << message;
    options_.skip_bad = true;
    const TokenCorpus corpus = open({file});
    EXPECT_EQ(corpus.bad_lines, 1);
    EXPECT_EQ(all(corpus.training), expected({"a", "a"}));
    options_.skip_bad = false;
  }
}

TEST_F(TokenCorpusTest, RefusesWhatIsNoText) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"\x1f\x8b\x08 text", "from byte 0 on it is a file of gzip"},
      {"\x89GENESIS text", "a model of Genesis"},
      {"\xff\xfe t", "UTF-16"},
      {std::string(70, 'a') + '\0', "byte 70 is NUL"}};
  for (const auto& [text, reason] : cases)
    for (const char* name : {"a.txt", "a.jsonl"}) {
      const std::string message = testing::error_of([&] { open({write(name, text)}); });
      EXPECT_NE(message.find(std::string(name) + "' is no text: "), std::string::npos) << message;
      EXPECT_NE(message.find(reason), std::string::npos) << message;
    }
  EXPECT_EQ(all(open({write("broken.txt", "In the\xff")}).training), expected({"In the\ufffd"}));
}

TEST_F(TokenCorpusTest, SaysWhatIsDamagedAndMakesAnewWhatIsNotWhole) {
  const auto file = write("a.txt", "In the beginning");
  const fs::path folder = open({file}).folder;
  fs::resize_file(folder / "training-00000.tokens", 4);
  EXPECT_NE(testing::error_of([&] { open({file}); }).find("has 4 bytes, expected"), std::string::npos);
  std::ofstream(folder / "corpus.json") << "{";
  EXPECT_NE(testing::error_of([&] { open({file}); }).find("is damaged"), std::string::npos);
  fs::remove(folder / "corpus.json");  // a killed run leaves it like this
  EXPECT_EQ(all(open({file}).training), expected({"In the beginning"}));
}

// A block is verified when it is first read, so rows elsewhere stay usable.
TEST_F(TokenCorpusTest, FindsTokensThatWereChanged) {
  const auto file = write("a.txt", long_text(200'000));
  const TokenCorpus corpus = open({file});
  EXPECT_TRUE(corpus.has_hashes);
  const int64_t size = corpus.training.size();
  ASSERT_GT(size * 2, 2 * int64_t{ShardWriter::kHashedBytes});
  const fs::path shard = corpus.folder / "training-00000.tokens";
  const auto bytes = fs::file_size(shard);
  const auto change = [&](std::streamoff at) {
    std::fstream changed(shard, std::ios::in | std::ios::out | std::ios::binary);
    changed.seekg(at);
    const int byte = changed.get();
    changed.seekp(at);
    changed.put(static_cast<char>(byte ^ 1));
  };
  Ids tokens(static_cast<size_t>(size));
  change(2 * (size - 1));
  const TokenStream stream = open({file}).training;
  stream.read(0, 100, tokens.data());
  const std::string message = testing::error_of([&] { stream.read(size - 1, 1, tokens.data()); });
  for (const std::string& part : {shard.string(), std::string("is damaged"), std::string("tokenized anew")})
    EXPECT_NE(message.find(part), std::string::npos) << message;
  change(2 * (size - 1));
  all(open({file}).training);
  std::ofstream(shard, std::ios::binary) << std::string(bytes, '\0');
  EXPECT_NE(testing::error_of([&] { all(open({file}).training); }).find("is damaged"), std::string::npos);
}

TEST_F(TokenCorpusTest, OpensShardsWithoutHashes) {
  const auto file = write("a.txt", "In the beginning");
  const TokenCorpus made = open({file});
  const Ids tokens = all(made.training);
  fs::resize_file(made.folder / "training-00000.tokens", 2 * tokens.size());
  const std::string manifest = read_whole_file(made.folder / "corpus.json"), key = "\"hashed_bytes\"";
  ASSERT_NE(manifest.find(key), std::string::npos);
  std::ofstream(made.folder / "corpus.json") << manifest.substr(0, manifest.find(key)) << "\"older\""
                                             << manifest.substr(manifest.find(key) + key.size());
  const TokenCorpus old = open({file});
  EXPECT_FALSE(old.has_hashes);
  EXPECT_EQ(all(old.training), tokens);
}

// Sizes near 2^63 are refused before they are multiplied.
TEST_F(TokenCorpusTest, RefusesBatchesThatNoMachineHolds) {
  const TokenStream tokens = open({write("a.txt", "In the beginning")}).training;
  const int64_t huge = int64_t{1} << 62;
  for (const bool fill : {false, true})
    for (const auto& [batch, length] :
         {std::pair(huge, int64_t{16}), std::pair(int64_t{2}, huge), std::pair(huge, huge),
          std::pair(int64_t{1} << 50, int64_t{4}), std::pair(int64_t{1}, huge)}) {
      const std::string message = testing::error_of([&, batch = batch, length = length] {
        token_source(tokens, {.batch_size = batch, .sequence_length = length, .fill_last = fill})->batch(0);
      });
      EXPECT_NE(message.find(std::to_string(batch)), std::string::npos) << message;
      EXPECT_NE(message.find("--batch"), std::string::npos) << message;
    }
  const auto all = token_source(tokens, {.batch_size = 1000, .sequence_length = 1000, .fill_last = true});
  EXPECT_EQ(all->batches_per_epoch(), 1);
}

TEST_F(TokenCorpusTest, RefusesWhatIsNotThere) {
  EXPECT_NE(testing::error_of([&] { open({folder_ / "nothing.txt"}); }).find("nothing.txt"),
            std::string::npos);
  EXPECT_NE(testing::error_of([&] { open({folder_}); }).find("is not a file"), std::string::npos);
  options_.held_out = 1;
  EXPECT_NE(testing::error_of([&] { open({write("a.txt", "a")}); }).find("less than 1"), std::string::npos);
}

TEST_F(TokenCorpusTest, ShardsAreOneRow) {
  for (const bool wide : {false, true}) {
    ShardWriter writer(folder_, wide ? "wide" : "narrow", wide, 28);
    std::vector<uint32_t> tokens;
    for (uint32_t i = 0; i < 40; ++i) tokens.push_back(wide ? i * 100'000'000u : i * 1600u);
    writer.append({tokens.data(), 13});
    writer.append({tokens.data() + 13, 27});
    const std::vector<int64_t> counts = writer.finish();
    EXPECT_EQ(counts.size(), wide ? 6u : 3u);
    const TokenStream stream(folder_, wide ? "wide" : "narrow", wide, counts);
    ASSERT_EQ(stream.size(), 40);
    for (int64_t first = 0; first <= 40; ++first) {
      Ids read(static_cast<size_t>(40 - first));
      stream.read(first, 40 - first, read.data());
      EXPECT_TRUE(std::equal(read.begin(), read.end(), tokens.begin() + first));
    }
  }
}

TEST_F(TokenCorpusTest, RowsOfAnEpochAreAllWindowsOnce) {
  const std::string text = long_text(20'000);
  const Ids ids = expected({text});
  const auto file = write("a.txt", text);
  const SourceOptions options = {.batch_size = 3, .sequence_length = 16, .seed = 5};
  const auto source = token_source(open({file}).training, options),
             again = token_source(open({file}).training, options);
  const int64_t rows = (static_cast<int64_t>(ids.size()) - 1) / 16, batches = rows / 3;
  std::set<int64_t> seen;
  for (int64_t position = 0; position < batches; ++position) {
    const NamedTensors batch = source->batch(position);
    const auto tokens = batch.at("tokens").as<int64_t>(), targets = batch.at("targets").as<int64_t>();
    const NamedTensors same = again->batch(position);
    EXPECT_TRUE(std::ranges::equal(tokens, same.at("tokens").as<int64_t>()));
    for (size_t row = 0; row < 3; ++row) {
      const auto window = tokens.subspan(row * 16, 16), next = targets.subspan(row * 16, 16);
      EXPECT_TRUE(std::equal(window.begin() + 1, window.end(), next.begin()));
      Ids whole(window.begin(), window.end());
      whole.push_back(next.back());
      const auto at = std::search(ids.begin(), ids.end(), whole.begin(), whole.end());
      ASSERT_NE(at, ids.end());
      seen.insert(at - ids.begin());
    }
  }
  EXPECT_EQ(static_cast<int64_t>(seen.size()), 3 * batches);
  EXPECT_FALSE(std::ranges::equal(source->batch(0).at("tokens").as<int64_t>(),
                                  source->batch(batches).at("tokens").as<int64_t>()));
  EXPECT_THROW(token_source(open({file}).training, {.batch_size = 1000}), Error);
}

}  // namespace
}  // namespace genesis::data
