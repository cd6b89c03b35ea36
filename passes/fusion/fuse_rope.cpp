#include "passes/core/match.h"
#include "passes/core/rewriter.h"
#include "passes/fusion/passes.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/nn/rope.h"
#include "schema/ops/tensor/layout.h"
#include "schema/ops/tensor/reshape.h"
#include "schema/ops/tensor/slice.h"

namespace genesis::passes {
namespace {

class RopeFuser {
 public:
  explicit RopeFuser(const Graph& graph) : graph_(graph) {}

  // x * cos + concat(-x[size/2:], x[:size/2]) * sin, with x [batch, heads, time, size]
  Replacement visit(Rewriter& rewriter, const Node& node) const {
    const auto sum = match<ops::Add>(node);
    if (!sum || shape(node.outputs[0]).rank() != 4) return std::nullopt;
    for (const auto& [plain, turned] : either_way(node)) {
      Match m;
      if (match_plain(plain, m) && match_turned(turned, m) && match_angles(m)) return emit_rope(rewriter, m);
    }
    return std::nullopt;
  }

 private:
  struct Match {
    ValueId x, plain_factor, cos, angles, positions, frequencies;
  };

  const Shape& shape(ValueId value) const { return graph_.type(value).shape; }

  // Returns the value behind reshapes, and behind casts to reals.
  ValueId behind_reshapes(ValueId value) const {
    for (;;) {
      if (const auto reshape = match<ops::Reshape>(graph_, value))
        value = reshape.input(0);
      else if (const auto cast = match<ops::Cast>(graph_, value); cast && is_float(cast->dtype))
        value = cast.input(0);
      else
        return value;
    }
  }
  // Does the same for factors that are one number for each element, which an expansion may repeat for heads and batch.
  ValueId behind_expansions(ValueId value) const {
    for (;;) {
      const ValueId inner = behind_reshapes(value);
      const auto expand = match<ops::Expand>(graph_, inner);
      if (!expand) return inner;
      value = expand.input(0);
    }
  }

  // x * cos(angles)
  bool match_plain(ValueId value, Match& m) const {
    const auto product = match<ops::Mul>(graph_, value);
    if (!product) return false;
    for (const auto& [x, factor] : either_way(*product.node))
      if (const auto cos = match<ops::Cos>(graph_, behind_expansions(factor))) {
        m.x = x, m.angles = cos.input(0), m.plain_factor = factor;
        return shape(x).rank() == 4 && fits_heads(factor, x);
      }
    return false;
  }

  // concat(-x[size/2:], x[:size/2]) * sin(angles)
  bool match_turned(ValueId value, const Match& m) const {
    const auto product = match<ops::Mul>(graph_, value);
    if (!product) return false;
    for (const auto& [halves, factor] : either_way(*product.node)) {
      const auto sin = match<ops::Sin>(graph_, behind_expansions(factor));
      if (sin && sin.input(0) == m.angles && fits_heads(factor, m.x) && are_turned_halves(halves, m.x))
        return true;
    }
    return false;
  }

  // A factor [batch or 1, 1, time, size] is the same for all heads.
  bool fits_heads(ValueId factor, ValueId x) const {
    const Shape &f = shape(factor), &all = shape(x);
    return f.rank() == 4 && (f[0] == Dim(1) || f[0] == all[0]) && f[1] == Dim(1) && f[2] == all[2] &&
           f[3] == all[3];
  }

  bool are_turned_halves(ValueId value, ValueId x) const {
    const auto joined = match<ops::Concat>(graph_, value);
    if (!joined || joined.num_inputs() != 2 || normalize_axis(joined->axis, 4) != 3) return false;
    const auto negative = match<ops::Neg>(graph_, joined.input(0));
    const Dim& size = shape(x)[3];
    const auto half = size.divide_exact(2);
    return negative && half && is_slice(negative.input(0), x, *half, *half) &&
           is_slice(joined.input(1), x, Dim(0), *half);
  }
  bool is_slice(ValueId value, ValueId x, const Dim& start, const Dim& length) const {
    const auto slice = match<ops::Slice>(graph_, value);
    return slice && slice.input(0) == x && normalize_axis(slice->axis, 4) == 3 && slice->step == 1 &&
           slice->start[0] == start && slice->length[0] == length;
  }

  // concat(f, f) with f = positions * frequencies
  bool match_angles(Match& m) const {
    const auto joined = match<ops::Concat>(graph_, m.angles);
    if (!joined || joined.num_inputs() != 2 || !(joined.input(0) == joined.input(1))) return false;
    const int rank = shape(m.angles).rank();
    if (normalize_axis(joined->axis, rank) != rank - 1) return false;
    const auto product = match<ops::Mul>(graph_, joined.input(0));
    if (!product) return false;
    for (const auto& [times, numbers] : either_way(*product.node))
      if (match_factors(times, numbers, m)) return true;
    return false;
  }

  bool match_factors(ValueId times, ValueId numbers, Match& m) const {
    const Shape& x = shape(m.x);
    const Shape &t = shape(times), &n = shape(numbers);
    if (t.rank() < 2 || n.rank() < 1 || !(t[t.rank() - 1] == Dim(1)) || !(t[t.rank() - 2] == x[2]))
      return false;
    if (!(n.numel() * 2 == x[3]) || !(n[n.rank() - 1] == n.numel())) return false;
    if (!(t.numel() == x[2]) && !(t.numel() == x[0] * x[2])) return false;
    m.positions = behind_reshapes(times), m.frequencies = numbers;
    const DType dtype = graph_.type(m.positions).dtype;
    return dtype == DType::i64 || dtype == DType::i32;
  }

  Replacement emit_rope(Rewriter& rewriter, const Match& m) const {
    const Shape& x = shape(m.x);
    const bool is_shared = shape(m.positions).numel() == x[2];
    const Value positions =
        cast(reshape(rewriter.map(m.positions), is_shared ? Shape{x[2]} : Shape{x[0], x[2]}), DType::i64);
    const Dim half = shape(m.frequencies).numel();
    const Value frequencies = cast(reshape(rewriter.map(m.frequencies), {half}), DType::f64);
    const Value heads_last = permute(rewriter.map(m.x), {0, 2, 1, 3});
    const Value y = rope(heads_last, positions, 10000, RopeKind::kHalf, 0, 0, frequencies);
    return {{permute(y, {0, 2, 1, 3})}};
  }

  const Graph& graph_;
};

}  // namespace

Graph fuse_rope(const Graph& graph, const PassContext& context) {
  const RopeFuser fuser(graph);
  return rewrite(
      graph, [&](Rewriter& rewriter, const Node& node) { return fuser.visit(rewriter, node); },
      context.target);
}

}  // namespace genesis::passes
