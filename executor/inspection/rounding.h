// Estimates how far two runs may differ by rounding alone, value by value. compare_runs() accepts these
// differences if the two runs do not promise the same bits.
//
// A step adds u + u_sum sqrt(k) to the relative error of its result. u is half an ulp of the result's dtype, u_sum is
// half an ulp of the dtype of its accumulator (f32 or f64), and k is the number of terms summed
// (schema/graph/cost.h). The errors of the inputs are added as independent errors, by squares. A sum or difference of
// large terms with a small result enlarges the error by the ratio of terms to result, and an exponential enlarges it
// by the size of its exponent. An error is relative to the element, or to the root mean square of its tensor if that
// is larger.
#pragma once

#include <span>
#include <vector>

#include "backends/kernel.h"
#include "schema/graph/plan.h"

namespace genesis {

inline constexpr double kRoundingSafety = 16;

// Follows one run. Call `step` for all steps in order, after each has run.
class Rounding {
 public:
  // Returns the possible relative error of each output of the step. It is 0 if rounding has no effect (integers from
  // integers, copies of inputs), and infinity if rounding may have any effect (integers computed from rounded
  // values).
  std::vector<double> step(const Step& step, std::span<const TensorView> inputs,
                           std::span<const TensorView> outputs);

 private:
  struct Value {
    BufferRef at;
    double error = 0, size = 0;  // `error` is relative to `size`, the root mean square
  };
  const Value* find(const BufferRef& ref) const;
  void keep(const Value& value);

  std::vector<Value> values_;  // newest last; overwritten values are removed
};

// Returns the root mean square of the finite elements.
double root_mean_square(std::span<const double> elements);

}  // namespace genesis
