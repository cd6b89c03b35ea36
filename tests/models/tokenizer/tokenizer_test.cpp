// Tests that tokens equal those of the library `tokenizers` (expected.json, made by make_fixtures.py), and that no
// file or text crashes.
#include "models/tokenizer/tokenizer.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "models/tokenizer/model_files.h"
#include "models/tokenizer/split_expression.h"
#include "schema/core/error.h"
#include "schema/file/attached_files.h"
#include "schema/file/format/utf8.h"
#include "schema/file/io/read_file.h"
#include "schema/file/json_text.h"

namespace genesis::text {
namespace {

using nlohmann::json;

const std::string kFolder = GENESIS_SOURCE_ROOT "/tests/models/tokenizer/";
const std::vector<std::string> kKinds = {"gpt2", "qwen", "llama"};

json fixture(const std::string& name) { return parse_json_text(read_whole_file(kFolder + name + ".json")); }
Tokenizer load(const std::string& kind) { return Tokenizer::load(kFolder + kind + ".json"); }

// Returns the error message for parsing `file`.
std::string refusal(const json& file) {
  try {
    Tokenizer::parse(file.dump());
  } catch (const Error& error) {
    return error.message();
  }
  return "";
}

TEST(Tokenizer, GivesTheIdsOfTokenizers) {
  const json expected = fixture("expected");
  for (const std::string& kind : kKinds) {
    const Tokenizer tokenizer = load(kind);
    for (size_t i = 0; i < expected["texts"].size(); ++i) {
      const auto text = expected["texts"][i].get<std::string>();
      EXPECT_EQ(tokenizer.encode(text), expected[kind]["ids"][i].get<std::vector<int64_t>>())
          << kind << ": " << text;
    }
  }
}

TEST(Tokenizer, DecodesAsTokenizers) {
  const json expected = fixture("expected");
  for (const std::string& kind : kKinds) {
    const Tokenizer tokenizer = load(kind);
    const auto ids = expected[kind]["decode"].get<std::vector<int64_t>>();
    EXPECT_EQ(tokenizer.decode(ids, false), expected[kind]["decoded"].get<std::string>());
    EXPECT_EQ(tokenizer.decode(ids), expected[kind]["decoded_without_special"].get<std::string>());
    StreamDecoder stream(tokenizer);
    std::string text;
    for (const int64_t id : ids) {
      const std::string piece = stream.add(id);
      EXPECT_TRUE(utf8::is_valid(piece));
      text += piece;
    }
    EXPECT_EQ(text + stream.finish(), tokenizer.decode(ids));
  }
}

TEST(Tokenizer, StreamsWholeCharacters) {
  const Tokenizer tokenizer = load("gpt2");
  StreamDecoder stream(tokenizer);
  const std::vector<int64_t> ids = tokenizer.encode("\U0001f600");
  ASSERT_EQ(ids.size(), 4u);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(stream.add(ids[i]), "");
  EXPECT_EQ(stream.add(ids[3]), "\U0001f600");
  EXPECT_EQ(stream.add(ids[0]), "");
  EXPECT_EQ(stream.finish(), "\ufffd");
  EXPECT_EQ(stream.finish(), "");
}

TEST(Tokenizer, BytesThatAreNotUtf8AreReplaced) {
  const Tokenizer tokenizer = load("qwen");
  EXPECT_EQ(tokenizer.encode("a\xff\xe4\xbd z"), tokenizer.encode("a\ufffd\ufffd z"));
  EXPECT_EQ(tokenizer.encode("\xed\xa0\x80"),
            tokenizer.encode("\ufffd\ufffd\ufffd"));  // half of a surrogate pair
}

TEST(Tokenizer, KnowsItsTokens) {
  const Tokenizer tokenizer = load("llama");
  const int64_t begin = *tokenizer.token_to_id("<|begin_of_text|>");
  EXPECT_EQ(tokenizer.encode("a").front(), begin);
  EXPECT_NE(tokenizer.encode("a", false).front(), begin);
  EXPECT_EQ(tokenizer.id_to_token(begin), "<|begin_of_text|>");
  EXPECT_EQ(tokenizer.vocab_size(), begin + 2);
  EXPECT_EQ(tokenizer.id_to_token(tokenizer.vocab_size()), std::nullopt);
  EXPECT_EQ(tokenizer.id_to_token(-1), std::nullopt);
  EXPECT_EQ(tokenizer.token_to_id("no such token"), std::nullopt);
  EXPECT_EQ(tokenizer.decode(std::vector<int64_t>{-1, INT64_MAX}), "");
}

TEST(Tokenizer, ServesManyThreads) {
  const Tokenizer tokenizer = load("qwen");
  const auto text = fixture("expected")["texts"].back().get<std::string>();
  const std::vector<int64_t> ids = tokenizer.encode(text);
  std::vector<std::vector<int64_t>> results(4);
  std::vector<std::thread> threads;
  for (auto& result : results)
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) result = tokenizer.encode(text);
    });
  for (std::thread& thread : threads) thread.join();
  for (const auto& result : results) EXPECT_EQ(result, ids);
}

// Covers words of every length around the one from which a heap is used, and texts without words.
TEST(Tokenizer, LongTextsComeBack) {
  const Tokenizer tokenizer = load("gpt2");
  for (size_t length = 40; length < 60; ++length) {
    std::string word;
    for (size_t i = 0; i < length; ++i) word += "thesandofheaven"[i * i % 15];
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(word)), word);
  }
  for (const char* kind : {"gpt2", "llama"})
    for (const std::string piece : {" ", "<", "ab", "\u4e00"}) {
      std::string text;
      while (text.size() < 2'000'000) text += piece;
      const Tokenizer one = load(kind);
      EXPECT_EQ(one.decode(one.encode(text)), text);
    }
}

// Each message includes the place in the file.
TEST(Tokenizer, SaysAllThatIsNotSupported) {
  json file = fixture("qwen");
  file["normalizer"] = {{"type", "Sequence"}, {"normalizers", {{{"type", "NFC"}}, {{"type", "Unknown"}}}}};
  file["decoder"] = {{"type", "BPEDecoder"}};
  file["model"]["end_of_word_suffix"] = "</w>";
  file["model"]["dropout"] = 0.1;
  file["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "(?<=a)b";
  file["post_processor"] = {{"type", "Unheard"}};
  const std::string said = refusal(file);
  for (const char* part :
       {"normalizer.normalizers[1] Unknown", "decoder BPEDecoder", "model.end_of_word_suffix",
        "model.dropout", "pre_tokenizer.pretokenizers[0]: '(?<=' in a split expression",
        "post_processor Unheard"})
    EXPECT_NE(said.find(part), std::string::npos) << part << " is not in: " << said;
  file = fixture("gpt2");
  file["model"]["type"] = "Markov";
  EXPECT_NE(refusal(file).find("model Markov"), std::string::npos);
}

// A tokenizer saves how it last cut and padded texts of a training; transformers ignores both unless asked.
TEST(Tokenizer, PassesOverWhatTextsWereLastPreparedFor) {
  json file = fixture("qwen");
  file["truncation"] = {
      {"direction", "Right"}, {"max_length", 2}, {"strategy", "LongestFirst"}, {"stride", 0}};
  file["padding"] = {
      {"strategy", {{"Fixed", 64}}}, {"direction", "Right"}, {"pad_id", 900}, {"pad_token", "<|endoftext|>"}};
  const std::string text = "In the beginning was the word";
  EXPECT_EQ(Tokenizer::parse(file.dump()).encode(text), load("qwen").encode(text));
}

// SmolLM and StarCoder split digits: with `individual_digits` every digit is a word; else a number is a word without
// a space.
TEST(Tokenizer, CutsDigitsAsTokenizersDoes) {
  const auto words_of = [](bool individual, const std::string& text) {
    json file = fixture("gpt2");
    json level = file["pre_tokenizer"];
    level["add_prefix_space"] = false;
    file["pre_tokenizer"] = {
        {"type", "Sequence"},
        {"pretokenizers", {{{"type", "Digits"}, {"individual_digits", individual}}, level}}};
    // These merges would join what Digits separates.
    auto &vocab = file["model"]["vocab"], &merges = file["model"]["merges"];
    for (const char* token : {"12", "\u01201"})
      if (!vocab.contains(token)) vocab[token] = vocab.size();
    file["added_tokens"] = json::array();
    merges.insert(merges.begin(), {"1 2", "\u0120 1"});
    const Tokenizer tokenizer = Tokenizer::parse(file.dump());
    std::vector<std::string> words;
    for (const int64_t id : tokenizer.encode(text)) words.push_back(tokenizer.id_to_token(id).value());
    return words;
  };
  using Words = std::vector<std::string>;
  EXPECT_EQ(words_of(true, "12 12"), (Words{"1", "2", "\u0120", "1", "2"}));
  EXPECT_EQ(words_of(false, "12 12"), (Words{"12", "\u0120", "12"}));
}

// Each part of a Split that does not begin with a space gets one, as ByteLevel of `tokenizers` does.
TEST(Tokenizer, PutsASpaceBeforeWhatByteLevelGets) {
  json file = fixture("qwen");
  file["pre_tokenizer"]["pretokenizers"].back()["add_prefix_space"] = true;
  const Tokenizer with = Tokenizer::parse(file.dump()), without = load("qwen");
  EXPECT_EQ(with.encode("the word"), without.encode(" the word"));
  EXPECT_EQ(with.encode(" the"), without.encode(" the"));
  std::vector<int64_t> ids;
  file["pre_tokenizer"] = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  const Tokenizer uncut = Tokenizer::parse(file.dump());
  for (const char* piece : {" the", " 1", " 2"})
    for (const int64_t id : uncut.encode(piece)) ids.push_back(id);
  EXPECT_EQ(with.encode("the12"), ids);
}

// The tokens are those of transformers' generate(), and of config.json if generation_config.json names none.
TEST(ModelFiles, TokensThatEndAnAnswerAreThoseOfOneFile) {
  const Tokenizer tokenizer = load("gpt2");
  Model model;
  model.metadata["config.json"] = R"({"eos_token_id": 7})";
  EXPECT_EQ(end_tokens(model, tokenizer), (std::vector<int64_t>{7}));
  attach_file(model, "generation_config.json", R"({"temperature": 0.5})");
  EXPECT_EQ(end_tokens(model, tokenizer), (std::vector<int64_t>{7}));
  attach_file(model, "generation_config.json", R"({"eos_token_id": [3, 4]})");
  EXPECT_EQ(end_tokens(model, tokenizer), (std::vector<int64_t>{3, 4}));
}

TEST(Tokenizer, SaysWhatIsWrongWithAFile) {
  const auto said = [](const auto& change) {
    json file = fixture("llama");
    change(file);
    return refusal(file);
  };
  EXPECT_EQ(said([](json&) {}), "");
  EXPECT_EQ(said([](json& f) { f["model"]["vocab"]["a"] = -1; }),
            "the id of 'a' is not a number from 0 to 4194303");
  EXPECT_EQ(said([](json& f) {
              f["model"]["vocab"]["a"] = f["model"]["vocab"]["b"];
            }).find("two tokens of 'vocab'"),
            0u);
  EXPECT_EQ(said([](json& f) { f["model"]["merges"].push_back("nope nope"); }),
            "'nope' in 'merges' is not in 'vocab'");
  EXPECT_EQ(said([](json& f) { f["model"]["merges"][3] = 7; }),
            "row 3 of 'merges' is neither \"a b\" nor [\"a\", \"b\"]");
  EXPECT_EQ(said([](json& f) { f["added_tokens"][0]["id"] = 3; }),
            "the added token '<|begin_of_text|>' has the id 3, by its place it is 901");
  EXPECT_EQ(said([](json& f) { f["added_tokens"][0]["lstrip"] = "x"; }),
            "'lstrip' is neither true nor false");
  EXPECT_EQ(said([](json& f) {
              f["pre_tokenizer"]["pretokenizers"][0]["behavior"] = "Both";
            }).find("'pre_tokenizer.pretokenizers[0].behavior' is 'Both', expected Isolated"),
            0u);
  EXPECT_EQ(said([](json& f) {
              f["normalizer"] = {{"type", "Replace"}, {"pattern", "a"}, {"content", "b"}};
            }),
            "'normalizer.pattern' is neither {\"String\": ...} nor {\"Regex\": ...}");
  EXPECT_EQ(said([](json& f) { f.erase("model"); }), "it has no 'model': it is not a tokenizer.json");
  EXPECT_THROW(Tokenizer::parse("{"), Error);
  EXPECT_THROW(Tokenizer::parse(std::string(1000, '[')), Error);
  try {
    Tokenizer::load(kFolder);  // this folder has no tokenizer.json
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_NE(error.message().find("tokenizer/tokenizer.json'"), std::string::npos) << error.message();
  }
}

TEST(Tokenizer, DamagedFilesAreErrorsAtMost) {
  std::mt19937 random(1);
  for (const std::string& kind : kKinds) {
    const std::string file = fixture(kind).dump(-1, ' ', true);
    for (int i = 0; i < 150; ++i) {
      std::string damaged = file;
      for (int k = 0; k < 3; ++k) damaged[random() % file.size()] = "\"{}[],:0\\ntrue9-"[random() % 15];
      if (i % 3 == 0) damaged.resize(random() % file.size());
      try {
        Tokenizer::parse(damaged).encode("In the beginning <|endoftext|> 1611");
      } catch (const Error&) {
      }
    }
  }
}

TEST(Tokenizer, DamagedFilesOfOtherModelsAreErrorsAtMost) {
  std::mt19937 random(2);
  const json cases = fixture("models");
  for (int i = 0; i < 600; ++i) {
    const json& row = cases[random() % cases.size()];
    std::string damaged = row["file"].dump(-1, ' ', true);
    for (int k = 0; k < 3; ++k) damaged[random() % damaged.size()] = "\"{}[],:0\\ntrue9-"[random() % 15];
    try {
      const Tokenizer tokenizer = Tokenizer::parse(damaged);
      const std::string text = row["texts"].empty() ? "" : row["texts"][random() % row["texts"].size()];
      tokenizer.decode(tokenizer.encode(text));
    } catch (const Error&) {
    }
  }
}

std::string split(const std::string& expression, const std::string& text) {
  MatchState state;
  std::string words;
  try {
    SplitExpression(expression).split(text, state, [&](std::string_view word, bool) {
      words += std::string(word) + "|";
    });
  } catch (const Error& error) {
    return error.message();
  }
  return words;
}

TEST(SplitExpression, MeansWhatItMeansInOniguruma) {
  EXPECT_EQ(split(R"(\s+)", "a \t\u3000b\u180ec"), "a| \t\u3000|b\u180ec|");
  EXPECT_EQ(split(R"([\s-]+)", "a - b"), "a| - |b|");
  EXPECT_EQ(split(R"(\d{2}|[^\p{Lu}])", "A12b"), "A|12|b|");
  EXPECT_EQ(split(R"((?i:'s))", "x'\u017fy"), "x|'\u017f|y|");
  EXPECT_EQ(split(R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+)", "a-b]c"), "a|-b|]c|");
}

TEST(SplitExpression, RefusesWhatIsReadInTwoWays) {
  for (const char* expression :
       {R"(\h)",  R"(\w)",     R"(\b)",   R"(\Q)", "^a",      "a$",    ".",       "[[:alpha:]]",
        "[a&&b]", R"([a-\s])", "(?<n>a)", "(?s)a", "(*UTF)a", "a{,3}", "a{2}+",   R"(\p{Greek})",
        R"(\1)",  "a*",        "",        "(",     "[a",      "\\",    "(?i:ss)", R"(\p{L)"})
    EXPECT_NE(split(expression, "a").find("split expression"), std::string::npos) << expression;
}

// Matches extend beyond the first search window, whose end cuts characters of several bytes.
TEST(SplitExpression, FindsLongMatchesAndFarOnes) {
  for (const std::string letter : {"a", "\u00e9", "\u4e00", "\U00010400"}) {
    for (size_t count : {15, 16, 17, 63, 64, 65, 500}) {
      std::string word;
      for (size_t i = 0; i < count; ++i) word += letter;
      EXPECT_EQ(split(R"(\p{L}+)", word + " " + word), word + "| |" + word + "|") << count;
      EXPECT_EQ(split(R"(\d+)", word + "12" + word), word + "|12|" + word + "|") << count;
      EXPECT_EQ(split(R"(\s+(?!\S)|\s)", std::string(count, ' ') + "x"),
                (count > 1 ? std::string(count - 1, ' ') + "| |" : " |") + "x|");
    }
  }
}

}  // namespace
}  // namespace genesis::text
