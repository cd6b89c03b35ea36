#include "tests/schema/file_models.h"

#include <fstream>
#include <iterator>
#include <limits>
#include <random>

#include "schema/file/reader.h"
#include "schema/ops/cast.h"
#include "schema/ops/elementwise.h"
#include "schema/ops/reduce.h"
#include "schema/ops/reshape.h"

namespace genesis::testing {
namespace {

const Dim kBatch = Dim::symbol("batch"), kSeq = Dim::symbol("seq");

void add_tables(Model& model) {
  const Tensor tied = Tensor::of<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  model.add_state({"embed.weight", tied.type(), StateRole::kParameter, true, tied});
  model.add_state({"head.weight", tied.type(), StateRole::kParameter, true, tied});
  model.add_state(
      {"head.bias", {DType::f32, {3}}, StateRole::kParameter, true, Tensor::of<float>({3}, {7, 8, 9})});
  model.add_state({"cache", {DType::bf16, {4, 1 << 20}}, StateRole::kCache, false, {}});
  model.add_state({"step", {DType::i64, {}}, StateRole::kStep, false, Tensor::scalar<int64_t>(41)});
  model.add_state(
      {"nothing", {DType::f32, {0, 5}}, StateRole::kBuffer, false, Tensor::zeros({DType::f32, {0, 5}})});
  model.add_tensor("mask", Tensor::of<bool>({3}, {true, false, true}));
  model.add_tensor("scale", Tensor::of<float>({3}, {0.5F, -0.0F, std::numeric_limits<float>::infinity()}));
  model.add_tensor("half", Tensor::scalar(0.5F));
  model.add_tensor("one", Tensor::scalar<int64_t>(1));
  model.metadata = {
      {"architecture", "test"}, {"config", "{\"hidden\": 3}"}, {"text", std::string("a\0\n\xff", 4)}};
}

void add_forward(Model& model) {
  Graph& graph = model.add_entry("forward");
  const Value x = graph.add_input("x", {DType::f32, {kBatch, kSeq * 2, 3}});
  const NameScope scope(graph, "layers");
  Value y = add(x, graph.state(model.find_state("head.bias")));
  y = clamp(gelu(y, GeluKind::kTanh), -std::numeric_limits<double>::infinity(), 2.5);
  graph.set_origins({"layers.0.act", "layers.0.act.fused"});
  y = where(graph.constant(0), y, mul(y, graph.constant(1)));
  graph.set_origins({});
  graph.add_output("y", reshape(y, Shape{kBatch * kSeq * 6}));
  graph.add_output("half", cast(y, DType::bf16));
}

void add_train_step(Model& model) {
  Graph& graph = model.add_entry("train_step");
  const Value weight = graph.state(0), step = graph.state(model.find_state("step"));
  graph.add_output("norm", sum(square(weight)));
  graph.add_update(0, mul(weight, graph.constant(2)));
  graph.add_update(model.find_state("step"), add(step, graph.constant(3)));
}

}  // namespace

std::unique_ptr<Model> rich_model() {
  auto model = std::make_unique<Model>();
  add_tables(*model);
  add_forward(*model);
  add_train_step(*model);
  return model;
}

TemporaryFolder::TemporaryFolder() {
  path_ = std::filesystem::temp_directory_path() / ("genesis_test_" + std::to_string(std::random_device()()));
  std::filesystem::create_directories(path_);
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

size_t TemporaryFolder::count_files() const {
  const std::filesystem::directory_iterator all(path_);
  return static_cast<size_t>(std::distance(begin(all), end(all)));
}

std::string read_bytes(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write_bytes(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

std::string load_error(const std::filesystem::path& path) {
  try {
    load_model(path);
    return "";
  } catch (const Error& error) {
    return error.message();
  }
}

}  // namespace genesis::testing
