// Shapes and tensor types. A Shape is a list of dimensions, outermost first; data is dense and row-major.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "schema/core/dim.h"
#include "schema/core/dtype.h"

namespace genesis {

inline constexpr int kMaxRank = 8;

class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<Dim> dims) : dims_(dims) {}
  explicit Shape(std::vector<Dim> dims) : dims_(std::move(dims)) {}
  static Shape of(const std::vector<int64_t>& sizes) {
    return Shape(std::vector<Dim>(sizes.begin(), sizes.end()));
  }
  static Shape parse(std::string_view text);  // "[batch,4]"

  int rank() const { return static_cast<int>(dims_.size()); }
  const Dim& operator[](int axis) const { return dims_[static_cast<size_t>(axis)]; }
  Dim& operator[](int axis) { return dims_[static_cast<size_t>(axis)]; }
  const std::vector<Dim>& dims() const { return dims_; }
  auto begin() const { return dims_.begin(); }
  auto end() const { return dims_.end(); }
  void push_back(Dim dim) { dims_.push_back(std::move(dim)); }

  bool is_constant() const;
  std::vector<int64_t> sizes() const;  // throws Error if a dimension is symbolic
  Dim numel() const;
  Shape substitute(const Bindings& bindings) const;
  std::string to_string() const;
  bool operator==(const Shape&) const = default;

 private:
  std::vector<Dim> dims_;
};

struct TensorType {
  DType dtype = DType::f32;
  Shape shape;

  int64_t numel() const { return shape.numel().value(); }
  int64_t bytes() const { return checked_mul(numel(), static_cast<int64_t>(size_of(dtype))); }
  std::string to_string() const;  // "f32[batch,4]"
  bool operator==(const TensorType&) const = default;
};

// Returns the axis counted from 0; a negative one counts from the end. Throws Error that names `what` if it is out of range.
int normalize_axis(int64_t axis, int rank, std::string_view what = "axis");

// Returns the shape to which both operands expand by the usual broadcasting rule (align right; 1 expands). Throws Error naming
// both shapes.
Shape broadcast(const Shape& a, const Shape& b);

}  // namespace genesis
