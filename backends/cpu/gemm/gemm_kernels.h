// The building blocks of the packed matrix product: register-tile kernels, packing into panels, and the epilogue. Each is a plain
// function, chosen once per problem for this CPU. A panel holds `width` rows of op(A) or columns of op(B) side by side, depth
// outermost: element (i, p) lies at p * width + i.
#pragma once

#include <cstdint>

#include "backends/cpu/gemm/gemm_problem.h"
#include "schema/core/dtype.h"

namespace genesis::cpu {

// c[mr][nr] = (add ? c : 0) + sum over p < depth of a[p][i] * b[p][j]. If `packed` is bf16, a step of p holds two neighbors along
// k, so depth = ceil(k / 2) and an element takes 4 bytes.
struct MicroKernel {
  const char* name = "";
  DType packed = DType::f32;
  int mr = 0, nr = 0;  // 0 if this CPU has no such kernel
  int width_a = 0;     // width of a panel of A, at least mr; a panel of B is nr wide
  void (*run)(int64_t depth, const void* a, const void* b, void* c, int64_t ldc, bool add) = nullptr;
  int64_t max_tile_rows = 112;  // most rows of C in a task that packs A
  bool fetches_a = false;       // true if the task prefetches the rows that it packs next

  int64_t element_bytes() const { return packed == DType::f64 ? 8 : 4; }
  int64_t k_per_step() const { return packed == DType::bf16 ? 2 : 1; }
  int64_t depth(int64_t k) const { return (k + k_per_step() - 1) / k_per_step(); }
};

MicroKernel micro_kernel_f32();
MicroKernel micro_kernel_f64();
MicroKernel micro_kernel_bf16();  // on CPUs with AVX512_BF16

MicroKernel micro_kernel_for(const GemmProblem& problem);  // the f64 kernel for f64, else the f32 kernel

// Returns how many times more products per second micro_kernel_bf16() computes on this CPU than micro_kernel_f32(); 0 if there is
// no such kernel. Measured once, which takes about 200 us.
double bf16_dot_gain();

// Packs `count` lines (rows of op(A) or columns of op(B)) times `k` into panels that lie `panel_stride` packed elements apart.
// `stride` is the distance in source elements from one line to the next if k is contiguous, else from one p to the next. Space of
// a panel beyond its lines is filled with values that are never used.
using PackFunction = void (*)(const void* source, int64_t stride, int64_t count, int64_t k, void* panels,
                              int64_t panel_stride);

// Return the packing function for panels of A or B in the layout of the kernel; nullptr if it cannot pack that source type.
PackFunction pack_function_a(DType source, const MicroKernel& kernel, bool k_contiguous);
PackFunction pack_function_b(DType source, const MicroKernel& kernel, bool k_contiguous);

// Applies c = act(alpha * sum + bias) + addend to rows of the result, with the same bias for all rows. `bias` has the
// accumulator's type. `addend` has the type of c and may be c itself. Either may be null.
struct EpilogueRows {
  const void* sum;
  const void* bias;
  void* c;
  int64_t n;
  double alpha;
  Activation activation;
  const void* addend;
  int64_t rows = 1, sum_stride = 0, c_stride = 0;  // elements from row to row; addend has c_stride
};
using EpilogueFunction = void (*)(const EpilogueRows&);

EpilogueFunction epilogue_function(DType accumulator, DType c);  // nullptr if there is no such pair

}  // namespace genesis::cpu
