#include "schema/ops/cast.h"

#include "schema/gradient.h"

namespace genesis {
namespace {

struct Cast {
  static constexpr OpInfo info{.name = "cast", .doc = "x converted to `dtype`.", .elementwise = true};
  DType dtype = DType::f32;
  static void fields(auto& self, auto&& visit) { visit("dtype", self.dtype); }
  std::vector<TensorType> infer(Types in) const { return {{dtype, in[0].shape}}; }
  void grad(GradientContext& g) const {
    if (is_float(dtype)) g.set(0, g.dy());  // set() casts back
  }
};

constexpr OpDef kCast = make_op<Cast>();
constexpr const OpDef* kOps[] = {&kCast};

}  // namespace

std::span<const OpDef* const> cast_ops() { return kOps; }

Value cast(Value x, DType dtype) {
  if (x.dtype() == dtype) return x;
  return emit_node(kCast, to_attributes(Cast{dtype}), {x})[0];
}

}  // namespace genesis
