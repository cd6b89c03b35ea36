// A matrix product as the CPU backend describes it, for all ways to make one (gemm.h).
#pragma once

#include <cstdint>

#include "schema/encoding/weight_format.h"
#include "schema/ops/nn/matmul.h"

namespace genesis::cpu {

// C[b] = act(alpha * op(A[b]) op(B[b]) + bias), plus an addend laid out as C if `accumulate`; everything
// row-major. op(A) is [m, k] and op(B) is [k, n]; bias is [n]. Low precision accumulates in f32, f64 in f64,
// integers wrap.
struct GemmProblem {
  DType a = DType::f32, b = DType::f32, c = DType::f32;
  int64_t batch = 1, m = 0, n = 0, k = 0;
  int64_t lda = 0, ldb = 0, ldc = 0;                 // elements between rows as stored
  int64_t stride_a = 0, stride_b = 0, stride_c = 0;  // elements between batches; 0 broadcasts A or B
  bool transpose_a = false;                          // A is stored [k, m]
  bool transpose_b = false;                          // B is stored [n, k]
  bool has_bias = false;
  DType bias = DType::f32;
  Activation activation = Activation::kNone;
  bool accumulate = false;
  double alpha = 1;
  // Of Dots alone (gemm_dots.h): B is the quants of such weights, [n, k] as stored, and `b` their dtype.
  WeightFormat b_format = WeightFormat::kPlain;
};

}  // namespace genesis::cpu
