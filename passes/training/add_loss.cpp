#include "passes/training/add_loss.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "passes/core/analysis.h"
#include "passes/training/ctc_loss.h"
#include "schema/core/error.h"
#include "schema/messages/log.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/nn/loss.h"
#include "schema/ops/tensor/layout.h"
#include "schema/ops/tensor/reduce.h"

namespace genesis::passes {
namespace {

constexpr const char* kLoss = "loss";
constexpr const char* kTarget = "target";
constexpr const char* kAccuracy = "accuracy";
constexpr std::array<std::pair<std::string_view, LossKind>, 6> kKinds = {
    {{"cross_entropy", LossKind::kCrossEntropy},
     {"mse", LossKind::kMse},
     {"l1", LossKind::kL1},
     {"bce_with_logits", LossKind::kBceWithLogits},
     {"bce", LossKind::kBce},
     {"ctc", LossKind::kCtc}}};

std::vector<std::string> output_names(const Graph& graph) {
  std::vector<std::string> names;
  for (const NamedValue& output : graph.outputs()) names.push_back(output.name);
  return names;
}

Value output_of(Graph& graph, const LossOptions& options) {
  if (!options.output.empty()) return graph.output(options.output);
  if (graph.outputs().size() != 1)
    fail("the entry point '{}' has the outputs {}: name the one that the loss takes", options.entry,
         fmt::join(output_names(graph), ", "));
  return graph.handle(graph.outputs()[0].value);
}

// Returns the node that made the output if it is of this op; null otherwise.
const Node* made_by(Value output, std::string_view op) {
  const Node* node = producer(*output.graph, output.id);
  return node && node->op->name() == op ? node : nullptr;
}

Value input_of(const Node& node, Value output) {
  log_info("the loss takes the logits in front of '{}', a {}", node.authored_name(), node.op->name());
  return output.graph->handle(node.inputs[0]);
}

// The axis of the classes: the last one, or axis 1 of outputs with four axes or more, such as classes of pixels.
int64_t class_axis(Value output) { return output.rank() >= 4 ? 1 : output.rank() - 1; }

// Cross-entropy takes logits. If the program ends with a softmax over the classes, what it reads are the logits; log_softmax gives
// logits too, of the same probabilities.
Value logits_of(Value output) {
  const Node* node = made_by(output, "softmax");
  if (!node) return output;
  const AttrValue* axis = node->attributes.find("axis");
  if (!axis || (std::get<int64_t>(*axis) + output.rank()) % output.rank() != class_axis(output))
    return output;
  return input_of(*node, output);
}

// Moves the classes to the last axis.
Value classes_last(Value logits) {
  std::vector<int64_t> axes;
  for (int64_t axis = 0; axis < logits.rank(); ++axis)
    if (axis != class_axis(logits)) axes.push_back(axis);
  axes.push_back(class_axis(logits));
  return permute(logits, axes);
}

TensorType target_type(const LossOptions& options, Value output) {
  if (!is_float(output.dtype()))
    fail("a loss takes numbers with a fraction, not {}", output.type().to_string());
  if (options.kind == LossKind::kCtc) {
    if (output.rank() != 3)
      fail("ctc takes logits [batch, time, classes], not {}", output.type().to_string());
    return {DType::i64, {output.dim(0), Dim::symbol("target_length")}};
  }
  if (options.kind != LossKind::kCrossEntropy) return output.type();
  if (output.rank() < 2) fail("cross_entropy takes logits [..., classes], not {}", output.type().to_string());
  std::vector<Dim> dims = output.shape().dims();
  dims.erase(dims.begin() + class_axis(output));
  return {DType::i64, Shape(dims)};
}

Value loss_of(LossKind kind, Value output, Value target) {
  switch (kind) {
    case LossKind::kCrossEntropy: {
      const Value logits = logits_of(output);
      return cross_entropy(logits.rank() >= 4 ? classes_last(logits) : logits, target);
    }
    case LossKind::kMse:
      return mse_loss(output, target);
    case LossKind::kL1:
      return l1_loss(output, target);
    case LossKind::kBceWithLogits:
      return bce_with_logits_loss(output, target);
    case LossKind::kBce:
      if (const Node* sigmoid = made_by(output, "sigmoid"))
        return bce_with_logits_loss(input_of(*sigmoid, output), target);
      return bce_loss(output, target);
    case LossKind::kCtc:
      return ctc_loss(logits_of(output), target);
  }
  fail("unknown loss");
}

}  // namespace

LossOptions parse_loss(std::string_view text) {
  const size_t equals = text.find('=');
  std::vector<std::string_view> names;
  for (const auto& [name, kind] : kKinds) {
    if (name == text.substr(0, equals))
      return {.kind = kind,
              .output = equals == std::string_view::npos ? "" : std::string(text.substr(equals + 1))};
    names.push_back(name);
  }
  fail("unknown loss '{}': there are {}; an output may follow, as in mse=output.0", text,
       fmt::join(names, ", "));
}

Value accuracy_of(Value logits, Value target, int64_t axis) {
  const Value correct = sum(cast(eq(argmax(logits, axis), target), DType::f32));
  return correct / sum(cast(ne(target, scalar_like(target, kIgnoredTarget)), DType::f32));
}

void add_loss(Model& model, const LossOptions& options) {
  if (model.find_entry(kLoss)) fail("the model has the entry point '{}' already", kLoss);
  Graph graph = copy_graph(std::as_const(model).entry(options.entry), model, kLoss);
  const Value output = output_of(graph, options);
  const Value target = graph.add_input(kTarget, target_type(options, output));
  for (const NamedValue& other : graph.outputs())
    if (other.name == kLoss) fail("the entry point '{}' has an output '{}' already", options.entry, kLoss);
  graph.add_output(kLoss, loss_of(options.kind, output, target));
  const bool has_accuracy =
      std::ranges::any_of(graph.outputs(), [](const NamedValue& other) { return other.name == kAccuracy; });
  if (options.kind == LossKind::kCrossEntropy && output.rank() != 3 && !has_accuracy)
    graph.add_output(kAccuracy, accuracy_of(output, target, class_axis(output)));
  model.replace_entry(std::move(graph));
}

}  // namespace genesis::passes
