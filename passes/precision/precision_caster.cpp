#include "passes/precision/precision_caster.h"

#include <algorithm>

#include "passes/core/match.h"
#include "passes/core/name_patterns.h"
#include "schema/core/type_limits.h"
#include "schema/graph/model.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/nn/matmul.h"

namespace genesis::passes {
namespace {

// Returns the index of the addend of a wide linear, which has the type of the result, f32. Otherwise returns the number of
// inputs.
size_t wide_addend(const Node& node) {
  const auto layer = match<ops::Linear>(node);
  return layer && layer->wide && layer->has_addend ? node.inputs.size() - 1 : node.inputs.size();
}

}  // namespace

bool keeps_f32(const Node& node, const std::vector<std::string>& patterns) {
  return matches_any(patterns, node.name) || std::ranges::any_of(node.origins, [&](const std::string& name) {
           return matches_any(patterns, name);
         });
}

bool stays_f32(const Tensor& constant, DType low) { return low == DType::f16 && exceeds_f16(constant); }

PrecisionCaster::PrecisionCaster(const Graph& from, Graph& into, DType low,
                                 const std::vector<std::string>& keep_f32)
    : from_(from), into_(into), low_(low), keep_f32_(keep_f32), values_(from.values().size()) {}

void PrecisionCaster::run() {
  for (ValueId id : from_.inputs())
    at(id) = {into_.add_input(from_.value(id).name, from_.type(id)), {}, Kind::kFirm};
  for (const Node& node : from_.nodes()) copy(node);
  const auto result = [&](ValueId id, DType dtype) {
    map_table_value(id);
    return cast(at(id).value, dtype);
  };
  for (const NamedValue& output : from_.outputs())
    into_.add_output(output.name, result(output.value, from_.type(output.value).dtype));
  for (const StateUpdate& update : from_.updates())
    into_.add_update(update.state, result(update.value, into_.model().state(update.state).type.dtype));
}

void PrecisionCaster::map_table_value(ValueId id) {
  const ValueInfo& info = from_.value(id);
  if (at(id).value || info.kind == ValueKind::kNode) return;
  if (info.kind == ValueKind::kConstant) {
    const Tensor& constant = from_.model().tensors()[static_cast<size_t>(info.index)].tensor;
    at(id) = {into_.constant(info.index), {}, stays_f32(constant, low_) ? Kind::kFirm : Kind::kFree};
  } else {
    const StateRole role = into_.model().state(info.index).role;
    const Kind kind = role == StateRole::kParameter ? Kind::kParameter
                      : role == StateRole::kRandom  ? Kind::kFree
                                                    : Kind::kFirm;
    at(id) = {into_.state(info.index), {}, kind};
  }
  if (at(id).value.dtype() == low_) at(id).kind = Kind::kLow;
}

bool PrecisionCaster::any_input(const Node& node, Kind kind) const {
  return std::ranges::any_of(node.inputs, [&](ValueId id) { return is_tensor(id) && at(id).kind == kind; });
}

bool PrecisionCaster::runs_wide(const Node& node) const {
  switch (node.op->info.precision) {
    case Precision::kMatmul:
      return false;
    case Precision::kF32:
    case Precision::kExact:
      return true;
    case Precision::kFollow:
      return any_input(node, Kind::kFirm) ||
             !(any_input(node, Kind::kLow) || any_input(node, Kind::kParameter));
    case Precision::kWide:
      return any_input(node, Kind::kFirm) || !any_input(node, Kind::kLow);
    case Precision::kUndeclared:
      break;
  }
  GENESIS_ASSERT(false);
}

PrecisionCaster::Kind PrecisionCaster::kind_of_result(const Node& node, bool wide, bool kept) const {
  if (!wide || kept) return Kind::kLow;
  if (node.op->info.precision == Precision::kF32) return Kind::kFirm;
  // Integer and boolean inputs count only if no input is a floating-point tensor: a target class from a graph input is firm
  // once it is cast to floating point.
  const bool reals = std::ranges::any_of(node.inputs, [&](ValueId id) { return is_tensor(id); });
  const bool firm = std::ranges::any_of(
      node.inputs, [&](ValueId id) { return at(id).kind == Kind::kFirm && (is_tensor(id) || !reals); });
  return firm ? Kind::kFirm : Kind::kFree;
}

Value PrecisionCaster::in_dtype(ValueId id, DType dtype) {
  Mapped& mapped = at(id);
  if (mapped.value.dtype() == dtype) return mapped.value;
  if (mapped.other) return mapped.other;
  const ValueInfo& info = from_.value(id);
  if (info.kind != ValueKind::kState) return mapped.other = cast(mapped.value, dtype);
  // Casts a weight once for all readers, under the weight's own name instead of that of its first reader.
  return mapped.other = into_.add_node(op_def<ops::Cast>(), to_attributes(ops::Cast{dtype}), {mapped.value},
                                       into_.model().state(info.index).name + ".cast")[0];
}

bool PrecisionCaster::reads_parameters_as_they_are(const Node& node) const {
  if (node.op->info.precision != Precision::kWide || !any_input(node, Kind::kParameter)) return false;
  std::vector<TensorType> all_low, mixed;
  for (ValueId id : node.inputs) {
    TensorType type = from_.type(id);
    if (is_tensor(id)) type.dtype = low_;
    all_low.push_back(type);
    mixed.push_back(is_tensor(id) && at(id).kind == Kind::kParameter ? from_.type(id) : type);
  }
  return infer_types(*node.op, node.attributes, all_low) == infer_types(*node.op, node.attributes, mixed);
}

std::vector<Value> PrecisionCaster::operands(const Node& node, bool wide) {
  const bool leave_parameters = !wide && reads_parameters_as_they_are(node);
  const size_t addend = wide_addend(node);
  std::vector<Value> values;
  for (ValueId id : node.inputs) {
    if (values.size() == addend) {
      values.push_back(in_dtype(id, DType::f32));
      continue;
    }
    const bool as_is =
        !is_real(id) || (leave_parameters && at(id).kind == Kind::kParameter) || (!wide && !is_tensor(id));
    values.push_back(as_is ? at(id).value : in_dtype(id, wide ? DType::f32 : low_));
  }
  return values;
}

void PrecisionCaster::copy(const Node& node) {
  for (ValueId id : node.inputs) map_table_value(id);
  const bool kept = keeps_f32(node, keep_f32_);
  const bool wide = kept || runs_wide(node);
  into_.set_origins(node.origins);
  std::vector<Value> inputs;
  {
    const NameScope scope(into_, node.name);
    inputs = operands(node, wide);
  }
  const std::vector<Value> outputs = into_.add_node(*node.op, node.attributes, inputs, node.name);
  into_.set_origins({});
  const Kind kind = kind_of_result(node, wide, kept);
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    // Row statistics and losses are f32 for inputs of any dtype.
    const bool is_low = outputs[i].dtype() == low_ || kept;
    at(node.outputs[i]) = {outputs[i], {}, kind == Kind::kLow && !is_low ? Kind::kFirm : kind};
  }
}

}  // namespace genesis::passes
