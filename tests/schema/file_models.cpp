#include "tests/schema/file_models.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <random>

#include "schema/encoding/quantized_formats.h"
#include "schema/file/attached_files.h"
#include "schema/file/format/flat.h"
#include "schema/file/format/format.h"
#include "schema/file/layout.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/nn/matmul.h"
#include "schema/ops/nn/softmax.h"
#include "schema/ops/tensor/reduce.h"
#include "schema/ops/tensor/reshape.h"
#include "schema/ops/tensor/slice.h"

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
  attach_file(model, "tokenizer.json", "{\"model\": {}}");
  attach_file(model, "empty.txt", "");
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

std::unique_ptr<Model> golden_model() {
  auto model = std::make_unique<Model>();
  model->metadata = {{"architecture", "golden"}, {"config", "{}"}};
  const Tensor weight = Tensor::of<float>({4, 2}, {0.5F, -1, 2, 0.25F, -3, 1.5F, 8, 0});
  model->add_state({"proj.weight", weight.type(), StateRole::kParameter, true, weight});
  model->add_state({"tied.weight", weight.type(), StateRole::kParameter, true, weight});
  model->add_state({"step", {DType::i64, {}}, StateRole::kStep, false, Tensor::scalar<int64_t>(3)});
  model->add_state({"cache", {DType::bf16, {1, 8}}, StateRole::kCache, false, {}});
  model->add_tensor("mask", Tensor::of<bool>({2}, {true, false}));
  model->add_tensor("one", Tensor::scalar<int64_t>(1));
  Graph& graph = model->add_entry("forward");
  const Value x = graph.add_input("x", {DType::f32, {kBatch, kSeq, 2}});
  {
    const NameScope scope(graph, "layers.0");
    Value y = linear(x, graph.state(0));
    const std::vector<Value> halves = split(y, {2, 2}, -1);
    graph.set_origins({"layers.0.act"});
    const Value gate = gelu(halves[0], GeluKind::kTanh);
    y = mul(gate, softmax(halves[1]));
    graph.set_origins({});
    y = where(graph.constant(0), clamp(y, -1.5, std::numeric_limits<double>::infinity()), x);
    graph.add_output("y", cast(reshape(y, Shape{kBatch * kSeq * 2}), DType::bf16));
  }
  graph.add_update(2, add(graph.state(2), graph.constant(1)));
  return model;
}

std::unique_ptr<Model> golden_model_of_version_2() {
  auto model = golden_model();
  std::vector<float> values;
  for (int i = 0; i < 64; ++i) values.push_back(static_cast<float>(i * 37 % 64 - 31) / 16);
  const Tensor weight = Tensor::of<float>({2, 32}, values);
  for (const WeightFormat format : {WeightFormat::kQ8, WeightFormat::kQ4}) {
    const StateFormat& row = quantized_format(format, DType::f32);
    const int32_t state = model->add_state({std::string(row.name) + ".weight", weight.type(), {}, false, {}});
    model->set_encoded(state, encode_tensor(row, weight));
  }
  return model;
}

std::unique_ptr<Model> golden_model_of_version_3() {
  auto model = golden_model_of_version_2();
  model->add_state({"joined.weight", {DType::f32, {2, 4}}, StateRole::kParameter, true, {}});
  return model;
}

// Adds a state joined from two files with two columns each.
SaveOptions golden_options_of_version_3() {
  SaveOptions options;
  options.joined["joined.weight"] = {
      {Tensor::of<float>({4}, {0.0f, 1.0f, 4.0f, 5.0f}), Tensor::of<float>({4}, {2.0f, 3.0f, 6.0f, 7.0f})},
      2};
  return options;
}

std::unique_ptr<Model> golden_model_of_version_4() {
  auto model = golden_model_of_version_3();
  model->add_state({"joined.of_sets", {DType::f32, {2, 4}}, StateRole::kParameter, true, {}});
  return model;
}

// Adds a state joined from two sets with two columns each; each set has two pieces of one row.
SaveOptions golden_options_of_version_4() {
  SaveOptions options = golden_options_of_version_3();
  JoinedValues& joined = options.joined["joined.of_sets"];
  for (const float first : {0.0f, 4.0f, 2.0f, 6.0f})
    joined.pieces.push_back(Tensor::of<float>({2}, {first, first + 1}));
  joined.runs = joined.pieces_each = 2;
  return options;
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

std::string file_of(const file::ModelRecord& record, const std::string& data) {
  const std::vector<std::byte> graph = file::encode_graph(record);
  file::Header header;
  header.major = record.major();
  header.graph_bytes = graph.size();
  header.data_offset = file::data_offset_for(graph.size(), !data.empty());
  header.file_bytes = header.data_offset + data.size();
  const auto start = file::encode_header(header, graph);
  std::string bytes(reinterpret_cast<const char*>(start.data()), start.size());
  bytes.append(reinterpret_cast<const char*>(graph.data()), graph.size());
  bytes.resize(header.data_offset);
  return bytes + data;
}

std::string file_of(const Model& model, const SaveOptions& options) {
  const file::Layout layout = file::lay_out(model, options);
  std::string data(layout.data_bytes, '\0');
  for (const file::Piece& piece : layout.pieces)
    std::memcpy(data.data() + piece.offset, piece.bytes.data(), piece.bytes.size());
  return file_of(layout.record, data);
}

void fix_header(std::string& bytes) {
  if (bytes.size() < file::kHeaderBytes) return;
  file::Header header;
  std::memcpy(&header.graph_bytes, bytes.data() + 24, 8);
  header.graph_bytes = std::min<uint64_t>(header.graph_bytes, bytes.size() - file::kHeaderBytes);
  header.file_bytes = bytes.size();
  header.data_offset = file::data_offset_for(header.graph_bytes, true);
  if (header.data_offset >= bytes.size()) {
    header.data_offset = file::kHeaderBytes + header.graph_bytes;
    header.file_bytes = header.data_offset;
    bytes.resize(header.file_bytes);
  }
  const auto start = file::encode_header(
      header, std::as_bytes(std::span(bytes)).subspan(file::kHeaderBytes, header.graph_bytes));
  std::memcpy(bytes.data(), start.data(), start.size());
}

std::unique_ptr<Model> load_bytes(const std::string& bytes, const LoadOptions& options) {
  std::byte* copy = nullptr;  // aligned as a mapping is
  const auto size = static_cast<int64_t>(bytes.size());
  const auto memory = std::make_shared<Tensor>(Tensor::uninitialized({DType::u8, {size}}, &copy));
  if (size > 0) std::memcpy(copy, bytes.data(), bytes.size());
  return load_model_from(memory, {copy, bytes.size()}, options);
}

std::string read_bytes(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write_bytes(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

std::string load_error(const std::filesystem::path& path, const LoadOptions& options) {
  try {
    load_model(path, options);
    return "";
  } catch (const Error& error) {
    return error.message();
  }
}

}  // namespace genesis::testing
