// What the packed matrix product is made of: register-tile kernels, packing into panels, and the epilogue,
// each a plain function chosen once per problem for the CPU at hand. Panels: mr rows of op(A), or nr columns
// of op(B), side by side, depth outermost: element (i, p) lies at p * width + i.
#pragma once

#include <cstdint>

#include "backends/cpu/gemm/gemm_problem.h"
#include "schema/core/dtype.h"

namespace genesis::cpu {

// c[mr][nr] = (add ? c : 0) + sum over p < depth of a[p][i] * b[p][j]. For `packed` bf16 a step of p holds
// two neighbours along k, so that depth = ceil(k / 2) and an element takes 4 bytes.
struct MicroKernel {
  const char* name = "";
  DType packed = DType::f32;
  int mr = 0, nr = 0;  // 0: this CPU has no such kernel
  int width_a = 0;     // of a panel of A, at least mr; a panel of B is nr wide
  void (*run)(int64_t depth, const void* a, const void* b, void* c, int64_t ldc, bool add) = nullptr;
  int64_t max_tile_rows = 112;  // of C in a task that packs A
  bool fetches_a = false;       // such a task asks for the rows that it packs next while it multiplies

  int64_t element_bytes() const { return packed == DType::f64 ? 8 : 4; }
  int64_t k_per_step() const { return packed == DType::bf16 ? 2 : 1; }
  int64_t depth(int64_t k) const { return (k + k_per_step() - 1) / k_per_step(); }
};

MicroKernel micro_kernel_f32();
MicroKernel micro_kernel_f64();
MicroKernel micro_kernel_bf16();  // AVX512_BF16

MicroKernel micro_kernel_for(const GemmProblem& problem);  // in f64 or f32

// How many times as many products a second micro_kernel_bf16() makes on this CPU as micro_kernel_f32() does; 0 where there is no
// such kernel. Measured once, in some 200 us.
double bf16_dot_gain();

// Packs `count` lines (rows of op(A) or columns of op(B)) times `k` into panels that lie `panel_stride`
// packed elements apart. `stride` counts source elements from one line (k_contiguous) or one p to the next.
// What a panel has beyond its lines is filled with values that are never used.
using PackFunction = void (*)(const void* source, int64_t stride, int64_t count, int64_t k, void* panels,
                              int64_t panel_stride);

// For panels of A and of B as the micro kernel wants them. nullptr: not from such a type.
PackFunction pack_function_a(DType source, const MicroKernel& kernel, bool k_contiguous);
PackFunction pack_function_b(DType source, const MicroKernel& kernel, bool k_contiguous);

// Rows of the result: c = act(alpha * sum + bias) + addend, all with the same bias. `bias` has the accumulator's type, `addend`
// that of c, which it may be; null: none.
struct EpilogueRows {
  const void* sum;
  const void* bias;
  void* c;
  int64_t n;
  double alpha;
  Activation activation;
  const void* addend;
  int64_t rows = 1, sum_stride = 0, c_stride = 0;  // elements from row to row; of addend as of c
};
using EpilogueFunction = void (*)(const EpilogueRows&);

EpilogueFunction epilogue_function(DType accumulator, DType c);  // nullptr: no such pair

}  // namespace genesis::cpu
