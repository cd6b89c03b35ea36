// Tests that models, normalizers, pre-tokenizers, post-processors, decoders, added tokens and flags in many combinations give
// the ids and texts of the library `tokenizers` (pipelines.json, made by make_pipelines.py, and models.json, by make_models.py).
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "models/tokenizer/patterns.h"
#include "models/tokenizer/pre_tokenizer.h"
#include "models/tokenizer/tokenizer.h"
#include "schema/core/error.h"
#include "schema/file/io/read_file.h"
#include "schema/file/json_text.h"

namespace genesis::text {
namespace {

using nlohmann::json;

const std::string kFolder = GENESIS_SOURCE_ROOT "/tests/models/tokenizer/";

json fixture(const std::string& name) { return parse_json_text(read_whole_file(kFolder + name)); }

// Returns the tokenizer file of a case. Its tokens may follow those of `base`.
json file_of(const json& row, const json& base) {
  json file = row["file"];
  json& model = file["model"];
  const bool is_more = model.contains("more");
  json vocabulary = is_more ? base["model"]["vocab"] : json::object();
  for (const json& token : model[is_more ? "more" : "tokens"])
    vocabulary[token.get<std::string>()] = vocabulary.size();
  if (is_more) model["merges"] = base["model"]["merges"];
  model["vocab"] = vocabulary;
  return file;
}

std::string streamed(const Tokenizer& tokenizer, const std::vector<int64_t>& ids, bool skip_special_tokens) {
  StreamDecoder stream(tokenizer, skip_special_tokens);
  std::string text;
  for (const int64_t id : ids) text += stream.add(id);
  return text + stream.finish();
}

// The fixture has null if `tokenizers` refuses a text, because the unknown token is not in the vocabulary.
void check_ids(const Tokenizer& tokenizer, const std::string& text, bool special, const json& expected) {
  if (expected.is_null())
    EXPECT_THROW(tokenizer.encode(text, special), Error) << text;
  else
    EXPECT_EQ(tokenizer.encode(text, special), expected.get<std::vector<int64_t>>()) << json(text);
}

void check_case(const json& row, const json& file) {
  const Tokenizer tokenizer = Tokenizer::parse(file.dump());
  for (size_t k = 0; k < row["texts"].size(); ++k) {
    check_ids(tokenizer, row["texts"][k].get<std::string>(), true, row["ids"][k]);
    check_ids(tokenizer, row["texts"][k].get<std::string>(), false, row["plain"][k]);
  }
  for (size_t k = 0; k < row["decode"].size(); ++k)
    for (const bool skip : {false, true}) {
      const json& decoded = row[skip ? "decoded_without_special" : "decoded"][k];
      const auto ids = row["decode"][k].get<std::vector<int64_t>>();
      EXPECT_EQ(tokenizer.decode(ids, skip), decoded.get<std::string>()) << json(ids);
      EXPECT_EQ(streamed(tokenizer, ids, skip), decoded.get<std::string>()) << json(ids);
    }
}

TEST(Pipelines, GiveWhatTokenizersGives) {
  const json cases = fixture("pipelines.json"), base = fixture("gpt2.json");
  ASSERT_GE(cases.size(), 50u);
  for (size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE("case " + std::to_string(i) + ": " + cases[i]["file"].dump().substr(0, 2000));
    check_case(cases[i], file_of(cases[i], base));
  }
}

TEST(Pipelines, OfOtherModelsGiveWhatTokenizersGives) {
  const json cases = fixture("models.json");
  ASSERT_GE(cases.size(), 50u);
  for (size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE("case " + std::to_string(i) + ": " + cases[i]["file"].dump().substr(0, 2000));
    check_case(cases[i], cases[i]["file"]);
  }
}

std::string words_of(const std::vector<PreTokenizerStep>& steps, std::string_view text) {
  MatchState state;
  std::string words;
  PreTokenizer(steps).for_each_word(text, state,
                                    [&](std::string_view word) { words += std::string(word) + "|"; });
  return words;
}

// A description as a struct gives the same as its JSON.
TEST(Pipelines, DescriptionsAreWhatTheirJsonIs) {
  json base = fixture("gpt2.json");
  for (const SplitBehavior behavior :
       {SplitBehavior::kIsolated, SplitBehavior::kRemoved, SplitBehavior::kContiguous,
        SplitBehavior::kMergedWithNext, SplitBehavior::kMergedWithPrevious}) {
    const std::vector<PreTokenizerStep> steps = {
        punctuation_step(behavior),
        digits_step(true),
        split_step("[aeiou]+"),
        {.kind = PreTokenizerStep::Kind::kLiteral, .pattern = "th", .behavior = behavior, .invert = true},
        byte_level_step(true, true)};
    base["pre_tokenizer"] = json::parse(pre_tokenizer_json(steps).dump());
    const Tokenizer tokenizer = Tokenizer::parse(base.dump());
    const std::string text = "In the (very) beginning, 1611!!";
    std::string words;
    for (const int64_t id : tokenizer.encode(text)) words += tokenizer.decode(std::vector{id});
    std::string expected = words_of(steps, text);
    std::erase(expected, '|');
    EXPECT_EQ(words, expected);
  }
}

TEST(Pipelines, KnownPatternsCutNumbersTheirWay) {
  const auto words = [](const char* name) { return words_of(pattern_named(name).steps, "in 1611 AD"); };
  EXPECT_EQ(words("gpt2"), "in| 1611| AD|");
  EXPECT_EQ(words("smollm"), "in| |1|6|1|1| AD|");
  EXPECT_EQ(words("qwen2"), "in| |1|6|1|1| AD|");
  EXPECT_EQ(words("llama3"), "in| |161|1| AD|");
}

}  // namespace
}  // namespace genesis::text
