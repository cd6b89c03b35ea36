#include "tests/fuzz/seeds.h"

#include "schema/ops/create.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/nn/batch_norm.h"
#include "schema/ops/nn/convolution.h"
#include "schema/ops/nn/gated_delta.h"
#include "schema/ops/nn/grouped_matmul.h"
#include "schema/ops/nn/mamba2.h"
#include "schema/ops/nn/pooling.h"
#include "schema/ops/nn/recurrent.h"
#include "schema/ops/tensor/loop.h"
#include "tests/fuzz/mutate.h"
#include "tests/schema/file_models.h"

namespace genesis::testing {
namespace {

const Dim kBatch = Dim::symbol("batch");

const std::vector<Shape> kShapes = {{},        {2},          {4},          {2, 3},
                                    {4, 4},    {3, 4},       {kBatch, 4},  {2, 0},
                                    {2, 4, 6}, {1, 2, 4, 6}, {2, 4, 6, 8}, {kBatch, 2, 4, 6},
                                    {1}};

void add_inputs(Graph& graph) {
  for (DType dtype : {DType::f32, DType::i64, DType::boolean, DType::u8, DType::f64})
    for (const Shape& shape : kShapes)
      graph.add_input("x" + std::to_string(graph.values().size()), {dtype, shape});
}

// Returns mostly the default attributes, and sometimes others.
Attributes some_attributes(const OpDef& op, Mutator& mutator) {
  Attributes attributes;
  for (const auto& [name, value] : op.canonical({}))
    if (!mutator.chance(3)) attributes.set(name, mutator.attribute(value));
  return attributes;
}

bool try_add(Graph& graph, const OpDef& op, Mutator& mutator) {
  const auto [min, max] = op.info.inputs;
  std::vector<Value> inputs(static_cast<size_t>(min) +
                            mutator.below(static_cast<uint64_t>(std::min(max - min, 3)) + 1));
  // Most ops need similar inputs, with reals among them.
  const auto any = [&] { return graph.handle(graph.inputs()[mutator.below(graph.inputs().size())]); };
  const Value first = mutator.chance(2) ? graph.handle(graph.inputs()[mutator.below(kShapes.size())]) : any();
  for (Value& value : inputs) value = mutator.chance(3) ? any() : first;
  if (op.info.random) inputs[0] = graph.handle(graph.inputs()[kShapes.size() + 1]);  // i64[2]
  try {
    graph.add_node(op, some_attributes(op, mutator), inputs);
    return true;
  } catch (const Error&) {
    return false;
  }
}

// Random lists of strides, paddings and sizes hardly ever fit each other.
void add_windows(Graph& graph) {
  const Value x = graph.add_input("images", {DType::f32, {2, 4, 6}});
  const Windows windows{{1}, {1}, {3}, {3}};
  const Value y = convolution({.windows = windows}, {x, x});
  convolution_transposed({.windows = windows, .sizes = {6}}, y, x);
  emit(ops::ConvolutionWeightGradient{.windows = windows, .window = {6}}, {x, y});
  const Windows pairs{{2}, {1}, {0}, {0}};
  const Value greatest = emit(ops::MaxPool{.windows = pairs, .window = {2}}, {x});
  emit(ops::MaxPoolGrad{.windows = pairs, .window = {2}}, {x, greatest});
  const Value mean = emit(ops::AveragePool{.windows = pairs, .window = {2}}, {x});
  emit(ops::AveragePoolGrad{.windows = pairs, .window = {2}, .sizes = {6}}, {mean});
  const Value channels = graph.add_input("channels", {DType::f32, {4}});
  const auto norm = emit_node(ops::BatchNorm{}, {x, channels, channels});
  emit_node(ops::BatchNormGrad{}, {x, norm[0], norm[1], norm[2], channels});
}

// The sizes of these follow from each other, too.
void add_recurrences(Graph& graph) {
  const Value x = graph.add_input("tokens", {DType::f32, {1, 2, 4, 6}}),
              decay = graph.add_input("decay", {DType::f32, {1, 2, 4}});
  const GatedDeltaResult delta = gated_delta(x, x, x, decay, decay);
  emit_node(ops::GatedDeltaGrad{}, {x, x, x, decay, decay, delta.after, delta.y});
  const Mamba2Result scan = mamba2(x, x, x, decay, decay);
  emit_node(ops::Mamba2Grad{}, {x, x, x, decay, decay, scan.after, scan.y});
  const Value steps = graph.add_input("steps", {DType::f32, {2, 4, 6}}),
              weight = graph.add_input("recurrent_weight", {DType::f32, {6, 6}}),
              state = graph.add_input("recurrent_state", {DType::f32, {4, 6}});
  emit_node(ops::Recurrent{.cell = RecurrentCell::kTanh}, {steps, weight, state});
}

void add_experts(Graph& graph) {
  const Value weights = graph.add_input("experts", {DType::f32, {2, 4, 4}}),
              tokens = graph.add_input("expert_tokens", {DType::f32, {3, 4}}),
              logits = graph.add_input("router_logits", {DType::f32, {3, 2}});
  const auto route = emit_node(ops::Route{}, {logits});
  emit(ops::Experts{}, {tokens, weights, weights, weights, route[1], route[4], route[3], route[0]});
}

// A loop's body is an entry point that must fit.
void add_loop(Model& model, Graph& graph) {
  const Value goes_on = graph.add_input("goes_on", {DType::boolean, {}}),
              most = graph.add_input("most", {DType::i64, {}}),
              x = graph.add_input("carried", {DType::f32, {4}});
  Graph& body = model.add_entry("body");
  body.add_input("number", {DType::i64, {}});
  const Value carried = body.add_input("carried", {DType::f32, {4}});
  body.add_output("goes_on", full(body, {}, 1, DType::boolean));
  body.add_output("carried", carried + carried);
  body.add_output("row", carried);
  const Value rows = full(graph, {3, 4}, 0, DType::f32);
  loop("body", {.condition = goes_on, .most_steps = most, .carried = {x}, .collected = {rows}});
}

}  // namespace

std::unique_ptr<Model> op_zoo() {
  auto model = std::make_unique<Model>();
  Graph& graph = model->add_entry("zoo");
  add_inputs(graph);
  Mutator mutator(7);
  add_loop(*model, graph);
  for (const OpDef* op : all_ops())
    for (int tries = 0, found = 0; tries < 4000 && found < 2 && !is<ops::Loop>(*op); ++tries)
      found += try_add(graph, *op, mutator);
  add_windows(graph);
  add_recurrences(graph);
  add_experts(graph);
  graph.add_output("y", graph.handle({static_cast<int32_t>(graph.values().size()) - 1}));
  return model;
}

const std::vector<Seed>& model_seeds() {
  static const std::vector<Seed> seeds = {
      {"rich", file_of(*rich_model())},
      {"zoo", file_of(*op_zoo())},
      {"joined", file_of(*golden_model_of_version_3(), golden_options_of_version_3())},
      {"empty", file_of(Model())}};
  return seeds;
}

}  // namespace genesis::testing
