// How far two ways of running may differ by rounding alone, value by value: what compare calls equal when
// they do not promise the same bits.
//
// A step adds u + u_sum sqrt(k) to the relative error of its result: u is half an ulp of the result's dtype,
// u_sum of the dtype it sums in (f32, or f64), k how many terms are summed (schema/graph/cost.h). What its inputs
// bring comes on top, the errors added as those of independent chances are: by squares. Sums and differences
// of large terms that give little enlarge the error by terms over result, exponentials by the size of their
// exponent. Errors are relative to the element, or to the root mean square of its tensor when that is larger.
#pragma once

#include <span>
#include <vector>

#include "backends/kernel.h"
#include "schema/graph/plan.h"

namespace genesis::tools {

inline constexpr double kRoundingSafety = 16;

// Follows one run; `step` must be called for all steps in order, after each ran.
class Rounding {
 public:
  // The relative error that each output of the step may carry; 0 where rounding makes no difference (whole
  // numbers from whole numbers, copies of inputs), infinity where it makes any (whole numbers decided by
  // rounded ones).
  std::vector<double> step(const Step& step, std::span<const TensorView> inputs,
                           std::span<const TensorView> outputs);

 private:
  struct Value {
    BufferRef at;
    double error = 0, size = 0;  // relative to `size`, the root mean square
  };
  const Value* find(const BufferRef& ref) const;
  void keep(const Value& value);

  std::vector<Value> values_;  // the newest last; what is written over is dropped
};

// The root mean square of the finite elements.
double root_mean_square(std::span<const double> elements);

}  // namespace genesis::tools
