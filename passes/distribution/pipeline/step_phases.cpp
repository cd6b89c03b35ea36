#include "passes/distribution/pipeline/step_phases.h"

#include <algorithm>

#include "passes/core/match.h"
#include "schema/ops/collective/collective.h"
#include "schema/ops/tensor/slice.h"
#include "schema/ranks/mesh_axes.h"

namespace genesis::passes {
namespace {

bool is_average(const Node& node) {
  const auto reduced = match<ops::AllReduce>(node);
  return reduced && reduced->axis == kDataAxis && reduced->reduction == RankReduction::kMean;
}

// Returns the node whose average is the output "loss"; -1 if there is none.
int32_t average_of_loss(const Graph& graph) {
  for (const NamedValue& output : graph.outputs()) {
    const Node* node = producer(graph, output.value);
    if (output.name == "loss" && node && is_average(*node)) return graph.value(output.value).producer.index;
  }
  return -1;
}

// Returns the first node of every micro-batch: the slices of the first input that together cover it, in order. Takes the last
// such series of slices, because targets are counted before all micro-batches.
std::vector<size_t> micro_batch_starts(const Graph& graph) {
  if (graph.inputs().empty() || graph.type(graph.inputs()[0]).shape.rank() == 0) return {0};
  const ValueId input = graph.inputs()[0];
  const Dim whole = graph.type(input).shape[0];
  std::vector<size_t> starts;
  Dim end(0);
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    const auto part = match<ops::Slice>(graph.nodes()[i]);
    if (!part || part.input(0) != input || part->axis != 0) continue;
    if (end == whole) end = Dim(0), starts.clear();
    if (part->step != 1 || !(part->start[0] == end)) return {0};
    end = end + part->length[0];
    starts.push_back(i);
  }
  if (starts.size() < 2 || !(end == whole)) return {0};
  starts[0] = 0;
  return starts;
}

}  // namespace

StepPhases phases_of(const Graph& graph) {
  StepPhases phases{std::vector<StepPhases::NodePhase>(graph.nodes().size())};
  const int32_t average = average_of_loss(graph);
  if (average < 0) return phases;
  auto updates = static_cast<size_t>(average);
  while (updates > 0 && is_average(graph.nodes()[updates - 1])) --updates;
  // Collects the averaged outputs, including the loss, before averaging: the nodes that they need are the forward pass.
  std::vector<NodeId> losses;
  for (const NamedValue& output : graph.outputs()) {
    const ValueInfo& value = graph.value(output.value);
    if (value.producer.index != average) continue;
    const auto& own = graph.nodes()[static_cast<size_t>(average)].inputs;
    const NodeId maker = graph.value(own[static_cast<size_t>(value.index)]).producer;
    if (maker.index >= 0) losses.push_back(maker);
  }
  const std::vector<bool> is_forward = needed_by(graph, losses);
  const std::vector<size_t> starts = micro_batch_starts(graph);
  phases.micro_batches = std::ssize(starts);
  for (size_t i = 0; i < phases.nodes.size(); ++i) {
    const auto next = std::upper_bound(starts.begin(), starts.end(), i);
    phases.nodes[i] = {i >= updates    ? StepPhase::kUpdate
                       : is_forward[i] ? StepPhase::kForward
                                       : StepPhase::kBackward,
                       next - starts.begin() - 1};
  }
  return phases;
}

}  // namespace genesis::passes
