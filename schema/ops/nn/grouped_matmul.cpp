#include "schema/ops/nn/grouped_matmul.h"

#include <algorithm>
#include <cmath>

#include "schema/ops/elementwise/cast.h"
#include "schema/ops/gradient.h"
#include "schema/ops/nn/dequantize.h"

namespace genesis {
namespace ops {
namespace {

void check_offsets(std::string_view op, const TensorType& offsets, const Dim* groups) {
  if (offsets.dtype != DType::i64 || offsets.shape.rank() != 1)
    fail("{}: offsets must be i64[groups + 1], got {}", op, offsets.to_string());
  if (groups && !(offsets.shape[0] == *groups + 1))
    fail("{}: offsets must have one number more than there are groups, {}, got {}", op, groups->to_string(),
         offsets.to_string());
}

// Returns the type of the weights; quantized ones count as having x's dtype.
TensorType weights_type(const GroupedMatmul& op, Types in) {
  if (!op.is_quantized()) return in[1];
  if (!op.transpose_weights) fail("grouped_matmul: quantized weights must be [groups, n, k]");
  const std::vector<TensorType> parts = {in[1], in[2]};
  return Dequantize{op.weight_format, in[0].dtype}.infer(parts)[0];
}

}  // namespace

std::vector<TensorType> GroupedMatmul::infer(Types in) const {
  if (in.size() != (is_quantized() ? 4 : 3))
    fail("grouped_matmul with these attributes takes {} inputs, got {}", is_quantized() ? 4 : 3, in.size());
  const TensorType &x = in[0], weights = weights_type(*this, in);
  if (!is_float(x.dtype) || x.dtype != weights.dtype)
    fail("grouped_matmul: x and weights must be of one floating-point dtype, got {} and {}", x.to_string(),
         weights.to_string());
  if (weights.shape.rank() != 3)
    fail("grouped_matmul: weights must have three axes, the first of them groups, got {}",
         weights.to_string());
  const Dim k = weights.shape[transpose_weights ? 2 : 1], n = weights.shape[transpose_weights ? 1 : 2];
  if (x.shape.rank() < 2 || !(x.shape[x.shape.rank() - 1] == k))
    fail("grouped_matmul: x {} does not fit weights {}: it must be [..., {}]", x.to_string(),
         weights.to_string(), k.to_string());
  const Dim groups = weights.shape[0];
  check_offsets("grouped_matmul", in.back(), &groups);
  Shape shape = x.shape;
  shape[shape.rank() - 1] = n;
  return {{x.dtype, shape}};
}

// Groups without rows are not read.
Cost GroupedMatmul::cost(Types in, Types out) const {
  const double rows = row_count(in[0]), groups = static_cast<double>(axis_size(in[1], 0));
  const double weights = bytes_moved(in.subspan(1, in.size() - 2), {});
  const std::vector<TensorType> x = {in[0], in.back()};
  return {.bytes = bytes_moved(x, out) + (groups > 0 ? weights * std::min(1.0, rows / groups) : 0),
          .flops = product_flops(out[0], static_cast<int64_t>(row_length(in[0]))),
          .depends_on_data = true};
}

double GroupedMatmul::sum_length(Types in, Types) const { return row_length(in[0]); }

void GroupedMatmul::grad(GradientContext& g) const {
  const int last = g.num_inputs() - 1;
  const Value x = g.input(0), offsets = g.input(last), dy = g.dy();
  if (is_quantized()) fail("grouped_matmul with quantized weights has no gradient: they are not trained");
  if (g.wants(0)) g.set(0, grouped_matmul(dy, g.input(1), offsets, !transpose_weights));
  if (g.wants(1))
    g.set(1, emit(GroupedMatmulGrad{}, transpose_weights ? std::vector<Value>{dy, x, offsets}
                                                         : std::vector<Value>{x, dy, offsets}));
}

std::vector<TensorType> GroupedMatmulGrad::infer(Types in) const {
  const Shape &a = in[0].shape, &b = in[1].shape;
  if (!is_float(in[0].dtype) || in[0].dtype != in[1].dtype || a.rank() < 2 || a.rank() != b.rank())
    fail(
        "grouped_matmul_grad: a and b must be of one floating-point dtype and have the same rows, got {} and "
        "{}",
        in[0].to_string(), in[1].to_string());
  for (int axis = 0; axis + 1 < a.rank(); ++axis)
    if (!(a[axis] == b[axis]))
      fail("grouped_matmul_grad: {} and {} must have the same rows", in[0].to_string(), in[1].to_string());
  check_offsets("grouped_matmul_grad", in[2], nullptr);
  if (!in[2].shape[0].is_constant() || in[2].shape[0].value() < 1)
    fail("grouped_matmul_grad: the number of groups must be known, got offsets {}", in[2].to_string());
  return {{in[0].dtype, {in[2].shape[0].value() - 1, a[a.rank() - 1], b[b.rank() - 1]}}};
}

Cost GroupedMatmulGrad::cost(Types in, Types out) const {
  return {.bytes = bytes_moved(in, out),
          .flops = 2 * row_count(in[0]) * row_length(in[0]) * row_length(in[1]),
          .depends_on_data = true};
}

// Each group's result is linear in a and in b: da = b d^T and db = a d, group by group.
void GroupedMatmulGrad::grad(GradientContext& g) const {
  const Value offsets = g.input(2), dy = g.dy();
  if (g.wants(0)) g.set(0, grouped_matmul(g.input(1), dy, offsets, true));
  if (g.wants(1)) g.set(1, grouped_matmul(g.input(0), dy, offsets, false));
}

// --- mixtures of experts beside their products

namespace {

// Returns the types of rows, sorted, places and offsets for ids of this shape.
std::vector<TensorType> sorted_types(const Shape& ids, int64_t groups) {
  const TensorType pairs{DType::i64, {ids.numel()}};
  return {pairs, pairs, {DType::i64, ids}, {DType::i64, {checked_add(groups, 1)}}};
}

// Returns the type of three-dimensional weights, decoded.
TensorType expert_weights_type(Types in, int weights, int scales, WeightFormat format, DType dtype) {
  TensorType type = in[static_cast<size_t>(weights)];
  if (format != WeightFormat::kPlain) {
    const std::vector<TensorType> parts = {type, in[static_cast<size_t>(scales)]};
    type = Dequantize{format, dtype}.infer(parts)[0];
  }
  if (type.dtype != dtype || type.shape.rank() != 3)
    fail("experts: weights must be {} with three axes, the first of them experts, got {}", name_of(dtype),
         type.to_string());
  return type;
}

// Returns the product of the axes before the last.
Dim leading_size(const Shape& shape) {
  Dim size = 1;
  for (int axis = 0; axis + 1 < shape.rank(); ++axis) size = size * shape[axis];
  return size;
}

void check_type(std::string_view what, const TensorType& type, const TensorType& wanted) {
  if (!(type == wanted)) fail("experts: {} must be {}, got {}", what, wanted.to_string(), type.to_string());
}

}  // namespace

std::vector<TensorType> SortGroups::infer(Types in) const {
  if (in[0].dtype != DType::i64 || in[0].shape.rank() < 1)
    fail("sort_groups: ids must be i64 [..., chosen], got {}", in[0].to_string());
  if (groups < 0) fail("sort_groups: groups must not be negative, got {}", groups);
  return sorted_types(in[0].shape, groups);
}

namespace {

void check_groups(const Route& op, int64_t experts) {
  if (op.groups < 1 || op.groups > Route::kMaxGroups || experts % op.groups != 0)
    fail("route: groups must be from 1 to {} and divide {} experts, got {}", Route::kMaxGroups, experts,
         op.groups);
  const int64_t each = experts / op.groups;
  if (op.chosen_groups < 1 || op.chosen_groups > op.groups || op.k > op.chosen_groups * each)
    fail("route: chosen_groups must be from 1 to {} groups and have {} experts, got {} groups of {}",
         op.groups, op.k, op.chosen_groups, each);
  if (op.best_of_group < 1 || op.best_of_group > each)
    fail("route: best_of_group must be from 1 to {} experts of a group, got {}", each, op.best_of_group);
}

}  // namespace

std::vector<TensorType> Route::infer(Types in) const {
  const Shape& shape = in[0].shape;
  if (in[0].dtype != DType::f32 || shape.rank() < 1 || !shape[shape.rank() - 1].is_constant())
    fail("route: logits must be f32 [..., experts] of a known number of experts, got {}", in[0].to_string());
  const int64_t experts = shape[shape.rank() - 1].value();
  if (k < 1 || k > experts) fail("route: k must be from 1 to {} experts, got {}", experts, k);
  if (in.size() > 1 && !(in[1] == TensorType{DType::f32, {experts}}))
    fail("route: the bias must be f32[{}], got {}", experts, in[1].to_string());
  check_groups(*this, experts);
  Shape chosen = shape;
  chosen[chosen.rank() - 1] = Dim(k);
  std::vector<TensorType> types = sorted_types(chosen, experts);
  types.insert(types.begin(), TensorType{DType::f32, chosen});
  return types;
}

Cost Route::cost(Types in, Types out) const {
  return {.bytes = bytes_moved(in, out), .flops = 10 * row_count(in[0]) * row_length(in[0])};
}

std::vector<TensorType> Experts::infer(Types in) const {
  if (static_cast<int>(in.size()) != num_inputs())
    fail("experts with these attributes takes {} inputs, got {}", num_inputs(), in.size());
  if (activation == ExpertActivation::kClampedSwiglu && !(limit > 0 && std::isfinite(slope)))
    fail("experts: clamped_swiglu takes a limit above 0 and a finite slope, got {} and {}", limit, slope);
  const TensorType &x = in[kX], &places = in[kPlaces];
  if (!is_float(x.dtype) || x.shape.rank() < 1 || places.dtype != DType::i64 || places.shape.rank() < 1)
    fail("experts: x must be floating-point [..., k] and places i64 [..., chosen], got {} and {}",
         x.to_string(), places.to_string());
  if (!(leading_size(x.shape) == leading_size(places.shape)))
    fail("experts: x and places must have the same number of rows, got {} and {}", x.to_string(),
         places.to_string());
  const TensorType gate = expert_weights_type(in, kGate, scales(), format, x.dtype),
                   up = expert_weights_type(in, kUp, scales() + 1, format, x.dtype),
                   down = expert_weights_type(in, kDown, down_scales(), down_format, x.dtype);
  const Dim experts = gate.shape[0], n = gate.shape[1];
  check_type("gate", gate, {x.dtype, {experts, n, x.shape[x.shape.rank() - 1]}});
  check_type("up", up, gate);
  check_type("down", down, {x.dtype, {experts, down.shape[1], n}});
  check_type("rows", in[kRows], {DType::i64, {places.shape.numel()}});
  check_type("offsets", in[kOffsets], {DType::i64, {experts + 1}});
  check_type("factors", in[kFactors], {DType::f32, places.shape});
  Shape shape = places.shape;
  shape[shape.rank() - 1] = down.shape[1];
  if (has_addend) check_type("the addend", in[kAddend], {x.dtype, shape});
  if (has_biases) {
    const auto bias = static_cast<size_t>(biases());
    check_type("the bias of gate", in[bias], {x.dtype, {experts, n}});
    check_type("the bias of up", in[bias + 1], {x.dtype, {experts, n}});
    check_type("the bias of down", in[bias + 2], {x.dtype, {experts, down.shape[1]}});
  }
  return {{x.dtype, shape}};
}

// Experts without pairs are not read.
Cost Experts::cost(Types in, Types out) const {
  const auto experts = static_cast<double>(axis_size(in[kGate], 0)),
             pairs = row_count(in[kPlaces]) * row_length(in[kPlaces]);
  const double n = static_cast<double>(axis_size(in[kGate], 1)),
               width = row_length(in[kX]) * 2 + row_length(out[0]);
  const double weights =
      bytes_moved(in.subspan(kGate, 3), {}) + bytes_moved(in.subspan(static_cast<size_t>(biases())), {});
  const std::vector<TensorType> small = {in[kX], in[kRows], in[kOffsets], in[kPlaces], in[kFactors]};
  return {.bytes = bytes_moved(small, out) + (experts > 0 ? weights * std::min(1.0, pairs / experts) : 0),
          .flops = 2 * pairs * n * width,
          .depends_on_data = true};
}

double Experts::sum_length(Types in, Types) const {
  return row_length(in[kX]) + static_cast<double>(axis_size(in[kGate], 1)) * row_length(in[kPlaces]);
}

}  // namespace ops

std::span<const OpDef* const> grouped_matmul_ops() {
  return kOpDefs<ops::GroupedMatmul, ops::GroupedMatmulGrad, ops::SortGroups, ops::Route, ops::Experts>;
}

Value grouped_matmul(Value x, Value weights, Value offsets, bool transpose_weights) {
  const DType dtype = promote(x.dtype(), weights.dtype());
  return emit(ops::GroupedMatmul{.transpose_weights = transpose_weights},
              {cast(x, dtype), cast(weights, dtype), offsets});
}

SortedGroups sort_groups(Value ids, int64_t groups) {
  const std::vector<Value> out = emit_node(ops::SortGroups{groups}, {ids});
  return {out[0], out[1], out[2], out[3]};
}

}  // namespace genesis
