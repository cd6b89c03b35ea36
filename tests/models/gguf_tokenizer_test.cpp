// Tests that the tokenizer in a GGUF file's metadata gives the ids of the tokenizer.json it was made from. The
// metadata is made here as llama.cpp's converter makes it: tokens by id, merges with a space, and a type for each
// token.
#include "models/formats/gguf/tokenizer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "models/formats/gguf/pre_tokenizers.h"
#include "models/tokenizer/patterns.h"
#include "models/tokenizer/tokenizer.h"
#include "models/tokenizer/unicode/characters_map.h"
#include "schema/file/io/read_file.h"
#include "schema/file/json_text.h"
#include "tests/op_harness.h"

namespace genesis {
namespace {

using models::gguf::tokenizer_config_json;
using models::gguf::tokenizer_json;
using nlohmann::json;
using testing::expect_error;

json fixture(const std::string& name) {
  return parse_json_text(
      read_whole_file(std::string(GENESIS_SOURCE_ROOT) + "/tests/models/tokenizer/" + name));
}

Gguf metadata_of(const json& tokenizer, const std::string& pre) {
  std::map<int64_t, std::pair<std::string, int64_t>> rows;  // token and type by id
  for (const auto& [token, id] : tokenizer["model"]["vocab"].items()) rows[id] = {token, 1};
  for (const json& added : tokenizer["added_tokens"])
    rows[added["id"]] = {added["content"], added["special"].get<bool>() ? 3 : 4};
  std::vector<std::string> tokens(static_cast<size_t>(rows.rbegin()->first + 1), "");
  std::vector<int64_t> types(tokens.size(), 5);
  for (size_t id = 0; id < tokens.size(); ++id) tokens[id] = "[PAD" + std::to_string(id) + "]";
  for (const auto& [id, row] : rows)
    std::tie(tokens[static_cast<size_t>(id)], types[static_cast<size_t>(id)]) = row;
  std::vector<std::string> merges;
  for (const json& merge : tokenizer["model"]["merges"])
    merges.push_back(merge.is_string() ? merge.get<std::string>()
                                       : merge[0].get<std::string>() + " " + merge[1].get<std::string>());
  Gguf gguf;
  gguf.metadata = {{"tokenizer.ggml.model", std::string("gpt2")},
                   {"tokenizer.ggml.pre", pre},
                   {"tokenizer.ggml.tokens", tokens},
                   {"tokenizer.ggml.token_type", types},
                   {"tokenizer.ggml.merges", merges}};
  return gguf;
}

TEST(GgufTokenizer, GivesTheIdsOfTheFileItCameFrom) {
  for (const auto& [name, pre] : {std::pair("gpt2.json", "gpt-2"), std::pair("llama.json", "llama-bpe"),
                                  std::pair("qwen.json", "qwen2")}) {
    const json original = fixture(name);
    const auto expected = text::Tokenizer::parse(original.dump());
    const auto ours = text::Tokenizer::parse(tokenizer_json(metadata_of(original, pre)));
    EXPECT_EQ(ours.vocab_size(), expected.vocab_size()) << name;
    for (const char* text :
         {"In the beginning", "don't  STOP 12345, e\xcc\x81 \xe4\xbd\xa0\xe5\xa5\xbd\n\n x",
          "<|im_start|>user<|endoftext|>", "\xff\xfe", ""})
      EXPECT_EQ(ours.encode(text, false), expected.encode(text, false)) << name << ": " << text;
  }
}

// Tokenizers trained with their special tokens have such ids. An unused id among them stays free.
TEST(GgufTokenizer, KeepsTheIdsOfSpecialTokensAheadOfTheOthers) {
  const json original = fixture("gpt2.json");
  json moved = original;
  for (auto& [token, id] : moved["model"]["vocab"].items()) id = id.get<int64_t>() + 3;
  moved["model"]["vocab"]["<|endoftext|>"] = 0;
  moved["model"]["vocab"]["<|im_end|>"] = 2;
  json second = moved["added_tokens"][0];
  moved["added_tokens"][0]["id"] = 0;
  second.update({{"id", 2}, {"content", "<|im_end|>"}});
  moved["added_tokens"].push_back(second);
  const Gguf gguf = metadata_of(moved, "gpt-2");
  EXPECT_EQ(std::get<std::vector<int64_t>>(gguf.metadata.at("tokenizer.ggml.token_type"))[1], 5);
  const auto ours = text::Tokenizer::parse(tokenizer_json(gguf));
  const auto expected = text::Tokenizer::parse(moved.dump());
  EXPECT_EQ(ours.vocab_size(), expected.vocab_size());
  const std::string text = "<|endoftext|>In the beginning<|im_end|>";
  EXPECT_EQ(ours.encode(text, false), expected.encode(text, false));
  EXPECT_EQ(ours.encode(text, false).front(), 0);
  EXPECT_EQ(ours.encode(text, false).back(), 2);
  EXPECT_EQ(ours.id_to_token(1), std::nullopt);
}

TEST(GgufTokenizer, PutsTheFirstTokenAheadWhereTheFileSaysSo) {
  Gguf gguf = metadata_of(fixture("llama.json"), "llama-bpe");
  const auto& tokens = std::get<std::vector<std::string>>(gguf.metadata.at("tokenizer.ggml.tokens"));
  const auto last = static_cast<int64_t>(tokens.size()) - 1;
  gguf.metadata["tokenizer.ggml.bos_token_id"] = last;
  gguf.metadata["tokenizer.ggml.add_bos_token"] = true;
  EXPECT_EQ(text::Tokenizer::parse(tokenizer_json(gguf)).encode("a").front(), last);
  gguf.metadata["tokenizer.ggml.eos_token_id"] = last - 1;
  gguf.metadata["tokenizer.ggml.add_eos_token"] = true;
  EXPECT_EQ(text::Tokenizer::parse(tokenizer_json(gguf)).encode("a").back(), last - 1);
  gguf.metadata.erase("tokenizer.ggml.eos_token_id");
  gguf.metadata["tokenizer.chat_template"] = std::string("{{ messages }}");
  EXPECT_EQ(parse_json_text(tokenizer_config_json(gguf)),
            (json{{"chat_template", "{{ messages }}"}, {"bos_token", tokens.back()}}));
}

// llama.cpp treats such a file in the same way: converters wrote the key only later.
TEST(GgufTokenizer, PutsTheFirstTokenOfLlama3AheadWhereTheFileSaysNothing) {
  for (const auto& [name, pre, expected] :
       {std::tuple("llama.json", "llama-bpe", true), std::tuple("llama.json", "llama-v3", true),
        std::tuple("qwen.json", "qwen2", false), std::tuple("gpt2.json", "gpt-2", false)}) {
    Gguf gguf = metadata_of(fixture(name), pre);
    const auto& tokens = std::get<std::vector<std::string>>(gguf.metadata.at("tokenizer.ggml.tokens"));
    const auto last = static_cast<int64_t>(tokens.size()) - 1;
    gguf.metadata["tokenizer.ggml.bos_token_id"] = last;
    EXPECT_EQ(text::Tokenizer::parse(tokenizer_json(gguf)).encode("a").front() == last, expected) << pre;
    gguf.metadata["tokenizer.ggml.add_bos_token"] = false;
    EXPECT_NE(text::Tokenizer::parse(tokenizer_json(gguf)).encode("a").front(), last) << pre;
  }
}

TEST(GgufTokenizer, CutsWordsByTheArchitectureWhereTheFileSaysNothing) {
  const std::string text = "don't  STOP 12345, x\n\n y";
  for (const auto& [name, pre, architecture] :
       {std::tuple("llama.json", "llama-bpe", "llama"), std::tuple("qwen.json", "qwen2", "qwen2"),
        std::tuple("qwen.json", "deepseek-r1-qwen", "qwen3"), std::tuple("gpt2.json", "gpt-2", "gpt2")}) {
    Gguf gguf = metadata_of(fixture(name), pre);
    const std::string expected = tokenizer_json(gguf);
    gguf.metadata.erase("tokenizer.ggml.pre");
    gguf.metadata["general.architecture"] = std::string(architecture);
    EXPECT_EQ(tokenizer_json(gguf), expected) << architecture;
    EXPECT_EQ(text::Tokenizer::parse(expected).encode(text, false),
              text::Tokenizer::parse(fixture(name).dump()).encode(text, false));
  }
}

// tests/models/gguf/make_tokenizers.py makes the references with the pre-tokenizers of the package tokenizers.
TEST(GgufTokenizer, CutsWordsAsTheModelsOfEachKindDo) {
  const json golden = parse_json_text(
      read_whole_file(std::string(GENESIS_SOURCE_ROOT) + "/tests/models/gguf/tokenizers.json"));
  Gguf gguf;
  gguf.metadata = {{"tokenizer.ggml.model", std::string("gpt2")},
                   {"tokenizer.ggml.tokens", golden["tokens"].get<std::vector<std::string>>()},
                   {"tokenizer.ggml.merges", golden["merges"].get<std::vector<std::string>>()}};
  for (const auto& [pre, ids] : golden["ids"].items()) {
    gguf.metadata["tokenizer.ggml.pre"] = pre;
    const auto tokenizer = text::Tokenizer::parse(tokenizer_json(gguf));
    EXPECT_EQ(tokenizer.encode(golden["text"].get<std::string>(), false), ids.get<std::vector<int64_t>>())
        << pre;
  }
}

TEST(GgufTokenizer, EveryKindThatIsNamedCanBeRead) {
  Gguf gguf = metadata_of(fixture("gpt2.json"), "gpt-2");
  std::set<std::string> seen;
  for (const std::string& pre : models::gguf::pre_tokenizer_names()) {
    const models::gguf::PreTokenizer& found = *models::gguf::find_pre_tokenizer(pre);
    if (!seen.insert(text::pre_tokenizer_json(found.pattern.steps).dump()).second) continue;
    gguf.metadata["tokenizer.ggml.pre"] = pre;
    const auto tokenizer = text::Tokenizer::parse(tokenizer_json(gguf));
    const std::string text = "Hello, World 12345!\n  \xe4\xbd\xa0";
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text, false)), text) << pre;
  }
}

TEST(GgufTokenizer, OfOtherKindsIsRefused) {
  EXPECT_EQ(tokenizer_json({}), "");
  EXPECT_EQ(tokenizer_config_json({}), "");
  const auto refused = [](const char* name, const GgufValue& value, const std::vector<std::string>& parts) {
    Gguf gguf = metadata_of(fixture("gpt2.json"), "gpt-2");
    gguf.metadata["tokenizer.ggml.bos_token_id"] = int64_t{0};
    gguf.metadata["tokenizer.ggml.add_bos_token"] = true;
    gguf.metadata[name] = value;
    expect_error([&] { tokenizer_json(gguf); }, parts);
  };
  refused("tokenizer.ggml.model", std::string("rwkv"), {"'rwkv'", "expected gpt2, llama, t5 or bert"});
  refused("tokenizer.ggml.pre", std::string("nobody"), {"'nobody'", "llama-bpe", "qwen2", "smollm"});
  refused("tokenizer.ggml.tokens", std::vector<std::string>{"a"}, {"1 tokens and types of"});
  refused("tokenizer.ggml.tokens", int64_t{3}, {"tokenizer.ggml.tokens", "another kind"});
  refused("tokenizer.ggml.merges", std::vector<std::string>{"ab"}, {"two tokens with a space"});
  refused("tokenizer.ggml.bos_token_id", int64_t{1} << 40, {"bos_token_id"});
}

// Returns the file of a family in models.json, which make_models.py makes.
json family(const std::string& name) {
  for (const json& row : fixture("models.json"))
    if (row.value("family", "") == name) return row;
  throw std::runtime_error("no family " + name);
}

// Converts a token of BERT as llama.cpp's converter does: tokens that begin a word get a space in front.
std::string phantom(const std::string& token) {
  if (token.starts_with("[") && token.ends_with("]")) return token;
  return token.starts_with("##") ? token.substr(2) : "\u2581" + token;
}

// Returns the metadata that llama.cpp's converter writes for a family with pieces: `kind` is llama, t5 or bert.
Gguf pieces_of(const json& file, const std::string& kind) {
  const json& vocab = file["model"]["vocab"];
  std::vector<std::string> tokens(vocab.size());
  std::vector<double> scores(vocab.size());
  std::vector<int64_t> types(vocab.size(), 1);
  for (size_t i = 0; i < vocab.size() && vocab.is_array(); ++i)
    std::tie(tokens[i], scores[i]) = std::pair(vocab[i][0].get<std::string>(), vocab[i][1].get<double>());
  const json ids = vocab.is_object() ? vocab : json::object();
  for (const auto& [token, id] : ids.items()) {
    tokens[id.get<size_t>()] = kind == "bert" ? phantom(token) : token;
    scores[id.get<size_t>()] = -id.get<double>();
  }
  for (size_t i = 0; i < tokens.size(); ++i)
    if (tokens[i].size() == 6 && tokens[i].starts_with("<0x")) types[i] = 6;
  for (const json& added : file["added_tokens"]) types[added["id"].get<size_t>()] = 3;
  types[0] = 2;
  Gguf gguf;
  gguf.metadata = {{"tokenizer.ggml.model", kind},
                   {"tokenizer.ggml.tokens", tokens},
                   {"tokenizer.ggml.scores", scores},
                   {"tokenizer.ggml.token_type", types},
                   {"tokenizer.ggml.bos_token_id", int64_t{1}},
                   {"tokenizer.ggml.unknown_token_id", int64_t{0}}};
  gguf.metadata[kind == "bert" ? "tokenizer.ggml.seperator_token_id" : "tokenizer.ggml.eos_token_id"] =
      int64_t{2};
  return gguf;
}

// Texts with more than `longest` bytes are left out.
void expect_ids(const json& row, const Gguf& gguf, size_t longest = 1 << 20) {
  const auto tokenizer = text::Tokenizer::parse(tokenizer_json(gguf));
  for (size_t i = 0; i < row["texts"].size(); ++i) {
    const auto text = row["texts"][i].get<std::string>();
    if (text.size() > longest) continue;
    EXPECT_EQ(json(tokenizer.encode(text)), row["ids"][i]) << row["texts"][i];
    EXPECT_EQ(json(tokenizer.encode(text, false)), row["plain"][i]) << row["texts"][i];
  }
}

TEST(GgufTokenizer, OfPiecesGivesTheIdsOfTheFileItCameFrom) {
  expect_ids(family("llama2-scores"), pieces_of(family("llama2-scores")["file"], "llama"));
  // llama.cpp does not limit the characters of a word.
  expect_ids(family("bert"), pieces_of(family("bert")["file"], "bert"), 100);
  const json row = family("t5");
  Gguf gguf = pieces_of(row["file"], "t5");
  const auto map = row["file"]["normalizer"]["normalizers"][0]["precompiled_charsmap"].get<std::string>();
  gguf.metadata["tokenizer.ggml.precompiled_charsmap"] = *text::base64_bytes(map);
  gguf.metadata["tokenizer.ggml.remove_extra_whitespaces"] = true;
  expect_ids(row, gguf);
}

TEST(GgufTokenizer, OfPiecesHasTheSettingsOfTheFile) {
  Gguf gguf = pieces_of(family("llama2-scores")["file"], "llama");
  const auto ids = [&](const char* text) {
    return text::Tokenizer::parse(tokenizer_json(gguf)).encode(text);
  };
  const auto with_space = ids("the");
  EXPECT_EQ(with_space.front(), 1);
  gguf.metadata["tokenizer.ggml.add_bos_token"] = false;
  gguf.metadata["tokenizer.ggml.add_eos_token"] = true;
  EXPECT_EQ(ids("the").back(), 2);
  EXPECT_EQ(ids("the").front(), with_space[1]);
  gguf.metadata["tokenizer.ggml.add_space_prefix"] = false;
  EXPECT_EQ(ids(" the").front(), with_space[1]);
  EXPECT_NE(ids("the").front(), with_space[1]);
  gguf.metadata["general.name"] = std::string("Phi-3 mini");
  EXPECT_EQ(ids("</s>  the"), ids("</s>the"));
}

TEST(GgufTokenizer, OfPiecesNamesWhatIsInvalid) {
  const Gguf gguf = pieces_of(family("llama2-scores")["file"], "llama");
  const auto refused = [&](const char* name, const GgufValue& value, const std::vector<std::string>& parts) {
    Gguf damaged = gguf;
    damaged.metadata[name] = value;
    expect_error([&] { tokenizer_json(damaged); }, parts);
  };
  const size_t count = std::get<std::vector<double>>(gguf.metadata.at("tokenizer.ggml.scores")).size();
  refused("tokenizer.ggml.scores", std::vector<double>{1}, {"tokenizer.ggml.scores", "has 1 values"});
  refused("tokenizer.ggml.scores", std::vector<double>(count, std::nan("")), {"token 0", "not finite"});
  refused("tokenizer.ggml.token_type", std::vector<int64_t>(count, 7), {"tokenizer.ggml.token_type", "7"});
  refused("tokenizer.ggml.tokens", std::vector<std::string>(count, "a"), {"'a' twice"});
  refused("tokenizer.ggml.bos_token_id", int64_t{1} << 40, {"tokenizer.ggml.bos_token_id"});
  refused("tokenizer.ggml.add_space_prefix", int64_t{1}, {"tokenizer.ggml.add_space_prefix", "another kind"});
}

}  // namespace
}  // namespace genesis
