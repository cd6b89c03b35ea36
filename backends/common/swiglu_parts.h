// linear_with_swiglu and matmul_swiglu_grad as the two ops each stands for, by the kernels of any backend: it
// gives their bits. Used by kernels/swiglu_products of every backend.
#pragma once

#include <algorithm>

#include "backends/kernel_part.h"
#include "schema/ops/nn/swiglu.h"
#include "schema/ops/nn/swiglu_products.h"

namespace genesis {

class LinearWithSwigluParts {
 public:
  // `ready` as KernelPart's.
  LinearWithSwigluParts(std::span<const KernelImpl> (*kernels)(std::string_view), bool ready,
                        const KernelQuery& query)
      : product_(KernelPart::of(kernels, ready, query.disabled, ops::Linear{},
                                {query.inputs[0], query.inputs[1]}, {query.outputs[0]})),
        swiglu_(KernelPart::of(kernels, ready, query.disabled, ops::Swiglu{}, {query.outputs[0]},
                               {query.outputs[1]})) {}

  int64_t scratch_bytes() const { return std::max(product_.scratch_bytes(), swiglu_.scratch_bytes()); }

  void run(const KernelContext& c) const {
    product_.run(c, {c.input(0).data, c.input(1).data}, c.output(0).data, c.scratch);
    swiglu_.run(c, {c.output(0).data}, c.output(1).data, c.scratch);
  }

 private:
  KernelPart product_, swiglu_;
};

// dy is written where the output goes, over which swiglu_grad may write that, or without one into scratch,
// ahead of the kernels' own.
class MatmulSwigluGradParts {
 public:
  MatmulSwigluGradParts(std::span<const KernelImpl> (*kernels)(std::string_view), bool ready,
                        const KernelQuery& query) {
    const auto op = from_attributes<ops::MatmulSwigluGrad>(query.attributes);
    const TensorType dy = ops::Matmul{}.infer(query.inputs.first(2))[0];
    product_ = KernelPart::of(kernels, ready, query.disabled, ops::Matmul{},
                              {query.inputs[0], query.inputs[1]}, {dy});
    gradient_ = KernelPart::of(kernels, ready, query.disabled, ops::SwigluGrad{op.with_output},
                               {query.inputs[2], dy}, {query.outputs.begin(), query.outputs.end()});
    dy_bytes_ = op.with_output ? 0 : CheckedSize(dy.bytes()).rounded_up(256).value();
  }

  int64_t scratch_bytes() const {
    return (CheckedSize(dy_bytes_) + std::max(product_.scratch_bytes(), gradient_.scratch_bytes())).value();
  }

  void run(const KernelContext& c) const {
    std::byte* scratch = c.scratch + dy_bytes_;
    void* dy = dy_bytes_ > 0 ? c.scratch : c.outputs.back().data;
    product_.run(c, {c.input(0).data, c.input(1).data}, dy, scratch);
    const void* inputs[] = {c.input(2).data, dy};
    void* outputs[] = {c.output(0).data, c.outputs.back().data};
    gradient_.run(c, inputs, std::span(outputs).first(c.outputs.size()), scratch);
  }

 private:
  KernelPart product_, gradient_;
  int64_t dy_bytes_ = 0;
};

}  // namespace genesis
