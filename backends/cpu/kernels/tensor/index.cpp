// Access to single elements by index: gather, scatter, scatter_add. Writes to the same element happen in the order of the index,
// because only elements that cannot coincide are processed in parallel.
#include "schema/ops/tensor/index.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "backends/common/wrapping.h"
#include "backends/cpu/moves/run_moves.h"
#include "backends/cpu/parallel/parallel.h"
#include "backends/kernel.h"
#include "schema/core/checked_size.h"

namespace genesis::cpu {
namespace {

// The iteration of the index over x. Two different positions along an axis other than `axis` never refer to the same element of
// x.
struct Walk {
  std::vector<int64_t> dims, strides;  // `dims` of the index, `strides` of x with 0 along the axis
  int64_t axis = 0, axis_stride = 1, axis_size = 0;
  int64_t row = 1;                     // elements of the index along the last axis
  int64_t outer = 1, rows_inside = 1;  // independent groups of rows; rows per group
  int64_t last_stride = 0;             // stride of x along the last axis: 1, or 0 if `axis` is the last one
};

Walk make_walk(const KernelQuery& query) {
  Walk walk;
  const std::vector<int64_t> x = query.inputs[0].shape.sizes();
  walk.dims = query.inputs[1].shape.sizes();
  walk.axis = normalize_axis(from_attributes<ops::Along>(query.attributes).axis, static_cast<int>(x.size()));
  walk.strides = dense_strides(x);
  const auto axis = static_cast<size_t>(walk.axis), last = x.size() - 1;
  walk.axis_stride = std::exchange(walk.strides[axis], 0);
  walk.axis_size = x[axis];
  walk.row = walk.dims[last];
  walk.last_stride = walk.strides[last];
  for (size_t i = 0; i < last; ++i) (i < axis ? walk.outer : walk.rows_inside) *= walk.dims[i];
  return walk;
}

std::shared_ptr<const void> prepare_index(const KernelQuery& query) {
  return std::make_shared<const Walk>(make_walk(query));
}

// Returns the offset in x of row `row` of the index.
int64_t base_of(const Walk& walk, int64_t row) {
  int64_t base = 0;
  for (size_t i = walk.dims.size() - 1; i-- > 0;) {
    base += row % walk.dims[i] * walk.strides[i];
    row /= walk.dims[i];
  }
  return base;
}

// Calls body(position in x, position in the index) for columns [first, last) of one row.
template <class I, class Body>
void each_in_row(const Walk& walk, const I* index, int64_t row, int64_t first, int64_t last, Fault* fault,
                 const Body& body) {
  const int64_t base = base_of(walk, row);
  for (int64_t j = first; j < last; ++j) {
    const int64_t at = row * walk.row + j, k = index[at];
    if (k < 0 || k >= walk.axis_size)
      fault->report(k, walk.axis_size);
    else
      body(base + j * walk.last_stride + k * walk.axis_stride, at);
  }
}

template <class F>
void with_index_type(const TensorView& index, F&& f) {
  if (index.dtype == DType::i32)
    f(index.as<int32_t>());
  else
    f(index.as<int64_t>());
}

// Calls f with an unsigned integer type of the element's size, which suffices to move elements.
template <class F>
void with_bytes(DType dtype, F&& f) {
  switch (size_of(dtype)) {
    case 1:
      return f(uint8_t{});
    case 2:
      return f(uint16_t{});
    case 4:
      return f(uint32_t{});
    default:
      return f(uint64_t{});
  }
}

void run_gather(const KernelContext& c) {
  const auto& walk = c.prepared<Walk>();
  with_bytes(c.input(0).dtype, [&]<class T>(T) {
    with_index_type(c.input(1), [&](const auto* index) {
      const T* x = c.input(0).as<T>();
      T* y = c.output().as<T>();
      parallel_rows(walk.outer * walk.rows_inside, walk.row * 8, [&](int64_t first, int64_t last) {
        for (int64_t row = first; row < last; ++row) {
          std::fill_n(y + row * walk.row, walk.row, T{});  // stays where an index is out of range
          each_in_row(walk, index, row, 0, walk.row, c.fault,
                      [&](int64_t from, int64_t to) { y[to] = x[from]; });
        }
      });
    });
  });
}

// Calls body(row, first column, last column), in index order for all elements that one task may write; no other task writes them.
template <class Body>
void each_lane(const Walk& walk, const Body& body) {
  constexpr int64_t kColumns = 1024;
  const bool whole_rows = walk.last_stride == 0;  // the last axis is the one written along
  const int64_t width = whole_rows ? walk.row : std::min(walk.row, kColumns);
  const int64_t blocks = width == 0 ? 0 : (walk.row + width - 1) / width;
  parallel_rows(walk.outer * blocks, walk.rows_inside * width * 8, [&](int64_t first, int64_t last) {
    for (int64_t task = first; task < last; ++task) {
      const int64_t column = task % blocks * width, row = task / blocks * walk.rows_inside;
      for (int64_t i = 0; i < walk.rows_inside; ++i)
        body(row + i, column, std::min(column + width, walk.row));
    }
  });
}

void copy_input(const KernelContext& c) {
  const int64_t bytes = c.output().bytes();
  if (c.output().data == c.input(0).data) return;
  parallel_rows(bytes, 1, [&](int64_t first, int64_t last) {
    std::memcpy(c.output().as<std::byte>() + first, c.input(0).as<std::byte>() + first,
                static_cast<size_t>(last - first));
  });
}

void run_scatter(const KernelContext& c) {
  const auto& walk = c.prepared<Walk>();
  copy_input(c);
  with_bytes(c.input(0).dtype, [&]<class T>(T) {
    with_index_type(c.input(1), [&](const auto* index) {
      each_lane(walk, [&](int64_t row, int64_t first, int64_t last) {
        each_in_row(walk, index, row, first, last, c.fault,
                    [&](int64_t to, int64_t from) { c.output().as<T>()[to] = c.input(2).as<T>()[from]; });
      });
    });
  });
}

// sums[...] += source; `sums` already holds x.
template <class T, class Sum>
void add_elements(const KernelContext& c, Sum* sums) {
  const auto& walk = c.prepared<Walk>();
  with_index_type(c.input(1), [&](const auto* index) {
    each_lane(walk, [&](int64_t row, int64_t first, int64_t last) {
      each_in_row(walk, index, row, first, last, c.fault, [&](int64_t to, int64_t from) {
        sums[to] = wrapping_add(sums[to], static_cast<Sum>(c.input(2).as<T>()[from]));
      });
    });
  });
}

// Sums of low precision are kept in f32, in scratch memory.
template <class T>
void add_low_precision(const KernelContext& c) {
  auto* sums = reinterpret_cast<float*>(c.scratch);
  const int64_t n = c.output().numel();
  parallel_rows(n, 4, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) sums[i] = c.input(0).as<T>()[i];
  });
  add_elements<T>(c, sums);
  parallel_rows(n, 4, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) c.output().as<T>()[i] = T(sums[i]);
  });
}

void run_scatter_add(const KernelContext& c) {
  dispatch(c.output().dtype, [&]<class T>(TypeTag<T>) {
    if constexpr (std::is_same_v<T, bf16> || std::is_same_v<T, f16>) {
      add_low_precision<T>(c);
    } else {
      copy_input(c);
      add_elements<T>(c, c.output().as<T>());
    }
  });
}

int64_t scatter_add_scratch(const KernelQuery& query) {
  return is_low_precision(query.inputs[0].dtype) ? (CheckedSize(query.inputs[0].numel()) * 4).value() : 0;
}

constexpr OpKernel kKernels[] = {
    {"gather", {.name = "plain", .run = run_gather, .prepare = prepare_index}},
    {"scatter", {.name = "ordered", .run = run_scatter, .prepare = prepare_index}},
    {"scatter_add",
     {.name = "ordered",
      .run = run_scatter_add,
      .scratch_bytes = scatter_add_scratch,
      .prepare = prepare_index}}};

}  // namespace

std::span<const OpKernel> index_kernels() { return kKernels; }

}  // namespace genesis::cpu
