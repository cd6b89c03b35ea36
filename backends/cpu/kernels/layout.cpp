// Expand, permute, flip, roll: strided copies. Triangles: rows of which a part stays.
#include "schema/ops/layout.h"

#include <cstring>

#include "backends/cpu/moves.h"
#include "backends/cpu/parallel.h"

namespace genesis::cpu {
namespace {

int64_t element_of(const KernelQuery& query) { return static_cast<int64_t>(size_of(query.inputs[0].dtype)); }

size_t axis_of(int64_t axis, const std::vector<int64_t>& dims) {
  return static_cast<size_t>(normalize_axis(axis, static_cast<int>(dims.size())));
}

// One copy that fills the output in order, reading with `strides` from element `offset` on.
std::shared_ptr<const void> read_with(const KernelQuery& query, const std::vector<int64_t>& strides,
                                      int64_t offset = 0) {
  const std::vector<int64_t> dims = query.outputs[0].shape.sizes();
  auto moves = std::make_shared<Moves>();
  moves->moves.push_back(
      {0, 0, make_strided_copy(dims, dense_strides(dims), strides, element_of(query), 0, offset)});
  return moves;
}

std::shared_ptr<const void> prepare_expand(const KernelQuery& query) {
  const std::vector<int64_t> from = query.inputs[0].shape.sizes(), dense = dense_strides(from);
  std::vector<int64_t> strides(query.outputs[0].shape.dims().size(), 0);
  const size_t extra = strides.size() - from.size();
  for (size_t i = 0; i < from.size(); ++i)
    if (from[i] != 1) strides[extra + i] = dense[i];
  return read_with(query, strides);
}

std::shared_ptr<const void> prepare_permute(const KernelQuery& query) {
  const std::vector<int64_t> from = query.inputs[0].shape.sizes(), dense = dense_strides(from);
  std::vector<int64_t> strides;
  for (int64_t axis : from_attributes<ops::Permute>(query.attributes).axes)
    strides.push_back(dense[axis_of(axis, from)]);
  return read_with(query, strides);
}

std::shared_ptr<const void> prepare_flip(const KernelQuery& query) {
  const std::vector<int64_t> from = query.inputs[0].shape.sizes();
  std::vector<int64_t> strides = dense_strides(from);
  int64_t offset = 0;
  for (int64_t axis : from_attributes<ops::Flip>(query.attributes).axes) {
    const size_t at = axis_of(axis, from);
    if (from[at] > 0) offset += (from[at] - 1) * strides[at];
    strides[at] = -strides[at];
  }
  return read_with(query, strides, offset);
}

// Each rolled axis cuts the tensor in two; every piece is a box that moves as a whole.
std::shared_ptr<const void> prepare_roll(const KernelQuery& query) {
  const auto op = from_attributes<ops::Roll>(query.attributes);
  const std::vector<int64_t> dims = query.inputs[0].shape.sizes();
  std::vector<std::pair<Box, Box>> pieces{{whole_box(dims), whole_box(dims)}};  // to, from
  for (size_t i = 0; i < op.axes.size(); ++i) {
    const size_t at = axis_of(op.axes[i], dims);
    if (dims[at] == 0) continue;
    const int64_t shift = (op.shifts[i] % dims[at] + dims[at]) % dims[at];
    std::vector<std::pair<Box, Box>> cut;
    for (auto& [to, from] : pieces) {
      to.start[at] = shift, from.start[at] = 0;
      to.length[at] = from.length[at] = dims[at] - shift;
      cut.emplace_back(to, from);
      to.start[at] = 0, from.start[at] = dims[at] - shift;
      to.length[at] = from.length[at] = shift;
      if (shift > 0) cut.emplace_back(to, from);
    }
    pieces = std::move(cut);
  }
  auto moves = std::make_shared<Moves>();
  for (const auto& [to, from] : pieces)
    moves->moves.push_back({0, 0, copy_box(dims, to, dims, from, element_of(query))});
  return moves;
}

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
      // Columns up to row + diagonal are the lower part; the sum stays small for any diagonal.
      const int64_t reach = std::clamp(diagonal, -m - 1, n + 1) + row % m;
      const int64_t cut = std::clamp<int64_t>(kLower ? reach + 1 : reach, 0, n);
      keep_part(c.output().as<std::byte>() + row * n * element, x.as<std::byte>() + row * n * element,
                kLower ? 0 : cut, kLower ? cut : n, n, element);
    }
  });
}

constexpr KernelImpl kExpand[] = {{.name = "strided", .run = run_moves, .prepare = prepare_expand}};
constexpr KernelImpl kPermute[] = {{.name = "strided", .run = run_moves, .prepare = prepare_permute}};
constexpr KernelImpl kFlip[] = {{.name = "strided", .run = run_moves, .prepare = prepare_flip}};
constexpr KernelImpl kRoll[] = {{.name = "strided", .run = run_moves, .prepare = prepare_roll}};
constexpr KernelImpl kTril[] = {{.name = "rows", .run = run_triangle<true>}};
constexpr KernelImpl kTriu[] = {{.name = "rows", .run = run_triangle<false>}};
constexpr OpKernels kKernels[] = {{"expand", kExpand}, {"permute", kPermute}, {"flip", kFlip},
                                  {"roll", kRoll},     {"tril", kTril},       {"triu", kTriu}};

}  // namespace

std::span<const OpKernels> layout_kernels() { return kKernels; }

}  // namespace genesis::cpu
