// nonzero and nms. One block finds the places of nonzero elements, tile by tile. A block takes the boxes of one class one after the other,
// each by a search for the best of those that are left; a second launch joins the classes.
#include "schema/ops/tensor/bounded.h"

#include "backends/common/boxes.h"
#include "backends/cuda/device/number.h"
#include "backends/cuda/runtime/launch.h"

namespace genesis::cuda {
namespace {

constexpr int kBlock = 256;

// Returns the sum of the values of the threads before this one; `total` receives that of all. `shared` has kBlock elements.
__device__ int exclusive_sum(int value, int* shared, int& total) {
  const int i = static_cast<int>(threadIdx.x);
  shared[i] = value;
  __syncthreads();
  for (int step = 1; step < kBlock; step *= 2) {
    const int other = i >= step ? shared[i - step] : 0;
    __syncthreads();
    shared[i] += other;
    __syncthreads();
  }
  const int before = shared[i] - value;
  total = shared[kBlock - 1];
  __syncthreads();
  return before;
}

struct Sizes {
  int rank;
  int64_t dims[kMaxRank];
};

template <class T>
__global__ void __launch_bounds__(kBlock)
    find_nonzero(const T* x, int64_t n, Sizes sizes, int64_t* rows, int64_t* count) {
  __shared__ int shared[kBlock];
  int64_t found = 0;
  for (int64_t first = 0; first < n; first += kBlock) {
    const int64_t i = first + threadIdx.x;
    const bool is_there = i < n && !(static_cast<double>(widen(x[i])) == 0);
    int total = 0;
    const int before = exclusive_sum(is_there ? 1 : 0, shared, total);
    int64_t rest = i;
    for (int axis = sizes.rank - 1; is_there && axis >= 0; --axis) {
      rows[(found + before) * sizes.rank + axis] = rest % sizes.dims[axis];
      rest /= sizes.dims[axis];
    }
    found += total;
  }
  for (int64_t i = found * sizes.rank + threadIdx.x; i < n * sizes.rank; i += kBlock) rows[i] = 0;
  if (threadIdx.x == 0) *count = found;
}

void run_nonzero(const KernelContext& c) {
  const TensorView& x = c.input(0);
  Sizes sizes{x.rank, {}};
  for (int axis = 0; axis < x.rank; ++axis) sizes.dims[axis] = x.dim(axis);
  dispatch_any(x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    start(c, find_nonzero<T>, 1, kBlock, 0, x.as<const T>(), x.numel(), sizes, c.output(0).as<int64_t>(),
          c.output(1).as<int64_t>());
  });
}

// Operands of nms. For each class, `best` has the boxes that are taken and then their number; `left` says which boxes are left.
template <class T>
struct Search {
  const T *boxes, *scores;
  int64_t classes, count, rows;
  double iou_threshold, score_threshold;
  bool center;
  int64_t* best;
  bool* left;
};

template <class T>
__global__ void __launch_bounds__(kBlock) take_boxes(Search<T> s) {
  __shared__ T score[kBlock];
  __shared__ int64_t place[kBlock];
  const int thread = static_cast<int>(threadIdx.x);
  const int64_t of_class = blockIdx.x;
  const T *boxes = s.boxes + of_class / s.classes * s.count * 4, *scores = s.scores + of_class * s.count;
  bool* left = s.left + of_class * s.count;
  int64_t* best = s.best + of_class * (s.rows + 1);
  for (int64_t i = thread; i < s.count; i += kBlock)
    left[i] = static_cast<double>(scores[i]) > s.score_threshold;
  int64_t taken = 0;
  for (; taken < s.rows; ++taken) {
    int64_t own = -1;
    for (int64_t i = thread; i < s.count; i += kBlock)
      if (left[i] && (own < 0 || scores[i] > scores[own])) own = i;
    place[thread] = own;
    score[thread] = own < 0 ? T(0) : scores[own];
    __syncthreads();
    for (int half = kBlock / 2; half > 0; half /= 2) {
      if (thread < half) {
        const int64_t a = place[thread], b = place[thread + half];
        const bool is_better = b >= 0 && (a < 0 || score[thread + half] > score[thread] ||
                                          (score[thread + half] == score[thread] && b < a));
        if (is_better) place[thread] = b, score[thread] = score[thread + half];
      }
      __syncthreads();
    }
    const int64_t winner = place[0];
    __syncthreads();
    if (winner < 0) break;
    const auto box = BoxCorners<T>::of(boxes + winner * 4, s.center);
    for (int64_t i = thread; i < s.count; i += kBlock)
      if (i == winner || box.suppresses(BoxCorners<T>::of(boxes + i * 4, s.center), s.iou_threshold))
        left[i] = false;
    if (thread == 0) best[taken] = winner;
  }
  if (thread == 0) best[s.rows] = taken;
}

__global__ void __launch_bounds__(kBlock)
    join_classes(const int64_t* best, int64_t all, int64_t classes, int64_t rows, int64_t* to, int64_t end,
                 int64_t* count) {
  int64_t found = 0;
  for (int64_t i = 0; i < all; ++i) {
    const int64_t* own = best + i * (rows + 1);
    for (int64_t k = threadIdx.x; k < own[rows]; k += kBlock) {
      to[(found + k) * 3] = i / classes, to[(found + k) * 3 + 1] = i % classes;
      to[(found + k) * 3 + 2] = own[k];
    }
    found += own[rows];
  }
  for (int64_t i = found * 3 + threadIdx.x; i < end; i += kBlock) to[i] = 0;
  if (threadIdx.x == 0) *count = found;
}

template <class T>
void start_nms(const KernelContext& c) {
  const auto& op = c.attributes<ops::Nms>();
  const TensorView &boxes = c.input(0), &scores = c.input(1);
  Search<T> s{boxes.as<const T>(), scores.as<const T>(), scores.dim(1), boxes.dim(1)};
  s.rows = std::min(op.max_boxes, s.count);
  s.iou_threshold = op.iou_threshold, s.score_threshold = op.score_threshold, s.center = op.center;
  const int64_t all = scores.numel() == 0 ? 0 : scores.dim(0) * scores.dim(1);
  s.best = reinterpret_cast<int64_t*>(c.scratch);
  s.left = reinterpret_cast<bool*>(s.best + all * (s.rows + 1));
  start(c, take_boxes<T>, all, kBlock, 0, s);
  start(c, join_classes, 1, kBlock, 0, s.best, all, s.classes, s.rows, c.output(0).as<int64_t>(),
        c.output(0).numel(), c.output(1).as<int64_t>());
}

void run_nms(const KernelContext& c) {
  c.input(0).dtype == DType::f64 ? start_nms<double>(c) : start_nms<float>(c);
}

int64_t nms_scratch(const KernelQuery& q) {
  const Shape& scores = q.inputs[1].shape;
  if (q.inputs[1].numel() == 0) return 0;  // other sizes may be huge
  const int64_t all = scores[0].value() * scores[1].value(), count = scores[2].value();
  return all * (count + 1) * static_cast<int64_t>(sizeof(int64_t)) + all * count;
}

constexpr OpKernel kKernels[] = {{"nms", {.name = "searches", .run = run_nms, .scratch_bytes = nms_scratch}},
                                 {"nonzero", {.name = "tiles", .run = run_nonzero}}};

}  // namespace

std::span<const OpKernel> bounded_kernels() { return kKernels; }

}  // namespace genesis::cuda
