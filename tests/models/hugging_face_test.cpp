// Tests that checkpoints made by transformers (hugging_face/make_checkpoints.py) give transformers' results. Damaged
// or unsupported folders are refused with a reason.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "builder/init_watcher.h"
#include "builder/rope_scaling.h"
#include "executor/session.h"
#include "executor/state_dict.h"
#include "models/config_fields.h"
#include "models/formats/hugging_face/config.h"
#include "models/formats/hugging_face/import.h"
#include "models/formats/hugging_face/text_part.h"
#include "models/generation/generator.h"
#include "models/generation/sampling_entries.h"
#include "schema/file/io/read_file.h"
#include "schema/file/json_text.h"
#include "schema/file/other_formats/safetensors.h"
#include "schema/file/reader.h"
#include "schema/file/writer.h"
#include "tests/models/checkpoints.h"
#include "tests/op_harness.h"
#include "tests/sanitized.h"

namespace genesis {
namespace {

namespace fs = std::filesystem;
namespace hf = models::hugging_face;
using nlohmann::json;
using testing::checkpoints;
using testing::expect_error;
using testing::read_json;

class HuggingFace : public ::testing::TestWithParam<std::string> {
 protected:
  fs::path folder() const { return checkpoints() / GetParam(); }
  std::vector<int64_t> prompt() const { return all_["prompt"]; }
  std::vector<int64_t> long_text() const { return all_["long"]; }
  json expected() const { return all_["models"][GetParam()]; }

  const json all_ = read_json(checkpoints() / "expected.json");
};

Tensor row_of(const std::vector<int64_t>& tokens) {
  return Tensor::of<int64_t>({1, static_cast<int64_t>(tokens.size())}, tokens);
}

// Checks the last of `logits`.
void expect_last(const Tensor& logits, const std::vector<double>& expected) {
  const auto all = logits.to_doubles();
  const size_t first = all.size() - expected.size();
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(all[first + i], expected[i], 1e-5 * (1 + std::abs(expected[i]))) << "token " << i;
}

// The cache of gpt2 is as long as its positions. A model with few positions gets a cache longer than it was trained
// for.
models::Settings settings_of(const std::string& model) {
  models::Settings settings = {{"dtype", "f32"}};
  if (!model.starts_with("gpt2")) settings["cache_positions"] = "64";
  return settings;
}

TEST_P(HuggingFace, ComputesWhatTransformersDoes) {
  std::shared_ptr<const Model> model = hf::import_model(folder(), settings_of(GetParam()));
  Session session = text::open_for_generation(model, {.threads = 2});
  expect_last(session.run("forward", {{"tokens", row_of(prompt())}}).at("logits"), expected()["logits"]);
  const auto greedy = expected()["greedy"].get<std::vector<int64_t>>();
  const auto options = text::GenerateOptions{.max_tokens = std::ssize(greedy), .temperature = 0};
  EXPECT_EQ(text::generate(session, prompt(), options).tokens, greedy);
  if (!expected().contains("long_logits")) return;
  expect_last(session.run("forward", {{"tokens", row_of(long_text())}}).at("logits"),
              expected()["long_logits"]);
  NamedTensors inputs = {{"tokens", row_of(long_text())}, {"position", Tensor::of<int64_t>({1}, {0})}};
  const Tensor length = Tensor::of<int64_t>({1}, {std::ssize(long_text())});
  inputs.emplace("length", length);
  if (text::takes_text_length(*model)) inputs.emplace("text_length", length);
  expect_last(session.run("prefill", inputs).at("logits"), expected()["long_logits"]);
}

TEST_P(HuggingFace, GoesOnWithALongTextHoweverItIsRead) {
  if (!expected().contains("long_greedy")) return;  // nothing depends on the length
  const auto greedy = expected()["long_greedy"].get<std::vector<int64_t>>();
  Session session =
      text::open_for_generation(hf::import_model(folder(), settings_of(GetParam())), {.threads = 2});
  for (const int64_t chunk : {2, 4, 16, 64}) {
    text::Generator generator(session, {.prefill_chunk = chunk});
    const text::GenerateOptions options{.max_tokens = std::ssize(greedy), .temperature = 0};
    EXPECT_EQ(generator.continue_with(long_text(), options).tokens, greedy) << chunk << " tokens at a time";
  }
}

TEST_P(HuggingFace, TravelsInAFile) {
  const auto model = hf::import_model(folder());
  const fs::path file = fs::temp_directory_path() / ("genesis_imported_" + GetParam() + ".genesis");
  save_model(*model, file);
  const auto loaded = load_model(file);
  fs::remove(file);
  EXPECT_EQ(parse_json_text(loaded->metadata.at("config.json")),
            hf::text_part(read_json(folder() / "config.json")));
  const NamedTensors before = state_dict(*model), after = state_dict(*loaded);
  ASSERT_EQ(before.size(), after.size());
  for (const auto& [name, tensor] : before) {
    const Tensor& other = after.at(name);
    ASSERT_EQ(tensor.type(), other.type()) << name;
    EXPECT_EQ(std::memcmp(tensor.data(), other.data(), static_cast<size_t>(tensor.bytes())), 0) << name;
  }
}

std::vector<std::string> names_of_checkpoints() {
  std::vector<std::string> names;
  const json expected = read_json(checkpoints() / "expected.json");
  for (const auto& [name, results] : expected["models"].items()) names.push_back(name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Models, HuggingFace, ::testing::ValuesIn(names_of_checkpoints()),
                         [](const auto& info) { return info.param; });

TEST(HuggingFaceImport, KeepsTheDtypeOfTheCheckpoint) {
  const auto model = hf::import_model(checkpoints() / "llama_bf16");
  EXPECT_EQ(model->state(model->find_state("lm_head.weight")).type.dtype, DType::bf16);
}

// A copy of a checkpoint, which a test damages.
class SpoiltFolder : public ::testing::Test {
 protected:
  void copy(const char* name) {
    fs::copy(checkpoints() / name, folder_,
             fs::copy_options::overwrite_existing | fs::copy_options::recursive);
  }
  void write(const char* file, const std::string& text) { std::ofstream(folder_ / file) << text; }
  void change(const char* file, const std::function<void(json&)>& how) {
    json contents = read_json(folder_ / file);
    how(contents);
    write(file, contents.dump());
  }
  void refused(const std::vector<std::string>& parts, const models::Settings& changes = {}) {
    expect_error([&] { hf::import_model(folder_, changes); }, parts);
  }
  void SetUp() override { fs::create_directories(folder_); }
  void TearDown() override { fs::remove_all(folder_); }

  const fs::path folder_ = fs::temp_directory_path() / "genesis_spoilt_checkpoint";
};

TEST_F(SpoiltFolder, WithoutItsFiles) {
  refused({"there is no config.json", folder_.string()});
  copy("qwen2_tied");
  fs::remove(folder_ / "model.safetensors");
  refused({"neither model.safetensors nor", "save_pretrained"});
  copy("qwen2_sharded");
  fs::remove(folder_ / "model-00002-of-00003.safetensors");
  refused({"model-00002-of-00003.safetensors", "1 of 3 files", "missing"});
}

TEST_F(SpoiltFolder, WithAConfigurationThatLies) {
  copy("qwen2_tied");
  for (const char* text : {"", "[1, 2]", "{\"model_type\": ", "\"qwen2\"", "{}"}) {
    write("config.json", text);
    refused({"config.json"});
  }
  write("config.json", std::string(100'000, '['));
  refused({"config.json", "deep"});
  copy("qwen2_tied");
  change("config.json",
         [](json& c) { c["hidden_size"] = -4, c["vocab_size"] = "many", c["rms_norm_eps"] = nullptr; });
  refused({"hidden_size is -4", "vocab_size is \"many\""});
  copy("qwen2_tied");
  change("config.json", [](json& c) { c["hidden_size"] = 17; });
  refused({"hidden_size 17"});
}

// This once took quadratic time, half a minute.
TEST_F(SpoiltFolder, WithAConfigurationOfManyMembers) {
  std::string text = "{";
  for (int i = 0; i < 100'000; ++i) text += "\"k" + std::to_string(i) + "\": {}, ";
  write("config.json", text + "\"model_type\": \"mamba\"}");
  const double start = testing::processor_seconds();
  refused({"model_type is \"mamba\""});
  EXPECT_LT(testing::processor_seconds() - start, 5);
}

// This once drew gigabytes of norms before anything was compared.
TEST_F(SpoiltFolder, WithSizesThatLieIsRefusedBeforeMemoryIsTaken) {
  uint64_t drawn = 0;
  const init::Watcher watcher([&](std::string_view, uint64_t bytes, uint64_t) { drawn = bytes; });
  copy("qwen2_tied");
  change("config.json", [](json& c) { c["hidden_size"] = 1 << 22; });
  refused({"model.norm.weight is f32[16], expected f32[4194304]", "config.json and the weights"});
  change("config.json", [](json& c) { c["hidden_size"] = int64_t{1} << 40; });
  refused({"hidden_size", "1048576 at most", "in the model that config.json says"});
  copy("qwen2_yarn");
  change("config.json", [](json& c) { c["head_dim"] = int64_t{1} << 30; });
  refused({"1073741824", "head_dim", "1048576 at most"});
  copy("gpt2");
  change("config.json", [](json& c) { c["n_embd"] = 1 << 24; });
  refused({"transformer.ln_f.bias is f32[", "expected f32[16777216]"});
  EXPECT_EQ(drawn, 0u);
}

TEST_F(SpoiltFolder, WithAPipeForAFileIsRefusedAndNotWaitedFor) {
  copy("qwen2_tied");
  for (const char* file : {"generation_config.json", "config.json"}) {
    fs::remove(folder_ / file);
    ASSERT_EQ(::mkfifo((folder_ / file).c_str(), 0600), 0);
    refused({file, "not a regular file"});
    fs::remove(folder_ / file);
  }
}

TEST_F(SpoiltFolder, WithSettingsThatAreNotSupportedNamesThemAll) {
  copy("qwen3");
  change("config.json", [](json& c) {
    c["rope_parameters"] = {{"rope_theta", 1e6}, {"rope_type", "ntk"}, {"factor", 4.0}};
    c["layer_types"][1] = "sliding_attention";
    c["hidden_act"] = "gelu";
    c["attention_bias"] = true;
    c["dtype"] = "float8_e4m3fn";
  });
  refused({"rope_parameters.rope_type: \"ntk\"", "layer_types: \"sliding_attention\", but no sliding_window",
           "hidden_act: \"gelu\"", "attention_bias: true", "dtype is \"float8_e4m3fn\""});
  write("config.json", R"({"model_type": "mamba"})");
  refused({"model_type is \"mamba\"", models::hugging_face_families("or")});
}

TEST_F(SpoiltFolder, WithOtherTensors) {
  copy("qwen3");
  SafeTensors weights = read_safetensors(folder_ / "model.safetensors");
  const std::string norm = "model.norm.weight";
  weights.tensors["model.layers.7.extra"] = weights.tensors.at(norm);
  weights.tensors["model.layers.0.mlp.up_proj.weight"] = weights.tensors.at(norm);
  weights.tensors.erase(norm);
  write_safetensors(folder_ / "model.safetensors", weights);
  refused({"1 missing: model.norm.weight", "model.layers.7.extra",
           "model.layers.0.mlp.up_proj.weight is f32[16]", "--ignore-extra 'model.layers.7.extra'"});
}

// transformers ignores everything that its class does not have. Extra tensors in the layers would change what they
// compute, so they are refused.
TEST_F(SpoiltFolder, WithMoreTensorsThanTheModelHas) {
  copy("qwen2_tied");
  const NamedTensors whole = state_dict(*hf::import_model(folder_));
  const auto add = [&](const std::vector<std::string>& names) {
    copy("qwen2_tied");
    SafeTensors weights = read_safetensors(folder_ / "model.safetensors");
    for (const std::string& name : names) weights.tensors[name] = weights.tensors.at("model.norm.weight");
    write_safetensors(folder_ / "model.safetensors", weights);
  };
  const auto expect_whole = [&](const std::vector<std::string>& ignored) {
    const NamedTensors values = state_dict(*hf::import_model(folder_, {}, nullptr, ignored));
    ASSERT_EQ(values.size(), whole.size());
    for (const auto& [name, tensor] : whole) EXPECT_EQ(values.at(name).to_doubles(), tensor.to_doubles());
  };
  add({"mtp.fc.weight", "model.visual.patch_embed.weight", "score.weight"});
  expect_whole({});
  add({"model.layers.0.self_attn.q_norm.weight", "model.layers.2.mtp.weight"});
  refused({"2 unknown to the model", "--ignore-extra 'model.layers.0.self_attn.q_norm.weight'"});
  expect_whole({"*.q_norm.weight", "model.layers.2.*"});
  const auto ignoring_one = [&] { hf::import_model(folder_, {}, nullptr, {"model.layers.2.*"}); };
  expect_error(ignoring_one, {"1 unknown to the model: model.layers.0.self_attn.q_norm.weight"});
  expect_whole({"*"});  // tensors of the model are never ignored
}

// Adds a tensor to the header of a .safetensors, with a dtype that write_safetensors() does not know.
void add_tensor(const fs::path& path, const std::string& name, const std::string& dtype, uint64_t bytes) {
  const std::string file = read_whole_file(path);
  uint64_t length = 0;
  std::memcpy(&length, file.data(), 8);
  json header = parse_json_text(file.substr(8, length));
  const std::string data = file.substr(8 + length) + std::string(bytes, '\1');
  header[name] = {{"dtype", dtype}, {"shape", {2}}, {"data_offsets", {data.size() - bytes, data.size()}}};
  const std::string text = header.dump();
  length = text.size();
  std::ofstream(path, std::ios::binary)
      << std::string(reinterpret_cast<const char*>(&length), 8) << text << data;
}

TEST_F(SpoiltFolder, WithExtraTensorsOfOtherDtypes) {
  copy("qwen2_tied");
  const fs::path file = folder_ / "model.safetensors";
  add_tensor(file, "model.layers.0.self_attn.rotary_emb.inv_freq", "U32", 8);
  add_tensor(file, "model.layers.1.attn.bias", "F8_E4M3", 2);
  add_tensor(file, "mtp.fc.weight", "F8_E5M2", 2);
  EXPECT_NO_THROW(hf::import_model(folder_));
  add_tensor(file, "model.layers.0.mlp.up_proj.weight_scale_inv", "F8_E8M0", 2);
  refused({"weight_scale_inv (F8_E8M0)", "--ignore-extra PATTERN"});
  EXPECT_NO_THROW(hf::import_model(folder_, {}, nullptr, {"*_scale_inv"}));
  SafeTensors weights = read_safetensors(checkpoints() / "qwen2_tied/model.safetensors");
  weights.tensors.erase("model.norm.weight");
  write_safetensors(file, weights);
  add_tensor(file, "model.norm.weight", "F8_E4M3", 2);
  refused({"model.norm.weight (F8_E4M3)", "save the weights as"});
}

// ACT2FN of transformers has several names for one function.
TEST_F(SpoiltFolder, WithOtherNamesOfTheSameActivation) {
  copy("qwen2_tied");
  change("config.json", [](json& c) { c["hidden_act"] = "swish"; });
  EXPECT_NO_THROW(hf::import_model(folder_));
  change("config.json", [](json& c) { c["hidden_act"] = "gelu_new"; });
  refused({"hidden_act: \"gelu_new\""});
  for (const char* name :
       {"gelu_new", "gelu_pytorch_tanh", "gelu_python_tanh", "gelu_fast", "gelu_accurate"}) {
    copy("gpt2");
    change("config.json", [&](json& c) { c["activation_function"] = name; });
    EXPECT_NO_THROW(hf::import_model(folder_)) << name;
  }
  change("config.json", [](json& c) { c["activation_function"] = "gelu"; });
  refused({"activation_function: \"gelu\""});
}

TEST_F(SpoiltFolder, WithAnIndexThatLies) {
  copy("qwen2_sharded");
  const char* index = "model.safetensors.index.json";
  for (const char* file : {"../secret", "/etc/passwd", "", ".."}) {
    change(index, [&](json& i) { i["weight_map"]["lm_head.weight"] = file; });
    refused({index, "lm_head.weight", "not one of this folder"});
  }
  change(index, [&](json& i) { i["weight_map"]["lm_head.weight"] = 3; });
  refused({index, "is no text"});
  write(index, "{}");
  refused({index, "weight_map"});
}

// transformers takes only the names of files from an index, and reads all tensors in them.
TEST_F(SpoiltFolder, WithAStaleIndexReadsWhatTheFilesHave) {
  copy("qwen2_sharded");
  const NamedTensors whole = state_dict(*hf::import_model(folder_));
  change("model.safetensors.index.json", [&](json& i) {
    i["weight_map"]["mtp.fc.weight"] = "model-00001-of-00003.safetensors";
    i["weight_map"]["lm_head.weight"] = "model-00001-of-00003.safetensors";
    i["weight_map"].erase("model.norm.weight");
  });
  const NamedTensors same = state_dict(*hf::import_model(folder_));
  for (const auto& [key, tensor] : whole) EXPECT_EQ(same.at(key).to_doubles(), tensor.to_doubles()) << key;
}

TEST_F(SpoiltFolder, WithATensorInTwoShards) {
  copy("qwen2_sharded");
  const fs::path first = folder_ / "model-00001-of-00003.safetensors",
                 last = folder_ / "model-00003-of-00003.safetensors";
  SafeTensors shard = read_safetensors(last);
  const auto other = read_safetensors(first).tensors;
  shard.tensors.insert(*other.begin());
  write_safetensors(last, shard);
  refused({"model-00003-of-00003.safetensors", other.begin()->first,
           "is in model-00001-of-00003.safetensors too"});
  shard.tensors.clear();
  write_safetensors(last, shard);
  refused({"5 missing: ", "config.json and the weights"});
}

TEST_F(SpoiltFolder, WithMoreLayersThanAnyoneCouldMake) {
  copy("qwen2_tied");
  change("config.json", [](json& c) { c["num_hidden_layers"] = 1'000'000'000, c.erase("layer_types"); });
  refused({"num_hidden_layers 1000000000", "tensors"});
}

// The cache of the Hub stores them in this way.
TEST_F(SpoiltFolder, WithShardsBehindSymbolicLinksIsRead) {
  copy("qwen2_sharded");
  const fs::path shard = folder_ / "model-00002-of-00003.safetensors";
  fs::rename(shard, folder_ / "blob");
  fs::create_symlink("blob", shard);
  EXPECT_NO_THROW(hf::import_model(folder_));
}

TEST_F(SpoiltFolder, WithBothASingleFileAndShardsIsReadAsTransformersDoes) {
  copy("qwen2_sharded");
  SafeTensors all;
  for (const char* shard : {"1", "2", "3"})
    all.tensors.merge(
        read_safetensors(folder_ / (std::string("model-0000") + shard + "-of-00003.safetensors")).tensors);
  const std::string norm = "model.norm.weight";
  all.tensors[norm] = Tensor::zeros(all.tensors.at(norm).type());
  write_safetensors(folder_ / "model.safetensors", all);
  const auto values = state_dict(*hf::import_model(folder_)).at(norm).to_doubles();
  EXPECT_EQ(values, std::vector<double>(values.size(), 0));
}

TEST_F(SpoiltFolder, WithAHeadThatIsNotTheEmbeddingItIsTiedTo) {
  copy("qwen2_tied");
  SafeTensors weights = read_safetensors(folder_ / "model.safetensors");
  const std::string head = "lm_head.weight", embedding = "model.embed_tokens.weight";
  weights.tensors[head] = weights.tensors.at(embedding);
  write_safetensors(folder_ / "model.safetensors", weights);
  EXPECT_LT(hf::import_model(folder_)->find_state(head), 0);
  const std::vector<double> same = weights.tensors.at(embedding).to_doubles();  // in another dtype
  weights.tensors[head] = Tensor::of<double>({weights.tensors.at(embedding).type().shape[0].value(),
                                              weights.tensors.at(embedding).type().shape[1].value()},
                                             same);
  write_safetensors(folder_ / "model.safetensors", weights);
  EXPECT_LT(hf::import_model(folder_)->find_state(head), 0);
  weights.tensors[head] = Tensor::zeros(weights.tensors.at(embedding).type());
  write_safetensors(folder_ / "model.safetensors", weights);
  refused({head, embedding, "--set tie_word_embeddings=false"});
  EXPECT_LT(hf::import_model(folder_, {{"tie_word_embeddings", "true"}})->find_state(head), 0);
  const auto own = hf::import_model(folder_, {{"tie_word_embeddings", "false"}});
  EXPECT_EQ(state_dict(*own).at(head).to_doubles()[0], 0);
}

// Models that embed texts are saved without the language model around them.
TEST_F(SpoiltFolder, WithoutThePrefixOfTheLanguageModelIsRead) {
  for (const char* name : {"qwen2_tied", "llama_bf16", "gpt2"}) {
    copy(name);
    const NamedTensors whole = state_dict(*hf::import_model(folder_));
    SafeTensors bare, weights = read_safetensors(folder_ / "model.safetensors");
    for (const auto& [key, tensor] : weights.tensors)
      bare.tensors[key.starts_with("lm_head.") ? key : key.substr(key.find('.') + 1)] = tensor;
    bare.tensors["rotary_emb.inv_freq"] = Tensor::zeros({DType::f32, {2}});
    if (std::string(name) == "gpt2") bare.tensors.erase("rotary_emb.inv_freq");
    write_safetensors(folder_ / "model.safetensors", bare);
    const NamedTensors same = state_dict(*hf::import_model(folder_));
    ASSERT_EQ(same.size(), whole.size());
    for (const auto& [key, tensor] : whole) EXPECT_EQ(same.at(key).to_doubles(), tensor.to_doubles()) << key;
  }
}

TEST_F(SpoiltFolder, TakesChangesOfTheZoo) {
  copy("qwen2_tied");
  const auto model = hf::import_model(folder_, {{"max_position_embeddings", "128"}, {"dtype", "bf16"}});
  EXPECT_EQ(model->state(model->find_state("model.norm.weight")).type.dtype, DType::bf16);
  for (const State& state : model->states())
    if (state.role == StateRole::kCache) {
      EXPECT_EQ(state.type.shape[1], Dim(128));
    }
  refused({"no setting 'max_positions'", "max_position_embeddings"}, {{"max_positions", "128"}});
}

TEST(HuggingFaceConfig, RotatesWholeHeadsOnly) {
  json config = read_json(checkpoints() / "qwen2_tied/config.json");
  config["partial_rotary_factor"] = 0.5;
  expect_error([&] { hf::read_config(config, "config.json"); }, {"partial_rotary_factor: 0.5"});
  config["partial_rotary_factor"] = 1.0;
  hf::read_config(config, "config.json");
  config["rope_parameters"]["partial_rotary_factor"] = 0.5;
  expect_error([&] { hf::read_config(config, "config.json"); }, {"partial_rotary_factor"});
}

// These are the defaults of the configuration classes in transformers 5.24.
TEST(HuggingFaceConfig, TakesWhatTransformersTakesWhereAFieldIsMissing) {
  const auto settings_of = [](const json& config) { return hf::read_config(config, "config.json").settings; };
  const json decoder = {{"hidden_size", 4096},      {"num_hidden_layers", 32}, {"num_attention_heads", 32},
                        {"rope_theta", 1e4},        {"rms_norm_eps", 1e-6},    {"tie_word_embeddings", false},
                        {"num_key_value_heads", 32}};
  const auto with = [&](json more) { return more.update(decoder), more; };
  EXPECT_EQ(settings_of({{"model_type", "llama"}}),
            with({{"vocab_size", 32000}, {"intermediate_size", 11008}, {"max_position_embeddings", 2048}}));
  const json qwen =
      with({{"vocab_size", 151936}, {"intermediate_size", 22016}, {"max_position_embeddings", 32768}});
  EXPECT_EQ(settings_of({{"model_type", "qwen2"}}), qwen);
  json qwen3 = qwen;
  qwen3["head_dim"] = 128;
  EXPECT_EQ(settings_of({{"model_type", "qwen3"}}), qwen3);
  EXPECT_EQ(settings_of({{"model_type", "gpt2"}}), (json{{"vocab_size", 50257},
                                                         {"n_positions", 1024},
                                                         {"n_embd", 768},
                                                         {"n_layer", 12},
                                                         {"n_head", 12},
                                                         {"layer_norm_epsilon", 1e-5},
                                                         {"tie_word_embeddings", true}}));
  EXPECT_EQ(settings_of({{"model_type", "llama"}, {"num_attention_heads", 8}}).at("num_key_value_heads"), 8);
  EXPECT_EQ(settings_of({{"model_type", "qwen2"}, {"num_attention_heads", 64}}).at("num_key_value_heads"),
            32);
  EXPECT_EQ(
      settings_of({{"model_type", "qwen2"}, {"num_attention_heads", 8}, {"num_key_value_heads", nullptr}})
          .at("num_key_value_heads"),
      8);
}

// Version 4 of transformers wrote configurations like this.
TEST(HuggingFaceConfig, OlderSpellings) {
  json config = read_json(checkpoints() / "qwen2_tied/config.json");
  for (const char* name : {"rope_parameters", "dtype", "layer_types"}) config.erase(name);
  config["rope_theta"] = 5e5;
  config["rope_scaling"] = nullptr;
  config["torch_dtype"] = "bfloat16";
  config["sliding_window"] = 4096;
  const auto read = hf::read_config(config, "config.json");
  EXPECT_EQ(read.settings.at("rope_theta"), 5e5);
  EXPECT_EQ(read.settings.at("dtype"), "bf16");
}

// Returns the settings of a Llama configuration with heads of 32 and 4096 positions.
json settings_with(const std::function<void(json&)>& change) {
  json config = read_json(checkpoints() / "llama_linear/config.json");
  config["hidden_size"] = 64, config["num_attention_heads"] = 2, config["num_key_value_heads"] = 2;
  config["head_dim"] = 32, config["max_position_embeddings"] = 4096;
  change(config);
  return hf::read_config(config, "config.json").settings;
}

nn::RopeScaling scaling_of(const json& settings) {
  nn::RopeScaling scaling;
  nn::RopeScaling::fields(scaling, [&](const char* name, auto& field) {
    if (settings.contains(name)) models::read_field(name, settings.at(name), field);
  });
  return scaling;
}

TEST(HuggingFaceConfig, FrequenciesAreThoseOfTransformers) {
  const json all = read_json(checkpoints() / "expected.json");
  for (const json& one : all.at("rope")) {
    SCOPED_TRACE(one["parameters"].dump());
    const auto settings = settings_with([&](json& c) { c["rope_parameters"] = one["parameters"]; });
    const nn::RopeScaling scaling = scaling_of(settings);
    const auto frequencies = nn::rope_frequencies(settings.at("rope_theta"), 32, scaling, one["length"]);
    const std::vector<double> expected = one["frequencies"];
    ASSERT_EQ(frequencies.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i)
      EXPECT_NEAR(frequencies[i], expected[i], 3e-6 * std::abs(expected[i])) << "pair " << i;
    EXPECT_NEAR(scaling.attention_factor, one["attention_factor"], 1e-6);
  }
}

TEST(HuggingFaceConfig, OlderSpellingsOfScaledRotations) {
  const auto settings = settings_with([](json& c) {
    c.erase("rope_parameters");
    c["rope_theta"] = 5e5;
    c["rope_scaling"] = {{"type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 1024}};
  });
  EXPECT_EQ(settings.at("rope_theta"), 5e5);
  EXPECT_EQ(settings.at("rope_scaling"), "yarn");
  EXPECT_EQ(settings.at("rope_original_positions"), 1024);
  const auto of_config = settings_with([](json& c) {  // gives no length, so that of the configuration is used
    c["rope_parameters"] = {
        {"rope_type", "llama3"}, {"factor", 8.0}, {"low_freq_factor", 1}, {"high_freq_factor", 4}};
  });
  EXPECT_EQ(of_config.at("rope_original_positions"), 4096);
}

TEST(HuggingFaceConfig, RotationsThatCannotBe) {
  const auto refused = [](const json& parameters, const std::vector<std::string>& parts) {
    expect_error([&] { settings_with([&](json& c) { c["rope_parameters"] = parameters; }); }, parts);
  };
  refused({{"rope_type", "linear"}}, {"rope_parameters.factor: null"});
  refused({{"rope_type", "linear"}, {"factor", -2.0}}, {"rope_parameters.factor: -2.0"});
  refused({{"rope_type", "linear"}, {"factor", "two"}}, {"rope_parameters.factor: \"two\""});
  refused({{"rope_type", "llama3"}, {"factor", 2.0}, {"original_max_position_embeddings", "many"}},
          {"low_freq_factor: null", "high_freq_factor: null", "original_max_position_embeddings: \"many\""});
  refused({{"rope_type", "yarn"}, {"factor", 2.0}, {"truncate", 3}}, {"rope_parameters.truncate: 3"});
  refused({{"rope_type", "mrope"}}, {"rope_parameters.rope_type: \"mrope\""});
  refused({{"rope_type", 7}}, {"rope_parameters.rope_type: 7"});
  refused("yarn", {"rope_parameters is \"yarn\", expected an object"});
  refused({{"rope_type", "default"}, {"partial_rotary_factor", 0.5}}, {"partial_rotary_factor: 0.5"});
  refused({{"full_attention", {{"rope_type", "default"}}}}, {"rope_parameters.full_attention"});
}

json sliding() { return read_json(checkpoints() / "qwen2_sliding/config.json"); }

TEST(HuggingFaceConfig, Windows) {
  const auto settings_of = [](const std::function<void(json&)>& change) {
    json config = sliding();
    change(config);
    return hf::read_config(config, "config.json").settings;
  };
  const auto as_it_is = settings_of([](json&) {});
  EXPECT_EQ(as_it_is.at("sliding_window"), 5);
  EXPECT_EQ(as_it_is.at("layer_types"), (json{"full_attention", "sliding_attention"}));
  const auto by_number = settings_of([](json& c) {
    c.erase("layer_types");
    c["max_window_layers"] = 0;
  });
  EXPECT_EQ(by_number.at("layer_types"), (json{"sliding_attention", "sliding_attention"}));
  const auto unnamed = settings_of([](json& c) { c.erase("sliding_window"); });
  EXPECT_EQ(unnamed.at("sliding_window"), 4096);
  const auto none_slides = settings_of([](json& c) {
    c.erase("layer_types");
    c["max_window_layers"] = 2;
  });
  EXPECT_FALSE(none_slides.contains("sliding_window"));
  for (const char* flag : {"use_sliding_window", "sliding_window"})
    expect_error([&] { settings_of([&](json& c) { c[flag] = nullptr; }); }, {"no sliding_window is in use"});
  expect_error([&] { settings_of([](json& c) { c["sliding_window"] = -3; }); }, {"sliding_window is -3"});
  expect_error([&] { settings_of([](json& c) {
                       c["layer_types"] = {"chunked_attention", 3};
                     }); },
               {"layer_types: \"chunked_attention\""});
}

}  // namespace
}  // namespace genesis
