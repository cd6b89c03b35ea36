// norm_linear as the norm and the layers it stands for, by the kernels of any backend: it gives their bits.
// Used by kernels/norm_linear of every backend. Scratch holds the normalised x, then what the kernels want.
#pragma once

#include <algorithm>

#include "backends/kernel_part.h"
#include "schema/ops/nn/norm.h"
#include "schema/ops/nn/norm_linear.h"

namespace genesis {

class NormParts {
 public:
  // `ready` as for KernelPart.
  NormParts(std::span<const KernelImpl> (*kernels)(std::string_view), bool ready, const KernelQuery& query) {
    const auto op = from_attributes<ops::NormLinear>(query.attributes);
    const TensorType& x = query.inputs[0];
    norm_ = KernelPart::of(kernels, ready, query.disabled, ops::RmsNorm{op.eps, 1, true},
                           {x, query.inputs[1]}, {x});
    std::vector<TensorType> layered = {x}, outputs(query.outputs.begin(), query.outputs.end());
    layered.insert(layered.end(), query.inputs.begin() + 2, query.inputs.end());
    layers_ = op.swiglu
                  ? KernelPart::of(kernels, ready, query.disabled, ops::LinearSwiglu{}, layered, outputs)
                  : KernelPart::of(kernels, ready, query.disabled,
                                   ops::MergedLinear{op.has_bias, op.activation}, layered, outputs);
    x_bytes_ = CheckedSize(x.bytes()).rounded_up(256).value();
  }

  int64_t scratch_bytes() const {
    return (CheckedSize(x_bytes_) + std::max(norm_.scratch_bytes(), layers_.scratch_bytes())).value();
  }

  void run(const KernelContext& c) const {
    std::array<const void*, 18> inputs;
    std::array<void*, 18> outputs;
    inputs[0] = c.scratch;
    for (size_t i = 2; i < c.inputs.size(); ++i) inputs[i - 1] = c.inputs[i].data;
    for (size_t i = 0; i < c.outputs.size(); ++i) outputs[i] = c.outputs[i].data;
    norm_.run(c, {c.input(0).data, c.input(1).data}, c.scratch, c.scratch + x_bytes_);
    layers_.run(c, {inputs.data(), c.inputs.size() - 1}, {outputs.data(), c.outputs.size()},
                c.scratch + x_bytes_);
  }

 private:
  KernelPart norm_, layers_;
  int64_t x_bytes_ = 0;
};

}  // namespace genesis
