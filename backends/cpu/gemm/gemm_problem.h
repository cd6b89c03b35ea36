// Describes a matrix product of the CPU backend, for all its implementations (gemm.h).
#pragma once

#include <cstdint>

#include "schema/encoding/weight_format.h"
#include "schema/ops/nn/matmul.h"

namespace genesis::cpu {

// C[b] = act(alpha * op(A[b]) op(B[b]) + bias), plus an addend laid out as C if `accumulate`. All matrices are row-major. op(A)
// is [m, k], op(B) is [k, n] and bias is [n]. Low precision accumulates in f32, f64 in f64; integers wrap around.
struct GemmProblem {
  DType a = DType::f32, b = DType::f32, c = DType::f32;
  int64_t batch = 1, m = 0, n = 0, k = 0;
  int64_t lda = 0, ldb = 0, ldc = 0;                 // leading dimensions: elements between stored rows
  int64_t stride_a = 0, stride_b = 0, stride_c = 0;  // elements between batch entries; 0 broadcasts A or B
  bool transpose_a = false;                          // A is stored [k, m]
  bool transpose_b = false;                          // B is stored [n, k]
  bool has_bias = false;
  DType bias = DType::f32;
  Activation activation = Activation::kNone;
  bool accumulate = false;
  double alpha = 1;
  // Only for Dots (gemm_dots.h): if not kPlain, B holds the quants of weights stored [n, k], and `b` is the dtype of the quants.
  WeightFormat b_format = WeightFormat::kPlain;
};

}  // namespace genesis::cpu
