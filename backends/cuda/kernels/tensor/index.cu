// Single elements by index: gather, scatter, scatter_add. A thread reads one element; writes are done in the order of
// the indices (ordered_writes.h).
#include "schema/ops/tensor/index.h"

#include <utility>

#include "backends/common/moves/strided_copy.h"
#include "backends/cuda/device/divisor.h"
#include "backends/cuda/device/ordered_writes.h"
#include "backends/cuda/moves/moves.h"

namespace genesis::cuda {
namespace {

// Maps elements of the index to elements of x.
struct Walk {
  int rank = 0;
  bool small = true;  // the index has fewer than 2^31 elements
  int64_t count = 0;  // elements of the index
  int64_t axis_stride = 1, axis_size = 0, x_count = 0;
  Divisor dims[kMaxRank];
  int64_t strides[kMaxRank] = {};  // strides of x, 0 along the axis

  // Returns the offset in x that belongs to element i of the index, without the offset along the axis.
  __device__ int64_t base_of(int64_t i) const {
    int64_t base = 0;
    auto rest = static_cast<uint64_t>(i);
    for (int axis = rank - 1; axis >= 0; --axis) {
      const FlatIndex at = divide(rest, dims[axis], small);
      base += static_cast<int64_t>(at.remainder) * strides[axis];
      rest = at.quotient;
    }
    return base;
  }
};

std::shared_ptr<const void> prepare_index(const KernelQuery& query) {
  auto walk = std::make_shared<Walk>();
  const std::vector<int64_t> x = query.inputs[0].shape.sizes(), index = query.inputs[1].shape.sizes();
  const std::vector<int64_t> dense = dense_strides(x);
  walk->rank = static_cast<int>(x.size());
  const int axis = normalize_axis(from_attributes<ops::Along>(query.attributes).axis, walk->rank);
  for (size_t i = 0; i < x.size(); ++i) {
    walk->dims[i] = make_divisor(index[i]);
    walk->strides[i] = dense[i];
  }
  walk->axis_stride = std::exchange(walk->strides[axis], 0);
  walk->axis_size = x[static_cast<size_t>(axis)];
  walk->x_count = query.inputs[0].numel();
  walk->count = query.inputs[1].numel();
  walk->small = is_small(walk->count);
  return walk;
}

template <class T, class I>
struct Gather {
  Walk walk;
  const T* x;
  const I* index;
  T* y;
  FaultReport fault;

  __device__ void operator()(int64_t i) const {
    const auto k = static_cast<int64_t>(index[i]);
    const bool good = k >= 0 && k < walk.axis_size;
    if (!good) fault(k, walk.axis_size);
    y[i] = good ? x[walk.base_of(i) + k * walk.axis_stride] : T(0);
  }
};

void run_gather(const KernelContext& c) {
  const auto& walk = c.prepared<Walk>();
  dispatch_size(c.input(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    dispatch_index(c.input(1).dtype, [&](auto index) {
      using I = typename decltype(index)::type;
      for_each(c, walk.count,
               Gather<T, I>{walk, c.input(0).as<const T>(), c.input(1).as<const I>(), c.output().as<T>(),
                            launch_of(c).fault});
    });
  });
}

// Finds the element of x that each element of the index writes to.
template <class Key, class I>
struct FindPlaces {
  Walk walk;
  const I* index;
  Key* keys;
  FaultReport fault;

  __device__ void operator()(int64_t i) const {
    const auto k = static_cast<int64_t>(index[i]);
    const bool good = k >= 0 && k < walk.axis_size;
    if (!good) fault(k, walk.axis_size);
    keys[i] = static_cast<Key>(good ? walk.base_of(i) + k * walk.axis_stride : walk.x_count);
  }
};

// Writes one element; the last write to a destination wins.
template <class T, class Key>
struct WriteLast {
  int64_t n, x_count;
  const Key* keys;
  const uint32_t* positions;
  const T* source;
  T* y;

  __device__ void operator()(int64_t i) const {
    const Key key = keys[i];
    if (static_cast<int64_t>(key) == x_count || (i + 1 < n && keys[i + 1] == key)) return;
    y[key] = source[positions[i]];
  }
};

// Adds all elements with the same destination. A sum of bools is whether any is true: the count is narrowed at the
// end.
template <class T, class Key>
struct AddRun {
  int64_t n, x_count;
  const Key* keys;
  const uint32_t* positions;
  const T* source;
  T* y;

  __device__ void operator()(int64_t i) const {
    const Key key = keys[i];
    if (static_cast<int64_t>(key) == x_count || !starts_run(keys, i)) return;
    const int64_t end = end_of_run(keys, i, n);
    wide_t<T> sum = widen(y[key]);
#pragma unroll 4
    for (int64_t k = i; k < end; ++k) sum += widen(source[positions[k]]);
    y[key] = narrow<T>(sum);
  }
};

SortShape shape_of(const Walk& walk) { return writes_shape(walk.count, walk.x_count); }

// Sorts the elements of the index by their destination, then starts Writer<T, Key>.
template <class T, template <class, class> class Writer>
void write_in_order(const KernelContext& c) {
  const auto& walk = c.prepared<Walk>();
  copy_whole(c, c.output(), c.input(0));
  const SortShape shape = shape_of(walk);
  const SortBuffers buffers = sort_buffers(shape, c.scratch);
  with_key<4, 8>(shape, [&](auto key) {
    using Key = typename decltype(key)::type;
    dispatch_index(c.input(1).dtype, [&](auto index) {
      using I = typename decltype(index)::type;
      for_each(c, walk.count,
               FindPlaces<Key, I>{walk, c.input(1).as<const I>(), static_cast<Key*>(buffers.keys[0]),
                                  launch_of(c).fault});
    });
    const int at = radix_sort(c, shape, buffers);
    for_each(c, walk.count,
             Writer<T, Key>{walk.count, walk.x_count, static_cast<const Key*>(buffers.keys[at]),
                            buffers.places[at], c.input(2).as<const T>(), c.output().as<T>()});
  });
}

void run_scatter(const KernelContext& c) {
  dispatch_size(c.input(0).dtype,
                [&](auto tag) { write_in_order<typename decltype(tag)::type, WriteLast>(c); });
}

void run_scatter_add(const KernelContext& c) {
  dispatch_any(c.output().dtype, [&](auto tag) { write_in_order<typename decltype(tag)::type, AddRun>(c); });
}

int64_t scratch(const KernelQuery& query) {
  return sort_scratch_bytes(writes_shape(query.inputs[1].numel(), query.inputs[0].numel()));
}

constexpr OpKernel kKernels[] = {
    {"gather", {.name = "plain", .run = run_gather, .prepare = prepare_index}},
    {"scatter", {.name = "sorted", .run = run_scatter, .scratch_bytes = scratch, .prepare = prepare_index}},
    {"scatter_add",
     {.name = "sorted", .run = run_scatter_add, .scratch_bytes = scratch, .prepare = prepare_index}}};

}  // namespace

std::span<const OpKernel> index_kernels() { return kKernels; }

}  // namespace genesis::cuda
