// cached_attention as the ops it stands for, one after the other, by the kernels of any backend: it gives
// their bits, and takes every size and dtype. Used by kernels/cached_attention of every backend. Scratch
// holds the turned q and k, the number of keys, then what the kernels want.
#pragma once

#include <algorithm>
#include <vector>

#include "backends/kernel.h"
#include "schema/ops/attention.h"
#include "schema/ops/cached_attention.h"
#include "schema/ops/slice.h"

namespace genesis {

// Another op's kernel.
class KernelPart {
 public:
  // `ready`: it will run, on the device that is current; otherwise only its scratch is asked for.
  template <class Op>
  static KernelPart of(std::span<const KernelImpl> (*kernels)(std::string_view), bool ready, const Op& op,
                       std::vector<TensorType> inputs, const TensorType& output) {
    KernelPart part;
    part.inputs_ = std::move(inputs);
    part.output_ = output;
    const Attributes attributes = to_attributes(op);
    const KernelQuery query{*find_op(Op::info.name), attributes, part.inputs_, {&part.output_, 1}};
    part.kernel_ = &select_kernel(kernels(Op::info.name), query);
    if (part.kernel_->scratch_bytes) part.scratch_bytes_ = part.kernel_->scratch_bytes(query);
    part.attributes_ = query.op.parse(attributes);
    if (ready && part.kernel_->prepare) part.prepared_ = part.kernel_->prepare(query);
    return part;
  }
  int64_t scratch_bytes() const { return scratch_bytes_; }

  // As a part of the step `c`.
  void run(const KernelContext& c, std::initializer_list<const void*> inputs, void* output,
           std::byte* scratch) const {
    std::array<TensorView, 4> views;
    size_t count = 0;
    for (const void* data : inputs) {
      views[count] = view_of(inputs_[count], const_cast<void*>(data));
      ++count;
    }
    const TensorView result = view_of(output_, output);
    KernelContext part = c;
    part.inputs = {views.data(), count};
    part.outputs = {&result, 1};
    part.attributes_ptr = attributes_.get();
    part.prepared_ptr = prepared_.get();
    part.scratch = scratch;
    kernel_->run(part);
  }

 private:
  std::vector<TensorType> inputs_;
  TensorType output_;
  const KernelImpl* kernel_ = nullptr;
  std::shared_ptr<const void> attributes_, prepared_;
  int64_t scratch_bytes_ = 0;
};

class CachedParts {
 public:
  CachedParts(std::span<const KernelImpl> (*kernels)(std::string_view), bool ready,
              const KernelQuery& query) {
    const auto op = from_attributes<ops::CachedAttention>(query.attributes);
    const TensorType &q = query.inputs[0], &k = query.inputs[1], number{DType::i64, {}},
                     position{DType::i64, {1}};
    ops::DynamicUpdateSlice update;
    update.axis = 1;
    ops::Attention attention;
    attention.causal = attention.has_key_length = true;
    attention.scale = op.scale;
    for (size_t i = 0; i < 2; ++i)
      append_[i] = KernelPart::of(kernels, ready, update, {query.inputs[3 + i], query.inputs[1 + i], number},
                                  query.inputs[3 + i]);
    attend_ = KernelPart::of(kernels, ready, attention, {q, query.inputs[3], query.inputs[4], number},
                             query.outputs[0]);
    turns_ = op.turns;
    if (turns_) {
      turn_q_ = KernelPart::of(kernels, ready, op.rope(), {q, position}, q);
      turn_k_ = KernelPart::of(kernels, ready, op.rope(), {k, position}, k);
      k_at_ = aligned(q.bytes());
      length_at_ = k_at_ + aligned(k.bytes());
    }
  }

  int64_t scratch_bytes() const {
    return parts_at() + std::max({append_[0].scratch_bytes(), append_[1].scratch_bytes(),
                                  attend_.scratch_bytes(), turn_q_.scratch_bytes(), turn_k_.scratch_bytes()});
  }

  // write_length(c, to): puts start + 1 there, and reports a start outside the caches.
  template <class WriteLength>
  void run(const KernelContext& c, const WriteLength& write_length) const {
    const void *q = c.input(0).data, *k = c.input(1).data, *start = c.input(5).data;
    std::byte* scratch = c.scratch + parts_at();
    auto* length = reinterpret_cast<int64_t*>(c.scratch + length_at_);
    write_length(c, length);
    if (turns_) {
      turn_q_.run(c, {q, start}, c.scratch, scratch);
      turn_k_.run(c, {k, start}, c.scratch + k_at_, scratch);
      q = c.scratch;
      k = c.scratch + k_at_;
    }
    append_[0].run(c, {c.input(3).data, k, start}, c.output(1).data, scratch);
    append_[1].run(c, {c.input(4).data, c.input(2).data, start}, c.output(2).data, scratch);
    attend_.run(c, {q, c.output(1).data, c.output(2).data, length}, c.output(0).data, scratch);
  }

 private:
  static int64_t aligned(int64_t bytes) { return (bytes + 255) / 256 * 256; }
  int64_t parts_at() const { return length_at_ + aligned(sizeof(int64_t)); }

  KernelPart turn_q_, turn_k_, append_[2], attend_;
  bool turns_ = false;
  int64_t k_at_ = 0, length_at_ = 0;
};

}  // namespace genesis
