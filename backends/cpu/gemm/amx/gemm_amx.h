// What the matrix product on AMX (gemm_amx.cpp) is made of: panels of tiles, packing into them, and the kernel on them. Used by
// gemm_amx*.cpp, and by the tests, which multiply tiles without AMX.
//
// A panel is kAmxLines lines (rows of op(A), columns of op(B)), block after block of kAmxK along k; a block is two tiles of 16
// lines, 1 KB each. In a tile of A a line lies in a row; in one of B each row has two neighbours along k of every line. Lines and
// steps that do not exist are zero.
#pragma once

#include <cstdint>
#include <memory>

#include "backends/cpu/gemm/gemm.h"
#include "backends/cpu/gemm/gemm_kernels.h"
#include "backends/cpu/gemm/gemm_operand.h"

namespace genesis::cpu {

inline constexpr int64_t kAmxLines = 32, kAmxK = 32;

inline int64_t amx_panel_bytes(int64_t k) { return (k + kAmxK - 1) / kAmxK * kAmxK * kAmxLines * 2; }

// Panels lie `panel_stride` words of 4 bytes apart (PackFunction), aligned to 64 bytes. nullptr: this CPU has no AVX-512.
PackFunction amx_pack_a(bool k_contiguous);
PackFunction amx_pack_b(bool k_contiguous);

// What a task reads next of A and of B, and how many cache lines of each it asks for while it multiplies one block.
struct AmxAhead {
  LinesAhead a, b;
  int64_t lines_a = 0, lines_b = 0;

  void fetch() {
    a.fetch(lines_a);
    b.fetch(lines_b);
  }
};

struct AmxKernel {
  // sums[32][32] = (add ? sums : 0) + `blocks` blocks of a panel of A times those of one of B.
  void (*multiply)(int64_t blocks, const void* a, const void* b, float* sums, bool add,
                   AmxAhead& ahead) = nullptr;
  // c[rows][columns] = sums as bf16. nullptr: the epilogue does it.
  void (*write_bf16)(const float* sums, void* c, int64_t ldc, int64_t rows, int64_t columns) = nullptr;
  // Called by a task ahead of its first multiply() and behind its last; nullptr: nothing to do.
  void (*begin)() = nullptr;
  void (*end)() = nullptr;
};

AmxKernel amx_kernel();  // of this CPU; empty where may_use_amx_bf16() is false

// How the work is cut. Sums do not depend on it.
struct AmxLimits {
  int threads = 1;
  int64_t chunk_bytes = 32 << 20;  // of A, and of B, packed at a time: what a last cache may hold
};

std::shared_ptr<const Gemm> create_amx_with(const GemmProblem& problem, const AmxKernel& kernel,
                                            const AmxLimits& limits);

}  // namespace genesis::cpu
