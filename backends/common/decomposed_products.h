// Forms of linear and matmul that no kernel computes as a whole, decomposed into the kernels of the ops that they stand for, run
// one after the other. Works on any backend and computes the same as those ops.
#pragma once

#include <optional>

#include "backends/common/matmul_problem.h"
#include "backends/inner_kernel.h"
#include "schema/ops/nn/matmul.h"

namespace genesis {

// Returns the implementations of an op, best first.
using KernelsOf = std::span<const KernelImpl> (*)(std::string_view op);

// A linear layer with several weights, a norm or swiglu: the norm, then one product per weight, then swiglu. Scratch memory holds
// the normalized x, or the second product if swiglu needs it; then the scratch of the kernels.
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
  std::vector<InnerKernel> products_;  // one per weight; after a norm, a single kernel for all weights
  int64_t value_bytes_ = 0;  // size of the value in scratch memory, in front of the kernels' scratch
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
  int64_t weight_bytes_ = 0;  // size of the dequantized weight in scratch memory
};

// A product and its epilogue, which sums the gradient of a bias or is the gradient of swiglu. That gradient reads dy, which is
// the product. The product is stored in the op's last output, which swiglu_grad then overwrites; without that output, it is
// stored in scratch memory in front of the kernels' own scratch.
class DecomposedMatmul {
 public:
  DecomposedMatmul(KernelsOf kernels, bool ready, const KernelQuery& query);
  int64_t scratch_bytes() const;
  void run(const KernelContext& c) const;

 private:
  InnerKernel product_, epilogue_;
  bool is_bias_grad_ = false;
  int64_t dy_bytes_ = 0;  // size of dy in scratch memory; 0 if it is stored in an output
};

// The table row for all forms of an op that no better row accepts, except one plain product.
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

// The table row for quantized weights that no better row accepts.
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
