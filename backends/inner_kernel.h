// A kernel that runs inside the step of another op. An op that stands for several others is decomposed into such kernels if no
// kernel computes it as a whole.
#pragma once

#include <array>
#include <initializer_list>
#include <vector>

#include "backends/kernel_table.h"
#include "schema/core/checked_size.h"

namespace genesis {

// The kernel of another op.
class InnerKernel {
 public:
  // Chooses the kernel. `ready`: prepare it to run on the current device; otherwise only its scratch size is known. `disabled` is
  // that of the query for the whole step.
  template <class Op>
  static InnerKernel of(std::span<const KernelImpl> (*kernels)(std::string_view), bool ready,
                        const KernelNames* disabled, const Op& op, std::vector<TensorType> inputs,
                        std::vector<TensorType> outputs) {
    InnerKernel inner;
    inner.inputs_ = std::move(inputs);
    inner.outputs_ = std::move(outputs);
    const Attributes attributes = to_attributes(op);
    const KernelQuery query{*find_op(Op::info.name), attributes, inner.inputs_, inner.outputs_, disabled};
    inner.kernel_ = &select_kernel(kernels(Op::info.name), query);
    if (inner.kernel_->scratch_bytes) inner.scratch_bytes_ = inner.kernel_->scratch_bytes(query);
    inner.attributes_ = query.op.parse(attributes);
    if (ready && inner.kernel_->prepare) inner.prepared_ = inner.kernel_->prepare(query);
    return inner;
  }
  int64_t scratch_bytes() const { return scratch_bytes_; }

  // Runs inside the step `c`. The kernel must not use the launch's facts about single inputs, which are those of the step.
  void run(const KernelContext& c, std::span<const void* const> inputs, std::span<void* const> outputs,
           std::byte* scratch) const {
    std::array<TensorView, kMax> in, out;
    for (size_t i = 0; i < inputs.size(); ++i) in[i] = view_of(inputs_[i], const_cast<void*>(inputs[i]));
    for (size_t i = 0; i < outputs.size(); ++i) out[i] = view_of(outputs_[i], outputs[i]);
    KernelContext inner = c;
    inner.inputs = {in.data(), inputs.size()};
    inner.outputs = {out.data(), outputs.size()};
    inner.attributes_ptr = attributes_.get();
    inner.prepared_ptr = prepared_.get();
    inner.scratch = scratch;
    kernel_->run(inner);
  }
  void run(const KernelContext& c, std::initializer_list<const void*> inputs, void* output,
           std::byte* scratch) const {
    run(c, std::span(inputs.begin(), inputs.size()), {&output, 1}, scratch);
  }

 private:
  static constexpr size_t kMax = 26;  // maximum of inputs, and of outputs
  std::vector<TensorType> inputs_, outputs_;
  const KernelImpl* kernel_ = nullptr;
  std::shared_ptr<const void> attributes_, prepared_;
  int64_t scratch_bytes_ = 0;
};

}  // namespace genesis
