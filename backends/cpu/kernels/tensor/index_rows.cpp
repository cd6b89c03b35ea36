// Access to whole rows by index: index_select, embedding, and their gradients index_add and embedding_grad. The gradients sort
// the indices first, so that one thread sums each row of the result, in the order of the indices.
#include <algorithm>
#include <cstring>
#include <utility>

#include "backends/common/row_shape.h"
#include "backends/common/wrapping.h"
#include "backends/cpu/parallel/parallel.h"
#include "schema/core/checked_size.h"
#include "schema/ops/tensor/index.h"

namespace genesis::cpu {
namespace {

int64_t index_at(const TensorView& index, int64_t i) {
  return index.dtype == DType::i32 ? index.as<int32_t>()[i] : index.as<int64_t>()[i];
}

// y[o, k] = x[o, own.place_of(index[k])]; zeros if another rank has the row or the index is out of range.
void select_rows(const KernelContext& c, const TensorView& x, const TensorView& index, RowShape shape,
                 OwnIndices own) {
  const int64_t n = index.numel(), bytes = shape.inner * static_cast<int64_t>(size_of(x.dtype));
  parallel_rows(shape.outer * n, bytes, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      const int64_t named = index_at(index, i % n), row = own.place_of(named);
      std::byte* to = c.output().as<std::byte>() + i * bytes;
      if (!own.exists(named)) c.fault->report(named, own.all);
      if (row < 0) {
        std::memset(to, 0, static_cast<size_t>(bytes));
      } else {
        const std::byte* from = x.as<std::byte>() + (i / n * shape.n + row) * bytes;
        std::memcpy(to, from, static_cast<size_t>(bytes));
      }
    }
  });
}

void run_index_select(const KernelContext& c) {
  const RowShape shape = row_shape(c.input(0).sizes(), c.attributes<ops::IndexSelect>().axis);
  select_rows(c, c.input(0), c.input(1), shape, {0, shape.n, shape.n});
}

void run_embedding(const KernelContext& c) {
  const RowShape shape = row_shape(c.input(1).sizes(), 0);
  select_rows(c, c.input(1), c.input(0), shape, c.attributes<ops::Embedding>().part.of(shape.n));
}

// The indices grouped by row: order[start[r], start[r + 1]) are the positions of the indices that name row r, ascending.
struct RowLists {
  int64_t* start;  // [rows + 1]
  int64_t* order;  // [number of indices]
};

int64_t list_bytes(int64_t rows, int64_t indices) { return ((CheckedSize(rows) + 1 + indices) * 8).value(); }

// Sorts the indices with a counting sort. Indices that are out of range, belong to rows of other ranks or equal `skip` are left
// out.
RowLists sort_indices(const KernelContext& c, const TensorView& index, OwnIndices own, int64_t skip) {
  const int64_t n = index.numel(), rows = own.count;
  const RowLists lists{reinterpret_cast<int64_t*>(c.scratch),
                       reinterpret_cast<int64_t*>(c.scratch) + rows + 1};
  std::fill_n(lists.start, rows + 1, 0);
  for (int64_t i = 0; i < n; ++i) {
    const int64_t named = index_at(index, i), row = own.place_of(named);
    if (!own.exists(named)) c.fault->report(named, own.all);
    if (row >= 0 && named != skip) ++lists.start[row];
  }
  int64_t sum = 0;
  for (int64_t row = 0; row <= rows; ++row) sum += std::exchange(lists.start[row], sum);
  for (int64_t i = 0; i < n; ++i) {
    const int64_t named = index_at(index, i), row = own.place_of(named);
    if (row >= 0 && named != skip) lists.order[lists.start[row]++] = i;
  }
  std::copy_backward(lists.start, lists.start + rows,
                     lists.start + rows + 1);  // each start has become its end
  lists.start[0] = 0;
  return lists;
}

constexpr int64_t kColumns = 512;  // columns per task

// y[row, columns] = base[row, columns] (0 without a base) + the rows of source in the list.
template <class T>
void sum_row(T* y, const T* base, const T* source, int64_t stride, int64_t n, std::span<const int64_t> list) {
  using Sum = std::conditional_t<std::is_same_v<T, bf16> || std::is_same_v<T, f16>, float, T>;
  if (list.empty()) {
    if (base == nullptr) std::memset(static_cast<void*>(y), 0, static_cast<size_t>(n) * sizeof(T));
    if (base != nullptr && base != y)
      std::memcpy(static_cast<void*>(y), base, static_cast<size_t>(n) * sizeof(T));
    return;
  }
  Sum sums[kColumns];
  for (int64_t j = 0; j < n; ++j) sums[j] = base == nullptr ? Sum(0) : static_cast<Sum>(base[j]);
  for (int64_t position : list)
    for (int64_t j = 0; j < n; ++j)
      sums[j] = wrapping_add(sums[j], static_cast<Sum>(source[position * stride + j]));
  for (int64_t j = 0; j < n; ++j) y[j] = static_cast<T>(sums[j]);
}

// y[o, row] = base[o, row] + the sum of source[o, k] over all k whose index names the row.
void add_rows(const KernelContext& c, const void* base, const TensorView& index, const TensorView& source,
              RowShape shape, const ops::IndexRange& part, int64_t skip) {
  const RowLists lists = sort_indices(c, index, part.of(shape.n), skip);
  const int64_t n = index.numel(), blocks = (shape.inner + kColumns - 1) / kColumns;
  dispatch(source.dtype, [&]<class T>(TypeTag<T>) {
    const int64_t task_bytes = std::min(shape.inner, kColumns) * static_cast<int64_t>(sizeof(T));
    parallel_rows(shape.outer * blocks * shape.n, task_bytes, [&](int64_t first, int64_t last) {
      for (int64_t task = first; task < last; ++task) {
        const int64_t row = task % shape.n, o = task / shape.n / blocks;
        const int64_t column = task / shape.n % blocks * kColumns;
        const int64_t at = (o * shape.n + row) * shape.inner + column;
        sum_row(c.output().as<T>() + at, base ? static_cast<const T*>(base) + at : nullptr,
                source.as<T>() + o * n * shape.inner + column, shape.inner,
                std::min(kColumns, shape.inner - column),
                {lists.order + lists.start[row], lists.order + lists.start[row + 1]});
      }
    });
  });
}

void run_index_add(const KernelContext& c) {
  const auto& op = c.attributes<ops::IndexAdd>();
  add_rows(c, c.input(0).data, c.input(1), c.input(2), row_shape(c.input(0).sizes(), op.axis), op.part, -1);
}

int64_t index_add_scratch(const KernelQuery& query) {
  const Shape& x = query.inputs[0].shape;
  const int axis = normalize_axis(from_attributes<ops::IndexAdd>(query.attributes).axis, x.rank());
  return list_bytes(x[axis].value(), query.inputs[1].numel());
}

void run_embedding_grad(const KernelContext& c) {
  const auto& op = c.attributes<ops::EmbeddingGrad>();
  add_rows(c, nullptr, c.input(0), c.input(1), row_shape(c.output().sizes(), 0), op.part, op.padding_idx);
}

int64_t embedding_grad_scratch(const KernelQuery& query) {
  return list_bytes(query.outputs[0].shape[0].value(), query.inputs[0].numel());
}

constexpr OpKernel kKernels[] = {
    {"index_select", {.name = "rows", .run = run_index_select}},
    {"embedding", {.name = "rows", .run = run_embedding}},
    {"index_add", {.name = "sorted_rows", .run = run_index_add, .scratch_bytes = index_add_scratch}},
    {"embedding_grad",
     {.name = "sorted_rows", .run = run_embedding_grad, .scratch_bytes = embedding_grad_scratch}}};

}  // namespace

std::span<const OpKernel> index_rows_kernels() { return kKernels; }

}  // namespace genesis::cpu
