#include "passes/training/evaluation.h"

#include <limits>
#include <map>

#include "passes/core/extract.h"
#include "passes/core/inline_graph.h"
#include "passes/core/match.h"
#include "passes/core/rewriter.h"
#include "passes/training/step_outputs.h"
#include "passes/training/training_loss.h"
#include "passes/training/weight_average.h"
#include "schema/ops/collective/collective.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/tensor/random.h"
#include "schema/ranks/mesh_axes.h"

namespace genesis::passes {
namespace {

Graph without_dropout(const Graph& graph) {
  return rewrite(graph, [](Rewriter& rewriter, const Node& node) -> Replacement {
    const auto dropout = match<ops::Dropout>(node);
    if (!dropout) return std::nullopt;
    return std::vector<Value>{rewriter.map(node.inputs[1])};
  });
}

// Returns the average by state, for the states that have one.
std::map<int32_t, Value> averages(const Model& model, Graph& graph) {
  std::map<int32_t, Value> values;
  for (int32_t i = 0; i < static_cast<int32_t>(model.states().size()); ++i)
    if (const int32_t average = average_of(model, i); average >= 0) values[i] = graph.state(average);
  return values;
}

// Returns whether the entry point weights batches by their targets. Checkpoints of earlier versions have one whose loss is that
// of one rank, in f32.
bool counts_targets(const Graph& evaluation) {
  const auto& outputs = evaluation.outputs();
  return !outputs.empty() && evaluation.type(outputs[0].value).dtype == DType::f64;
}

// Numbers of this rank's batch, by name.
using Numbers = std::vector<std::pair<std::string, Value>>;

// Adds outputs for numbers that are means over a batch, the loss first: their means over the batches of all ranks. All targets
// count alike; if it is unknown how many targets the loss is the mean of, all ranks count alike.
void add_means(Graph& graph, const Numbers& numbers) {
  const std::vector<MeanOverTargets> means = means_in(graph, numbers[0].second);
  std::vector<Value> parts;
  if (means.size() != 1) {
    for (const auto& [name, value] : numbers) parts.push_back(value);
    const std::vector<Value> all = all_reduce(parts, kDataAxis, RankReduction::kMean);
    for (size_t i = 0; i < all.size(); ++i) graph.add_output(numbers[i].first, all[i]);
    return;
  }
  const Value weight = weight_of(means[0]), zero = scalar_like(weight, 0);
  for (const auto& [name, value] : numbers)
    parts.push_back(where(gt(weight, zero), value * weight, zero));  // the mean of no targets is NaN
  parts.push_back(weight);
  const std::vector<Value> all = all_reduce(parts, kDataAxis, RankReduction::kSum);
  for (size_t i = 0; i < numbers.size(); ++i) graph.add_output(numbers[i].first, all[i] / all.back());
  graph.add_output(kEvaluationWeight, all.back());
}

void add_sums(Graph& graph, const Numbers& numbers) {
  std::vector<Value> parts;
  for (const auto& [name, value] : numbers) parts.push_back(value);
  if (parts.empty()) return;
  const std::vector<Value> all = all_reduce(parts, kDataAxis, RankReduction::kSum);
  for (size_t i = 0; i < all.size(); ++i) graph.add_output(numbers[i].first, all[i]);
}

// Adds outputs for the loss and for the outputs `names`. Outputs that are not single numbers are left out.
void add_outputs(Graph& graph, const InlinedGraph& part, const std::string& loss,
                 const std::vector<std::string>& names) {
  Numbers means = {{"loss", cast(part.outputs.at(loss), DType::f64)}}, sums;
  for (const std::string& name : names) {
    const Value value = part.outputs.at(name);
    if (value.rank() != 0) continue;
    const bool is_real = is_float(value.dtype());
    (is_real ? means : sums).emplace_back(name, cast(value, is_real ? DType::f64 : DType::i64));
  }
  add_means(graph, means);
  add_sums(graph, sums);
}

int32_t add_number(Model& model, const char* name, Tensor initial) {
  const TensorType type = initial.type();
  return model.add_state({.name = name,
                          .type = type,
                          .role = StateRole::kOptimizer,
                          .trainable = false,
                          .initial = std::move(initial)});
}

void add_memory(Model& model) {
  Graph& graph = model.add_entry(kEvaluatedEntry);
  const Value loss = cast(graph.add_input("loss", {DType::f32, {}}), DType::f64);
  const int32_t best_state = add_number(model, "evaluation.best",
                                        Tensor::scalar(std::numeric_limits<double>::infinity())),
                since_state = add_number(model, "evaluation.since_best", Tensor::scalar<int64_t>(0));
  const Value best = graph.state(best_state), since = graph.state(since_state);
  const Value better = lt(loss, best);
  const Value next_best = where(better, loss, best),
              next_since = where(better, scalar_like(since, 0), since + 1);
  graph.add_output("best", next_best);
  graph.add_output("since_best", next_since);
  graph.add_update(best_state, next_best);
  graph.add_update(since_state, next_since);
}

}  // namespace

void add_evaluation(Model& model) {
  if (const Graph* there = model.find_entry(kEvaluationEntry); there && counts_targets(*there)) return;
  const auto training = model.metadata.find("training");
  if (training == model.metadata.end())
    fail("the model says nothing of its training, so there is no loss to evaluate: it has no train_step");
  const TrainOptions options = parse_train_options(training->second);
  const Graph loss = without_dropout(training_loss(model, options));
  Graph graph(model, kEvaluationEntry);
  std::vector<Value> inputs;
  for (const ValueId id : loss.inputs())
    inputs.push_back(graph.add_input(loss.value(id).name, loss.type(id)));
  const InlinedGraph part = inline_graph(graph, loss, inputs, averages(model, graph));
  add_outputs(graph, part, options.output, further_outputs(loss, options));
  model.replace_entry(without_dead_nodes(graph));
  if (!model.find_entry(kEvaluatedEntry)) add_memory(model);
}

std::set<std::string> lasting_entries(const Model& model) {
  std::set<std::string> names;
  for (const auto& entry : model.entries()) {
    const bool trains = std::ranges::any_of(entry->updates(), [&](const StateUpdate& update) {
      const State& state = model.state(update.state);
      return state.trainable || state.role == StateRole::kOptimizer;
    });
    if (!trains && entry->name() != kEvaluationEntry) names.insert(entry->name());
  }
  return names;
}

std::unique_ptr<Model> without_training(const Model& model) {
  return extract_entries(model, lasting_entries(model));
}

}  // namespace genesis::passes
