#include "schema/ops/layout.h"

#include "schema/gradient.h"

namespace genesis {
namespace {

struct Expand {
  static constexpr OpInfo info{.name = "expand", .doc = "x broadcast to `shape`, aligned right."};
  Shape shape;
  static void fields(auto& self, auto&& visit) { visit("shape", self.shape); }
  std::vector<TensorType> infer(Types in) const {
    if (!(broadcast(in[0].shape, shape) == shape))
      fail("{} does not expand to {}", in[0].shape.to_string(), shape.to_string());
    return {{in[0].dtype, shape}};
  }
  void grad(GradientContext& g) const { g.set(0, g.dy()); }  // set() sums back
};

constexpr OpDef kExpand = make_op<Expand>();
constexpr const OpDef* kOps[] = {&kExpand};

}  // namespace

std::span<const OpDef* const> layout_ops() { return kOps; }

Value expand(Value x, Shape shape) {
  if (shape == x.shape()) return x;
  return emit_node(kExpand, to_attributes(Expand{shape}), {x})[0];
}

}  // namespace genesis
