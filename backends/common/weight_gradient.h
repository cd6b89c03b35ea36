// linear_weight_grad as the two ops it stands for, one after the other: dweight = dy^T x, dbias = the sum of
// dy's rows. Used by kernels/weight_grad of every backend.
#pragma once

#include <algorithm>

#include "backends/kernel_part.h"
#include "schema/ops/nn/matmul.h"
#include "schema/ops/tensor/reduce.h"

namespace genesis {

class WeightGradientParts {
 public:
  // `ready` as KernelPart's.
  WeightGradientParts(std::span<const KernelImpl> (*kernels)(std::string_view), bool ready,
                      const KernelQuery& query)
      : product_(KernelPart::of(kernels, ready, query.disabled, ops::Matmul{.transpose_a = true},
                                {query.inputs[0], query.inputs[1]}, {query.outputs[0]})),
        sums_(KernelPart::of(kernels, ready, query.disabled, over_rows(), {query.inputs[0]},
                             {query.outputs[1]})) {}

  int64_t scratch_bytes() const { return std::max(product_.scratch_bytes(), sums_.scratch_bytes()); }

  void run(const KernelContext& c) const {
    product_.run(c, {c.input(0).data, c.input(1).data}, c.output(0).data, c.scratch);
    sums_.run(c, {c.input(0).data}, c.output(1).data, c.scratch);
  }

 private:
  static ops::Sum over_rows() {
    ops::Sum sum;
    sum.axes = {0};
    return sum;
  }

  KernelPart product_, sums_;
};

}  // namespace genesis
