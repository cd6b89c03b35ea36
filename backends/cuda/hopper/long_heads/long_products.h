// The tensor core products of a warpgroup that attention of long heads uses: 64 rows of scores, and sums of weighted
// rows. The layouts are those of hopper.h's multiply().
#pragma once

#include "backends/cuda/hopper/hopper.h"

#ifdef GENESIS_HOPPER

namespace genesis::cuda::hopper {

// Computes d = a b^T, or d + a b^T with `accumulate`, for 64 rows of a and 32 rows of b in shared memory over a depth of
// 16.
__device__ __forceinline__ void multiply_rows(float (&d)[16], uint64_t a, uint64_t b, bool accumulate) {
  // clang-format off
  asm volatile(
      "{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %18, 0;\n\t"
      "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
      "}, %16, %17, p, 1, 1, 0, 0;\n\t}"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
        "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
      : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)));
  // clang-format on
}

// Computes d += a b over a depth of 16: a are 64 rows in registers, b are 16 rows of 128 columns in shared memory. d
// starts at element kFirst.
template <int kFirst, int kSize>
__device__ __forceinline__ void add_weighted(float (&d)[kSize], const uint32_t (&a)[4], uint64_t b) {
  // clang-format off
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
      "}, {%64, %65, %66, %67}, %68, 1, 1, 1, 1;"
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
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
  // clang-format on
}

}  // namespace genesis::cuda::hopper

#endif
