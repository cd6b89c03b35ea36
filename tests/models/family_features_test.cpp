// Tests that every setting of a family that is special changes the logits of its checkpoint (hugging_face/make_checkpoints.py), and
// that families whose attention consists of basic ops read caches and packed texts as others do.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "executor/session.h"
#include "models/formats/hugging_face/adapter.h"
#include "models/formats/hugging_face/config.h"
#include "models/formats/hugging_face/import.h"
#include "models/formats/hugging_face/text_part.h"
#include "models/generation/generator.h"
#include "models/zoo.h"
#include "schema/file/io/read_file.h"
#include "schema/file/json_text.h"
#include "schema/file/other_formats/safetensors.h"
#include "tests/models/checkpoints.h"
#include "tests/op_harness.h"
#include "tests/schema/file_models.h"

namespace genesis {
namespace {

namespace fs = std::filesystem;
namespace hf = models::hugging_face;
using nlohmann::json;
using testing::checkpoints;
using testing::expect_error;
using testing::read_json;

std::vector<int64_t> long_tokens() { return read_json(checkpoints() / "expected.json")["long"]; }

Tensor row_of(const std::vector<int64_t>& tokens) {
  return Tensor::of<int64_t>({1, std::ssize(tokens)}, tokens);
}

// Returns the logits of the last token.
std::vector<double> last(const Tensor& logits) {
  const std::vector<double> all = logits.to_doubles();
  return {all.end() - 61, all.end()};
}

std::vector<double> logits_of(const std::string& checkpoint, const models::Settings& changes) {
  Session session(std::shared_ptr<const Model>(hf::import_model(checkpoints() / checkpoint, changes)),
                  {.threads = 2});
  return last(session.run("forward", {{"tokens", row_of(long_tokens())}}).at("logits"));
}

double difference(const std::vector<double>& a, const std::vector<double>& b) {
  double greatest = 0;
  for (size_t i = 0; i < a.size(); ++i) greatest = std::max(greatest, std::abs(a[i] - b[i]));
  return greatest;
}

struct Feature {
  const char* checkpoint;
  const char* setting;
  const char* other;  // its value without the feature, or another value
};
constexpr Feature kFeatures[] = {{"ministral", "layer_types", "full_attention,full_attention"},
                                 {"ministral3", "llama_4_scaling_beta", "0"},
                                 {"ministral3", "rope_factor", "2"},
                                 {"phi3", "partial_rotary_factor", "0.5"},
                                 {"phi3", "rope_long_factors", "1,1,1"},
                                 {"phi3", "rope_attention_factor", "1"},
                                 {"phi3", "sliding_window", "0"},
                                 {"olmo", "clip_qkv", "0"},
                                 {"olmo3", "rope_local_base_freq", "100"},
                                 {"olmo3", "rope_scaling", "none"},
                                 {"olmo3", "sliding_window", "6"},
                                 {"glm4", "partial_rotary_factor", "1"},
                                 {"exaone4", "layer_types", "full_attention,sliding_attention"},
                                 {"exaone4", "sliding_window", "4"},
                                 {"ernie4_5", "rope_theta", "50"},
                                 {"seed_oss", "rope_theta", "50"},
                                 {"gemma2", "attn_logit_softcapping", "0"},
                                 {"gemma2", "final_logit_softcapping", "0"},
                                 {"gemma2", "query_pre_attn_scalar", "8"},
                                 {"gemma2", "sliding_window", "4"},
                                 {"gemma3", "rope_local_base_freq", "100"},
                                 {"gemma3", "rope_scaling", "none"},
                                 {"gemma3", "query_pre_attn_scalar", "8"},
                                 {"gemma3", "final_logit_softcapping", "0"},
                                 {"gemma4", "final_logit_softcapping", "0"},
                                 {"gemma4", "rope_local_base_freq", "100"},
                                 {"gemma4", "rope_scaling", "none"},
                                 {"gemma4", "rope_proportion", "1"},
                                 {"gemma4", "sliding_window", "4"},
                                 {"gemma4_experts", "num_experts_per_tok", "1"},
                                 {"gemma4_experts", "rope_proportion", "0.5"},
                                 {"gemma4_experts", "rope_local_base_freq", "100"},
                                 {"gemma4_experts", "sliding_window", "4"},
                                 {"granite", "embedding_multiplier", "1"},
                                 {"granite", "residual_multiplier", "1"},
                                 {"granite", "attention_multiplier", "0.5"},
                                 {"granite", "logits_scaling", "1"},
                                 {"starcoder2", "sliding_window", "0"},
                                 {"stablelm", "partial_rotary_factor", "1"},
                                 {"stablelm_parallel", "partial_rotary_factor", "0.25"},
                                 {"cohere", "logit_scale", "1"},
                                 {"cohere2", "logit_scale", "1"},
                                 {"cohere2", "layer_types", "full_attention,sliding_attention"},
                                 {"lfm2", "rope_theta", "50"},
                                 {"qwen3_next", "norm_topk_prob", "false"},
                                 {"qwen3_next", "partial_rotary_factor", "1"},
                                 {"bamba", "partial_rotary_factor", "1"},
                                 {"granitemoehybrid", "embedding_multiplier", "1"},
                                 {"granitemoehybrid", "residual_multiplier", "1"},
                                 {"granitemoehybrid", "attention_multiplier", "0.5"},
                                 {"granitemoehybrid", "logits_scaling", "1"},
                                 {"granitemoehybrid", "num_experts_per_tok", "1"},
                                 {"granitemoehybrid", "time_step_greatest", "0.5"},
                                 {"granitemoehybrid", "time_step_least", "2"},
                                 {"granitemoehybrid_dense", "rotates", "false"},
                                 {"falcon_h1", "embedding_multiplier", "1"},
                                 {"falcon_h1", "lm_head_multiplier", "1"},
                                 {"falcon_h1", "key_multiplier", "1"},
                                 {"falcon_h1", "attention_in_multiplier", "1"},
                                 {"falcon_h1", "attention_out_multiplier", "1"},
                                 {"falcon_h1", "ssm_in_multiplier", "1"},
                                 {"falcon_h1", "ssm_out_multiplier", "1"},
                                 {"falcon_h1", "ssm_multipliers", "1,0.5,0.8,1.2,0.6"},
                                 {"falcon_h1", "ssm_multipliers", "1.5,1,0.8,1.2,0.6"},
                                 {"falcon_h1", "ssm_multipliers", "1.5,0.5,1,1.2,0.6"},
                                 {"falcon_h1", "ssm_multipliers", "1.5,0.5,0.8,1,0.6"},
                                 {"falcon_h1", "ssm_multipliers", "1.5,0.5,0.8,1.2,1"},
                                 {"falcon_h1", "mlp_multipliers", "1,0.5"},
                                 {"falcon_h1", "mlp_multipliers", "1.5,1"},
                                 {"falcon_h1_normed", "mamba_norm_before_gate", "false"},
                                 {"nemotron_h", "topk_group", "1"},
                                 {"nemotron_h", "routed_scaling_factor", "1"},
                                 {"nemotron_h", "norm_topk_prob", "false"},
                                 {"qwen3_5", "partial_rotary_factor", "1"},
                                 {"qwen3_5_moe", "num_experts_per_tok", "1"},
                                 {"qwen3_5_moe", "partial_rotary_factor", "1"},
                                 {"deepseek_v2", "topk_group", "1"},
                                 {"deepseek_v2", "routed_scaling_factor", "1"},
                                 {"deepseek_v2", "rope_mscale_all_dim", "0"},
                                 {"mixtral", "num_experts_per_tok", "1"},
                                 {"mamba2", "time_step_least", "2"},
                                 {"deepseek_v3", "topk_group", "1"},
                                 {"deepseek_v3", "routed_scaling_factor", "1"},
                                 {"deepseek_v3", "norm_topk_prob", "false"},
                                 {"qwen2_moe", "norm_topk_prob", "true"},
                                 {"qwen2_moe", "num_experts_per_tok", "1"},
                                 {"qwen3_moe", "norm_topk_prob", "false"},
                                 {"qwen3_moe", "num_experts_per_tok", "2"},
                                 {"olmoe", "norm_topk_prob", "true"},
                                 {"glm4_moe", "topk_group", "1"},
                                 {"glm4_moe", "routed_scaling_factor", "1"},
                                 {"glm4_moe", "norm_topk_prob", "false"},
                                 {"glm4_moe", "partial_rotary_factor", "1"},
                                 {"minimax_m2", "partial_rotary_factor", "0.25"},
                                 {"gpt_oss", "swiglu_alpha", "1"},
                                 {"gpt_oss", "swiglu_limit", "7"},
                                 {"gpt_oss", "rope_scaling", "none"},
                                 {"gpt_oss", "layer_types", "full_attention,sliding_attention"}};

TEST(FamilyFeatures, EachChangesTheLogits) {
  for (const auto& [checkpoint, setting, other] : kFeatures) {
    SCOPED_TRACE(std::string(checkpoint) + " " + setting);
    models::Settings changes = {{setting, other}};
    if (std::string_view(other) == "1" && setting == std::string("partial_rotary_factor"))
      changes["rope_scaling"] = "none";
    if (setting == std::string("partial_rotary_factor") && checkpoint == std::string("phi3"))
      changes.insert({{"rope_short_factors", "1,1.2"}, {"rope_long_factors", "1.5,3"}});
    EXPECT_GT(difference(logits_of(checkpoint, changes), logits_of(checkpoint, {})), 1e-4);
  }
}

// A text that is decoded beside others has the bits that it has alone, whatever experts these choose.
TEST(FamilyFeatures, RowsOfExpertsHaveTheBitsOfOneRow) {
  for (const char* name : {"mixtral", "qwen2_moe", "deepseek_v3"}) {
    SCOPED_TRACE(name);
    const std::shared_ptr<const Model> model = hf::import_model(checkpoints() / name, {{"dtype", "f32"}});
    const auto first_row = [&](int64_t rows) {
      Session session(model, {.threads = 2, .cache = CacheSize{rows, 64}});
      Tensor logits;
      for (int64_t at = 0; at < 4; ++at) {
        std::vector<int64_t> tokens;
        for (int64_t row = 0; row < rows; ++row) tokens.push_back((at * 7 + row * 13 + 5) % 61);
        const Tensor positions = Tensor::of<int64_t>({rows}, std::vector<int64_t>(tokens.size(), at));
        logits =
            session
                .run("decode", {{"tokens", Tensor::of<int64_t>({rows, 1}, tokens)}, {"position", positions}})
                .at("logits");
      }
      const std::vector<double> all = logits.to_doubles();
      return std::vector<double>(all.begin(), all.begin() + 61);
    };
    const std::vector<double> alone = first_row(1);
    for (const int64_t rows : {2, 20}) EXPECT_EQ(first_row(rows), alone) << rows;
  }
}

TEST(FamilyFeatures, UnknownEntriesStayErrors) {
  for (const auto& [checkpoint, setting, other] : kFeatures) {
    json config = read_json(checkpoints() / checkpoint / "config.json");
    config["attention_temperature"] = 0.5;
    expect_error([&] { hf::read_config(config, "config.json"); },
                 {"attention_temperature is 0.5, which is not known"});
  }
}

TEST(FamilyFeatures, ValuesThatNoTableHas) {
  const std::vector<std::tuple<const char*, const char*, json>> cases = {
      {"phi3", "lm_head_bias", true},
      {"olmo2", "attention_bias", true},
      {"gemma2", "use_bidirectional_attention", true},
      {"gemma2", "hidden_activation", "silu"},
      {"gemma3", "attn_logit_softcapping", 50.0},
      {"gemma4", "use_bidirectional_attention", "all"},
      {"gemma4", "num_kv_shared_layers", -1},
      {"gemma4", "per_layer_config", {{"0", {{"head_dim", 16}}}}},
      {"granite", "mlp_bias", true},
      {"stablelm", "qk_layernorm", true},
      {"cohere2", "rotary_pct", 0.5},
      {"starcoder2", "norm_type", "rms"},
      {"glm4", "hidden_act", "gelu"},
      {"exaone4", "sliding_window", nullptr}};
  for (const auto& [checkpoint, name, value] : cases) {
    json config = read_json(checkpoints() / checkpoint / "config.json");
    config[name] = value;
    expect_error([&] { hf::read_config(config, "config.json"); }, {name});
  }
  json config = read_json(checkpoints() / "phi3/config.json");
  config["rope_parameters"]["rope_type"] = "yarn";
  expect_error([&] { hf::read_config(config, "config.json"); }, {"rope_scaling.type: \"yarn\""});
}

// transformers' older names: gemma3 had rope_local_base_freq and sliding_window_pattern.
TEST(FamilyFeatures, OlderConfigurationsMeanTheSame) {
  const json now = read_json(checkpoints() / "gemma3/config.json");
  json then = now;
  then.erase("rope_parameters");
  then.erase("layer_types");
  then.erase("_sliding_window_pattern");
  then["sliding_window_pattern"] = 2;
  then["rope_theta"] = 100.0;
  then["rope_local_base_freq"] = 10.0;
  then["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 8.0}};
  EXPECT_EQ(hf::read_config(then, "config.json").settings, hf::read_config(now, "config.json").settings);
}

// Checkpoints of the hub say the heads of full layers by two numbers, and transformers 5.24 by layer.
TEST(FamilyFeatures, HeadsOfFullLayersHaveTwoForms) {
  const json now = read_json(checkpoints() / "gemma4_experts/config.json");
  json then = now;
  then.erase("per_layer_config");
  then["global_head_dim"] = 16;
  then["num_global_key_value_heads"] = 1;
  EXPECT_EQ(hf::read_config(then, "config.json").settings, hf::read_config(now, "config.json").settings);
}

// Features that no setting turns off without other shapes of weights show by their weights.
TEST(FamilyFeatures, WeightsOfGemma4ChangeTheLogits) {
  for (const auto& [checkpoint, state] :
       {std::pair("gemma4", "model.embed_tokens_per_layer.weight"),
        {"gemma4", "model.per_layer_model_projection.weight"},
        {"gemma4", "model.layers.1.layer_scalar"},
        {"gemma4", "model.layers.1.self_attn.k_proj.weight"},
        {"gemma4_experts", "model.layers.1.router.scale"},
        {"gemma4_experts", "model.layers.1.router.per_expert_scale"},
        {"gemma4_experts", "model.layers.1.pre_feedforward_layernorm_2.weight"}}) {
    SCOPED_TRACE(state);
    Session session(std::shared_ptr<const Model>(hf::import_model(checkpoints() / checkpoint)),
                    {.threads = 1});
    const auto logits = [&] {
      return last(session.run("forward", {{"tokens", row_of(long_tokens())}}).at("logits"));
    };
    const std::vector<double> before = logits();
    const std::vector<double> values = session.state(state).to_doubles();
    std::vector<float> others(values.begin(), values.end());
    for (size_t i = 0; i < others.size(); i += 2) others[i] += 1;
    session.set_state(state, Tensor::copy_of(session.state(state).type(), others.data()));
    EXPECT_GT(difference(logits(), before), 1e-4);
  }
}

TEST(TextParts, AreConfigurationsOfTheirOwn) {
  const json text = read_json(checkpoints() / "gemma3/config.json");
  EXPECT_EQ(hf::text_part(text), text);
  const json whole = {{"model_type", "gemma3"}, {"text_config", text}, {"vision_config", {{"depth", 1}}}};
  EXPECT_EQ(hf::read_config(hf::text_part(whole), "config.json").settings,
            hf::read_config(text, "config.json").settings);
  json flat = read_json(checkpoints() / "qwen2_tied/config.json");
  flat["model_type"] = "qwen2_5_vl";
  flat["vision_config"] = {{"depth", 1}};
  flat["rope_parameters"] = {{"type", "mrope"}, {"mrope_section", {1, 1, 0}}, {"rope_theta", 1e6}};
  const json part = hf::text_part(flat);
  EXPECT_EQ(part.at("model_type"), "qwen2");
  EXPECT_EQ(hf::read_config(part, "config.json").settings,
            hf::read_config(read_json(checkpoints() / "qwen2_tied/config.json"), "config.json").settings);
}

// The shapes of Kimi K2, which has its own code.
TEST(TextParts, OfKimiK2AreThoseOfDeepseekV3) {
  json kimi = read_json(checkpoints() / "deepseek_v3/config.json");
  const json same = hf::read_config(kimi, "config.json").settings;
  kimi["model_type"] = "kimi_k2";
  EXPECT_EQ(hf::read_config(hf::text_part(kimi), "config.json").settings, same);
  kimi.update({{"n_routed_experts", 384}, {"n_group", 1}, {"topk_group", 1}, {"num_experts_per_tok", 8}});
  const json of_k2 = hf::read_config(hf::text_part(kimi), "config.json").settings;
  EXPECT_EQ(of_k2.at("num_experts"), 384);
  EXPECT_EQ(of_k2.at("topk_group"), 1);
}

TEST(TextParts, HaveTheNamesOfTheLanguageModel) {
  EXPECT_EQ(hf::text_name("model.language_model.norm.weight"), "model.norm.weight");
  EXPECT_EQ(hf::text_name("language_model.model.norm.weight"), "model.norm.weight");
  EXPECT_EQ(hf::text_name("language_model.lm_head.weight"), "lm_head.weight");
  EXPECT_EQ(hf::text_name("model.norm.weight"), "model.norm.weight");
}

TEST(FusedWeights, OfOtherSizesAreRefused) {
  expect_error(
      [] {
        hf::import_model(checkpoints() / "phi3", {{"num_key_value_heads", "2"}});
      },
      {"qkv_proj.weight' is f32[32,16]", "48 rows"});
  const auto model = models::make_model("phi3", {{"hidden_size", "16"},
                                                 {"intermediate_size", "20"},
                                                 {"num_hidden_layers", "2"},
                                                 {"num_attention_heads", "2"},
                                                 {"num_key_value_heads", "1"},
                                                 {"vocab_size", "61"}});
  expect_error([&] { hf::load_adapter(*model, checkpoints() / "phi3_lora"); },
               {"layers.0.mlp.gate_up_proj.lora_B.weight is f32[48,2]", "40 rows", "mlp.gate_proj to "});
}

// A and B of PEFT, for the whole of q, k and v, go in and out as they are.
TEST(FusedWeights, HaveAdaptersThatTravelInPeftsFormat) {
  const testing::TemporaryFolder folder;
  const auto model = hf::import_model(checkpoints() / "phi3", {{"dtype", "f32"}});
  hf::load_adapter(*model, checkpoints() / "phi3_lora");
  hf::save_adapter(*model, folder / "adapter");
  const auto theirs = read_safetensors(checkpoints() / "phi3_lora/adapter_model.safetensors"),
             ours = read_safetensors(folder / "adapter/adapter_model.safetensors");
  ASSERT_EQ(ours.tensors.size(), theirs.tensors.size());
  for (const auto& [name, tensor] : theirs.tensors)
    EXPECT_EQ(ours.tensors.at(name).to_doubles(), tensor.to_doubles()) << name;
  const json config = read_json(folder / "adapter/adapter_config.json");
  EXPECT_EQ(config["r"], 2);
  EXPECT_NE(config["target_modules"].dump().find("self_attn.qkv_proj"), std::string::npos);
}

// Adapters of parts that have nothing in common become one of the sum of their ranks.
TEST(FusedWeights, JoinAdaptersOfTheirParts) {
  const testing::TemporaryFolder folder;
  const auto base = [] { return hf::import_model(checkpoints() / "phi3", {{"dtype", "f32"}}); };
  const std::shared_ptr<Model> model = base(), again = base();
  passes::add_lora(*model, {.rank = 2,
                            .alpha = 3,
                            .targets = {"q_proj", "v_proj", "gate_proj", "up_proj"},
                            .ranks = {{"model.layers.0.self_attn.v_proj", 3}}});
  for (int32_t i = 0; i < std::ssize(model->states()); ++i)
    if (const State& state = model->state(i); state.name.ends_with(passes::kLoraB))
      model->set_initial(i, Tensor::rand(state.type.shape.sizes(), static_cast<uint64_t>(i)));
  hf::save_adapter(*model, folder / "adapter");
  hf::load_adapter(*again, folder / "adapter");
  EXPECT_EQ(passes::lora_of(*again)->rank_of("model.layers.0.self_attn.k_proj"), 5);
  const auto logits = [](const std::shared_ptr<Model>& of) {
    Session session(of, {.threads = 1});
    return last(session.run("forward", {{"tokens", row_of({5, 1, 36, 0})}}).at("logits"));
  };
  const auto expected = logits(model), got = logits(again), plain = logits(base());
  double changed = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(got[i], expected[i], 1e-4 * (1 + std::abs(expected[i])));
    changed = std::max(changed, std::abs(plain[i] - expected[i]));
  }
  EXPECT_GT(changed, 0.1);
}

// Limited scores, short convolutions and recurrent states.
class OtherMixers : public ::testing::TestWithParam<const char*> {
 protected:
  static std::shared_ptr<const Model> model(const char* rows) {
    return hf::import_model(checkpoints() / GetParam(), {{"batch", rows}, {"cache_positions", "64"}});
  }
  static std::vector<double> alone(const std::vector<int64_t>& tokens) {
    Session session(model("1"), {.threads = 2});
    return last(session.run("forward", {{"tokens", row_of(tokens)}}).at("logits"));
  }
};

TEST_P(OtherMixers, RowsOfACacheAreAsTextsAlone) {
  const std::vector<int64_t> first = {5, 1, 36, 0, 7, 60, 22, 9, 11}, second = {3, 2, 50, 8};
  std::vector<int64_t> tokens = first;
  tokens.insert(tokens.end(), second.begin(), second.end());
  tokens.resize(18, 0);
  Session session(model("2"), {.threads = 2});
  const std::vector<double> both = session
                                       .run("prefill", {{"tokens", Tensor::of<int64_t>({2, 9}, tokens)},
                                                        {"position", Tensor::of<int64_t>({2}, {0, 0})},
                                                        {"length", Tensor::of<int64_t>({2}, {9, 4})}})
                                       .at("logits")
                                       .to_doubles();
  EXPECT_LT(difference({both.begin(), both.begin() + 61}, alone(first)), 1e-5);
  EXPECT_LT(difference({both.begin() + 61, both.end()}, alone(second)), 1e-5);
}

// A chunk goes on where the one before ended, and a text from any of its tokens; with recurrent states only from its last one.
TEST_P(OtherMixers, ChunksAreAsOneText) {
  const std::vector<int64_t> tokens = {5, 1, 36, 0, 7, 60, 22, 9, 11};
  Session session(model("1"), {.threads = 2});
  const auto read = [&](int64_t from, int64_t end) {
    const std::vector<int64_t> chunk(tokens.begin() + from, tokens.begin() + end);
    const NamedTensors inputs = {{"tokens", row_of(chunk)},
                                 {"position", Tensor::of<int64_t>({1}, {from})},
                                 {"length", Tensor::of<int64_t>({1}, {end - from})}};
    return last(session.run("prefill", inputs).at("logits"));
  };
  read(0, 1);
  read(1, 5);
  EXPECT_LT(difference(read(5, 9), alone(tokens)), 1e-5);
  EXPECT_LT(difference(read(8, 9), alone(tokens)), 1e-5);
  const std::string name = GetParam();
  if (name != "lfm2" && !name.starts_with("gemma")) return expect_error([&] { read(3, 9); }, {"index 1"});
  EXPECT_LT(difference(read(3, 9), alone(tokens)), 1e-5);
}

TEST(RecurrentStates, RefuseDrafts) {
  const std::shared_ptr<const Model> model = hf::import_model(checkpoints() / "qwen3_next");
  expect_error([&] { text::open_for_generation(model, {}, true); },
               {"drafts cannot be verified", "recurrent states"});
}

TEST_P(OtherMixers, PackedTextsDoNotSeeEachOther) {
  Session session(model("1"), {.threads = 2});
  const auto tokens = row_of({5, 1, 36, 3, 2, 50, 8}), targets = row_of({-100, -100, 3, -100, -100, -100, 9});
  const double packed = session
                            .run("loss_packed", {{"tokens", tokens},
                                                 {"targets", targets},
                                                 {"positions", row_of({0, 1, 2, 0, 1, 2, 3})},
                                                 {"segments", row_of({0, 0, 0, 1, 1, 1, 1})}})
                            .at("loss")
                            .item<double>();
  const auto loss = [&](const std::vector<int64_t>& text, int64_t target) {
    std::vector<int64_t> wanted(text.size(), -100);
    wanted.back() = target;
    return session.run("loss", {{"tokens", row_of(text)}, {"targets", row_of(wanted)}})
        .at("loss")
        .item<double>();
  };
  EXPECT_NEAR(packed, (loss({5, 1, 36}, 3) + loss({3, 2, 50, 8}, 9)) / 2, 1e-5);
}

// A prompt may have any length, and a text that is rewound goes on from any token: the tokens chosen are those that follow from
// the whole text.
TEST_P(OtherMixers, TextsAreReadAndRewoundAnywhere) {
  const std::vector<int64_t> all = long_tokens();
  Session whole(model("1"), {.threads = 2});
  for (const char* rows : {"1", "2"}) {
    Session session = text::open_for_generation(model(rows), {.threads = 2});
    text::Generator generator(session, {.prefill_chunk = 8});
    for (int64_t size = 1; size <= 13; ++size) {
      const int64_t kept = size / 2;
      generator.rewind(kept);
      std::vector<int64_t> so_far(all.begin(), all.begin() + size);
      const auto options = text::GenerateOptions{.max_tokens = 3, .temperature = 0};
      for (const int64_t token :
           generator.continue_with({so_far.begin() + kept, so_far.end()}, options).tokens) {
        const auto logits = last(whole.run("forward", {{"tokens", row_of(so_far)}}).at("logits"));
        EXPECT_EQ(token, std::ranges::max_element(logits) - logits.begin()) << rows << " rows, " << size;
        so_far.push_back(token);
      }
    }
  }
}

TEST_P(OtherMixers, RowsComeAndGo) {
  const std::vector<int64_t> all = long_tokens();
  std::vector<text::Request> requests;
  for (const int64_t size : {3, 11, 1, 7, 3})
    requests.push_back({.prompt = {all.begin(), all.begin() + size},
                        .options = {.max_tokens = 9 - size / 2, .temperature = 0},
                        .shares_prompt = true});
  const auto texts = [&](const char* rows) {
    Session session = text::open_for_generation(model(rows), {.threads = 2});
    std::vector<std::vector<int64_t>> tokens;
    for (const auto& result : text::Generator(session, {.prefill_chunk = 4}).generate_all(requests))
      tokens.push_back(result.tokens);
    return tokens;
  };
  EXPECT_EQ(texts("1"), texts("2"));
  EXPECT_EQ(texts("1"), texts("3"));
}

INSTANTIATE_TEST_SUITE_P(Families, OtherMixers,
                         ::testing::Values("gemma2", "lfm2", "qwen3_5", "qwen3_next", "falcon_h1", "mamba2",
                                           "nemotron_h", "gemma4", "gemma4_experts"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace genesis
