#include "passes/training/add_loss.h"

#include <fmt/ranges.h>

#include <array>
#include <utility>
#include <vector>

#include "passes/core/analysis.h"
#include "schema/core/error.h"
#include "schema/ops/nn/loss.h"

namespace genesis::passes {
namespace {

constexpr const char* kLoss = "loss";
constexpr const char* kTarget = "target";
constexpr std::array<std::pair<std::string_view, LossKind>, 4> kKinds = {
    {{"cross_entropy", LossKind::kCrossEntropy},
     {"mse", LossKind::kMse},
     {"l1", LossKind::kL1},
     {"bce_with_logits", LossKind::kBceWithLogits}}};

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

// Cross-entropy takes logits. If the program ends with a softmax over the classes, what it reads are the logits; log_softmax gives
// logits too, of the same probabilities.
Value logits_of(Value output) {
  const Node* made_by = producer(*output.graph, output.id);
  if (!made_by || made_by->op->name() != "softmax") return output;
  const AttrValue* axis = made_by->attributes.find("axis");
  const int64_t last = output.rank() - 1;
  if (!axis || (std::get<int64_t>(*axis) != last && std::get<int64_t>(*axis) != -1)) return output;
  return output.graph->handle(made_by->inputs[0]);
}

TensorType target_type(const LossOptions& options, Value output) {
  if (!is_float(output.dtype()))
    fail("a loss takes numbers with a fraction, not {}", output.type().to_string());
  if (options.kind != LossKind::kCrossEntropy) return output.type();
  if (output.rank() < 2) fail("cross_entropy takes logits [..., classes], not {}", output.type().to_string());
  std::vector<Dim> dims = output.shape().dims();
  dims.pop_back();
  return {DType::i64, Shape(dims)};
}

Value loss_of(LossKind kind, Value output, Value target) {
  switch (kind) {
    case LossKind::kCrossEntropy:
      return cross_entropy(logits_of(output), target);
    case LossKind::kMse:
      return mse_loss(output, target);
    case LossKind::kL1:
      return l1_loss(output, target);
    case LossKind::kBceWithLogits:
      return bce_with_logits_loss(output, target);
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

void add_loss(Model& model, const LossOptions& options) {
  if (model.find_entry(kLoss)) fail("the model has the entry point '{}' already", kLoss);
  Graph graph = copy_graph(std::as_const(model).entry(options.entry), model, kLoss);
  const Value output = output_of(graph, options);
  const Value target = graph.add_input(kTarget, target_type(options, output));
  for (const NamedValue& other : graph.outputs())
    if (other.name == kLoss) fail("the entry point '{}' has an output '{}' already", options.entry, kLoss);
  graph.add_output(kLoss, loss_of(options.kind, output, target));
  model.replace_entry(std::move(graph));
}

}  // namespace genesis::passes
