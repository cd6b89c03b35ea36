#include "executor/cost.h"

#include "schema/ops/attention.h"
#include "schema/ops/matmul.h"

namespace genesis {
namespace {

double elements(const TensorType& type) { return static_cast<double>(type.numel()); }

// The axis that is summed over: the last one of the first operand, or the one before it when that is
// transposed.
double inner_size(const Step& step) {
  const Shape& a = step.input_types[0].shape;
  const AttrValue* transposed = step.attributes.find("transpose_a");
  const bool swapped = transposed && std::get<bool>(*transposed) && a.rank() > 1;
  return static_cast<double>(a[swapped ? a.rank() - 2 : a.rank() - 1].value());
}

// q k^T and p v: two products of [queries, head_size] x [head_size, keys] per head; five in the backward
// pass. A causal mask halves the useful work.
double attention_flops(const Step& step, double products) {
  const Shape &q = step.input_types[0].shape, &k = step.input_types[1].shape;
  const AttrValue* layout = step.attributes.find("layout");
  const bool bthd =
      layout == nullptr || std::get<std::string>(*layout) == EnumNames<AttentionLayout>::names[0];
  const double keys = static_cast<double>(k[bthd ? 1 : 2].value());
  const AttrValue* causal = step.attributes.find("causal");
  const double queries = static_cast<double>(q[bthd ? 1 : 2].value());
  const double useful = causal && std::get<bool>(*causal) && queries > 1 ? 0.5 : 1.0;
  return products * 2 * elements(step.input_types[0]) * keys * useful;
}

double flops_of(const Step& step) {
  const std::string_view op = step.op->name();
  if (op == "matmul" || op == "linear") return 2 * elements(step.output_types[0]) * inner_size(step);
  if (op == "linear_swiglu") return 4 * elements(step.output_types[0]) * inner_size(step);
  if (op == "merged_linear") {
    double flops = 0;
    for (const TensorType& type : step.output_types) flops += 2 * elements(type) * inner_size(step);
    return flops;
  }
  if (op == "attention") return attention_flops(step, 2);
  if (op == "attention_grad") return attention_flops(step, 5);
  if (op ==
      "linear_cross_entropy") {  // logits, and the two products of their gradient where the step makes it
    const double logits =
        2 * elements(step.input_types[0]) * static_cast<double>(step.input_types[1].shape[0].value());
    return step.output_types.size() > 1 ? 3 * logits : logits;
  }
  return 0;
}

}  // namespace

Cost cost_of(const Step& step) {
  Cost cost{.flops = flops_of(step)};
  for (const TensorType& type : step.input_types) cost.bytes += static_cast<double>(type.bytes());
  for (const TensorType& type : step.output_types) cost.bytes += static_cast<double>(type.bytes());
  // In place on part of a state (a cache append), or a lookup of rows: only what is written moves, twice.
  if (step.op->name() == "dynamic_update_slice")
    cost.bytes = 2 * static_cast<double>(step.input_types[1].bytes());
  if (step.op->name() == "embedding" || step.op->name() == "gather" || step.op->name() == "index_select")
    cost.bytes = 2 * static_cast<double>(step.output_types[0].bytes());
  return cost;
}

}  // namespace genesis
