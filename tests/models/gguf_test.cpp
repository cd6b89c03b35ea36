// Tests that GGUF files, which the package gguf wrote from the checkpoints in hugging_face/ (gguf/make_gguf.py), give
// the same models as those checkpoints.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <random>

#include "executor/state_dict.h"
#include "models/chat/generation_config.h"
#include "models/formats/gguf/import.h"
#include "models/formats/hugging_face/export.h"
#include "models/formats/hugging_face/import.h"
#include "schema/file/attached_files.h"
#include "schema/file/json_text.h"
#include "tests/op_harness.h"
#include "tests/schema/file_models.h"
#include "tests/schema/gguf_bytes.h"

namespace genesis {
namespace {

namespace fs = std::filesystem;
using models::gguf::import_model;
using nlohmann::json;
using testing::expect_error;
using testing::GgufBytes;

fs::path tests() { return fs::path(GENESIS_SOURCE_ROOT) / "tests/models"; }

void expect_same(const NamedTensors& a, const NamedTensors& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, tensor] : a) {
    ASSERT_TRUE(b.contains(name)) << name;
    ASSERT_EQ(tensor.type(), b.at(name).type()) << name;
    EXPECT_EQ(std::memcmp(tensor.data(), b.at(name).data(), static_cast<size_t>(tensor.bytes())), 0) << name;
  }
}

// The parameter is the names of file and checkpoint.
class GgufModel : public ::testing::TestWithParam<std::pair<const char*, const char*>> {
 protected:
  fs::path file() const { return tests() / "gguf" / (std::string(GetParam().first) + ".gguf"); }
  fs::path checkpoint() const { return tests() / "hugging_face" / GetParam().second; }
};

TEST_P(GgufModel, IsTheCheckpointItWasMadeOf) {
  const auto model = import_model(file()), same = models::hugging_face::import_model(checkpoint());
  EXPECT_EQ(model->metadata.at("architecture"), same->metadata.at("architecture"));
  EXPECT_EQ(parse_json_text(model->metadata.at("config")), [&] {
    json config = parse_json_text(same->metadata.at("config"));
    const bool implied = config.contains("head_dim") && config["head_dim"] == 0;
    if (implied)
      config["head_dim"] = config["hidden_size"].get<int>() / config["num_attention_heads"].get<int>();
    return config;
  }());
  expect_same(state_dict(*model), state_dict(*same));
}

TEST_P(GgufModel, GoesOutAsACheckpoint) {
  const testing::TemporaryFolder folder;
  const auto model = import_model(file());
  models::hugging_face::export_model(*model, folder / "out");
  expect_same(state_dict(*models::hugging_face::import_model(folder / "out")), state_dict(*model));
}

INSTANTIATE_TEST_SUITE_P(Models, GgufModel,
                         ::testing::Values(std::pair("gpt2", "gpt2"), std::pair("llama", "llama_bf16"),
                                           std::pair("qwen2", "qwen2_tied"), std::pair("qwen3", "qwen3")),
                         [](const auto& info) { return std::string(info.param.first); });

class GgufImport : public ::testing::Test {
 protected:
  static constexpr int kFacts = 8;
  GgufBytes start(uint64_t tensors, uint64_t more_facts = 0, uint32_t blocks = 1,
                  const std::string& architecture = "llama") const {
    GgufBytes g;
    g.start(tensors, kFacts + more_facts).fact("general.architecture", architecture);
    const auto size = [&](const char* name, uint32_t value) {
      g.fact<uint32_t>(architecture + "." + name, 4, value);
    };
    size("context_length", 100'000), size("embedding_length", 32), size("block_count", blocks);
    size("feed_forward_length", 64), size("attention.head_count", 4), size("attention.head_count_kv", 2);
    return g.fact<float>(architecture + ".attention.layer_norm_rms_epsilon", 6, 1e-5f), g;
  }
  fs::path write(const std::string& bytes) const {
    testing::write_bytes(folder_ / "m.gguf", bytes);
    return folder_ / "m.gguf";
  }
  void refused(const std::string& bytes, const std::vector<std::string>& parts) const {
    const fs::path path = write(bytes);
    expect_error([&] { import_model(path); }, parts);
  }

  const testing::TemporaryFolder folder_;
};

// Returns a Llama of one block, whose matrices have the blocks that `next_block` returns, and whose norms are ones.
std::string llama_of(GgufBytes g, uint32_t type, const std::function<std::string()>& next_block,
                     const std::string& first = "", const std::string& norm = {"\x00\x00\x80\x3f", 4}) {
  const std::pair<const char*, std::vector<uint64_t>> matrices[] = {
      {"token_embd.weight", {32, 61}},        {"blk.0.attn_q.weight", {32, 32}},
      {"blk.0.attn_k.weight", {32, 16}},      {"blk.0.attn_v.weight", {32, 16}},
      {"blk.0.attn_output.weight", {32, 32}}, {"blk.0.ffn_gate.weight", {32, 64}},
      {"blk.0.ffn_up.weight", {32, 64}},      {"blk.0.ffn_down.weight", {64, 32}}};
  std::string data = first;
  const auto align = [&] { data.resize((data.size() + 31) / 32 * 32); };
  for (const auto& [name, sizes] : matrices) {
    align();
    g.tensor(name, sizes, type, data.size());
    for (uint64_t i = 0; i < sizes[0] / 32 * sizes[1]; ++i) data += next_block();
  }
  for (const char* name : {"output_norm.weight", "blk.0.attn_norm.weight", "blk.0.ffn_norm.weight"}) {
    align();
    g.tensor(name, {32}, 0, data.size());
    for (int i = 0; i < 32; ++i) data += norm;
  }
  return g.with_data(data);
}

// The same with matrices in Q8_0, whose blocks are all equal, with the scale 0.5.
std::string quantized(GgufBytes g, const std::string& first = "", const std::string& scale = {"\x00\x38", 2},
                      const std::string& norm = {"\x00\x00\x80\x3f", 4}) {
  std::string block = scale;
  for (int i = 0; i < 32; ++i) block += static_cast<char>(i - 16);
  return llama_of(
      std::move(g), 8, [&] { return block; }, first, norm);
}

// Counts the states of a model by the format that they are kept in.
std::map<std::string, int> formats_in(const Model& model) {
  std::map<std::string, int> formats;
  for (const State& state : model.states())
    if (state.encoded) ++formats[std::string(state.encoded.format->name)];
  return formats;
}

// Matrices whose blocks a format of the library has keep them, also those whose rows are put in another order.
TEST_F(GgufImport, KeepsTheBlocksOfQ8AndQ4) {
  using models::hugging_face::Quantized;
  std::minstd_rand random(1);
  for (const auto& [type, quants, format] :
       {std::tuple(8u, 32, "q8"), std::tuple(2u, 16, "q4"), std::tuple(3u, 18, "")}) {
    const fs::path path = write(llama_of(start(11), type, [&, quants = quants] {
      std::string block = {static_cast<char>(random() % 256), static_cast<char>(0x20 + random() % 8)};
      for (int i = 0; i < quants; ++i) block += static_cast<char>(1 + random() % 127);
      return block;
    }));
    for (const char* dtype : {"bf16", "f16", "f32"}) {
      const auto kept = import_model(path, {{"dtype", dtype}});
      const auto widened = import_model(path, {{"dtype", dtype}}, nullptr, false, {}, Quantized::kWidened);
      expect_same(state_dict(*kept), state_dict(*widened));
      EXPECT_EQ(formats_in(*kept),
                *format ? (std::map<std::string, int>{{format, 8}}) : formats_in(*widened));
      EXPECT_TRUE(formats_in(*widened).empty());
    }
  }
}

// The quants of q8 lie in [-127, 127].
TEST_F(GgufImport, DoesNotKeepAQuantBeyondTheRangeOfQ8) {
  int blocks = 0;
  const auto model = import_model(write(llama_of(start(11), 8, [&] {
    return std::string("\x00\x38", 2) + std::string(31, '\1') + (blocks++ == 3 ? '\x80' : '\x7f');
  })));
  EXPECT_EQ(formats_in(*model), (std::map<std::string, int>{{"q8", 7}}));
  EXPECT_EQ(state_dict(*model).at("model.embed_tokens.weight").to_doubles()[4 * 32 - 1], -64);
}

TEST_F(GgufImport, MakesQuantizedWeightsRealNumbers) {
  const fs::path path = write(quantized(start(11)));
  const auto model = import_model(path);
  const Tensor embedding = state_dict(*model).at("model.embed_tokens.weight");
  EXPECT_EQ(embedding.type(), (TensorType{DType::bf16, {61, 32}}));
  EXPECT_EQ(embedding.to_doubles()[33], -7.5);
  EXPECT_EQ(state_dict(*import_model(path, {{"dtype", "f32"}})).at("model.embed_tokens.weight").type().dtype,
            DType::f32);
  const json config = parse_json_text(model->metadata.at("config"));
  EXPECT_EQ(config["max_position_embeddings"], 100'000);
  EXPECT_EQ(config["cache_positions"], 4096);
  EXPECT_EQ(config["tie_word_embeddings"], true);
  EXPECT_EQ(parse_json_text(model->metadata.at("config.json"))["initializer_range"], 0.02);
  EXPECT_EQ(parse_json_text(model->metadata.at("config.json"))["max_position_embeddings"], 100'000);
}

TEST_F(GgufImport, RefusesWeightsBeyondTheRangeOfF16) {
  const auto import_as = [](const fs::path& path, const char* dtype) {
    return import_model(path, {{"dtype", dtype}});
  };
  const auto refused_as_f16 = [&](const std::string& bytes, const std::string& tensor,
                                  const std::string& number) {
    const fs::path path = write(bytes);
    expect_error([&] { import_as(path, "f16"); },
                 {tensor, number + " is beyond the range of f16", "bf16 or f32"});
    import_as(path, "bf16");
    import_as(path, "f32");
  };
  import_as(write(quantized(start(11))), "f16");
  const std::string large = {"\x00\x70", 2}, million = {"\x00\x24\x74\x49", 4};
  refused_as_f16(quantized(start(11), "", large), "blk.0.", "-131072");
  refused_as_f16(quantized(start(11), "", {"\x00\x38", 2}, million), "norm.weight", "1000000");
}

TEST_F(GgufImport, KeepsTheTokensThatEndAText) {
  GgufBytes g = start(11, 2);
  g.fact<uint32_t>("tokenizer.ggml.eos_token_id", 4, 7).fact<uint32_t>("tokenizer.ggml.eot_token_id", 4, 9);
  const auto model = import_model(write(quantized(g)));
  EXPECT_EQ(parse_json_text(model->metadata.at("config.json"))["eos_token_id"], (json{7, 9}));
}

json config_of(const Model& model) { return parse_json_text(model.metadata.at("config")); }

// llama.cpp has no metadata for the layers that do not rotate.
TEST_F(GgufImport, ReadsFilesOfSmolLm3) {
  const auto model = import_model(write(quantized(start(11, 0, 1, "smollm3"))));
  expect_same(state_dict(*model), state_dict(*import_model(write(quantized(start(11))))));
  EXPECT_EQ(model->metadata.at("architecture"), "smollm3");
  EXPECT_EQ(config_of(*model)["no_rope_layer_interval"], 4);
  EXPECT_EQ(parse_json_text(model->metadata.at("config.json"))["model_type"], "smollm3");
}

TEST_F(GgufImport, ReadsScaledRotations) {
  GgufBytes g = start(11, 3);
  g.fact("llama.rope.scaling.type", "yarn").fact<float>("llama.rope.scaling.factor", 6, 4);
  g.fact<uint32_t>("llama.rope.scaling.original_context_length", 4, 500);
  json config = config_of(*import_model(write(quantized(g))));
  EXPECT_EQ(config["rope_scaling"], "yarn");
  EXPECT_EQ(config["rope_factor"], 4);
  EXPECT_EQ(config["rope_original_positions"], 500);
  EXPECT_NEAR(config["rope_attention_factor"].get<double>(), 0.1 * std::log(4) + 1, 1e-12);
  GgufBytes linear = start(11, 2);
  linear.fact("llama.rope.scaling.type", "linear").fact<float>("llama.rope.scaling.factor", 6, 2.5);
  config = config_of(*import_model(write(quantized(linear))));
  EXPECT_EQ(config["rope_scaling"], "linear");
  EXPECT_EQ(config["rope_factor"], 2.5);
}

// The divisors follow Llama 3.1's rule for a theta of 500,000 and heads of 8, computed by hand from the paper's
// formula: wavelengths of 6.3, 167, 4443 and 118,143 positions of 8192 with the factor 8.
TEST_F(GgufImport, ReadsTheDivisorsOfLlama3) {
  const double wave = 2 * M_PI * std::pow(5e5, 0.5), smooth = (8192 / wave - 1) / 3;
  const float middle = static_cast<float>(1 / ((1 - smooth) / 8 + smooth));
  const auto with = [&](float third) {
    GgufBytes g = start(12, 1);
    g.fact<float>("llama.rope.freq_base", 6, 5e5F).tensor("rope_freqs.weight", {4}, 0, 0);
    std::string first;
    for (const float divisor : {1.0F, 1.0F, third, 8.0F})
      first.append(reinterpret_cast<const char*>(&divisor), 4);
    return quantized(g, first);
  };
  const json config = config_of(*import_model(write(with(middle))));
  EXPECT_EQ(config["rope_scaling"], "llama3");
  EXPECT_EQ(config["rope_factor"], 8);
  EXPECT_EQ(config["rope_original_positions"], 8192);
  refused(with(middle * 1.01F), {"rope_freqs.weight"});
}

TEST_F(GgufImport, NamesEverythingThatIsNotSupported) {
  GgufBytes g = start(1, 2);
  g.fact("llama.rope.scaling.type", "longrope").fact<uint32_t>("llama.attention.sliding_window", 4, 5);
  refused(g.tensor("token_embd.weight", {32, 1}, 0, 0).with_data(std::string(128, '\0')),
          {"m.gguf", "rope.scaling.type is 'longrope', expected none", "sliding_window is 5"});
  refused(GgufBytes().start(0, 1).fact("general.architecture", "mamba").with_data(""),
          {"'mamba'", "token_embd.weight"});
  refused(GgufBytes().start(0, 1).fact("general.architecture", "qwen2").with_data(""),
          {"qwen2.context_length is not there", "qwen2.block_count is not there"});
  refused(
      start(1, 0, 1'000'000'000).tensor("token_embd.weight", {32, 1}, 0, 0).with_data(std::string(128, '\0')),
      {"block_count"});
  refused(start(2)
              .tensor("token_embd.weight", {32, 1}, 0, 0)
              .tensor("x", {256}, 15, 128)
              .with_data(std::string(128 + 292, '\0')),
          {"Q8_K (1 tensors)", "read are F32", "Q4_1, Q5_0", "IQ4_XS"});
}

// The second file has the last tensor. Without it, the first file would be incomplete.
TEST_F(GgufImport, ReadsTheOtherPartsOfAModel) {
  GgufBytes g = start(11, 2);
  g.fact<uint16_t>("split.no", 2, 0).fact<uint16_t>("split.count", 2, 2);
  const fs::path first = folder_ / "m-00001-of-00002.gguf", second = folder_ / "m-00002-of-00002.gguf";
  testing::write_bytes(first, quantized(g));
  GgufBytes head;
  head.start(1, 2).fact<uint16_t>("split.no", 2, 1).fact<uint16_t>("split.count", 2, 2);
  testing::write_bytes(
      second, head.tensor("output.weight", {32, 61}, 0, 0).with_data(std::string(4 * 32 * 61, '\0')));
  MappedFiles files;
  const auto model = import_model(first, {}, &files);
  EXPECT_EQ(files.size(), 2U);
  EXPECT_EQ(state_dict(*model).at("lm_head.weight").to_doubles()[5], 0);
  EXPECT_EQ(config_of(*model)["tie_word_embeddings"], false);
  fs::remove(second);
  expect_error([&] { import_model(first); }, {"part 2 of 2 is missing", "m-00002-of-00002.gguf"});
}

TEST_F(GgufImport, RefusesMetadataThatContradictTheTensors) {
  const auto with = [&](const char* name, uint32_t value) {
    GgufBytes g = start(11, 1);
    g.fact<uint32_t>(name, 4, value);
    return quantized(g);
  };
  import_model(write(with("llama.vocab_size", 61)));
  refused(with("llama.vocab_size", 62), {"llama.vocab_size is 62", "the rows of token_embd.weight, 61"});
  refused(with("llama.attention.value_length", 16), {"value_length is 16", "the size of a head, 8"});
  GgufBytes g = start(11, 1);
  g.text("tokenizer.ggml.tokens")
      .number<uint32_t>(9)
      .number<uint32_t>(8)
      .number<uint64_t>(2)
      .text("a")
      .text("b");
  refused(quantized(g), {"tokenizer.ggml.tokens are 2", "the 61 rows"});
}

TEST_F(GgufImport, RefusesHeadsThatDoNotDivide) {
  const auto with = [&](uint32_t heads, uint32_t kv_heads) {
    GgufBytes g;
    g.start(11, 8).fact("general.architecture", "llama");
    g.fact<uint32_t>("llama.context_length", 4, 64).fact<uint32_t>("llama.embedding_length", 4, 32);
    g.fact<uint32_t>("llama.block_count", 4, 1).fact<uint32_t>("llama.feed_forward_length", 4, 64);
    g.fact<uint32_t>("llama.attention.head_count", 4, heads)
        .fact<uint32_t>("llama.attention.head_count_kv", 4, kv_heads);
    return quantized((g.fact<float>("llama.attention.layer_norm_rms_epsilon", 6, 1e-5f), g));
  };
  refused(with(5, 5), {"head_count is 5", "a divisor of embedding_length, 32"});
  refused(with(4, 3), {"head_count_kv is 3", "a divisor of attention.head_count, 4"});
}

// The tokenizer is SentencePiece: the weights are imported, and the log says what is missing.
TEST_F(GgufImport, TakesTheWeightsBesideATokenizerItDoesNotKnow) {
  GgufBytes g = start(11, 1);
  g.fact("tokenizer.ggml.model", "llama");
  const auto model = import_model(write(quantized(g)));
  EXPECT_FALSE(attached_file(*model, "tokenizer.json"));
  EXPECT_EQ(state_dict(*model).size(), 11U);
}

TEST_F(GgufImport, LeavesOutSpecialTokensBeyondTheVocabulary) {
  GgufBytes g = start(11, 2);
  g.fact<uint32_t>("tokenizer.ggml.eos_token_id", 4, 61).fact<uint32_t>("tokenizer.ggml.eot_token_id", 4, 60);
  EXPECT_EQ(parse_json_text(import_model(write(quantized(g)))->metadata.at("config.json"))["eos_token_id"],
            60);
}

json sampling_of(const Model& model) {
  return parse_json_text(std::string(*attached_file(model, "generation_config.json")));
}

std::string origin_of(const Model& model) {
  return chat::sampling_origin(chat::ConfigFiles::of_model(model, "m.genesis")).value_or("nowhere");
}

TEST_F(GgufImport, SamplesAsLlamaCppDoesWhereTheFileSaysNothing) {
  const auto model = import_model(write(quantized(start(11))));
  EXPECT_EQ(origin_of(*model), "defaults of llama.cpp, as the model came without settings");
  json expected = {{"do_sample", true}, {"temperature", 0.8}, {"top_k", 40}, {"top_p", 0.95}};
  expected.update({{"min_p", 0.05}, {"repetition_penalty", 1.0}, {"_defaults_of", "llama.cpp"}});
  EXPECT_EQ(sampling_of(*model), expected);
}

TEST_F(GgufImport, SamplesAsTheFileSays) {
  GgufBytes g = start(11, 2);
  g.fact<float>("general.sampling.temp", 6, 0.6F).fact<int32_t>("general.sampling.top_k", 5, 20);
  const auto model = import_model(write(quantized(g)));
  EXPECT_NE(origin_of(*model).find("generation_config.json"), std::string::npos) << origin_of(*model);
  const json config = sampling_of(*model);
  EXPECT_EQ(config["temperature"], 0.6);
  EXPECT_EQ(config["top_k"], 20);
  EXPECT_EQ(config["top_p"], 0.95);
  EXPECT_FALSE(config.contains("_defaults_of"));
  GgufBytes odd = start(11, 2);
  odd.fact("general.sampling.temp", "warm").fact<int32_t>("general.sampling.top_k", 5, -1);
  const json kept = sampling_of(*import_model(write(quantized(odd))));
  EXPECT_EQ(kept["temperature"], 0.8);
  EXPECT_EQ(kept["top_k"], 0);
  GgufBytes greedy = start(11, 1);
  greedy.fact<float>("general.sampling.temp", 6, 0);
  EXPECT_EQ(sampling_of(*import_model(write(quantized(greedy))))["do_sample"], false);
}

TEST_F(GgufImport, NamesTensorsThatAreMissingUnexpectedOrMisshapen) {
  refused(start(2)
              .tensor("token_embd.weight", {32, 1}, 0, 0)
              .tensor("blk.0.extra.weight", {1}, 0, 128)
              .with_data(std::string(132, '\0')),
          {"model.norm.weight", "missing", "blk.0.extra.weight", "--ignore-extra 'blk.0.extra.weight'"});
  GgufBytes g = start(12);
  refused(quantized(g.tensor("blk.1.attn_norm.weight", {1}, 0, 1 << 20)),
          {"begins at 1048576 of the data, expected 0"});
}

// The extra tensor is of a type that is not read.
TEST_F(GgufImport, LeavesOutTensorsThatTheModelHasNoPlaceFor) {
  GgufBytes g = start(12);
  const std::string file = quantized(g.tensor("blk.0.extra.weight", {256}, 15, 0), std::string(292, '\0'));
  refused(file, {"Q8_K (1 tensors)"});
  const auto model = import_model(write(file), {}, nullptr, false, {"blk.0.extra.*"});
  expect_same(state_dict(*model), state_dict(*import_model(write(quantized(start(11))))));
  // A tensor of the model stays, whatever the pattern.
  expect_same(state_dict(*import_model(write(file), {}, nullptr, false, {"*"})), state_dict(*model));
}

}  // namespace
}  // namespace genesis
