// The building blocks of the matrix product on AMX (gemm_amx.cpp): panels of tiles, packing into them, and the kernel that
// multiplies them. Tests replace the kernel by one that needs no AMX.
//
// A panel is kAmxLines lines (rows of op(A) or columns of op(B)), stored in blocks of kAmxK along k. A block is two tiles of 16
// lines, 1 KB each. In a tile of A each row is a line. In a tile of B each row holds two neighbors along k of every line. Lines
// and steps that do not exist are zero.
#pragma once

#include <cstdint>
#include <memory>

#include "backends/cpu/gemm/gemm.h"
#include "backends/cpu/gemm/gemm_kernels.h"
#include "backends/cpu/gemm/gemm_operand.h"

namespace genesis::cpu {

inline constexpr int64_t kAmxLines = 32, kAmxK = 32;

inline int64_t amx_panel_bytes(int64_t k) { return (k + kAmxK - 1) / kAmxK * kAmxK * kAmxLines * 2; }

// Return functions that pack A or B into panels that lie `panel_stride` words of 4 bytes apart (PackFunction) and are aligned to
// 64 bytes; nullptr if this CPU has no AVX-512.
PackFunction amx_pack_a(bool k_contiguous);
PackFunction amx_pack_b(bool k_contiguous);

// The data of A and B to prefetch, and the number of cache lines of each to prefetch while one block is multiplied.
struct AmxAhead {
  LinesAhead a, b;
  int64_t lines_a = 0, lines_b = 0;

  void fetch() {
    a.fetch(lines_a);
    b.fetch(lines_b);
  }
};

struct AmxKernel {
  // sums[32][32] = (add ? sums : 0) + the product of `blocks` blocks of a panel of A and of a panel of B.
  void (*multiply)(int64_t blocks, const void* a, const void* b, float* sums, bool add,
                   AmxAhead& ahead) = nullptr;
  // c[rows][columns] = sums as bf16. nullptr: the epilogue converts instead.
  void (*write_bf16)(const float* sums, void* c, int64_t ldc, int64_t rows, int64_t columns) = nullptr;
  // A task calls begin() before its first multiply() and end() after its last; nullptr if there is nothing to do.
  void (*begin)() = nullptr;
  void (*end)() = nullptr;
};

AmxKernel amx_kernel();  // the kernel of this CPU; empty if may_use_amx_bf16() is false

// Limits by which the work is split. Sums do not depend on them.
struct AmxLimits {
  int threads = 1;
  int64_t chunk_bytes = 32 << 20;  // bytes of A, and of B, packed at a time: what a last-level cache may hold
};

std::shared_ptr<const Gemm> create_amx_with(const GemmProblem& problem, const AmxKernel& kernel,
                                            const AmxLimits& limits);

}  // namespace genesis::cpu
