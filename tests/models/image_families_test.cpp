// Tests the zoo's image models: torchvision's names and numbers with small versions at two sizes, three steps of training, and
// weights from a file (images/make_zoo.py).
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "executor/session.h"
#include "executor/state_dict.h"
#include "models/load_weights.h"
#include "models/zoo.h"
#include "passes/training/train_step.h"
#include "schema/file/io/read_file.h"
#include "schema/file/json_text.h"
#include "schema/file/other_formats/safetensors.h"
#include "tests/error_of.h"
#include "tests/schema/file_models.h"

namespace genesis::models {
namespace {

using genesis::testing::error_of;
using nlohmann::json;

const json& cases() {
  static const json all =
      parse_json_text(read_whole_file(GENESIS_SOURCE_ROOT "/tests/models/images/zoo.json"));
  return all;
}

// The numbers between -1 and 1 of make_zoo.py.
Tensor value(const std::string& name, const Shape& shape) {
  uint32_t seed = 2166136261;
  for (const char byte : name) seed = (seed ^ static_cast<uint8_t>(byte)) * 16777619;
  std::vector<float> values(static_cast<size_t>(TensorType{DType::f32, shape}.numel()));
  for (size_t i = 0; i < values.size(); ++i) {
    uint32_t v = static_cast<uint32_t>(i) * 2654435761u ^ seed;
    v = (v ^ v >> 16) * 0x7feb352du;
    v = (v ^ v >> 15) * 0x846ca68bu;
    v ^= v >> 16;
    values[i] = static_cast<float>(v / 2147483648.0 - 1);
  }
  return Tensor::copy_of({DType::f32, shape}, values.data());
}

Tensor filled(const std::string& name, const Shape& shape) {
  const Tensor u = value(name, shape);
  const double fan = static_cast<double>(u.numel()) / static_cast<double>(u.size(0));
  const bool is_vector = u.rank() == 1,
             is_scale = name.ends_with("layer_scale") || (is_vector && name.ends_with("weight"));
  const auto [base, factor] = name.ends_with("running_var") ? std::pair(1.0, 0.5)
                              : is_scale                    ? std::pair(1.0, 0.3)
                              : is_vector                   ? std::pair(0.0, 0.1)
                                                            : std::pair(0.0, std::sqrt(3 / fan));
  std::vector<float> values;
  for (const float x : u.as<float>())
    values.push_back(static_cast<float>(static_cast<float>(base) + static_cast<float>(factor) * x));
  return Tensor::copy_of(u.type(), values.data());
}

class ImageFamily : public ::testing::TestWithParam<std::string> {
 protected:
  std::shared_ptr<Model> model(int64_t size, const std::map<std::string, std::string>& more = {}) const {
    Settings settings = {{"image_size", std::to_string(size)}};
    for (const auto& [key, setting] : cases()[GetParam()]["settings"].items()) settings[key] = setting;
    for (const auto& [key, setting] : more) settings[key] = setting;
    std::shared_ptr<Model> model = make_uninitialized_model(GetParam(), settings);
    for (int32_t i = 0; i < static_cast<int32_t>(model->states().size()); ++i)
      if (const State& state = model->state(i);
          is_in_state_dict(state) && state.name.find(".dfl.") == std::string::npos)
        model->set_initial(i, filled(state.name, state.type.shape));
    return model;
  }
};

TEST_P(ImageFamily, ComputesWhatTorchvisionDoes) {
  for (const json& one : cases()[GetParam()]["cases"]) {
    const int64_t size = one["size"], batch = one["batch"];
    Session session(model(size), {.threads = 1});
    const std::vector<double> got =
        session.run("forward", {{"x", value("x", {batch, 3, size, size})}}).begin()->second.to_doubles();
    double largest = 0;
    for (const double logit : one["logits"]) largest = std::max(largest, std::abs(logit));
    ASSERT_GE(got.size(), one["logits"].size());
    for (size_t i = 0; i < one["logits"].size(); ++i)
      ASSERT_NEAR(got[i], one["logits"][i].get<double>(), 1e-4 * largest) << size << " at " << i;
  }
}

TEST_P(ImageFamily, TrainsAsTorchvisionDoes) {
  const int64_t size = cases()[GetParam()]["cases"].back()["size"];
  const auto trained = model(size);
  if (!trained->find_entry("loss")) GTEST_SKIP() << "it only infers";
  passes::add_training(*trained, passes::parse_train_options("sgd,lr=0.05"));
  Session session(trained, {.threads = 1});
  const Shape& shape = trained->entry("loss").type(trained->entry("loss").inputs()[1]).shape;
  std::vector<int64_t> sizes = {4}, targets;
  for (int axis = 1; axis < shape.rank(); ++axis) sizes.push_back(shape[axis].value());
  const int64_t count = TensorType{DType::i64, Shape::of(sizes)}.numel();
  for (int64_t i = 0; i < count; ++i) targets.push_back(i * 7 % 10);
  for (int step = 0; step < 3; ++step) {
    const NamedTensors out =
        session.run("train_step", {{"x", value("x" + std::to_string(step), {4, 3, size, size})},
                                   {"target", Tensor::of<int64_t>(sizes, targets)}});
    const double expected = cases()[GetParam()]["losses"][static_cast<size_t>(step)];
    EXPECT_NEAR(out.at("loss").item<double>(), expected, 1e-4 * expected) << step;
    EXPECT_GE(out.at("accuracy").item<double>(), 0);
    EXPECT_LE(out.at("accuracy").item<double>(), 1);
  }
}

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const auto& [name, one] : cases().items()) all.push_back(name);
  return all;
}
INSTANTIATE_TEST_SUITE_P(Zoo, ImageFamily, ::testing::ValuesIn(names()),
                         [](const auto& info) { return info.param; });

// Every size of a network is a model; those without a case above differ by their standard settings only.
TEST(ImageFamilies, HaveTheWeightsOfTorchvision) {
  const std::map<std::string, int64_t> parameters = {
      {"resnet18", 11689512},          {"resnet34", 21797672},       {"resnet50", 25557032},
      {"resnet101", 44549160},         {"resnet152", 60192808},      {"mobilenet_v3_small", 2542856},
      {"mobilenet_v3_large", 5483032}, {"efficientnet_b0", 5288548}, {"convnext_tiny", 28589128},
      {"vit_b_16", 86567656},          {"swin_t", 28288354},         {"yolo_n", 3157184}};
  for (const auto& [name, expected] : parameters) {
    const auto model = make_uninitialized_model(name, {});
    int64_t count = 0;
    for (const State& state : model->states())
      if (state.role == StateRole::kParameter) count += state.type.numel();
    EXPECT_EQ(count, expected) << name;
  }
}

TEST(ImageFamilies, TakeWeightsFromAFile) {
  const genesis::testing::TemporaryFolder folder;
  const Settings small = {{"base_channels", "2"}, {"image_size", "16"}};
  const auto from = make_model("unet", small, 1), to = make_model("unet", small, 2);
  SafeTensors file{.tensors = state_dict(*from)};
  file.tensors.emplace("inc.double_conv.1.num_batches_tracked", Tensor::scalar<int64_t>(3));
  write_safetensors(folder / "w.safetensors", file);
  load_weights(*to, folder / "w.safetensors");
  EXPECT_EQ(state_dict(*to).at("outc.conv.weight").to_doubles(),
            file.tensors.at("outc.conv.weight").to_doubles());
  Settings other = small;
  other["num_classes"] = "5";
  const auto more = make_model("unet", other, 3);
  EXPECT_NE(error_of([&] { load_weights(*more, folder / "w.safetensors"); }).find("outc.conv.bias"),
            std::string::npos);
  load_weights(*more, folder / "w.safetensors", {"outc.*"});
  file.tensors.erase("inc.double_conv.0.weight");
  write_safetensors(folder / "less.safetensors", file);
  EXPECT_NE(
      error_of([&] { load_weights(*to, folder / "less.safetensors"); }).find("inc.double_conv.0.weight"),
      std::string::npos);
}

TEST(ImageFamilies, RefuseSettingsThatDoNotFit) {
  for (const auto& [name, settings, part] : std::vector<std::tuple<std::string, Settings, std::string>>{
           {"resnet18", {{"layers", "1,2"}}, "4 stages"},
           {"resnet18", {{"groups", "2"}}, "bottleneck"},
           {"mobilenet_v3_small", {{"width_mult", "0"}}, "width_mult"},
           {"efficientnet_b0", {{"dropout", "1"}}, "dropout"},
           {"convnext_tiny", {{"layers", "1"}}, "stage"},
           {"vit_b_16", {{"patch_size", "15"}}, "patch_size"},
           {"swin_t", {{"num_heads", "5,6,12,24"}}, "heads"},
           {"unet", {{"image_size", "20"}}, "multiple of 16"}})
    EXPECT_NE(error_of([&, &name = name, &settings = settings] { make_model(name, settings); }).find(part),
              std::string::npos)
        << name;
}

}  // namespace
}  // namespace genesis::models
