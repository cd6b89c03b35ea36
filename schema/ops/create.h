// Ops that create tensors from no input, or from indices. Functions without an input take the graph. Sizes may be symbolic:
// binding substitutes the symbols in Shape attributes.
#pragma once

#include "schema/graph/graph.h"

namespace genesis {
namespace ops {

struct Full {
  static constexpr OpInfo info{.name = "full",
                               .doc = "A tensor of `shape` filled with `value`.",
                               .inputs = {0, 0},
                               .precision = Precision::kExact};
  Shape shape;
  Scalar value;
  DType dtype = DType::f32;
  static void fields(auto& self, auto&& visit) {
    visit("shape", self.shape);
    visit("value", self.value);
    visit("dtype", self.dtype);
  }
  std::vector<TensorType> infer(Types in) const;
};

struct Arange {
  static constexpr OpInfo info{.name = "arange",
                               .doc = "`start`, `start + step`, ...: `length[0]` numbers.",
                               .inputs = {0, 0},
                               .precision = Precision::kExact};
  Shape length;  // a shape with one dimension
  Scalar start = 0, step = 1;
  DType dtype = DType::i64;
  static void fields(auto& self, auto&& visit) {
    visit("length", self.length);
    visit("start", self.start);
    visit("step", self.step);
    visit("dtype", self.dtype);
  }
  std::vector<TensorType> infer(Types in) const;
};

struct OneHot {
  static constexpr OpInfo info{.name = "one_hot",
                               .doc = "1 at position index of a new last axis of `num_classes`, else 0.",
                               .precision = Precision::kExact};
  int64_t num_classes = 0;
  DType dtype = DType::f32;
  static void fields(auto& self, auto&& visit) {
    visit("num_classes", self.num_classes);
    visit("dtype", self.dtype);
  }
  std::vector<TensorType> infer(Types in) const;
};

struct DimValue {
  static constexpr OpInfo info{.name = "dim_value",
                               .doc = "The size `dim[0]`, known when a plan is made, as a scalar.",
                               .inputs = {0, 0},
                               .precision = Precision::kExact};
  Shape dim;  // a shape with one dimension
  DType dtype = DType::i64;
  static void fields(auto& self, auto&& visit) {
    visit("dim", self.dim);
    visit("dtype", self.dtype);
  }
  std::vector<TensorType> infer(Types in) const;
};

}  // namespace ops

// Throws Error if integers of `dtype` cannot be filled with `value`, because it is not finite or beyond 64 bits.
void check_fill(const Scalar& value, DType dtype, std::string_view op);

Value full(Graph& graph, Shape shape, Scalar value, DType dtype = DType::f32);
Value zeros(Graph& graph, Shape shape, DType dtype = DType::f32);
Value ones(Graph& graph, Shape shape, DType dtype = DType::f32);
Value full_like(Value x, Scalar value);
Value zeros_like(Value x);
Value ones_like(Value x);
// Returns start, start + step, ...: `length` numbers.
Value arange(Graph& graph, Dim length, Scalar start = 0, Scalar step = 1, DType dtype = DType::i64);
Value one_hot(Value indices, int64_t num_classes, DType dtype = DType::f32);
// Returns the size of `dim` at run time as a scalar (sizes are known when a plan is made).
Value dim_value(Graph& graph, Dim dim, DType dtype = DType::i64);

}  // namespace genesis
