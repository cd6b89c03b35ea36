// Tests that a folder with a tokenizer.model of SentencePiece, and no tokenizer.json, gives the ids of SentencePiece
// (sentence_pieces/, made by make_sentence_pieces.py), and that damaged files are refused.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "models/tokenizer/sentence_piece_file.h"
#include "models/tokenizer/tokenizer.h"
#include "models/tokenizer/vocabulary_files.h"
#include "schema/file/io/read_file.h"
#include "schema/file/json_text.h"
#include "tests/op_harness.h"
#include "tests/schema/file_models.h"

namespace genesis::text {
namespace {

namespace fs = std::filesystem;
using genesis::testing::expect_error;
using nlohmann::json;
using Ids = std::vector<int64_t>;

const fs::path kPieces = fs::path(GENESIS_SOURCE_ROOT) / "tests/models/tokenizer/sentence_pieces";

class PieceFile : public ::testing::Test {
 protected:
  // Returns the folder, with the tokenizer.model of `name` and this tokenizer_config.json.
  fs::path folder(const std::string& name, const json& config) const {
    fs::create_directories(folder_ / name);
    fs::copy_file(kPieces / name / "tokenizer.model", folder_ / name / "tokenizer.model",
                  fs::copy_options::overwrite_existing);
    std::ofstream(folder_ / name / "tokenizer_config.json") << (config.is_null() ? "{}" : config.dump());
    return folder_ / name;
  }
  static Tokenizer opened(const fs::path& folder) {
    return Tokenizer::parse(tokenizer_json_of_pieces(folder));
  }
  static std::string bytes_of(const std::string& name) {
    return read_whole_file(kPieces / name / "tokenizer.model");
  }

  const genesis::testing::TemporaryFolder folder_;
};

TEST_F(PieceFile, GivesTheIdsOfSentencePiece) {
  const json expected = parse_json_text(read_whole_file(kPieces / "expected.json"));
  for (const auto& [name, kind] :
       {std::pair("llama", "LlamaTokenizer"), {"gemma", "GemmaTokenizer"}, {"unigram", "T5Tokenizer"}}) {
    const Tokenizer tokenizer = opened(folder(name, {{"tokenizer_class", kind}}));
    for (size_t i = 0; i < expected["texts"].size(); ++i) {
      const std::string text = expected["texts"][i];
      EXPECT_EQ(tokenizer.encode(text, false), expected[name][i].get<Ids>()) << name << ": " << json(text);
    }
  }
}

TEST_F(PieceFile, PutsTokensAroundATextAsItsClassOrTheSettingsSay) {
  const auto ids = [&](const json& config) { return opened(folder("llama", config)).encode("a"); };
  const Ids plain = opened(folder("llama", {})).encode("a", false);
  const auto around = [&](Ids first, const Ids& last) {
    first.insert(first.end(), plain.begin(), plain.end());
    first.insert(first.end(), last.begin(), last.end());
    return first;
  };
  EXPECT_EQ(ids({}), around({1}, {}));
  EXPECT_EQ(ids({{"tokenizer_class", "LlamaTokenizerFast"}}), around({1}, {}));
  EXPECT_EQ(ids({{"add_bos_token", false}, {"add_eos_token", true}}), around({}, {2}));
  EXPECT_EQ(ids({{"tokenizer_class", "T5Tokenizer"}}), around({}, {2}));
  EXPECT_EQ(tokenizer_json_of_pieces(folder("llama", {{"tokenizer_class", "XLMRobertaTokenizer"}})), "");
}

TEST_F(PieceFile, HasTheAddedTokensOfTheFolder) {
  const fs::path in =
      folder("llama", {{"added_tokens_decoder", {{"560", {{"content", "<|end|>"}, {"special", true}}}}}});
  const Tokenizer tokenizer = opened(in);
  EXPECT_EQ(tokenizer.token_to_id("<|end|>"), 560);
  EXPECT_EQ(tokenizer.encode("<|end|>", false).back(), 560);
}

TEST_F(PieceFile, DecodesWhatItEncoded) {
  const Tokenizer tokenizer = opened(folder("gemma", {{"tokenizer_class", "GemmaTokenizer"}}));
  for (const char* text : {"the  light\n\nof   day", " <turn>x", "\xe4\xbd\xa0\xf0\x9f\x98\x80"})
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text, false)), text);
}

// A message with one field: its number, and its bytes.
std::string field(int number, const std::string& bytes) {
  return std::string{static_cast<char>(number << 3 | 2), static_cast<char>(bytes.size())} + bytes;
}

TEST_F(PieceFile, RefusesWhatIsNone) {
  const auto refused = [](const std::string& bytes, const std::vector<std::string>& parts) {
    expect_error([&] { read_sentence_piece_file(std::as_bytes(std::span(bytes))); }, parts);
  };
  const std::string whole = bytes_of("llama");
  refused("", {"has no pieces"});
  refused(whole.substr(0, whole.size() / 2), {"at byte"});
  refused(whole + field(1, "\x18\x09"), {"the type of piece 560 is 9, expected 1 to 6"});
  refused(whole + field(2, "\x18\x03"), {"kind 3", "expected 1, unigram, or 2, BPE"});
  refused(whole + field(2, std::string("\xc0\x01\x01", 3)), {"treat_whitespace_as_suffix"});
  refused(whole + field(3, std::string("\x28\x00", 2)), {"escape_whitespaces"});
  refused("IQ== 0\nIg== 1\n", {"has no pieces"});  // the tokenizer.model of Llama 3
  std::ofstream(folder("llama", {}) / "tokenizer.model") << "none";
  expect_error([&] { tokenizer_json_of_pieces(folder_ / "llama"); }, {"llama/tokenizer.model", "at byte"});
}

}  // namespace
}  // namespace genesis::text
