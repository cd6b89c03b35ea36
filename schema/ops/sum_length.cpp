#include "schema/ops/sum_length.h"

#include <algorithm>

#include "schema/ops/elementwise/fused_program.h"
#include "schema/ops/nn/attention.h"

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

double last_axis(const Shape& shape) {
  return shape.rank() == 0 ? 1 : static_cast<double>(shape[shape.rank() - 1].value());
}

// Rows that a result without them is summed over: the gradient of a weight, of a table.
double rows_of(const TensorType& type) { return elements(type) / std::max(1.0, last_axis(type.shape)); }

double attention_terms(const Call& call) {
  if (call.op.name() == "cached_attention")
    return last_axis(call.inputs[0].shape) + static_cast<double>(call.inputs[3].shape[1].value());
  const auto op = from_attributes<ops::Attention>(call.attributes);
  const auto [q, k, v] = ops::qkv_types(op, call.inputs);
  const int time = op.layout == AttentionLayout::kBTHD ? 1 : 2;
  const double keys = static_cast<double>(k.shape[time].value()),
               queries = static_cast<double>(q.shape[time].value());
  return last_axis(q.shape) + std::max(keys, queries);
}

}  // namespace

double sum_length(const OpDef& op, const Attributes& attributes, Types inputs, Types outputs) {
  const Call call{op, attributes, inputs, outputs};
  const std::string_view name = op.name();
  const auto is_one_of = [&](std::initializer_list<std::string_view> names) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  if (inputs.empty() || outputs.empty()) return 1;
  if (is_one_of({"attention", "cached_attention"})) return attention_terms(call);
  if (name == "attention_grad")
    return 2 * last_axis(inputs[0].shape) + static_cast<double>(inputs[0].shape[1].value()) +
           static_cast<double>(inputs[1].shape[1].value());
  if (name == "linear_cross_entropy")
    return inner_size(call) + static_cast<double>(inputs[1].shape[0].value()) + rows_of(inputs[0]);
  if (cost_of(op, attributes, inputs, outputs).flops > 0) return inner_size(call);
  if (name == "fused") {
    const FusedProgram program = parse_fused_program(from_attributes<ops::Fused>(attributes), inputs);
    return program.has_rows ? last_axis(program.space) : 1;
  }
  if (is_one_of({"softmax", "softmax_grad", "log_softmax", "log_softmax_grad", "causal_softmax", "cumsum",
                 "layer_norm", "rms_norm", "cross_entropy"}))
    return std::max(last_axis(inputs[0].shape), elements(inputs[0]) / std::max(1.0, elements(outputs[0])));
  if (is_one_of(
          {"layer_norm_grad", "rms_norm_grad", "cross_entropy_grad"}))  // of rows, and of weights over rows
    return std::max(last_axis(inputs[0].shape), rows_of(inputs[0]));
  if (is_one_of({"embedding_grad", "index_add", "scatter_add"})) return rows_of(inputs[0]) + 1;
  if (is_one_of({"sum", "mean", "prod", "var", "std", "logsumexp", "sum_squares"})) {
    double all = 0;
    for (const TensorType& type : inputs) all += elements(type);
    return std::max(1.0, all / std::max(1.0, elements(outputs[0])));
  }
  return 1;
}

bool cost_depends_on_data(const OpDef& op, const Attributes& attributes) {
  const AttrValue* length = attributes.find("has_key_length");
  return op.name() == "cached_attention" || (length && std::get<bool>(*length));
}

}  // namespace genesis
