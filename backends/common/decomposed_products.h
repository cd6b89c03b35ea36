// Forms of linear and matmul that no kernel does at once, decomposed: the kernels of the ops that they stand for run one after
// the other, of any backend, and give their bits. Used by kernels/nn/matmul of every backend.
#pragma once

#include <optional>

#include "backends/common/matmul_problem.h"
#include "backends/inner_kernel.h"
#include "schema/ops/nn/matmul.h"

namespace genesis {

using KernelsOf = std::span<const KernelImpl> (*)(std::string_view op);

// Scratch holds x behind its norm, or what up gives where swiglu takes it; then what the kernels want.
class DecomposedLinear {
 public:
  // `ready` as InnerKernel's.
  DecomposedLinear(KernelsOf kernels, bool ready, const KernelQuery& query);
  int64_t scratch_bytes() const;
  void run(const KernelContext& c) const;

 private:
  void run_norm(const KernelContext& c, std::byte* scratch) const;

  const ops::Linear op_;
  const bool has_bias_;
  std::optional<InnerKernel> norm_, swiglu_;
  std::vector<InnerKernel> products_;  // one a weight; behind a norm one for all
  int64_t own_bytes_ = 0;
};

// One product of a quantized weight: the weight is dequantized into scratch, in x's dtype, and x multiplied with that. The
// reference of the ways that read it as it is.
class DequantizedLinear {
 public:
  DequantizedLinear(KernelsOf kernels, bool ready, const KernelQuery& query);
  int64_t scratch_bytes() const;
  void run(const KernelContext& c) const;

 private:
  InnerKernel dequantize_, product_;
  int64_t weight_bytes_ = 0;
};

// The product, and what its epilogue makes of it or beside it. swiglu_grad: dy is written where the output goes, over
// which swiglu_grad may write that, or without one into scratch, ahead of the kernels' own.
class DecomposedMatmul {
 public:
  DecomposedMatmul(KernelsOf kernels, bool ready, const KernelQuery& query);
  int64_t scratch_bytes() const;
  void run(const KernelContext& c) const;

 private:
  InnerKernel product_, epilogue_;
  bool sums_ = false;
  int64_t dy_bytes_ = 0;
};

// The row for all forms of an op that no better row takes.
template <class Op, class Decomposed, auto kKernelsOf>
constexpr KernelImpl kDecomposed = {
    .name = "decomposed",
    .run = [](const KernelContext& c) { c.prepared<Decomposed>().run(c); },
    .can_run = decline_one_product<Op>,
    .scratch_bytes =
        [](const KernelQuery& query) { return Decomposed(kKernelsOf, false, query).scratch_bytes(); },
    .prepare = [](const KernelQuery& query) -> std::shared_ptr<const void> {
      return std::make_shared<const Decomposed>(kKernelsOf, true, query);
    },
    .decomposed = true};

// The row for quantized weights that no better row takes.
template <auto kKernelsOf>
constexpr KernelImpl kDequantized = {
    .name = "dequantized",
    .run = [](const KernelContext& c) { c.prepared<DequantizedLinear>().run(c); },
    .can_run = decline_all_but_quantized,
    .scratch_bytes =
        [](const KernelQuery& query) { return DequantizedLinear(kKernelsOf, false, query).scratch_bytes(); },
    .prepare = [](const KernelQuery& query) -> std::shared_ptr<const void> {
      return std::make_shared<const DequantizedLinear>(kKernelsOf, true, query);
    },
    .decomposed = true};

}  // namespace genesis
