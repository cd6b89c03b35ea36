#include "schema/ops/collective/collective.h"

#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/gradient.h"

namespace genesis {

namespace ops {
namespace {

void check_axis(std::string_view op, const std::string& axis) {
  if (axis.empty()) fail("{} needs the name of an axis of the mesh", op);
}

void check_ranks(std::string_view op, const std::string& axis, int64_t ranks) {
  check_axis(op, axis);
  if (ranks < 1) fail("{} along '{}': `ranks` must be positive, got {}", op, axis, ranks);
}

void check_reduction(std::string_view op, RankReduction reduction, Types in) {
  for (const TensorType& type : in) {
    if (type.dtype == DType::boolean) fail("{} takes numbers, got {}", op, type.to_string());
    if (reduction == RankReduction::kMean && !is_float(type.dtype))
      fail("{} gives the mean of real numbers, got {}", op, type.to_string());
  }
}

const Dim& first_dim(std::string_view op, const TensorType& type) {
  if (type.shape.rank() == 0) fail("{} needs a first dimension, got {}", op, type.to_string());
  return type.shape[0];
}

// Returns the types of the shards that each rank has of whole tensors.
std::vector<TensorType> parts_of(std::string_view op, Types in, const std::string& axis, int64_t ranks) {
  std::vector<TensorType> out(in.begin(), in.end());
  for (TensorType& type : out) {
    const Dim& whole = first_dim(op, type);
    const std::optional<Dim> part = whole.divide_exact(Dim(ranks));
    if (!part)
      fail("{} along '{}': {} ranks do not divide the first dimension of {}", op, axis, ranks,
           type.to_string());
    type.shape[0] = *part;
  }
  return out;
}

std::vector<Value> all_dy(GradientContext& g) {
  std::vector<Value> values;
  for (int i = 0; i < g.num_inputs(); ++i)
    if (g.dy(i)) values.push_back(g.dy(i));
  return values;
}

// Sets the gradients of the inputs whose outputs have a gradient; `gradients` lists them in order.
void set_all(GradientContext& g, const std::vector<Value>& gradients) {
  size_t next = 0;
  for (int i = 0; i < g.num_inputs(); ++i)
    if (g.dy(i)) g.set(i, gradients[next++]);
}

}  // namespace

std::vector<TensorType> AllReduce::infer(Types in) const {
  check_axis(info.name, axis);
  check_reduction(info.name, reduction, in);
  if (!has_addend) return {in.begin(), in.end()};
  if (in.size() != 2 || in[0] != in[1] || reduction != RankReduction::kSum)
    fail(
        "all_reduce with `has_addend` takes the sum of one tensor and another tensor like it, got {} "
        "tensors, the first {}",
        in.size(), in.empty() ? "none" : in[0].to_string());
  return {in[0]};
}

// An addend cannot be overwritten, because it is read after the sum.
std::vector<InPlace> AllReduce::in_place(Types, Types out) const {
  std::vector<InPlace> pairs;
  for (int i = 0; i < static_cast<int>(out.size()); ++i) pairs.push_back({i, i});
  return pairs;
}

// The differentiated loss is the sum of all ranks' losses, so the gradient is reduced over the ranks as well.
void AllReduce::grad(GradientContext& g) const {
  if (reduction != RankReduction::kSum && reduction != RankReduction::kMean)
    fail("all_reduce has a gradient for sum and mean, not for max and min");
  if (has_addend) {
    g.set(0, all_reduce(g.dy(0), axis, reduction));
    return g.set(1, g.dy(0));
  }
  set_all(g, all_reduce(all_dy(g), axis, reduction));
}

std::vector<TensorType> AllGather::infer(Types in) const {
  check_ranks(info.name, axis, ranks);
  std::vector<TensorType> out(in.begin(), in.end());
  for (TensorType& type : out) type.shape[0] = first_dim(info.name, type) * Dim(ranks);
  return out;
}

void AllGather::grad(GradientContext& g) const { set_all(g, reduce_scatter(all_dy(g), axis, ranks)); }

std::vector<TensorType> ReduceScatter::infer(Types in) const {
  check_ranks(info.name, axis, ranks);
  check_reduction(info.name, reduction, in);
  return parts_of(info.name, in, axis, ranks);
}

void ReduceScatter::grad(GradientContext& g) const {
  if (reduction != RankReduction::kSum && reduction != RankReduction::kMean)
    fail("reduce_scatter has a gradient for sum and mean, not for max and min");
  std::vector<Value> gradients = all_gather(all_dy(g), axis, ranks);
  if (reduction == RankReduction::kMean)
    for (Value& gradient : gradients) gradient = gradient * (1.0 / static_cast<double>(ranks));
  set_all(g, gradients);
}

std::vector<TensorType> AllToAll::infer(Types in) const {
  check_ranks(info.name, axis, ranks);
  static_cast<void>(parts_of(info.name, in, axis, ranks));
  return {in.begin(), in.end()};
}

void AllToAll::grad(GradientContext& g) const { set_all(g, emit_node(*this, all_dy(g))); }

std::vector<TensorType> Broadcast::infer(Types in) const {
  check_axis(info.name, axis);
  if (root < 0) fail("broadcast along '{}': `root` must not be negative, got {}", axis, root);
  return {in.begin(), in.end()};
}

}  // namespace ops

std::span<const OpDef* const> collective_ops() {
  return kOpDefs<ops::AllReduce, ops::AllGather, ops::ReduceScatter, ops::AllToAll, ops::Broadcast>;
}

std::string_view axis_of(const OpDef& op, const Attributes& attributes) {
  const AttrValue* axis = op.info.collective ? attributes.find("axis") : nullptr;
  return axis ? std::string_view(std::get<std::string>(*axis)) : std::string_view();
}

std::vector<Value> all_reduce(std::span<const Value> values, const std::string& axis,
                              RankReduction reduction) {
  return emit_node(ops::AllReduce{axis, reduction}, {values.begin(), values.end()});
}
Value all_reduce(Value x, const std::string& axis, RankReduction reduction) {
  return all_reduce(std::span(&x, 1), axis, reduction)[0];
}

std::vector<Value> all_gather(std::span<const Value> values, const std::string& axis, int64_t ranks) {
  return emit_node(ops::AllGather{{axis, ranks}}, {values.begin(), values.end()});
}
Value all_gather(Value x, const std::string& axis, int64_t ranks) {
  return all_gather(std::span(&x, 1), axis, ranks)[0];
}

std::vector<Value> reduce_scatter(std::span<const Value> values, const std::string& axis, int64_t ranks,
                                  RankReduction reduction) {
  return emit_node(ops::ReduceScatter{{axis, ranks}, reduction}, {values.begin(), values.end()});
}
Value reduce_scatter(Value x, const std::string& axis, int64_t ranks, RankReduction reduction) {
  return reduce_scatter(std::span(&x, 1), axis, ranks, reduction)[0];
}

Value all_to_all(Value x, const std::string& axis, int64_t ranks) {
  return emit(ops::AllToAll{{axis, ranks}}, {x});
}

Value broadcast(Value x, const std::string& axis, int64_t root) {
  return emit(ops::Broadcast{axis, root}, {x});
}

}  // namespace genesis
