// Expand, permute, flip and roll are strided copies; tril and triu keep a range of each row.
#include "schema/ops/tensor/layout.h"

#include <cstring>

#include "backends/common/moves/move_rules.h"
#include "backends/cpu/moves/run_moves.h"
#include "backends/cpu/parallel/parallel.h"

namespace genesis::cpu {
namespace {

// Keeps elements [first, last) of a row and clears the rest.
void keep_part(std::byte* to, const std::byte* from, int64_t first, int64_t last, int64_t n,
               int64_t element) {
  const auto bytes = [&](int64_t count) { return static_cast<size_t>(count * element); };
  std::memset(to, 0, bytes(first));
  if (to != from) std::memcpy(to + first * element, from + first * element, bytes(last - first));
  std::memset(to + last * element, 0, bytes(n - last));
}

template <bool kLower>
void run_triangle(const KernelContext& c) {
  const TensorView& x = c.input(0);
  const int64_t diagonal = c.attributes<ops::Triangle>().diagonal;
  const int64_t n = x.dim(-1), m = x.dim(-2), element = static_cast<int64_t>(size_of(x.dtype));
  if (x.numel() == 0) return;
  parallel_rows(x.numel() / n, n * element, [&](int64_t first, int64_t last) {
    for (int64_t row = first; row < last; ++row) {
      // Columns up to row + diagonal are the lower triangle; clamping keeps the sum small for any diagonal.
      const int64_t reach = std::clamp(diagonal, -m - 1, n + 1) + row % m;
      const int64_t cut = std::clamp<int64_t>(kLower ? reach + 1 : reach, 0, n);
      keep_part(c.output().as<std::byte>() + row * n * element, x.as<std::byte>() + row * n * element,
                kLower ? 0 : cut, kLower ? cut : n, n, element);
    }
  });
}

constexpr OpKernel kKernels[] = {
    {"expand", {.name = "strided", .run = run_moves, .prepare = prepare_expand}},
    {"permute", {.name = "strided", .run = run_moves, .prepare = prepare_permute}},
    {"flip", {.name = "strided", .run = run_moves, .prepare = prepare_flip}},
    {"roll", {.name = "strided", .run = run_moves, .prepare = prepare_roll}},
    {"tril", {.name = "rows", .run = run_triangle<true>}},
    {"triu", {.name = "rows", .run = run_triangle<false>}}};

}  // namespace

std::span<const OpKernel> layout_kernels() { return kKernels; }

}  // namespace genesis::cpu
