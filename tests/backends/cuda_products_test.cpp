// Tests what CUDA's matrix products report while a plan is made: which implementation takes a product, and why better
// ones decline. Needs no GPU. Implementations for other chips than those of this machine are skipped.
#include <gtest/gtest.h>

#include <algorithm>

#include "backends/cuda/gemm_list.h"
#include "backends/cuda/hopper/implementations.h"
#include "backends/cuda/kernels.h"
#include "backends/cuda/runtime/chips.h"
#include "backends/kernel_table.h"

namespace genesis::cuda {
namespace {

GemmProblem product(DType dtype, int64_t m, int64_t n, int64_t k) {
  return {
      .in = dtype, .out = dtype, .m = m, .n = n, .k = k, .lda = k, .ldb = k, .ldc = n, .transpose_b = true};
}

std::string reason_against(const KernelChoice& choice, const std::string& name) {
  const auto at = std::ranges::find(choice.declined, name, &KernelChoice::Declined::name);
  return at == choice.declined.end() ? "it does not decline" : at->reason;
}

TEST(CudaProducts, FewRowsAreReadByAGemv) {
  if (const auto why_not = why_no_early_starts_here()) GTEST_SKIP() << *why_not;
  const KernelChoice one = choose_gemm(product(DType::bf16, 1, 896, 896), nullptr);
  EXPECT_EQ(one.name, "gemm.gemv_prefetch");
  EXPECT_TRUE(one.declined.empty());
  const KernelChoice longer = choose_gemm(product(DType::bf16, 1, 8, 1 << 16), nullptr);
  EXPECT_EQ(longer.name, "gemm.gemv");
  EXPECT_EQ(reason_against(longer, "gemm.gemv_prefetch"),
            "rows of weights that are longer than shared memory holds");
}

// A machine that only makes a plan need not have the library. The choice says what it cannot know.
TEST(CudaProducts, TheLibrarySaysWhatIsDecidedLater) {
  const KernelChoice choice = choose_gemm(product(DType::bf16, 512, 896, 896), nullptr);
  EXPECT_EQ(choice.name, "gemm.cublas_lt");
  EXPECT_NE(choice.decided_later.find("opened where it runs"), std::string::npos);
  EXPECT_EQ(reason_against(choice, "gemm.gemv"), "more than 4 rows");
  EXPECT_EQ(gemm_workspace_bytes(product(DType::bf16, 512, 896, 896)), int64_t{32} << 20);
}

TEST(CudaProducts, WhatNoImplementationTakesIsPlain) {
  const KernelChoice choice = choose_gemm(product(DType::i32, 512, 64, 64), nullptr);
  EXPECT_EQ(choice.name, "gemm.plain");
  EXPECT_EQ(choice.decided_later, "");
  EXPECT_EQ(reason_against(choice, "gemm.cublas_lt"), "the operands are i32");
  EXPECT_EQ(gemm_workspace_bytes(product(DType::i32, 512, 64, 64)), 0);
}

TEST(CudaProducts, EachRowButTheLastCanBeSwitchedOff) {
  const std::vector<std::string> there = cuda_target(0).kernel_names();
  KernelNames off;
  for (const char* name : {"gemm.gemv_prefetch", "gemm.gemv", "gemm.cublas_lt"}) {
    EXPECT_EQ(std::ranges::count(there, name), 1) << name;
    off.insert(name);
    EXPECT_EQ(reason_against(choose_gemm(product(DType::bf16, 1, 896, 896), &off), name), "switched off");
  }
  EXPECT_EQ(choose_gemm(product(DType::bf16, 1, 896, 896), &off).name, "gemm.plain");
  EXPECT_EQ(std::ranges::count(there, "gemm.plain"), 0);
}

// --- nodes

struct Node {
  ops::Linear op;
  std::vector<TensorType> inputs, outputs;

  KernelChoice choice(const KernelNames& disabled = {}) const {
    const Attributes attributes = to_attributes(op);
    return choose_kernel(kernels_for("linear"), {*find_op("linear"), attributes, inputs, outputs, &disabled});
  }
};

// Returns `weights` linear layers of weight [n, k] over x [m, k].
Node linear(int64_t weights, int64_t m, int64_t k, bool norm = false) {
  Node node{{.weights = weights}, {{DType::bf16, {m, k}}}, {}};
  if (norm) node.op.prologue = ops::LinearPrologue::kRmsNorm;
  if (norm) node.inputs.push_back({DType::bf16, {k}});
  for (int64_t i = 0; i < weights; ++i) {
    node.inputs.push_back({DType::bf16, {64, k}});
    node.outputs.push_back({DType::bf16, {m, 64}});
  }
  return node;
}

TEST(CudaProducts, ANodeNamesTheImplementationOfItsProduct) {
  const KernelChoice choice = linear(1, 512, 64).choice();
  EXPECT_EQ(choice.name, "gemm.cublas_lt");
  EXPECT_FALSE(choice.decided_later.empty());
  EXPECT_NE(reason_against(choice, "linear.skinny_gemm"), "it does not decline");
  EXPECT_EQ(reason_against(choice, "gemm.gemv"), "more than 4 rows");
}

TEST(CudaProducts, SeveralWeightsHaveARowForEachKernel) {
  if (const auto why_not = why_no_early_starts_here()) GTEST_SKIP() << *why_not;
  EXPECT_EQ(linear(3, 2, 64).choice({"skinny_resident"}).name, "linear.gemv_prefetch");
  const KernelChoice without = linear(3, 2, 64).choice({"skinny_resident", "gemv_prefetch"});
  EXPECT_EQ(without.name, "linear.gemv");
  EXPECT_EQ(reason_against(without, "linear.gemv_prefetch"), "switched off");
  EXPECT_EQ(linear(3, 2, 64).choice({"skinny_resident", "linear.gemv_prefetch", "linear.gemv"}).name,
            "linear.decomposed");
}

TEST(CudaProducts, FewRowsAreSkinnyProducts) {
  if (const auto why_not = why_no_hopper_here()) GTEST_SKIP() << *why_not;
  for (const int64_t m : {2, 8, 32}) EXPECT_EQ(linear(3, m, 64).choice().name, "linear.skinny_resident") << m;
  const KernelChoice large = linear(3, 8, 16384).choice();
  EXPECT_EQ(large.name, "linear.skinny_gemm");
  EXPECT_EQ(reason_against(large, "linear.skinny_resident"),
            "weights that shared memory does not hold at once");
  EXPECT_EQ(linear(3, 4, 16384).choice().name, "linear.gemv_prefetch");
  EXPECT_EQ(linear(2, 8, 64, true).choice().name, "linear.skinny_resident");
  EXPECT_EQ(reason_against(linear(2, 9, 64, true).choice(), "linear.skinny_resident"),
            "a norm of so many rows that it is faster as a step of its own");
}

Node gated(int64_t m, int64_t n, int64_t k) {
  return {{.weights = 2, .epilogue = ops::LinearEpilogue::kSwiglu},
          {{DType::bf16, {m, k}}, {DType::bf16, {n, k}}, {DType::bf16, {n, k}}},
          {{DType::bf16, {m, n}}}};
}

TEST(CudaProducts, RowsOfABatchAreTiles) {
  if (const auto why_not = why_no_hopper_here()) GTEST_SKIP() << *why_not;
  for (const int64_t weights : {1, 3})
    for (const int64_t m : {33, 64, 128})
      EXPECT_EQ(linear(weights, m, 896).choice().name, "linear.row_tiles") << m;
  EXPECT_EQ(linear(1, 129, 896).choice().name, "gemm.cublas_lt");
  EXPECT_EQ(reason_against(linear(1, 129, 896).choice(), "linear.row_tiles"), "too many rows");
  EXPECT_EQ(reason_against(linear(2, 40, 896, true).choice(), "linear.row_tiles"),
            "a norm, which every block would make again");
  EXPECT_EQ(reason_against(linear(1, 64, 65536).choice(), "linear.row_tiles"),
            "weights that the blocks of one wave read too slowly");
  for (const int64_t m : {33, 128, 256})
    EXPECT_EQ(gated(m, 4864, 896).choice().name, "linear.row_tiles") << m;
  for (const int64_t m : {2, 4, 64}) EXPECT_EQ(gated(m, 18944, 3584).choice().name, "linear.row_tiles") << m;
  EXPECT_EQ(reason_against(gated(65, 18944, 3584).choice(), "linear.row_tiles"),
            "weights that the blocks of one wave read too slowly");
}

TEST(CudaProducts, ANormIsOfOneKernelAlone) {
  if (const auto why_not = why_no_early_starts_here()) GTEST_SKIP() << *why_not;
  EXPECT_EQ(linear(2, 1, 64, true).choice().name, "linear.gemv_prefetch");
  const KernelChoice without = linear(2, 1, 64, true).choice({"gemv_prefetch"});
  EXPECT_EQ(without.name, "linear.decomposed");
  EXPECT_EQ(reason_against(without, "linear.gemv"), "a norm, which the kernel has no part of");
}

Node quantized(int64_t m, int64_t n, int64_t k) {
  Node node{{.weight_format = WeightFormat::kQ8}, {{DType::bf16, {m, k}}}, {{DType::bf16, {m, n}}}};
  node.inputs.push_back({DType::i8, {n, k}});
  node.inputs.push_back({DType::f16, {n, k / 32}});
  return node;
}

TEST(CudaProducts, QuantizedWeightsAreStreamedWhereTheyCanBeCopied) {
  if (const auto why_not = why_no_early_starts_here()) GTEST_SKIP() << *why_not;
  EXPECT_EQ(quantized(1, 64, 256).choice().name, "linear.quantized_gemv_stream");
  EXPECT_EQ(quantized(1, 64, 256).choice({"quantized_gemv_stream"}).name, "linear.quantized_gemv");
  const KernelChoice odd = quantized(1, 63, 32).choice();
  EXPECT_EQ(odd.name, "linear.quantized_gemv");
  EXPECT_EQ(reason_against(odd, "linear.quantized_gemv_stream"),
            "scales that do not begin and end at multiples of 16 bytes");
  EXPECT_EQ(quantized(9, 64, 256).choice().name, "linear.dequantized");
}

// All rows for few rows of x describe a node in the same way, so they decline it for the same reasons.
TEST(CudaProducts, RowsForFewRowsDeclineInTheSameWords) {
  if (const auto why_not = why_no_hopper_here()) GTEST_SKIP() << *why_not;
  const KernelChoice many = linear(9, 2, 64).choice();
  EXPECT_EQ(many.name, "linear.gemv_prefetch");  // several launches
  for (const char* name : {"linear.skinny_resident", "linear.skinny_gemm"})
    EXPECT_EQ(reason_against(many, name), "more weights than a start takes") << name;
  const KernelChoice bytes = quantized(9, 64, 256).choice();
  for (const char* name : {"skinny_resident", "skinny_gemm", "gemv_prefetch", "gemv"})
    EXPECT_EQ(reason_against(bytes, "linear." + std::string(name)), "quantized weights") << name;
  Node mixed = linear(2, 1, 64, true);
  mixed.inputs[1].dtype = DType::f32;
  const KernelChoice plain = mixed.choice();
  for (const char* name : {"skinny_resident", "skinny_gemm", "gemv_prefetch", "gemv"})
    EXPECT_EQ(reason_against(plain, "linear." + std::string(name)), "a norm of another dtype") << name;
}

}  // namespace
}  // namespace genesis::cuda
