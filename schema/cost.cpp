#include "schema/cost.h"

#include "schema/ops/attention.h"
#include "schema/ops/matmul.h"

namespace genesis {
namespace {

struct Call {
  const OpDef& op;
  const Attributes& attributes;
  Types inputs, outputs;
};

double elements(const TensorType& type) { return static_cast<double>(type.numel()); }

// The axis that is summed over: the last one of the first operand, or the one before it when that is
// transposed.
double inner_size(const Call& call) {
  const Shape& a = call.inputs[0].shape;
  const AttrValue* transposed = call.attributes.find("transpose_a");
  const bool swapped = transposed && std::get<bool>(*transposed) && a.rank() > 1;
  return static_cast<double>(a[swapped ? a.rank() - 2 : a.rank() - 1].value());
}

// q k^T and p v: two products of [queries, head_size] x [head_size, keys] per head; five in the backward
// pass. A causal mask halves the useful work.
template <class Op>
double attention_flops(const Call& call, double products) {
  const auto op = from_attributes<Op>(call.attributes);
  const auto [q, k, v] = ops::qkv_types(op, call.inputs);
  const int time = op.layout == AttentionLayout::kBTHD ? 1 : 2;
  const double queries = static_cast<double>(q.shape[time].value()),
               keys = static_cast<double>(k.shape[time].value());
  const double useful = op.causal && queries > 1 ? 0.5 : 1.0;
  return products * 2 * elements(q) * keys * useful;
}

double flops_of(const Call& call) {
  const std::string_view op = call.op.name();
  if (op == "matmul" || op == "linear") return 2 * elements(call.outputs[0]) * inner_size(call);
  if (op == "linear_weight_grad")
    return 2 * elements(call.outputs[0]) * static_cast<double>(call.inputs[0].shape[0].value());
  if (op == "linear_with_swiglu") return 2 * elements(call.outputs[0]) * inner_size(call);
  if (op == "matmul_swiglu_grad") return elements(call.outputs[0]) * inner_size(call);
  if (op == "linear_swiglu") return 4 * elements(call.outputs[0]) * inner_size(call);
  if (op == "merged_linear" || op == "norm_linear") {
    double flops = 0;
    for (const TensorType& type : call.outputs) flops += 2 * elements(type) * inner_size(call);
    const AttrValue* swiglu = call.attributes.find("swiglu");
    return swiglu && std::get<bool>(*swiglu) ? 2 * flops : flops;
  }
  if (op == "cached_attention")  // at the end of the cache
    return 4 * elements(call.inputs[0]) * static_cast<double>(call.inputs[3].shape[1].value());
  if (op == "attention") return attention_flops<ops::Attention>(call, 2);
  if (op == "attention_grad") return attention_flops<ops::AttentionGrad>(call, 5);
  if (op == "linear_cross_entropy") {  // logits, and the two products of their gradient where it is made here
    const double logits = 2 * elements(call.inputs[0]) * static_cast<double>(call.inputs[1].shape[0].value());
    return call.outputs.size() > 1 ? 3 * logits : logits;
  }
  return 0;
}

}  // namespace

Cost cost_of(const OpDef& op, const Attributes& attributes, Types inputs, Types outputs) {
  const Call call{op, attributes, inputs, outputs};
  Cost cost{.flops = flops_of(call)};
  for (const TensorType& type : call.inputs) cost.bytes += static_cast<double>(type.bytes());
  for (const TensorType& type : call.outputs) cost.bytes += static_cast<double>(type.bytes());
  // The caches are read; of what comes out of them, one token is new.
  if (call.op.name() == "cached_attention")
    cost.bytes -= static_cast<double>(call.outputs[1].bytes() + call.outputs[2].bytes());
  // In place on part of a state (a cache append), or a lookup of rows: only what is written moves, twice.
  if (call.op.name() == "dynamic_update_slice") cost.bytes = 2 * static_cast<double>(call.inputs[1].bytes());
  if (call.op.name() == "embedding" || call.op.name() == "gather" || call.op.name() == "index_select")
    cost.bytes = 2 * static_cast<double>(call.outputs[0].bytes());
  return cost;
}

}  // namespace genesis
