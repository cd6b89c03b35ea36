// Forms of linear and matmul that no kernel computes as a whole, decomposed into the kernels of the ops that they stand for, run
// one after the other. Works on any backend and computes the same as those ops.
#pragma once

#include <optional>

#include "backends/common/matmul_problem.h"
#include "backends/inner_kernel.h"
#include "schema/ops/nn/matmul.h"

namespace genesis {

using KernelsOf = std::span<const KernelImpl> (*)(std::string_view op);

// Scratch memory holds the normalized x, or the up product if swiglu needs it; then the scratch of the kernels.
class DecomposedLinear {
 public:
  // `ready`: see InnerKernel.
  DecomposedLinear(KernelsOf kernels, bool ready, const KernelQuery& query);
  int64_t scratch_bytes() const;
  void run(const KernelContext& c) const;

 private:
  void run_norm(const KernelContext& c, std::byte* scratch) const;

  const ops::Linear op_;
  const bool has_bias_;
  std::optional<InnerKernel> norm_, swiglu_;
  std::vector<InnerKernel> products_;  // one per weight; after a norm, one for all
  int64_t own_bytes_ = 0;
};

// One product with a quantized weight: dequantizes the weight into scratch memory, in x's dtype, and multiplies x by it. The
// reference for implementations that read the quantized weight directly.
class DequantizedLinear {
 public:
  DequantizedLinear(KernelsOf kernels, bool ready, const KernelQuery& query);
  int64_t scratch_bytes() const;
  void run(const KernelContext& c) const;

 private:
  InnerKernel dequantize_, product_;
  int64_t weight_bytes_ = 0;
};

// The product and its epilogue. For swiglu_grad, dy (the product) is written where an output goes, which swiglu_grad may
// overwrite; or, without that output, into scratch memory in front of the kernels' own scratch.
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
