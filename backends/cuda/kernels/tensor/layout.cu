// Expand, permute, flip and roll are strided copies. For triangles each thread keeps or clears one access of up to 16
// bytes of a row.
#include "schema/ops/tensor/layout.h"

#include "backends/cuda/device/packs.h"
#include "backends/cuda/moves/moves.h"
#include "backends/cuda/moves/packed_permute.h"

namespace genesis::cuda {
namespace {

struct Rows {
  Divisor packs_per_row, rows_per_matrix;
  bool small;
  int64_t packs, diagonal;
};

// Keeps elements with column - row <= diagonal (lower) or column - row >= diagonal (upper), and clears the others.
template <class T, int N, bool kLower>
__global__ void triangle(Rows rows, const Pack<T, N>* x, Pack<T, N>* y) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= rows.packs) return;
  const FlatIndex at = divide(static_cast<uint64_t>(i), rows.packs_per_row, rows.small);
  const FlatIndex row = divide(at.quotient, rows.rows_per_matrix, rows.small);
  const int64_t offset = static_cast<int64_t>(at.remainder) * N - static_cast<int64_t>(row.remainder);
  const Pack<T, N> in = x[i];
  Pack<T, N> out;
#pragma unroll
  for (int k = 0; k < N; ++k) {
    const bool stays = kLower ? offset + k <= rows.diagonal : offset + k >= rows.diagonal;
    out.at[k] = stays ? in.at[k] : T(0);
  }
  y[i] = out;
}

template <bool kLower>
void run_triangle(const KernelContext& c) {
  const TensorView& x = c.input(0);
  if (x.numel() == 0) return;
  dispatch_size(x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    with_packs<T>(c, x.dim(-1), [&](auto size) {
      using P = Pack<T, size()>;
      const int64_t packs = x.numel() / size();
      const Rows rows{make_divisor(x.dim(-1) / size()), make_divisor(x.dim(-2)), is_small(packs), packs,
                      c.attributes<ops::Triangle>().diagonal};
      start(c, triangle<T, size(), kLower>, blocks_for(packs, kThreads), kThreads, 0, rows, x.as<const P>(),
            c.output().as<P>());
    });
  });
}

const OpKernel kKernels[] = {
    {"expand", {.name = "strided", .run = run_moves, .prepare = prepare_expand}},
    {"permute", packed_permute()},
    {"permute", {.name = "strided", .run = run_moves, .prepare = prepare_permute}},
    {"flip", {.name = "strided", .run = run_moves, .prepare = prepare_flip}},
    {"roll", {.name = "strided", .run = run_moves, .prepare = prepare_roll}},
    {"tril", {.name = "packs", .run = run_triangle<true>}},
    {"triu", {.name = "packs", .run = run_triangle<false>}}};

}  // namespace

std::span<const OpKernel> layout_kernels() { return kKernels; }

}  // namespace genesis::cuda
