// The instructions of Hopper chips (compute capability 9.0a) that products use in addition to bulk_copy.h: TMA copies
// of boxes of a matrix, and tensor core products of operands in shared memory. One function per instruction, without
// policy. A file that includes this compiles for other chips only if it checks GENESIS_HOPPER.
#pragma once

#include <cuda.h>
#include <cuda_bf16.h>

#include <cstdint>

#include "backends/cuda/device/bulk_copy.h"
#include "backends/cuda/device/tensor_core.h"
#include "backends/cuda/device/words.h"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define GENESIS_HOPPER 1
#endif

#ifdef GENESIS_HOPPER

namespace genesis::cuda::hopper {

// Prefetches the descriptor of a matrix, ahead of the first copy of it.
__device__ __forceinline__ void prefetch_map(const CUtensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

// Copies the box at (column, row) of the matrix that `map` describes; reports its bytes to the barrier.
__device__ __forceinline__ void copy_box(uint32_t to, const CUtensorMap* map, uint32_t barrier, int column,
                                         int row) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, "
      "%4}], "
      "[%2];" ::"r"(to),
      "l"(map), "r"(barrier), "r"(column), "r"(row)
      : "memory");
}

// The same for the box at row `row` of head `head` and batch entry `entry`, in the layout of HeadsInBoxes; its 64 columns
// start with `feature`.
__device__ __forceinline__ void copy_rows(uint32_t to, const CUtensorMap* map, uint32_t barrier, int row,
                                          int head, int entry, int feature = 0) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, "
      "%4, %5, %6}], "
      "[%2];" ::"r"(to),
      "l"(map), "r"(barrier), "r"(feature), "r"(row), "r"(head), "r"(entry)
      : "memory");
}

// --- products of a warpgroup, 128 threads

// Returns the descriptor of a matrix in shared memory in the layout that copy_box() writes: rows of 128 bytes, with
// groups of eight rows `stride` bytes apart. If the rows are the dimension that is summed over, a matrix wider than
// one row continues `leading` bytes further on.
__device__ __forceinline__ uint64_t describe(uint32_t address, uint32_t stride, uint32_t leading = 16) {
  constexpr uint64_t kRowsOf128Bytes = uint64_t{1} << 62;
  return uint64_t{(address & 0x3FFFF) >> 4} | uint64_t{leading >> 4} << 16 | uint64_t{stride >> 4} << 32 |
         kRowsOf128Bytes;
}

// Returns the same descriptor, `bytes` further on.
__device__ __forceinline__ uint64_t moved(uint64_t description, uint32_t bytes) {
  return (description & 0xFFFFFFFF00000000ull) | (static_cast<uint32_t>(description) + (bytes >> 4));
}
// Needed before the first wgmma, and whenever registers that a wgmma reads or accumulates into have changed. A commit
// closes a group.
__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit_group() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// Waits until all groups except the last kLeft are done.
template <int kLeft>
__device__ __forceinline__ void wgmma_wait_group() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kLeft) : "memory");
}

// Computes d = a b, or d + a b with `accumulate`, for 64 rows of 128 columns over a depth of 16, in bf16. Warp w has
// rows 16 w to 16 w + 15. Its lane l has columns 8 i + 2 (l % 4) and the next one: those of row l / 4 in d[kFirst + 4
// i] and d[kFirst + 4 i + 1], those of row l / 4 + 8 in the two elements after these. b is stored by columns, or by
// rows with kRowsOfB.
template <bool kRowsOfB, int kFirst, int kSize>
__device__ __forceinline__ void multiply(float (&d)[kSize], uint64_t a, uint64_t b, bool accumulate) {
  // clang-format off
  asm volatile(
      "{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %66, 0;\n\t"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
      "}, %64, %65, p, 1, 1, 0, %67;\n\t}"
      : "+f"(d[kFirst + 0]), "+f"(d[kFirst + 1]), "+f"(d[kFirst + 2]), "+f"(d[kFirst + 3]),
        "+f"(d[kFirst + 4]), "+f"(d[kFirst + 5]), "+f"(d[kFirst + 6]), "+f"(d[kFirst + 7]),
        "+f"(d[kFirst + 8]), "+f"(d[kFirst + 9]), "+f"(d[kFirst + 10]), "+f"(d[kFirst + 11]),
        "+f"(d[kFirst + 12]), "+f"(d[kFirst + 13]), "+f"(d[kFirst + 14]), "+f"(d[kFirst + 15]),
        "+f"(d[kFirst + 16]), "+f"(d[kFirst + 17]), "+f"(d[kFirst + 18]), "+f"(d[kFirst + 19]),
        "+f"(d[kFirst + 20]), "+f"(d[kFirst + 21]), "+f"(d[kFirst + 22]), "+f"(d[kFirst + 23]),
        "+f"(d[kFirst + 24]), "+f"(d[kFirst + 25]), "+f"(d[kFirst + 26]), "+f"(d[kFirst + 27]),
        "+f"(d[kFirst + 28]), "+f"(d[kFirst + 29]), "+f"(d[kFirst + 30]), "+f"(d[kFirst + 31]),
        "+f"(d[kFirst + 32]), "+f"(d[kFirst + 33]), "+f"(d[kFirst + 34]), "+f"(d[kFirst + 35]),
        "+f"(d[kFirst + 36]), "+f"(d[kFirst + 37]), "+f"(d[kFirst + 38]), "+f"(d[kFirst + 39]),
        "+f"(d[kFirst + 40]), "+f"(d[kFirst + 41]), "+f"(d[kFirst + 42]), "+f"(d[kFirst + 43]),
        "+f"(d[kFirst + 44]), "+f"(d[kFirst + 45]), "+f"(d[kFirst + 46]), "+f"(d[kFirst + 47]),
        "+f"(d[kFirst + 48]), "+f"(d[kFirst + 49]), "+f"(d[kFirst + 50]), "+f"(d[kFirst + 51]),
        "+f"(d[kFirst + 52]), "+f"(d[kFirst + 53]), "+f"(d[kFirst + 54]), "+f"(d[kFirst + 55]),
        "+f"(d[kFirst + 56]), "+f"(d[kFirst + 57]), "+f"(d[kFirst + 58]), "+f"(d[kFirst + 59]),
        "+f"(d[kFirst + 60]), "+f"(d[kFirst + 61]), "+f"(d[kFirst + 62]), "+f"(d[kFirst + 63])
      : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)), "n"(kRowsOfB ? 1 : 0));
  // clang-format on
}

// The same with 64 columns, and with a in registers: two elements each in the layout of d, of columns 0 to 7 and then
// of columns 8 to 15.
template <bool kRowsOfB>
__device__ __forceinline__ void multiply(float (&d)[32], const uint32_t (&a)[4], uint64_t b,
                                         bool accumulate) {
  // clang-format off
  asm volatile(
      "{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %37, 0;\n\t"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
      "}, {%32, %33, %34, %35}, %36, p, 1, 1, %38;\n\t}"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
        "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
        "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
        "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(accumulate)),
        "n"(kRowsOfB ? 1 : 0));
  // clang-format on
}

// A barrier for the compiler: accesses to d are not moved across it.
template <int kSize>
__device__ __forceinline__ void pin(float (&d)[kSize]) {
#pragma unroll
  for (int i = 0; i < kSize; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

// --- registers: a warpgroup releases some, so that others can have more than a kernel starts with

template <int kRegisters>
__device__ __forceinline__ void setmaxnreg_dec() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ __forceinline__ void setmaxnreg_inc() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

// --- shared memory

// Stores four blocks of 8x8 16-bit elements to shared memory: lane l gives the address of row l % 8 of block l / 8,
// and has two elements of every block in the layout of multiply().
__device__ __forceinline__ void stmatrix(uint32_t address, const uint32_t (&blocks)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address),
               "r"(blocks[0]), "r"(blocks[1]), "r"(blocks[2]), "r"(blocks[3])
               : "memory");
}

// The next of a ring's kCount stages, and the parity of its phase. The producer starts with parity 1.
template <int kCount>
struct RingStage {
  int index = 0;
  uint32_t parity = 0;
  __device__ void advance() {
    if (++index < kCount) return;
    index = 0;
    parity ^= 1;
  }
};

// Arrives once for the whole warp.
__device__ __forceinline__ void arrive_as_warp(uint64_t& barrier) {
  __syncwarp();
  if (threadIdx.x % 32 == 0) arrive(&barrier, 1);
}

}  // namespace genesis::cuda::hopper

#endif
