// nonzero and nms on the CPU, in the order of their results on one thread, but for the boxes of batch entries and classes.
#include "schema/ops/tensor/bounded.h"

#include <algorithm>

#include "backends/common/boxes.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/parallel/parallel.h"

namespace genesis::cpu {
namespace {

void run_nonzero(const KernelContext& c) {
  const TensorView& x = c.input(0);
  int64_t* rows = c.output(0).as<int64_t>();
  int64_t count = 0;
  dispatch(x.dtype, [&]<class T>(TypeTag<T>) {
    const T* values = x.as<const T>();
    for (int64_t i = 0, n = x.numel(); i < n; ++i) {
      if (static_cast<double>(values[i]) == 0) continue;
      int64_t rest = i;
      for (int axis = x.rank - 1; axis >= 0; --axis) {
        rows[count * x.rank + axis] = rest % x.dim(axis);
        rest /= x.dim(axis);
      }
      ++count;
    }
  });
  std::fill(rows + count * x.rank, rows + c.output(0).numel(), int64_t{0});
  *c.output(1).as<int64_t>() = count;
}

struct NmsSizes {
  int64_t batch, classes, boxes, rows;  // rows: the most of a class

  static NmsSizes of(const KernelContext& c) {
    const TensorView &boxes = c.input(0), &scores = c.input(1);
    return {boxes.dim(0), scores.dim(1), boxes.dim(1),
            std::min(c.attributes<ops::Nms>().max_boxes, boxes.dim(1))};
  }
};

// Takes the boxes of one class; `taken` and `order` have room for all boxes. Returns how many it took.
template <class T>
int64_t take(const ops::Nms& op, const NmsSizes& s, const T* boxes, const T* scores, int64_t* order,
             int64_t* taken) {
  int64_t candidates = 0, count = 0;
  for (int64_t i = 0; i < s.boxes; ++i)
    if (static_cast<double>(scores[i]) > op.score_threshold) order[candidates++] = i;
  std::sort(order, order + candidates,
            [&](int64_t a, int64_t b) { return scores[a] != scores[b] ? scores[a] > scores[b] : a < b; });
  for (int64_t i = 0; i < candidates && count < s.rows; ++i) {
    const auto box = BoxCorners<T>::of(boxes + order[i] * 4, op.center);
    const bool is_free = std::none_of(taken, taken + count, [&](int64_t other) {
      return BoxCorners<T>::of(boxes + other * 4, op.center).suppresses(box, op.iou_threshold);
    });
    if (is_free) taken[count++] = order[i];
  }
  return count;
}

// Scratch memory: for each entry and class the boxes in order, those that are taken, and their number.
template <class T>
void run_typed(const KernelContext& c) {
  const auto& op = c.attributes<ops::Nms>();
  NmsSizes s = NmsSizes::of(c);
  if (c.input(1).numel() == 0) s.batch = 0;  // then there is no scratch memory
  auto* scratch = reinterpret_cast<int64_t*>(c.scratch);
  const int64_t each = 2 * s.boxes + 1;
  parallel_chunks(s.batch * s.classes, [&](int64_t i) {
    int64_t* own = scratch + i * each;
    own[2 * s.boxes] = take(op, s, c.input(0).as<const T>() + i / s.classes * s.boxes * 4,
                            c.input(1).as<const T>() + i * s.boxes, own, own + s.boxes);
  });
  int64_t *rows = c.output(0).as<int64_t>(), count = 0;
  for (int64_t i = 0; i < s.batch * s.classes; ++i)
    for (int64_t k = 0; k < scratch[i * each + 2 * s.boxes]; ++k, ++count) {
      rows[count * 3] = i / s.classes, rows[count * 3 + 1] = i % s.classes;
      rows[count * 3 + 2] = scratch[i * each + s.boxes + k];
    }
  std::fill(rows + count * 3, rows + c.output(0).numel(), int64_t{0});
  *c.output(1).as<int64_t>() = count;
}

void run_nms(const KernelContext& c) {
  c.input(0).dtype == DType::f64 ? run_typed<double>(c) : run_typed<float>(c);
}

int64_t nms_scratch(const KernelQuery& q) {
  const Shape& scores = q.inputs[1].shape;
  if (q.inputs[1].numel() == 0) return 0;  // other sizes may be huge
  return scores[0].value() * scores[1].value() * (2 * scores[2].value() + 1) *
         static_cast<int64_t>(sizeof(int64_t));
}

constexpr OpKernel kKernels[] = {{"nms", {.name = "sorted", .run = run_nms, .scratch_bytes = nms_scratch}},
                                 {"nonzero", {.name = "plain", .run = run_nonzero}}};

}  // namespace

std::span<const OpKernel> bounded_kernels() { return kKernels; }

}  // namespace genesis::cpu
