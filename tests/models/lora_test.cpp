// Tests LoRA against PEFT (hugging_face/lora.json, made by make_lora.py), merging, and adapters that do not fit.
#include "passes/lora/lora.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "builder/graph_builder.h"
#include "builder/image_layers.h"
#include "builder/layers.h"
#include "executor/runtime/device.h"
#include "executor/session.h"
#include "executor/snapshot.h"
#include "models/formats/hugging_face/adapter.h"
#include "models/formats/hugging_face/adapter_config.h"
#include "models/formats/hugging_face/import.h"
#include "models/zoo.h"
#include "passes/core/bind.h"
#include "passes/pipelines.h"
#include "passes/precision/quantize.h"
#include "passes/training/train_step.h"
#include "schema/file/io/read_file.h"
#include "schema/file/json_text.h"
#include "schema/file/other_formats/safetensors.h"
#include "schema/graph/state_storage.h"
#include "schema/ops/tensor/reduce.h"
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
using testing::TemporaryFolder;

json golden() { return read_json(checkpoints() / "lora.json"); }

std::shared_ptr<Model> base(const char* dtype = "f32") {
  return hf::import_model(checkpoints() / "qwen2_tied", {{"dtype", dtype}});
}

std::shared_ptr<Model> adapted() {
  std::shared_ptr<Model> model = base();
  hf::load_adapter(*model, checkpoints() / "qwen2_lora");
  return model;
}

// Returns a model whose weights consist of whole blocks of 32 values, as q8 and q4 need.
std::unique_ptr<Model> in_blocks() {
  return models::make_model("qwen2", {{"hidden_size", "64"},
                                      {"intermediate_size", "64"},
                                      {"num_hidden_layers", "1"},
                                      {"num_attention_heads", "2"},
                                      {"num_key_value_heads", "1"},
                                      {"vocab_size", "64"}});
}

std::vector<double> last_logits(std::shared_ptr<const Model> model) {
  Session session(std::move(model), {.threads = 2});
  const auto tokens = golden()["prompt"].get<std::vector<int64_t>>();
  const auto count = static_cast<int64_t>(tokens.size());
  const auto all =
      session.run("forward", {{"tokens", Tensor::of<int64_t>({1, count}, tokens)}}).at("logits").to_doubles();
  return {all.end() - 61, all.end()};
}

void expect_logits(const std::vector<double>& got, const std::vector<double>& expected, double tolerance) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(got[i], expected[i], tolerance * (1 + std::abs(expected[i])));
}

NamedTensors batch(int64_t step) {
  std::vector<int64_t> tokens, targets;
  for (int64_t row = 0; row < 2; ++row)
    for (int64_t k = 0; k < 17; ++k) {
      const int64_t i = row * 17 + k, id = (i * 7 + i / 3 * 5 + step * 11) % 61;
      if (k < 16) tokens.push_back(id);
      if (k > 0) targets.push_back(id);
    }
  return {{"tokens", Tensor::of<int64_t>({2, 16}, tokens)},
          {"targets", Tensor::of<int64_t>({2, 16}, targets)}};
}

TEST(Lora, ComputesWhatPeftDoes) {
  expect_logits(last_logits(adapted()), golden()["logits"].get<std::vector<double>>(), 1e-5);
}

TEST(Lora, TrainsAsPeftDoes) {
  const auto model = adapted();
  passes::add_training(*model, passes::parse_train_options("adamw,lr=1e-2,eps=1e-5,weight_decay=0.01"));
  Session session(model, {.threads = 2});
  const auto curve = golden()["curve"].get<std::vector<double>>();
  ASSERT_EQ(curve.size(), 20u);
  for (size_t step = 0; step < curve.size(); ++step)
    EXPECT_NEAR(session.run("train_step", batch(static_cast<int64_t>(step))).at("loss").to_doubles()[0],
                curve[step], 1e-4 * curve[step])
        << "step " << step;
  const auto before = adapted();
  for (const State& state : before->states()) {
    if (state.role != StateRole::kParameter || state.name.find(".lora_") != std::string::npos) continue;
    EXPECT_EQ(session.state(state.name).to_doubles(), state.initial.to_doubles()) << state.name;
  }
}

// Returns the FLOPs of the products in a step.
double training_flops(const Model& model) {
  const Graph step = passes::bind(model.entry("train_step"), {{"batch", 8}, {"seq", 32}});
  double flops = 0;
  for (const Node& node : step.nodes())
    flops += cost_of(*node.op, node.attributes, step.input_types(node), step.output_types(node)).flops;
  return flops;
}

// Only adapters have moments, and no gradient of a frozen weight is computed.
TEST(Lora, CostsNoGradientsOfFrozenWeights) {
  const auto with = base(), without = base();
  passes::add_lora(*with, {.rank = 1});
  for (Model* model : {with.get(), without.get()})
    passes::add_training(*model, {.optimizer = optim::AdamW{}});
  int64_t moments = 0, adapters = 0;
  for (const State& state : with->states()) {
    if (state.name.starts_with("optimizer.") && state.role == StateRole::kOptimizer)
      moments += state.type.numel();
    if (state.name.find(".lora_") != std::string::npos && state.role == StateRole::kParameter)
      adapters += state.type.numel();
  }
  EXPECT_EQ(moments, 2 * adapters);
  for (const StateUpdate& update : with->entry("train_step").updates())
    EXPECT_EQ(with->state(update.state).name.find("_proj.weight"), std::string::npos);
  EXPECT_LT(training_flops(*with), 0.9 * training_flops(*without));
}

// In bf16 the adapters of layers with the same input are merged: the step is the same as apart, except for rounding.
TEST(Lora, AdaptersBesideEachOtherLearnAsApart) {
  const auto step_of = [](const char* options) {
    const auto model = base("bf16");
    hf::load_adapter(*model, checkpoints() / "qwen2_lora");
    passes::add_training(*model, passes::parse_train_options(std::string("sgd,lr=1,") + options));
    auto session = std::make_shared<Session>(model, SessionOptions{.threads = 2});
    session->run("train_step", batch(0));
    return session;
  };
  const auto together = step_of("precision=bf16"), apart = step_of("precision=bf16,merge_projections=false");
  const auto model = adapted();
  for (const State& state : model->states()) {
    if (state.name.find(".lora_") == std::string::npos) continue;
    SCOPED_TRACE(state.name);
    const auto before = state.initial.to_doubles(), a = together->state(state.name).to_doubles(),
               b = apart->state(state.name).to_doubles();
    double largest = 0, difference = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      largest = std::max(largest, std::abs(b[i] - before[i]));
      difference = std::max(difference, std::abs(a[i] - b[i]));
    }
    EXPECT_GT(largest, 0);
    EXPECT_LT(difference, 0.05 * largest);
  }
}

TEST(Lora, BeginsAsTheBaseAndInEveryEntryPoint) {
  const auto model = base();
  passes::add_lora(*model, {.rank = 3, .dropout = 0.5});
  EXPECT_EQ(last_logits(model), last_logits(base()));
  EXPECT_EQ(passes::lora_layers(*model).size(), 14u)
      << "seven layers in each of two blocks, not the tied head";
  for (const char* entry : {"loss", "forward", "prefill", "decode"}) {
    int readers = 0;
    for (const ValueInfo& value : model->entry(entry).values())
      readers += value.kind == ValueKind::kState && model->state(value.index).name.ends_with("lora_B.weight");
    EXPECT_EQ(readers, 14) << entry;
  }
  const State& a = model->state(model->find_state("model.layers.0.mlp.down_proj.lora_A.weight"));
  const auto values = a.initial.to_doubles();
  const double bound = 1 / std::sqrt(24.0);
  for (const double x : values) EXPECT_LE(std::abs(x), bound);
  EXPECT_GT(*std::max_element(values.begin(), values.end()), 0.8 * bound);
}

TEST(Lora, DropoutIsOnlyInTheLoss) {
  const auto dropouts = [](const Graph& graph) {
    return std::count_if(graph.nodes().begin(), graph.nodes().end(),
                         [](const Node& node) { return node.op->name() == "dropout"; });
  };
  const auto model = base();
  passes::add_lora(*model, {.rank = 3, .dropout = 0.5, .targets = {"q_proj"}});
  EXPECT_EQ(dropouts(model->entry("loss")), 2);
  EXPECT_EQ(dropouts(model->entry("forward")), 0);
}

TEST(Lora, MergesIntoTheWeights) {
  const auto model = adapted();
  const std::shared_ptr<Model> merged = passes::merge_lora(*model);
  EXPECT_EQ(merged->states().size(), base()->states().size());
  EXPECT_FALSE(passes::lora_of(*merged));
  expect_logits(last_logits(merged), golden()["logits"].get<std::vector<double>>(), 1e-5);
  const auto original = base();
  for (const auto& entry : original->entries())
    EXPECT_EQ(merged->entry(entry->name()).nodes().size(), entry->nodes().size()) << entry->name();
  passes::add_training(*merged, {});
  expect_error([&] { passes::merge_lora(*base()); }, {"no LoRA adapters"});
}

// Convolutions that a target names get adapters: A is a convolution to `rank` channels, B one of single elements.
TEST(Lora, ConvolutionsHaveAdaptersThatMerge) {
  const auto make = [] {
    auto model = std::make_shared<Model>();
    const Scope root(*model, 1);
    GraphBuilder g(*model, "forward");
    const Value x = g.input("x", DType::f32, {symbol("batch"), 3, 9, 8});
    const Value y = nn::Conv2d(root / "stem", 3, 6, {3}, {.conv = {.stride = {2}, .padding = {1}}})(x);
    const Value z = nn::Conv2d(root / "depthwise", 6, 6, {3}, {.conv = {.groups = 6}})(relu(y));
    g.output("y", nn::Linear(root / "fc", 6, 2)(mean(z, {2, 3})));
    return model;
  };
  const auto model = make();
  passes::add_lora(*model, {.rank = 2, .alpha = 6, .targets = {"stem", "fc"}});
  EXPECT_EQ(passes::lora_layers(*model), (std::vector<std::string>{"stem", "fc"}));
  const auto shape = [&](const char* name) { return model->state(model->find_state(name)).type.to_string(); };
  EXPECT_EQ(shape("stem.lora_A.weight"), "f32[2,3,3,3]");
  EXPECT_EQ(shape("stem.lora_B.weight"), "f32[6,2,1,1]");
  const NamedTensors input = {{"x", Tensor::rand({2, 3, 9, 8}, 5)}};
  const auto y = [&](const std::shared_ptr<const Model>& of) {
    return Session(of).run("forward", input).at("y").to_doubles();
  };
  EXPECT_EQ(y(model), y(make()));  // B is zero
  model->set_initial(model->find_state("stem.lora_B.weight"), Tensor::rand({6, 2, 1, 1}, 7));
  const std::vector<double> expected = y(model), got = y(passes::merge_lora(*model));
  EXPECT_NE(expected, y(make()));
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-5);
  EXPECT_EQ(passes::merge_lora(*model)->entry("forward").nodes().size(),
            make()->entry("forward").nodes().size());
  expect_error([&] { passes::add_lora(*make(), {.rank = 1, .targets = {"depthwise"}}); },
               {"depthwise", "6 groups"});
}

// The product of B, which is zero at first, is added to the decoded values of a quantized weight.
TEST(Lora, MergesIntoQuantizedWeights) {
  const auto model = in_blocks();
  passes::quantize(*model, {});
  passes::add_lora(*model, {.rank = 4});
  const auto merged = passes::merge_lora(*model);
  const int32_t weight = model->find_state("model.layers.0.self_attn.q_proj.weight");
  ASSERT_TRUE(model->state(weight).encoded);
  const auto expected = initial_value(model->state(weight)).to_doubles();
  EXPECT_GT(*std::max_element(expected.begin(), expected.end()), 0);
  const State& plain = merged->state(merged->find_state("model.layers.0.self_attn.q_proj.weight"));
  EXPECT_FALSE(plain.encoded);
  EXPECT_EQ(plain.initial.to_doubles(), expected);
}

// A weight without an adapter stays quantized, and must not be trained. The written file can be read.
TEST(Lora, WeightsWithoutAdaptersStayQuantized) {
  const auto model = in_blocks();
  passes::quantize(*model, {.embedding = true, .head = true});
  passes::add_lora(*model, {.rank = 4, .targets = {"q_proj"}});
  const auto merged = passes::merge_lora(*model);
  const State& other = merged->state(merged->find_state("model.layers.0.self_attn.o_proj.weight"));
  EXPECT_TRUE(other.encoded);
  EXPECT_FALSE(other.trainable);
  EXPECT_TRUE(merged->state(merged->find_state("model.layers.0.self_attn.q_proj.weight")).trainable);
  const TemporaryFolder folder;
  save_model(*merged, folder / "merged.genesis");
  EXPECT_EQ(load_model(folder / "merged.genesis")->states().size(), merged->states().size());
}

TEST(Lora, AdaptersAreNotQuantized) {
  const auto model = in_blocks();
  passes::add_lora(*model, {.rank = 32});
  passes::quantize(*model, {});
  for (const State& state : model->states()) {
    if (!passes::is_adapter(state)) continue;
    EXPECT_FALSE(state.encoded) << state.name;
    EXPECT_TRUE(state.trainable) << state.name;
  }
}

// After these passes, products of A are in one step with those of other layers.
TEST(Lora, MergesAfterPassesForInference) {
  const auto model = adapted();
  const Target target = target_of("cpu");
  for (const char* name : {"forward", "prefill", "decode"})
    model->replace_entry(passes::run_passes(std::as_const(*model).entry(name), passes::inference_pipeline(),
                                            {.target = &target}, {}));
  const std::shared_ptr<Model> merged = passes::merge_lora(*model);
  EXPECT_EQ(merged->states().size(), base()->states().size());
  expect_logits(last_logits(merged), golden()["logits"].get<std::vector<double>>(), 1e-5);
}

TEST(Lora, AdaptersOfBf16WeightsAreF32) {
  const auto model = base("bf16");
  hf::load_adapter(*model, checkpoints() / "qwen2_lora");
  EXPECT_EQ(model->state(model->find_state("model.layers.1.self_attn.q_proj.lora_A.weight")).type.dtype,
            DType::f32);
  expect_logits(last_logits(model), golden()["logits"].get<std::vector<double>>(), 0.1);
  expect_logits(last_logits(passes::merge_lora(*model)), golden()["logits"].get<std::vector<double>>(), 0.1);
}

TEST(Lora, AdaptersTravelInPeftsFormat) {
  const TemporaryFolder folder;
  hf::save_adapter(*adapted(), folder / "adapter", "base");
  EXPECT_TRUE(hf::is_adapter_folder(folder / "adapter"));
  const auto model = base();
  hf::load_adapter(*model, folder / "adapter");
  EXPECT_EQ(last_logits(model), last_logits(adapted()));
  const auto theirs = read_safetensors(checkpoints() / "qwen2_lora/adapter_model.safetensors"),
             ours = read_safetensors(folder / "adapter/adapter_model.safetensors");
  ASSERT_EQ(ours.tensors.size(), theirs.tensors.size());
  for (const auto& [name, tensor] : theirs.tensors)
    EXPECT_EQ(ours.tensors.at(name).to_doubles(), tensor.to_doubles()) << name;
  expect_error([&] { hf::save_adapter(*base(), folder / "none"); }, {"no LoRA adapters"});
}

TEST(Lora, AnAdaptersFolderIsReplacedAsAWholeAndOnlyWhereThatIsAskedFor) {
  const TemporaryFolder folder;
  const auto base_of = [&] {
    return parse_json_text(
        read_whole_file(folder / "adapter/adapter_config.json"))["base_model_name_or_path"];
  };
  hf::save_adapter(*adapted(), folder / "adapter", "base");
  EXPECT_EQ(base_of(), "base");
  expect_error([&] { hf::save_adapter(*adapted(), folder / "adapter"); }, {"there already"});
  EXPECT_EQ(base_of(), "base");
  hf::save_adapter(*adapted(), folder / "adapter", "", true);
  EXPECT_EQ(base_of(), nullptr);
  const auto named = adapted();
  json config = parse_json_text(named->metadata.at("config.json"));
  config["_name_or_path"] = "Qwen/Qwen2-0.5B";
  named->metadata["config.json"] = config.dump();
  hf::save_adapter(*named, folder / "adapter", "", true);
  hf::save_adapter(*named, folder / "new/around/adapter");
  EXPECT_EQ(base_of(), "Qwen/Qwen2-0.5B");
  std::ofstream(folder / "adapter/notes.txt") << "mine";
  expect_error([&] { hf::save_adapter(*adapted(), folder / "adapter", "", true); }, {"notes.txt"});
}

// Ranks, alphas and the root of the rank are given by layer. The model is also merged, and saved in PEFT's format
// again.
TEST(Lora, RanksAndAlphasByLayerAreThoseOfPeft) {
  const auto expected = golden()["patterns"].get<std::vector<double>>();
  const auto model = base();
  hf::load_adapter(*model, checkpoints() / "qwen2_lora_patterns");
  expect_logits(last_logits(model), expected, 1e-5);
  expect_logits(last_logits(passes::merge_lora(*model)), expected, 1e-5);
  const TemporaryFolder folder;
  hf::save_adapter(*model, folder / "adapter");
  const auto again = base();
  hf::load_adapter(*again, folder / "adapter");
  EXPECT_EQ(last_logits(again), last_logits(model));
}

// Follows re.match(rf"(.*\.)?({key})$", layer) of Python, with the first key that matches.
TEST(Lora, ExpressionsOfLayersAreReadAsPythonReadsThem) {
  const TemporaryFolder folder;
  const auto ranks = [&](const std::string& pattern, const std::vector<std::string>& layers) {
    std::ofstream(folder / "c.json") << R"({"r": 1, "rank_pattern": )" << pattern << "}";
    const passes::LoraOptions options = hf::AdapterConfig(folder / "c.json").options_for(layers);
    std::vector<int64_t> found;
    for (const std::string& layer : layers) found.push_back(options.rank_of(layer));
    return found;
  };
  using Ranks = std::vector<int64_t>;
  EXPECT_EQ(ranks(R"({"q_proj": 2})", {"q_proj", "a.q_proj", "a.xq_proj", "a.q_proj.b"}),
            (Ranks{2, 2, 1, 1}));
  EXPECT_EQ(ranks(R"({"z": 2, "a.z": 3})", {"a.z"}), Ranks{2});  // in the order of the file
  EXPECT_EQ(ranks(R"({"a.z": 3, "z": 2})", {"a.z", "b.z"}), (Ranks{3, 2}));
  EXPECT_EQ(ranks(R"({"^a.z": 3})", {"a.z", "b.a.z"}), (Ranks{3, 1}));
  EXPECT_EQ(ranks(R"({"q|v": 2})", {"a.q", "a.v", "a.k"}), (Ranks{2, 2, 1}));
  EXPECT_EQ(ranks(R"x({"(?P<n>[kq])\\.(?P=n)": 2})x", {"k.k", "k.q"}), (Ranks{2, 1}));
  EXPECT_EQ(ranks(R"({"layers\\.\\d+\\.q": 2})", {"m.layers.12.q", "m.layers.x.q"}), (Ranks{2, 1}));
  EXPECT_EQ(ranks("{}", {"q"}), Ranks{1});
  EXPECT_EQ(ranks("null", {"q"}), Ranks{1});
  const auto refused = [&](const std::string& pattern, const std::vector<std::string>& parts) {
    expect_error([&] { ranks(pattern, {std::string(200, 'a') + "c"}); }, parts);
  };
  refused(R"({"q(": 2})", {"c.json", "rank_pattern", "'q('"});
  refused(R"({"(a+)+[bd]": 2})", {"c.json", "'(a+)+[bd]'", "limit"});
  refused(R"({"q": 0})", {"'rank_pattern' is 0"});
  refused(R"({"q": 1.5})", {"'rank_pattern' is 1.5"});
  refused(R"({"q": "2"})", {"'q' is \"2\""});
  refused(R"([2])", {"'rank_pattern' is [2], expected an object"});
}

// PEFT saves the weights of embeddings and heads with an adapter that is applied to them.
TEST(Lora, WeightsBesideAnAdapterAreTakenWhereTheyAreTheModels) {
  const TemporaryFolder folder;
  const fs::path adapter = folder / "a", tensors = adapter / "adapter_model.safetensors";
  fs::copy(checkpoints() / "qwen2_lora", adapter);
  SafeTensors file = read_safetensors(tensors);
  const auto model = base();
  const std::string embedding = "base_model.model.model.embed_tokens.weight";
  const Tensor same = initial_value(model->state(model->find_state("model.embed_tokens.weight")));
  for (const std::string& name :
       {embedding, std::string("base_model.model.model.embed_tokens.base_layer.weight")}) {
    file.tensors[name] = same;
    write_safetensors(tensors, file);
    hf::load_adapter(*base(), adapter);
    file.tensors[name] = Tensor::zeros(same.type());
    write_safetensors(tensors, file);
    expect_error([&] { hf::load_adapter(*base(), adapter); },
                 {name, "PEFT has saved beside the adapter", "merge", "save_embedding_layers=False"});
    file.tensors.erase(name);
  }
  for (const auto& [name, word] :
       {std::pair("q_proj.lora_magnitude_vector", "DoRA"), std::pair("lora_embedding_A", "embedding"),
        std::pair("lm_head.modules_to_save.weight", "modules_to_save"),
        std::pair("q_proj.lora_B.bias", "lora_bias"), std::pair("q_proj.bias", "bias")}) {
    const std::string whole = std::string("base_model.model.x.") + name;
    file.tensors[whole] = same;
    write_safetensors(tensors, file);
    expect_error([&] { hf::load_adapter(*base(), adapter); }, {whole, word, "merge_and_unload"});
    file.tensors.erase(whole);
  }
  fs::rename(tensors, adapter / "adapter_model.bin");
  expect_error([&] { hf::load_adapter(*base(), adapter); },
               {"adapter_model.bin", "as safetensors", "save_pretrained"});
}

std::shared_ptr<Model> base_of(const json& adapter) {
  return hf::import_model(checkpoints() / adapter["base"].get<std::string>(), {{"dtype", "f32"}});
}

std::vector<double> last_logits_of(const std::shared_ptr<const Model>& model, size_t count) {
  Session session(model, {.threads = 2});
  const auto tokens = golden()["prompt"].get<std::vector<int64_t>>();
  const auto all = session.run("forward", {{"tokens", Tensor::of<int64_t>({1, std::ssize(tokens)}, tokens)}})
                       .at("logits")
                       .to_doubles();
  return {all.end() - static_cast<std::ptrdiff_t>(count), all.end()};
}

// DoRA, biases, biases of additions, an embedding with an adapter, and modules that were trained whole.
TEST(Lora, WhatIsMoreThanAnAdditionIsThatOfPeft) {
  const json all = golden()["beyond"];
  ASSERT_EQ(all.size(), 5u);
  for (const auto& [name, adapter] : all.items()) {
    SCOPED_TRACE(name);
    const auto expected = adapter["logits"].get<std::vector<double>>();
    const auto model = base_of(adapter);
    hf::load_adapter(*model, checkpoints() / name);
    expect_logits(last_logits_of(model, expected.size()), expected, 2e-5);
    EXPECT_EQ(passes::lora_of(*model).has_value(), name.find("dora") == std::string::npos);
    if (!passes::lora_of(*model)) continue;
    expect_logits(last_logits_of(passes::merge_lora(*model), expected.size()), expected, 2e-5);
    const TemporaryFolder folder;
    hf::save_adapter(*model, folder / "adapter");
    const auto again = base_of(adapter);
    hf::load_adapter(*again, folder / "adapter");
    EXPECT_EQ(last_logits_of(again, expected.size()), last_logits_of(model, expected.size()));
  }
}

TEST(Lora, WeightsThatCannotBeChangedAreRefusedInWords) {
  const auto load = [](const char* base, const char* name, auto change) {
    const TemporaryFolder folder;
    fs::copy(checkpoints() / name, folder / "a");
    SafeTensors file = read_safetensors(folder / "a/adapter_model.safetensors");
    change(file);
    write_safetensors(folder / "a/adapter_model.safetensors", file);
    const auto model = hf::import_model(checkpoints() / base, {{"dtype", "f32"}});
    hf::load_adapter(*model, folder / "a");
  };
  const auto as_it_is = [](SafeTensors&) {};
  // The head of this model is its embedding.
  expect_error([&] { load("qwen2_tied", "qwen2_modules", as_it_is); },
               {"shares the weight 'model.embed_tokens.weight'", "merge_and_unload"});
  const std::string head = "base_model.model.lm_head.weight";
  expect_error(
      [&] {
        load("qwen2_sharded", "qwen2_modules", [&](SafeTensors& file) {
          file.tensors[head] = Tensor::zeros({DType::f32, {60, 16}});
        });
      },
      {head, "f32[60,16]", "f32[61,16]"});
  const std::string lengths = "base_model.model.model.layers.0.self_attn.q_proj.lora_magnitude_vector";
  expect_error(
      [&] {
        load("qwen2_tied", "qwen2_dora", [&](SafeTensors& file) {
          file.tensors[lengths] = Tensor::zeros({DType::f32, {15}});
        });
      },
      {lengths, "15 values", "16 rows"});
}

void write_config(const fs::path& folder, const json& config) {
  fs::create_directories(folder);
  std::ofstream(folder / "adapter_config.json") << config.dump();
}

TEST(Lora, AdaptersThatDoNotFitAreRefusedInWords) {
  const TemporaryFolder folder;
  const fs::path adapter = folder / "a", tensors = adapter / "adapter_model.safetensors";
  SafeTensors file = read_safetensors(checkpoints() / "qwen2_lora/adapter_model.safetensors");
  const auto load = [&] {
    const auto model = base();
    hf::load_adapter(*model, adapter);
  };
  write_config(
      adapter,
      {{"peft_type", "LORA"}, {"use_qalora", true}, {"bias", "some"}, {"layer_replication", {{0, 1}}}});
  expect_error(
      load, {"adapter_config.json", "use_qalora = true", "bias = \"some\"", "layer_replication = [[0,1]]"});
  write_config(adapter, {{"r", 4}, {"modules_to_save", {1}}});
  expect_error(load, {"adapter_config.json", "'modules_to_save' is [1]"});
  for (const char* flag : {"use_rslora", "fan_in_fan_out"}) {
    write_config(adapter, {{"r", 4}, {flag, 1}});
    expect_error(load, {"adapter_config.json", std::string("'") + flag + "' is 1, expected true or false"});
  }
  for (const char* how : {"pissa", "pissa_niter_16", "olora", "corda", "loftq"}) {
    write_config(adapter, {{"r", 4}, {"init_lora_weights", how}});
    expect_error(load, {"init_lora_weights = \"" + std::string(how) + "\"", "base model"});
  }
  write_config(adapter, {{"r", 0}, {"init_lora_weights", "gaussian"}});
  expect_error(load, {"'r' is 0"});
  write_config(adapter, {{"r", 5}, {"lora_alpha", 6}});
  write_safetensors(tensors, file);
  expect_error(load, {"does not fit", "is f32[4,16], expected f32[5,16]"});
  write_config(adapter, {{"r", 4}, {"lora_alpha", 6}});
  const std::string name = "base_model.model.model.layers.0.mlp.down_proj.lora_A.weight";
  const Tensor kept = file.tensors.at(name);
  file.tensors.erase(name);
  write_safetensors(tensors, file);
  expect_error(load, {"model.layers.0.mlp.down_proj.lora_A.weight is missing"});
  file.tensors[name] = kept;
  file.tensors["base_model.model.model.layers.9.mlp.down_proj.lora_A.weight"] = kept;
  write_safetensors(tensors, file);
  expect_error(load, {"'model.layers.9.mlp.down_proj'", "no linear layer", "near it are"});
  file.tensors["something.else"] = kept;
  write_safetensors(tensors, file);
  expect_error(load, {"no tensors of LoRA: something.else"});
  write_safetensors(tensors, {});
  expect_error(load, {"no tensor in it"});
}

TEST(Lora, SettingsThatCannotBeAreRefusedInWords) {
  const auto refused = [](const passes::LoraOptions& options, const std::vector<std::string>& parts) {
    const auto model = base();
    expect_error([&] { passes::add_lora(*model, options); }, parts);
  };
  refused({.rank = 0}, {"rank is 0"});
  refused({.rank = 17}, {"rank 17 is more than", "f32["});
  passes::add_lora(*base(), {.rank = 16});  // k and v have 8 rows
  refused({.alpha = 0}, {"alpha is 0"});
  refused({.dropout = 1}, {"dropout is 1"});
  refused({.targets = {"q_porj"}}, {"'q_porj' names no linear layer", "q_proj"});
  const auto twice = adapted();
  expect_error([&] { passes::add_lora(*twice, {.rank = 2}); }, {"adapters already"});
  const auto trained = base();
  passes::add_training(*trained, {});
  expect_error([&] { passes::add_lora(*trained, {.rank = 2}); }, {"training step already"});
}

}  // namespace
}  // namespace genesis
