// Derives all checks of an op from one description of a case.
//
//   check({.name = "softmax_axis0",
//          .inputs = {real({3, 5}, -3, 3)},
//          .build = [](const Inputs& x) { return Outputs{softmax(x[0], 0)}; },
//          .reference = [](const Refs& x) { return Refs{softmax_reference(x[0], 0)}; }});
//
// runs the op through a Session, by every kernel implementation that accepts it in turn, and compares values with the
// reference (plain loops in double precision) and gradients with finite differences of the reference, in f64, f32,
// bf16 and f16. Results with 1, 2 and 4 threads, without memory reuse, and after saving and loading the model must be
// bit-identical.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "executor/session.h"

namespace genesis::testing {

// A tensor of the reference: doubles, whatever the dtype.
struct Ref {
  std::vector<int64_t> shape;
  std::vector<double> data;

  int64_t numel() const;
  int64_t dim(int64_t axis) const { return shape[static_cast<size_t>(axis < 0 ? axis + rank() : axis)]; }
  int64_t rank() const { return static_cast<int64_t>(shape.size()); }
  double& operator[](int64_t i) { return data[static_cast<size_t>(i)]; }
  double operator[](int64_t i) const { return data[static_cast<size_t>(i)]; }
};
using Refs = std::vector<Ref>;
Ref ref_zeros(std::vector<int64_t> shape);
std::vector<int64_t> unravel(int64_t flat, const std::vector<int64_t>& shape);
int64_t ravel(const std::vector<int64_t>& index, const std::vector<int64_t>& shape);

struct CaseInput {
  DType dtype = DType::f32;  // f32 stands for "real": the checks run it as f64, f32, bf16 and f16
  std::vector<int64_t> shape;
  double low = -1, high = 1;   // values are drawn from here ...
  std::vector<double> values;  // ... or given
  bool differentiable = true;  // reals only
  bool keep_dtype = false;     // a real that stays f32 in every variant
};
CaseInput real(std::vector<int64_t> shape, double low = -1, double high = 1);
CaseInput real_data(std::vector<int64_t> shape, std::vector<double> values);
CaseInput constant_real(std::vector<int64_t> shape, double low = -1, double high = 1);  // without a gradient
CaseInput integers(std::vector<int64_t> shape, int64_t low, int64_t high,
                   DType dtype = DType::i64);  // [low, high)
CaseInput integer_data(std::vector<int64_t> shape, std::vector<double> values, DType dtype = DType::i64);
CaseInput booleans(std::vector<int64_t> shape);

struct Inputs {
  Graph& graph;
  std::vector<Value> values;
  Value operator[](size_t i) const { return values[i]; }
};
using Outputs = std::vector<Value>;

struct OpCase {
  std::string name;
  std::vector<CaseInput> inputs;
  std::function<Outputs(const Inputs&)> build;
  std::function<Refs(const Refs&)> reference;
  bool gradient = true;       // false if the op has none
  bool low_precision = true;  // false for ops without bf16 and f16
  bool f64 = true;            // false for ops that compute only in f32
  bool on_gpus = true;        // false for forms that passes choose for CPUs
  bool low_gradient = true;   // false if rounded inputs meet kinks, where a gradient jumps
  // Errors are |got - expected| <= tolerance * max(1, |expected|). Give a reason if you loosen one.
  double tolerance = 4e-6;  // f32
  double tolerance_f64 = 1e-11;
  double tolerance_low = 0.02;       // bf16 carries 8 bits
  double tolerance_gradient = 2e-6;  // finite differences of the reference, against f64
  // Above 0: gradients are compared along this many random directions, in cases with too many elements for a difference each.
  int64_t directions = 0;
  // For ops that add up terms, such as products: returns for each element of the results the sum of the absolute terms.
  // Errors are then |got - expected| <= kRoundings * epsilon of the dtype * this sum, in f32, bf16 and f16.
  std::function<Refs(const Refs&)> terms = {};
  bool terms_of_gradient =
      false;  // the gradient of `terms` has the absolute terms of the gradient, as in products
};

// The number of roundings that an error may amount to, each of half a unit in the last place of the largest terms. In 16 bits
// these are at most: an operand that is rounded before the product (a probability, a norm's result, a gradient that arrives), the
// product or partial sum, an addend's sum, and the result. In f32 the sums of these tests, of up to a few thousand terms in
// several lanes, stay below it too.
inline constexpr double kRoundings = 8;

// Returns the case with `terms` and their gradient, for an op that is linear in each of its inputs, so that the absolute terms are
// those of the inputs' absolute values.
OpCase with_terms(OpCase op_case);

// Checks on the CPU, and checks values and gradients again on the first GPU if there is one.
void check(const OpCase& op_case);

// Returns an empty text if there is a GPU to test on, else the reason with which tests of CUDA are skipped.
const std::string& why_no_cuda();

// Builds and runs one graph at once, for cases that do not compare with a reference.
NamedTensors run_graph(const std::vector<std::pair<std::string, Tensor>>& inputs,
                       const std::function<std::vector<std::pair<std::string, Value>>(const Inputs&)>& build,
                       const SessionOptions& options = {});

// Asserts that `body` throws genesis::Error with a message that contains all of `parts`.
void expect_error(const std::function<void()>& body, const std::vector<std::string>& parts);

// Returns the result types of building with these input types, which may have symbols. Used to test shape rules.
std::vector<TensorType> infer_case(const std::vector<TensorType>& inputs,
                                   const std::function<Outputs(const Inputs&)>& build);

}  // namespace genesis::testing
