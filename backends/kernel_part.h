// A kernel run as a part of another op's step: how an op that stands for several others is done where no
// kernel does all of it at once. Used by common/cached_parts.h and common/product_parts.h.
#pragma once

#include <array>
#include <initializer_list>
#include <vector>

#include "backends/kernel_table.h"
#include "schema/core/checked_size.h"

namespace genesis {

// Another op's kernel.
class KernelPart {
 public:
  // `ready`: it will run, on the device that is current; otherwise only its scratch is asked for. `disabled`: of
  // the query that the whole step was chosen for.
  template <class Op>
  static KernelPart of(std::span<const KernelImpl> (*kernels)(std::string_view), bool ready,
                       const KernelNames* disabled, const Op& op, std::vector<TensorType> inputs,
                       std::vector<TensorType> outputs) {
    KernelPart part;
    part.inputs_ = std::move(inputs);
    part.outputs_ = std::move(outputs);
    const Attributes attributes = to_attributes(op);
    const KernelQuery query{*find_op(Op::info.name), attributes, part.inputs_, part.outputs_, disabled};
    part.kernel_ = &select_kernel(kernels(Op::info.name), query);
    if (part.kernel_->scratch_bytes) part.scratch_bytes_ = part.kernel_->scratch_bytes(query);
    part.attributes_ = query.op.parse(attributes);
    if (ready && part.kernel_->prepare) part.prepared_ = part.kernel_->prepare(query);
    return part;
  }
  int64_t scratch_bytes() const { return scratch_bytes_; }

  // As a part of the step `c`, whose launch facts about single inputs it must not ask for.
  void run(const KernelContext& c, std::span<const void* const> inputs, std::span<void* const> outputs,
           std::byte* scratch) const {
    std::array<TensorView, kMax> in, out;
    for (size_t i = 0; i < inputs.size(); ++i) in[i] = view_of(inputs_[i], const_cast<void*>(inputs[i]));
    for (size_t i = 0; i < outputs.size(); ++i) out[i] = view_of(outputs_[i], outputs[i]);
    KernelContext part = c;
    part.inputs = {in.data(), inputs.size()};
    part.outputs = {out.data(), outputs.size()};
    part.attributes_ptr = attributes_.get();
    part.prepared_ptr = prepared_.get();
    part.scratch = scratch;
    kernel_->run(part);
  }
  void run(const KernelContext& c, std::initializer_list<const void*> inputs, void* output,
           std::byte* scratch) const {
    run(c, std::span(inputs.begin(), inputs.size()), {&output, 1}, scratch);
  }

 private:
  static constexpr size_t kMax = 26;  // inputs, and outputs
  std::vector<TensorType> inputs_, outputs_;
  const KernelImpl* kernel_ = nullptr;
  std::shared_ptr<const void> attributes_, prepared_;
  int64_t scratch_bytes_ = 0;
};

}  // namespace genesis
