// Tests that exported ONNX models compute what the model computes, read back by our own importer.
#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "builder/genesis.h"
#include "builder/graph_builder.h"
#include "builder/image_layers.h"
#include "builder/layers.h"
#include "builder/recurrent.h"
#include "executor/session.h"
#include "models/formats/onnx/export/export.h"
#include "models/formats/onnx/export/patch.h"
#include "models/formats/onnx/import.h"
#include "schema/file/io/read_file.h"
#include "schema/file/other_formats/npy.h"
#include "schema/graph/text.h"
#include "schema/ops/tensor/bounded.h"
#include "tests/error_of.h"
#include "tests/executor/loop_models.h"
#include "tests/models/small_families.h"

namespace genesis {
namespace {

namespace fs = std::filesystem;
using models::onnx::export_model;
using testing::error_of;

// A file of this test's own, which is removed with its external data.
class OnnxPath {
 public:
  ~OnnxPath() { fs::remove(path_), fs::remove(path_.string() + ".data"); }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_ = fs::temp_directory_path() / ("genesis_export_" + std::to_string(::getpid()) + ".onnx");
};

double largest_difference(const Tensor& a, const Tensor& b) {
  EXPECT_EQ(a.type().to_string(), b.type().to_string());
  const std::vector<double> x = a.to_doubles(), y = b.to_doubles();
  double most = 0, largest = 0;
  for (size_t i = 0; i < x.size() && i < y.size(); ++i) {
    const double difference = std::abs(x[i] - y[i]);
    if (!(difference <= most)) most = difference;  // NaN counts
    largest = std::max(largest, std::abs(x[i]));
  }
  return most / std::max(largest, 1e-6);
}

// Writes a case for export_check.py: a model, inputs and what we compute.
void write_case(const fs::path& folder, const std::shared_ptr<const Model>& model, const NamedTensors& inputs,
                const std::string& entry = "forward") {
  fs::create_directories(folder);
  export_model(*model, folder / "model.onnx", {.entry = entry});
  std::ofstream names(folder / "names.txt");
  int count = 0;
  const auto put = [&](const std::string& kind, const NamedTensors& tensors) {
    for (const auto& [name, tensor] : tensors) {
      const std::string file = std::to_string(count++) + ".npy";
      write_npy(folder / file, tensor);
      names << kind << "\t" << name << "\t" << file << "\n";
    }
  };
  put("in", inputs);
  put("out", Session(model, {.threads = 1}).run(entry, inputs));
}

// Runs an entry point and what became of it as ONNX with the same inputs.
void expect_same(const std::shared_ptr<const Model>& model, const std::vector<NamedTensors>& runs,
                 models::onnx::ExportOptions options = {}) {
  const OnnxPath file;
  export_model(*model, file.path(), options);
  const std::shared_ptr<const Model> read = models::onnx::import_model(file.path());
  Session ours(model, {.threads = 1}), theirs(read, {.threads = 1});
  for (const NamedTensors& inputs : runs) {
    const NamedTensors expected = ours.run(options.entry, inputs), got = theirs.run("forward", inputs);
    for (const auto& [name, tensor] : expected)
      EXPECT_LT(largest_difference(tensor, got.at(name)), 1e-5) << name;
  }
}

NamedTensors tokens(int64_t rows, int64_t length) {
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < rows * length; ++i) ids.push_back(i * 7 % 61);
  return {{"tokens", Tensor::of({rows, length}, ids)}};
}

TEST(OnnxExport, DecodersOfAllFamilies) {
  for (const std::string& family : testing::decoder_families()) {
    SCOPED_TRACE(family);
    const auto settings = testing::small_settings(family);
    if (settings.contains("num_experts") || settings.contains("mamba_d_state") || family == "qwen3_5")
      continue;
    expect_same(models::make_model(family, settings, /*seed=*/3), {tokens(1, 7), tokens(2, 9)});
  }
}

std::shared_ptr<const Model> bert() {
  return models::make_model("bert", {{"vocab_size", "61"},
                                     {"hidden_size", "16"},
                                     {"intermediate_size", "32"},
                                     {"num_hidden_layers", "1"},
                                     {"num_attention_heads", "2"}});
}
NamedTensors bert_inputs() {
  NamedTensors inputs = tokens(2, 6);
  inputs["lengths"] = Tensor::of(std::vector<int64_t>{6, 3});
  inputs["token_types"] = Tensor::zeros({DType::i64, {2, 6}});
  return inputs;
}
std::shared_ptr<const Model> gpt2() {
  return models::make_model("gpt2",
                            {{"vocab_size", "61"}, {"n_embd", "16"}, {"n_layer", "1"}, {"n_head", "2"}});
}
NamedTensors with_targets(NamedTensors inputs) {
  inputs["targets"] = inputs["tokens"];
  return inputs;
}

TEST(OnnxExport, EncodersAndLosses) {
  expect_same(bert(), {bert_inputs()});
  expect_same(gpt2(), {with_targets(tokens(2, 6))}, {.entry = "loss"});
}

// A cache is an input, and an output under the name NAME.updated.
TEST(OnnxExport, CachesAreInputsAndOutputs) {
  const std::shared_ptr<const Model> model = models::make_model("qwen3", testing::small_settings("qwen3"), 3);
  for (const char* entry : {"prefill", "decode"}) {
    const OnnxPath file;
    export_model(*model, file.path(), {.entry = entry});
    Session ours(model, {.threads = 1}), theirs(models::onnx::import_model(file.path()), {.threads = 1});
    NamedTensors inputs = tokens(1, entry == std::string("decode") ? 1 : 5);
    inputs["position"] = Tensor::of(std::vector<int64_t>{3});
    if (has_input(model->entry(entry), "length")) inputs["length"] = Tensor::of(std::vector<int64_t>{4});
    NamedTensors with_caches = inputs;
    for (const State& state : model->states())
      if (state.role == StateRole::kCache) {
        with_caches[state.name] = Tensor::rand(state.type.shape.sizes(), /*seed=*/5);
        ours.set_state(state.name, with_caches[state.name]);
      }
    const NamedTensors expected = ours.run(entry, inputs), got = theirs.run("forward", with_caches);
    EXPECT_LT(largest_difference(expected.at("logits"), got.at("logits")), 1e-5) << entry;
    for (const auto& [name, tensor] : got) {
      if (!name.ends_with(".updated")) continue;
      EXPECT_LT(largest_difference(ours.state(name.substr(0, name.size() - 8)), tensor), 1e-5) << name;
    }
    EXPECT_EQ(got.size(), 5u);  // logits, and keys and values of two layers
  }
}

std::shared_ptr<Model> image_model() {
  auto model = std::make_shared<Model>();
  const Scope root(*model, /*seed=*/1);
  const nn::Conv2d conv1(root / "conv1", 3, 8, {3}, {.conv = {.stride = {2}, .padding = {1}}});
  const nn::BatchNorm2d norm(root / "bn1", 8);
  const nn::Conv2d depthwise(root / "conv2", 8, 8, {3},
                             {.conv = {.padding = {2}, .dilation = {2}, .groups = 8}, .bias = false});
  const nn::GroupNorm groups(root / "groups", 2, 8);
  const nn::ConvTranspose2d up(root / "up", 8, 4, {3}, {.conv = {.stride = {2}}, .output_padding = {1}});
  const nn::Linear head(root / "head", 4, 5);
  GraphBuilder g(*model, "forward");
  Value x = g.input("x", DType::f32, {symbol("batch"), 3, 33, 30});
  x = nn::MaxPool2d{{.window = {3}, .stride = {2}, .padding = {1}}}(hardswish(norm(conv1(x))));
  x = nn::AvgPool2d{{.window = {2}, .stride = {2}}}(groups(depthwise(x)));
  x = up(x);
  g.output("features", x);
  g.output("classes", head(mean(x, {2, 3})));
  return model;
}

TEST(OnnxExport, ConvolutionalNetworks) {
  expect_same(image_model(), {{{"x", Tensor::rand({2, 3, 33, 30}, 4)}}});
}

// A network with running statistics of its own, in training or in evaluation.
std::shared_ptr<Model> normalized_model(Mode mode) {
  auto model = std::make_shared<Model>();
  const Scope root(*model, /*seed=*/1);
  const nn::Conv2d conv(root / "conv", 3, 4, {3});
  const nn::BatchNorm2d norm(root / "norm", 4);
  const nn::Dropout dropout(root / "dropout", 0.5);
  GraphBuilder g(*model, "forward", mode);
  g.output("y", dropout(relu(norm(conv(g.input("x", DType::f32, {symbol("batch"), 3, 6, 5}))))));
  for (const char* name : {"norm.running_mean", "norm.running_var"})
    model->set_initial(model->find_state(name), Tensor::rand({4}, name[13] == 'm' ? 5 : 6));
  return model;
}

TEST(OnnxExport, TrainingGraphsAreWrittenForEvaluation) {
  const OnnxPath file;
  const auto exported = export_model(*normalized_model(Mode::kTrain), file.path());
  EXPECT_EQ(exported.batch_norms, 1);
  EXPECT_EQ(exported.dropouts, 1);
  const std::shared_ptr<const Model> read = models::onnx::import_model(file.path());
  EXPECT_EQ(read->entry("forward").outputs().size(), 1u);  // no statistics are updated
  const NamedTensors inputs = {{"x", Tensor::rand({2, 3, 6, 5}, 4)}};
  const Tensor expected =
      Session(normalized_model(Mode::kEval), {.threads = 1}).run("forward", inputs).at("y");
  EXPECT_LT(largest_difference(expected, Session(read, {.threads = 1}).run("forward", inputs).at("y")), 1e-6);
}

// Layers of each cell with open sizes; the last one has products that no plain linear makes.
std::shared_ptr<const Model> recurrent_model() {
  auto model = std::make_shared<Model>();
  const Scope root(*model, 3);
  GraphBuilder g(*model, "forward");
  const Value x = g.input("x", DType::f32, {symbol("time"), symbol("batch"), 5});
  const auto [y, h, c] = nn::LSTM(root / "lstm", 5, 4, {.bidirectional = true})(x);
  const RecurrentResult z = nn::GRU(root / "gru", 8, 3)(y);
  g.output("c", c), g.output("h", z.h);
  const Value w = nn::RNN(root / "rnn", 3, 3, {}, "relu")(z.y, z.h).y;
  const Value zero = zeros(*x.graph, {x.dim(1), 3}, DType::f32),
              two = full(*x.graph, {x.dim(1)}, 2, DType::i64);
  g.output("y", recurrent(RecurrentCell::kTanh, tanh(w), full(*x.graph, {3, 3}, 0.5), zero, {}, two, true).y);
  return model;
}
NamedTensors recurrent_inputs() { return {{"x", Tensor::rand({6, 2, 5}, 4)}}; }

TEST(OnnxExport, RecurrentLayers) {
  expect_same(recurrent_model(), {recurrent_inputs(), {{"x", Tensor::rand({3, 1, 5}, 5)}}});
}

using Formula = Value (*)(Value, Value, Value);  // x and y are reals between 0 and 1, i are integers

const std::vector<Formula> kFormulas = {
    [](Value x, Value y, Value) { return atan(log1p(x) + expm1(y) - rsqrt(x + 1) * square(y)); },
    [](Value x, Value y, Value) { return remainder(x * 5 - 2, y + 0.1) + floordiv(x, y + 0.2); },
    [](Value, Value, Value i) {
      return cast(remainder(i - 3, i * 0 + 4) + floordiv(i - 9, i * 0 + 4), DType::f32);
    },
    [](Value x, Value y, Value) {
      return where(x < y, silu(x), gelu(y)) + mish(x) + elu(y - 1) + hardswish(x);
    },
    [](Value x, Value y, Value) { return clamp(x, 0.2, 0.7) + leaky_relu(y - 0.5) + softplus(x); },
    [](Value x, Value y, Value) { return cast(logical_or(x == y, logical_not(x > 0.5)), DType::f32); },
    [](Value x, Value y, Value) { return cast(isfinite(x / (y - y)), DType::f32) + pow(x + 1, y); },
    [](Value x, Value, Value) {
      return concat({flip(x, {1}), roll(x, {-2}, {1})}, 0);
    },
    [](Value x, Value, Value) {
      return pad(slice(x, 1, 0, kToEnd, 2), {1, -1}, {0, 2}, 0.5);
    },
    [](Value x, Value, Value) { return tril(x, -1) + triu(x, 2); },
    [](Value x, Value, Value) {
      return var(x, {1}) + stddev(x, {1}, 0) + logsumexp(x, {1}) + max(x, 1) + prod(x, 1);
    },
    [](Value x, Value, Value) {
      return cast(argmax(x, 1) + sum(cast(any(x > 0.9, {1}), DType::i64)), DType::f32);
    },
    [](Value x, Value y, Value) {
      return cumsum(x, 1, true) + softmax(y, 0) - log_softmax(x) + causal_softmax(y);
    },
    [](Value x, Value, Value) { return topk(x, 3).values + cast(topk(x, 3, 1, false).indices, DType::f32); },
    [](Value x, Value, Value) { return sort(x, 1, true).values + cast(argsort(x, 1), DType::f32); },
    [](Value x, Value, Value i) { return gather(x, 1, i) + scatter_add(x, 1, i, x * 2); },
    [](Value x, Value, Value i) {
      return index_add(x, 1, select(i, 0, 0), x) + index_select(x, 1, select(i, 0, 0));
    },
    [](Value x, Value, Value i) {
      return sum(one_hot(i, 7), 2) + x + cast(arange(*x.graph, x.dim(1)), DType::f32);
    },
    [](Value x, Value y, Value) {
      return matmul(x, y, true) + einsum("ab,ac->bc", {x, y});
    },
    [](Value x, Value, Value) { return dynamic_slice(x, full(*x.graph, {}, 9, DType::i64), 1, 4); },
    [](Value x, Value, Value) { return slice(x, 0, -1) + slice(x, 0, -3, -2); },
    [](Value x, Value, Value) {
      return flip(x, {0, 1}) + flip(x, {0});
    },
    [](Value x, Value, Value) {
      return slice(causal_softmax(slice(x, 1, 0, 3)), 0, 1);  // the first query sees no key: it has NaN
    },
    [](Value x, Value, Value) { return softplus(x * 3, 1, 1); },
    [](Value, Value, Value i) { return cast(clamp(i, 2, INFINITY), DType::f32); },
    [](Value x, Value, Value) {
      return rope(reshape(x, {1, x.dim(0), 1, 6}), arange(*x.graph, x.dim(0)), 50, RopeKind::kInterleaved, 4);
    },
};

std::shared_ptr<const Model> formulas() {
  auto model = std::make_shared<Model>();
  GraphBuilder g(*model, "forward");
  const Dim rows = symbol("rows");
  const Value x = g.input("x", DType::f32, {rows, 6}), y = g.input("y", DType::f32, {rows, 6}),
              i = g.input("i", DType::i64, {rows, 6});
  for (size_t k = 0; k < kFormulas.size(); ++k) g.output("out" + std::to_string(k), kFormulas[k](x, y, i));
  return model;
}
NamedTensors formula_inputs() {
  std::vector<int64_t> places;
  for (int64_t k = 0; k < 24; ++k) places.push_back((k * 5 + k / 6) % 6);
  return {{"x", Tensor::rand({4, 6}, 1)}, {"y", Tensor::rand({4, 6}, 2)}, {"i", Tensor::of({4, 6}, places)}};
}

TEST(OnnxExport, OpsOfEachKind) { expect_same(formulas(), {formula_inputs()}); }

// Rows of which the data says how many there are.
std::shared_ptr<const Model> counted_model() {
  auto model = std::make_shared<Model>();
  GraphBuilder g(*model, "forward");
  const BoundedRows places = nonzero(g.input("x", DType::f32, {Dim::symbol("rows"), 4}));
  const BoundedRows boxes =
      non_max_suppression(g.input("boxes", DType::f32, {1, 6, 4}), g.input("scores", DType::f32, {1, 2, 6}),
                          {.max_boxes = 4, .iou_threshold = 0.5, .score_threshold = 0.25});
  g.output("places", places.rows), g.output("count", places.count);
  const Value x = g.graph().input("x"), is_zero = x == 0.0;
  g.output("chosen", where(x > 1.0, is_zero, x < 0.0));  // bools
  g.output("taken", boxes.rows), g.output("boxes_taken", boxes.count);
  return model;
}
NamedTensors counted_inputs() {
  std::vector<float> x(12, 0), boxes;
  x[1] = 2, x[6] = -1, x[11] = 3;
  for (int i = 0; i < 6; ++i)
    for (const float corner : {0.0F, 0.0F, 1.0F, 1.0F})
      boxes.push_back(corner + static_cast<float>(i / 2) + 0.1F * static_cast<float>(i % 2));
  return {{"x", Tensor::of<float>({3, 4}, x)},
          {"boxes", Tensor::of<float>({1, 6, 4}, boxes)},
          {"scores", Tensor::rand({1, 2, 6}, 5)}};
}

NamedTensors nested_loop_inputs() {
  return {{"outer", Tensor::scalar(int64_t{2})},
          {"inner", Tensor::scalar(int64_t{3})},
          {"table", Tensor::of(std::vector<float>{1, 10, 100, 1000})}};
}

TEST(OnnxExport, LoopsThatDependOnData) {
  expect_same(parse_text(testing::kDoubling),
              {testing::doubling_inputs({1, 2, 3}, 100, 1000), testing::doubling_inputs({1, 2, 3}, 5000, 3)});
  expect_same(parse_text(testing::kNestedLoops), {nested_loop_inputs()});
}

// A state keeps its name if only a body reads it and a node has the same name.
TEST(OnnxExport, StatesOfBodiesKeepTheirNames) {
  std::string text = testing::kDoubling;
  const std::string node = "%z = mul(%y, @w)";
  text.replace(text.find(node), node.size(), "%w = mul(%y, %y)\n  %z = mul(%w, %w)");
  const OnnxPath file;
  export_model(*parse_text(text), file.path());
  const auto read = models::onnx::import_model(file.path());
  ASSERT_EQ(read->states().size(), 1u);
  EXPECT_EQ(read->states()[0].name, "w");
}

TEST(OnnxExport, OurImporterRefusesLoopsThatCollect) {
  const OnnxPath file;
  export_model(*parse_text(testing::kRotation), file.path());
  const std::string problem = error_of([&] { models::onnx::import_model(file.path()); });
  EXPECT_NE(problem.find("no loop can be made of its body: it collects"), std::string::npos) << problem;
}

// GENESIS_PYTHON names a Python with onnx and onnxruntime; without it, it is python3.
TEST(OnnxExport, OnnxruntimeGivesTheSameNumbers) {
  const fs::path folder = fs::temp_directory_path() / ("genesis_export_cases_" + std::to_string(::getpid()));
  for (const char* family : {"qwen2", "gemma2", "phi3", "olmo2"})
    write_case(folder / family, models::make_model(family, testing::small_settings(family), 3), tokens(2, 9));
  write_case(folder / "bert", bert(), bert_inputs());
  write_case(folder / "loss", gpt2(), with_targets(tokens(2, 6)), "loss");
  write_case(folder / "image", image_model(), {{"x", Tensor::rand({2, 3, 33, 30}, 4)}});
  write_case(folder / "formulas", formulas(), formula_inputs());
  write_case(folder / "recurrent", recurrent_model(), recurrent_inputs());
  write_case(folder / "loop", parse_text(testing::kDoubling),
             testing::doubling_inputs({1, 2, 3}, 5000, 1000));
  write_case(folder / "counted", counted_model(), counted_inputs());
  write_case(folder / "nested_loops", parse_text(testing::kNestedLoops), nested_loop_inputs());
  for (const int64_t most : {0, 3})
    write_case(folder / fmt::format("rotation_{}", most), parse_text(testing::kRotation),
               testing::rotation_inputs(most));
  const char* python = std::getenv("GENESIS_PYTHON");
  const std::string command = fmt::format("{} {} {} > {} 2>&1", python ? python : "python3",
                                          GENESIS_SOURCE_ROOT "/tests/models/onnx/export_check.py",
                                          folder.string(), (folder / "report.txt").string());
  const int status = std::system(command.c_str());
  const std::string report = read_whole_file(folder / "report.txt");
  fs::remove_all(folder);
  if (WIFEXITED(status) && (WEXITSTATUS(status) == 77 || WEXITSTATUS(status) == 127))
    GTEST_SKIP() << "needs Python with onnx and onnxruntime (GENESIS_PYTHON): " << report;
  EXPECT_EQ(status, 0) << report;
}

TEST(OnnxExport, LargeWeightsAreInAFileBeside) {
  const OnnxPath file;
  const auto exported = export_model(*image_model(), file.path(), {.most_inside = 100});
  EXPECT_EQ(exported.files.size(), 2u);
  expect_same(image_model(), {{{"x", Tensor::rand({1, 3, 33, 30}, 4)}}}, {.most_inside = 100});
}

TEST(OnnxExport, OpsThatAreNotWrittenAreListed) {
  const auto model = models::make_model("mixtral", testing::small_settings("mixtral"));
  const OnnxPath file;
  const std::string problem = error_of([&] { export_model(*model, file.path()); });
  EXPECT_NE(problem.find("grouped_matmul ("), std::string::npos) << problem;
  EXPECT_NE(problem.find("layers.0"), std::string::npos) << problem;
  EXPECT_FALSE(fs::exists(file.path()));
}

TEST(OnnxExport, TrainedValuesGoBackIntoTheFile) {
  const OnnxPath file;
  export_model(*image_model(), file.path(), {.most_inside = 100});
  const std::shared_ptr<Model> read = models::onnx::import_model(file.path());
  const int32_t weight = read->find_state("head.weight");
  ASSERT_GE(weight, 0);
  read->set_initial(weight, Tensor::rand({5, 4}, /*seed=*/9));
  const fs::path patched = file.path().string() + ".patched.onnx";
  const auto report = models::onnx::patch_weights(*read, file.path(), patched);
  EXPECT_GT(report.replaced, 5);
  EXPECT_EQ(report.untouched, std::vector<std::string>{});
  const NamedTensors inputs = {{"x", Tensor::rand({1, 3, 33, 30}, 4)}};
  Session changed(read), again(models::onnx::import_model(patched)), before(image_model());
  const Tensor expected = changed.run("forward", inputs)["classes"],
               got = again.run("forward", inputs)["classes"];
  EXPECT_EQ(largest_difference(expected, got), 0);
  EXPECT_GT(largest_difference(before.run("forward", inputs)["classes"], got), 0.01);
  const auto other = models::make_model("mlp", {});
  EXPECT_NE(
      error_of([&] { models::onnx::patch_weights(*other, file.path(), patched); }).find("is this the file"),
      std::string::npos);
  fs::remove(patched);
}

TEST(OnnxExport, TrainedValuesGoBackIntoConstantNodes) {
  const fs::path original = fs::path(GENESIS_SOURCE_ROOT) / "tests/models/onnx/cases/constants/model.onnx";
  const std::shared_ptr<Model> model = models::onnx::import_model(original);
  for (const char* name : {"c.w", "fc.b", "bn.mean"}) {
    const int32_t state = model->find_state(name);
    ASSERT_GE(state, 0) << name;
    model->set_initial(state, Tensor::rand(model->state(state).type.shape.sizes(), /*seed=*/9));
  }
  const OnnxPath file;
  const auto report = models::onnx::patch_weights(*model, original, file.path());
  EXPECT_EQ(report.replaced, 10);
  EXPECT_EQ(report.untouched, std::vector<std::string>{});
  const NamedTensors inputs = {{"x", Tensor::rand({1, 2, 6, 5}, 4)}};
  Session changed(model), again(models::onnx::import_model(file.path())),
      before(models::onnx::import_model(original));
  const Tensor expected = changed.run("forward", inputs)["y"], got = again.run("forward", inputs)["y"];
  EXPECT_EQ(largest_difference(expected, got), 0);
  EXPECT_GT(largest_difference(before.run("forward", inputs)["y"], got), 0.01);
}

}  // namespace
}  // namespace genesis
