// Tests that quantized checkpoints (hugging_face/make_quantized.py) give the values that other libraries decode them to, bit for bit,
// that weights which a format of the library holds are kept, and that damaged ones are refused with all reasons.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>

#include "executor/session.h"
#include "executor/state_dict.h"
#include "models/formats/hugging_face/export.h"
#include "models/formats/hugging_face/import.h"
#include "models/formats/hugging_face/quantized/keep.h"
#include "models/formats/hugging_face/quantized/make_weight.h"
#include "models/formats/hugging_face/quantized/methods.h"
#include "schema/encoding/quantized_formats.h"
#include "tests/error_of.h"
#include "tests/models/checkpoints.h"
#include "tests/models/safetensors_bytes.h"
#include "tests/op_harness.h"

namespace genesis {
namespace {

namespace fs = std::filesystem;
namespace hf = models::hugging_face;
namespace quantized = hf::quantized;
using nlohmann::json;
using testing::error_of;
using testing::expect_error;

fs::path folder_of(const std::string& name) { return testing::checkpoints() / "quantized" / name; }

NamedTensors expected_of(const std::string& name) {
  return read_safetensors(folder_of(name) / "expected.safetensors").tensors;
}

void expect_same_bytes(const Tensor& got, const Tensor& expected, const std::string& name) {
  ASSERT_EQ(got.type(), expected.type()) << name;
  if (std::memcmp(got.data(), expected.data(), static_cast<size_t>(got.bytes())) == 0) return;
  const auto a = got.to_doubles(), b = expected.to_doubles();
  size_t at = 0;
  while (at < a.size() && a[at] == b[at]) ++at;
  // Zeros may differ in their sign.
  if (at < a.size()) ADD_FAILURE() << name << " at " << at << ": " << a[at] << ", expected " << b[at];
}

// A checkpoint, and how many of its matrices are kept in which format.
struct Case {
  std::string name;
  std::map<std::string, int> kept = {};
};
void PrintTo(const Case& one, std::ostream* out) { *out << one.name; }

class QuantizedImport : public ::testing::TestWithParam<Case> {
 protected:
  std::shared_ptr<const Model> import_as(DType dtype, hf::Quantized quantized) const {
    return hf::import_model(folder_of(GetParam().name), {{"dtype", std::string(name_of(dtype))}}, nullptr, {},
                            quantized);
  }
};

// The parts of phi3's fused matrices, below each other.
Tensor whole_of(const NamedTensors& values, const std::string& name) {
  const std::map<std::string, std::vector<std::string>> kFused = {
      {"self_attn.qkv_proj.weight",
       {"self_attn.q_proj.weight", "self_attn.k_proj.weight", "self_attn.v_proj.weight"}},
      {"mlp.gate_up_proj.weight", {"mlp.gate_proj.weight", "mlp.up_proj.weight"}}};
  for (const auto& [whole, parts] : kFused) {
    if (!name.ends_with(whole)) continue;
    std::vector<std::byte> bytes;
    int64_t rows = 0;
    for (const std::string& part : parts) {
      const Tensor& value = values.at(name.substr(0, name.size() - whole.size()) + part);
      bytes.insert(bytes.end(), value.data(), value.data() + value.bytes());
      rows += value.size(0);
    }
    return Tensor::copy_of({values.begin()->second.dtype(), {rows, 32}}, bytes.data());
  }
  return values.at(name);
}

TEST_P(QuantizedImport, GivesTheValuesOfOtherLibraries) {
  const NamedTensors expected = expected_of(GetParam().name);
  const DType dtype = expected.begin()->second.dtype();
  for (const auto quantized : {hf::Quantized::kWidened, hf::Quantized::kKept}) {
    const NamedTensors values = state_dict(*import_as(dtype, quantized));
    for (const auto& [name, value] : expected) expect_same_bytes(whole_of(values, name), value, name);
  }
}

TEST_P(QuantizedImport, KeepsWhatAFormatHolds) {
  const auto model = import_as(DType::bf16, hf::Quantized::kKept);
  std::map<std::string, int> kept;
  for (const State& state : model->states())
    if (state.encoded) {
      ++kept[std::string(state.encoded.format->name)];
      EXPECT_FALSE(state.trainable);
    }
  EXPECT_EQ(kept, GetParam().kept);
  const auto widened = import_as(DType::bf16, hf::Quantized::kWidened);
  for (const State& state : widened->states()) EXPECT_FALSE(state.encoded) << state.name;
}

// Logits of weights that are kept are those of widened weights, but for the rounding of products.
TEST_P(QuantizedImport, Computes) {
  const auto logits = [&](hf::Quantized quantized) {
    Session session(import_as(DType::f32, quantized));
    const Tensor tokens = Tensor::of<int64_t>({1, 6}, {5, 1, 30, 0, 7, 22});
    return session.run("forward", {{"tokens", tokens}})["logits"].to_doubles();
  };
  const auto widened = logits(hf::Quantized::kWidened), kept = logits(hf::Quantized::kKept);
  ASSERT_EQ(widened.size(), kept.size());
  for (size_t i = 0; i < kept.size(); ++i)
    EXPECT_NEAR(widened[i], kept[i], 0.02 * (1 + std::abs(widened[i])));
}

TEST_P(QuantizedImport, IsExportedAsPlainWeights) {
  const fs::path out = fs::temp_directory_path() / "genesis_quantized_export";
  const auto model = import_as(DType::bf16, hf::Quantized::kKept);
  hf::export_model(*model, out);
  EXPECT_FALSE(read_json_file(out / "config.json").contains("quantization_config"));
  const NamedTensors values = state_dict(*model), again = state_dict(*hf::import_model(out));
  ASSERT_EQ(values.size(), again.size());
  for (const auto& [name, value] : values) expect_same_bytes(again.at(name), value, name);
  fs::remove_all(out);
}

using Counts = std::map<std::string, int>;
INSTANTIATE_TEST_SUITE_P(
    Checkpoints, QuantizedImport,
    ::testing::Values(Case{"fp8_blocks"}, Case{"fp8_tensor"}, Case{"fbgemm_fp8"}, Case{"modelopt_fp8"},
                      Case{"modelopt_nvfp4"}, Case{"compressed_mixed", Counts{{"q4", 1}}},
                      Case{"compressed_int4", Counts{{"q4", 7}}}, Case{"compressed_int8", Counts{{"q8", 7}}},
                      Case{"gptq", Counts{{"q4", 7}}}, Case{"gptq_phi3", Counts{{"q4", 7}}},
                      Case{"gptq_act_order"}, Case{"gptq_v2"}, Case{"awq", Counts{{"q8", 7}}},
                      Case{"bitsandbytes_nf4"}, Case{"bitsandbytes_fp4"}, Case{"bitsandbytes_int8"}),
    [](const auto& info) { return info.param.name; });

// The fixture has one tensor of experts, so the weights are compared without a model.
TEST(QuantizedExperts, OfMxfp4AreDecoded) {
  OtherTensors others;
  NamedTensors tensors = read_safetensors(folder_of("mxfp4_experts") / "model.safetensors", &others).tensors;
  quantized::StoredTensors stored(tensors, others);
  const auto weights = quantized::take_encoded(
      read_json_file(folder_of("mxfp4_experts") / "config.json")["quantization_config"], stored);
  EXPECT_TRUE(tensors.empty());
  for (const auto& [name, value] : expected_of("mxfp4_experts")) {
    ASSERT_TRUE(weights.contains(name));
    expect_same_bytes(decode(weights.at(name), value.dtype()), value, name);
    EXPECT_FALSE(kept(weights.at(name), DType::bf16));
  }
}

// --- what is refused

// A copy of a checkpoint, of which a test changes tensors.
class DamagedQuantized : public ::testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_); }
  void TearDown() override { fs::remove_all(folder_); }

  void copy(const std::string& name) {
    fs::copy(folder_of(name), folder_, fs::copy_options::overwrite_existing | fs::copy_options::recursive);
  }
  void change_config(const std::function<void(json&)>& how) {
    json config = read_json_file(folder_ / "config.json");
    how(config["quantization_config"]);
    std::ofstream(folder_ / "config.json") << config.dump();
  }
  void change_tensors(const std::function<void(testing::SafetensorsBytes&)>& how) {
    testing::SafetensorsBytes file(folder_ / "model.safetensors");
    how(file);
    file.write(folder_ / "model.safetensors");
  }
  void refused(const std::vector<std::string>& parts) {
    expect_error([&] { hf::import_model(folder_); }, parts);
  }

  const fs::path folder_ = fs::temp_directory_path() / "genesis_damaged_quantized";
};

constexpr const char *kQ = "model.layers.0.self_attn.q_proj", *kUp = "model.layers.0.mlp.up_proj";

TEST_F(DamagedQuantized, ListsAllThatIsMissing) {
  copy("fp8_blocks");
  change_tensors([](auto& file) {
    file.erase(std::string(kQ) + ".weight_scale_inv");
    file.erase(std::string(kUp) + ".weight_scale_inv");
  });
  refused({"quantized by fp8", "2 quantized weights do not fit",
           std::string(kQ) + ".weight_scale_inv' is missing",
           std::string(kUp) + ".weight_scale_inv' is missing"});
  copy("gptq");
  change_tensors([](auto& file) { file.erase(std::string(kQ) + ".qzeros"); });
  refused({"qzeros' is missing"});
  copy("compressed_int4");
  change_tensors([](auto& file) { file.erase(std::string(kQ) + ".weight_shape"); });
  refused({"weight_shape' is missing"});
  copy("bitsandbytes_nf4");
  change_tensors([](auto& file) { file.erase(std::string(kQ) + ".weight.nested_absmax"); });
  refused({"nested_absmax' is missing"});
}

TEST_F(DamagedQuantized, GroupsThatDoNotExist) {
  copy("gptq_act_order");
  change_tensors([](auto& file) { file.template set<int32_t>(std::string(kQ) + ".g_idx", 3, 7); });
  refused({"g_idx names group 7 for input 3, and there are 2 groups"});
  change_tensors([](auto& file) { file.template set<int32_t>(std::string(kQ) + ".g_idx", 3, -5); });
  refused({"g_idx names group -5"});
}

TEST_F(DamagedQuantized, SizesThatContradict) {
  copy("gptq");
  change_config([](json& c) { c["bits"] = 8; });
  refused({"7 quantized weights", "fit none of these bits: 8"});
  change_config([](json& c) { c["bits"] = 4, c["group_size"] = 0; });
  refused({"group_size is 0"});
  change_config([](json& c) { c["group_size"] = 24; });
  refused({"64 inputs in groups of 24 have 3 groups, and its scales have 2"});
  copy("fp8_blocks");
  change_config([](json& c) { c["weight_block_size"] = {0, 16}; });
  refused({"weight_block_size is [0,16]"});
  change_config([](json& c) { c["weight_block_size"] = {16, 16}; });
  change_tensors([](auto& file) { file.reshape(std::string(kUp) + ".weight_scale_inv", {8}); });
  refused({"its scales are F32[8], which do not fit a weight [64,32]"});
  copy("compressed_int4");
  change_tensors([](auto& file) { file.template set<int64_t>(std::string(kQ) + ".weight_shape", 0, -3); });
  refused({"its weight_shape says -3 x 32"});
  change_tensors([](auto& file) { file.template set<int64_t>(std::string(kQ) + ".weight_shape", 0, 64); });
  refused({"'weight_packed' is I32[32,4], expected I32[64,4]"});
  copy("awq");
  change_tensors([](auto& file) { file.reshape(std::string(kQ) + ".qzeros", {4, 1}); });
  refused({"'qzeros' is I32[4,1], expected I32[1,4]"});
}

TEST_F(DamagedQuantized, TextsThatAreNone) {
  copy("bitsandbytes_nf4");
  const std::string state = std::string(kQ) + ".weight.quant_state.bitsandbytes__nf4";
  change_tensors([&](auto& file) { file.template set<uint8_t>(state, 0, '['); });
  refused({"quant_state", "expected a JSON object"});
}

TEST_F(DamagedQuantized, MethodsAndLayoutsThatAreNotRead) {
  copy("gptq");
  for (const char* method : {"hqq", "quark", "aqlm", "torchao"}) {
    change_config([&](json& c) { c["quant_method"] = method; });
    refused(
        {std::string("'") + method + "', which is not read", "gptq", "compressed-tensors", "dequantize()"});
  }
  change_config([&](json& c) { c["quant_method"] = "gptq", c["checkpoint_format"] = "marlin"; });
  refused({"checkpoint_format is 'marlin'"});
  copy("awq");
  change_config([&](json& c) { c["version"] = "gemv"; });
  refused({"version is 'gemv'"});
  copy("compressed_int4");
  change_config([&](json& c) { c["format"] = "marlin-24"; });
  refused({"format is 'marlin-24'"});
  change_config([&](json& c) {
    c["format"] = "pack-quantized", c["sparsity_config"] = {{"format", "sparse-24-bitmask"}};
  });
  refused({"sparsity_config is not read"});
}

// Older checkpoints say it elsewhere.
TEST_F(DamagedQuantized, ConfigurationsOfOlderVersions) {
  copy("gptq");
  json config = read_json_file(folder_ / "config.json");
  std::ofstream(folder_ / "quantize_config.json") << config["quantization_config"].dump();
  config.erase("quantization_config");
  std::ofstream(folder_ / "config.json") << config.dump();
  EXPECT_TRUE(hf::import_model(folder_)->states().size() > 0);
  fs::remove(folder_ / "quantize_config.json");
  refused({"qweight"});
}

// --- blocks, codes and formats

quantized::StoredTensor scales(const std::vector<int64_t>& sizes) {
  const Tensor values = Tensor::ones(sizes);
  return {"F32", values.shape(), values};
}

TEST(QuantizedBlocks, MayBeCutOffAtTheEnds) {
  const auto blocks = quantized::blocks_of(Shape{300, 200}, scales({3, 2}), {128, 128});
  EXPECT_EQ(blocks.rows_each, 128);
  EXPECT_EQ(blocks.columns_each, 128);
  EXPECT_EQ(blocks.in_row, 2);
  // Without sizes in the configuration they divide the weight evenly.
  EXPECT_EQ(quantized::blocks_of(Shape{300, 200}, scales({3, 2}), {}).rows_each, 100);
  EXPECT_EQ(quantized::blocks_of(Shape{300, 200}, scales({}), {}).rows_each, 300);
  EXPECT_EQ(quantized::blocks_of(Shape{4, 30, 20}, scales({4, 3, 2}), {}).rows_each, 10);
  EXPECT_EQ(quantized::blocks_of(Shape{4, 30, 20}, scales({1}), {}).rows_each, 120);
  EXPECT_NE(error_of([] { quantized::blocks_of(Shape{300, 200}, scales({7, 2}), {}); }), "");
  EXPECT_NE(error_of([] { quantized::blocks_of(Shape{4, 30, 20}, scales({3, 3, 2}), {}); }), "");
}

TEST(QuantizedBlocks, AreDecodedWhereverTheyEnd) {
  // Codes 0, 1, 2, ... of 8 bits in blocks of 24 columns, whose scale is their number + 1.
  constexpr int64_t kColumns = 200;
  std::vector<int8_t> codes(2 * kColumns);
  for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<int8_t>(i);
  const Tensor bytes = Tensor::of<int8_t>({2, kColumns}, codes);
  std::vector<float> by(2 * 9);
  for (size_t i = 0; i < by.size(); ++i) by[i] = static_cast<float>(i + 1);
  const Tensor scale = Tensor::of<float>({2, 9}, by);
  const auto weight =
      quantized::weight_of_bytes({"I8", bytes.shape(), bytes}, {"F32", scale.shape(), scale}, {0, 24}, "");
  const Tensor values = decode(weight, DType::f32);
  for (int64_t i = 0; i < 2 * kColumns; ++i)
    ASSERT_EQ(values.as<float>()[static_cast<size_t>(i)],
              static_cast<float>(codes[static_cast<size_t>(i)]) *
                  by[static_cast<size_t>(i / kColumns * 9 + i % kColumns / 24)])
        << i;
}

TEST(QuantizedBlocks, AreNotKeptIfAFormatWouldRoundThem) {
  const Tensor bytes = Tensor::full({2, 64}, 3, DType::i8);
  const auto kept_with = [&](float scale, std::vector<int64_t> sizes) {
    const Tensor by = Tensor::full(sizes, scale);
    return bool(
        kept(quantized::weight_of_bytes({"I8", bytes.shape(), bytes}, {"F32", by.shape(), by}, {}, ""),
             DType::bf16));
  };
  EXPECT_TRUE(kept_with(0.5f, {2, 1}));
  EXPECT_TRUE(kept_with(0.5f, {2, 2}));
  EXPECT_FALSE(kept_with(0.5f, {2, 4}));  // blocks of 16
  EXPECT_FALSE(kept_with(0.1f, {2, 1}));  // no number of f16
  EXPECT_FALSE(kept_with(1e30f, {2, 1}));
}

TEST(QuantizedBlocks, ValuesBeyondF16AreRefused) {
  const Tensor bytes = Tensor::full({2, 64}, 3, DType::i8), by = Tensor::full({2, 1}, 1e5);
  const auto weight =
      quantized::weight_of_bytes({"I8", bytes.shape(), bytes}, {"F32", by.shape(), by}, {}, "");
  EXPECT_NE(error_of([&] { decode(weight, DType::f16); }).find("300000 is beyond the range of f16"),
            std::string::npos);
  EXPECT_EQ(decode(weight, DType::bf16).to_doubles()[0], static_cast<double>(static_cast<float>(bf16(3e5f))));
}

}  // namespace
}  // namespace genesis
