// The forward leaf of attention (after Dao et al., "FlashAttention", 2022): keys come in blocks, and a row's maximum, sum and
// result are rescaled when its maximum grows.
#include <algorithm>
#include <cmath>

#include "backends/cpu/attention/attention_tasks.h"
#include "backends/cpu/simd/highway_targets.h"
#include "schema/core/checked_size.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/attention/attention_forward.cpp"
#include <hwy/foreach_target.h>  // must precede highway.h
#include <hwy/highway.h>
//
#include "backends/cpu/attention/attention_simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace genesis::cpu::HWY_NAMESPACE {
namespace {

constexpr int64_t kKeys = kForwardBlock;

// The scratch memory of a task. Rows of q are scaled by scale * log2(e), so that exp2 replaces exp.
struct Buffers {
  int64_t ld, v_ld;  // row strides: `ld` of q and k, `v_ld` of v and o
  float *q, *o, *max, *sum, *k, *v, *scores;
};

Buffers carve(const ForwardTask& task, float* scratch) {
  const int64_t ld = padded(task.head.size), v_ld = padded(task.head.v_size);
  const int64_t rows = padded(task.count), keys = std::min(kKeys, padded(task.head.visible.keys));
  Buffers b{ld, v_ld, scratch, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr};
  b.o = b.q + rows * ld;
  b.max = b.o + rows * v_ld;
  b.sum = b.max + rows;
  b.k = b.sum + rows;
  b.v = b.k + keys * ld;
  b.scores = b.v + keys * std::max(ld, v_ld);
  return b;
}

// Loads a block of keys: rows of v as they are, rows of k transposed. The buffer of v holds the rows of k until they are
// transposed.
void load_keys(const AttentionHead& head, int64_t first, int64_t count, const Buffers& b) {
  const int64_t whole = (count + kNr - 1) / kNr * kNr;
  load_rows(head.k.from(first), count, head.size, 1, b.v, b.ld);
  std::fill(b.v + count * b.ld, b.v + whole * b.ld, 0.0f);
  transpose_rows(b.v, b.ld, whole, b.ld, b.k);
  load_rows(head.v.from(first), count, head.v_size, 1, b.v, b.v_ld);
}

void scale_row(float* x, float factor, int64_t n) {
  const F f;
  for (int64_t d = 0; d < n; d += kLanes)
    hn::StoreU(hn::Mul(hn::LoadU(f, x + d), hn::Set(f, factor)), f, x + d);
}

// Turns one row of scores into weights of the block's first `width` keys, and rescales the row's accumulators if its maximum
// grows.
void softmax_row(const ForwardTask& task, const Buffers& b, int64_t row, int64_t first, int64_t width,
                 float* scores) {
  const VisibleKeys& visible = task.head.visible;
  const int64_t query = task.first + row, n = std::clamp<int64_t>(visible.end(query) - first, 0, width);
  if (visible.mask.data) apply_mask(visible.mask, query, first, n, scores);
  hide_before(visible, query, first, n, scores);
  fill_tail(scores, n, kMinusInfinity);
  const float before = b.max[row], here = max_of(scores, n),
              max = here > before || here != here ? here : before;
  if (max == kMinusInfinity) return std::fill(scores, scores + width, 0.0f);
  if (max != before) {
    const float factor = exp2_of(before - max);
    scale_row(b.o + row * b.v_ld, factor, b.v_ld);
    b.sum[row] *= factor;
    b.max[row] = max;
  }
  b.sum[row] += exponentials(scores, n, max);
  std::fill(scores + n, scores + width, 0.0f);
}

// Attends `rows` queries, beginning at `row`, to the block of `count` keys that begins at `first`, leaving out leading panels
// that none of these queries sees.
void attend(const ForwardTask& task, const Buffers& b, int64_t row, int64_t rows, int64_t first,
            int64_t count) {
  const AttentionHead& head = task.head;
  const int64_t hidden = std::max<int64_t>(0, head.visible.begin(task.first + row) - first) / kNr * kNr;
  const int64_t n = std::min(count, head.visible.end(task.first + row + rows - 1) - first) - hidden;
  if (n <= 0) return;
  row_of_tiles<Stored::kRows>(rows, n, head.size, b.q + row * b.ld, b.ld,
                              transposed(b.k + hidden * b.ld, b.ld), b.scores, kKeys, false);
  for (int64_t i = 0; i < rows; ++i) softmax_row(task, b, row + i, first + hidden, n, b.scores + i * kKeys);
  row_of_tiles<Stored::kRows>(rows, head.v_size, n, b.scores, kKeys, rows_of(b.v + hidden * b.v_ld, b.v_ld),
                              b.o + row * b.v_ld, b.v_ld, true);
}

void finish(const ForwardTask& task, const Buffers& b) {
  for (int64_t row = 0; row < task.count; ++row) {
    const float sum = b.sum[row];
    store_row(b.o + row * b.v_ld, b.max[row] == kMinusInfinity ? 0.0f : 1 / sum, task.head.v_size,
              task.y.from(row));
    if (task.lse) task.lse[row] = (b.max[row] + std::log2(sum)) * kLn2;
  }
}

void forward(const ForwardTask& task, float* scratch) {
  const AttentionHead& head = task.head;
  const Buffers b = carve(task, scratch);
  load_rows(head.q.from(task.first), task.count, head.size, head.scale * kLog2E, b.q, b.ld);
  std::fill(b.o, b.o + task.count * b.v_ld, 0.0f);
  std::fill(b.max, b.max + task.count, kMinusInfinity);
  std::fill(b.sum, b.sum + task.count, 0.0f);
  const int64_t keys = head.visible.end(task.first + task.count - 1);
  for (int64_t first = head.visible.begin(task.first) / kKeys * kKeys; first < keys; first += kKeys) {
    const int64_t count = std::min(kKeys, keys - first);
    load_keys(head, first, count, b);
    for (int64_t row = 0; row < task.count; row += kMr)
      attend(task, b, row, std::min<int64_t>(kMr, task.count - row), first, count);
  }
  finish(task, b);
}

}  // namespace

using Forward = void (*)(const ForwardTask&, float*);
Forward forward_leaf() { return forward; }

}  // namespace genesis::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace genesis::cpu {

HWY_EXPORT(forward_leaf);

void run_leaf(const ForwardTask& task, float* scratch) {
  HWY_DYNAMIC_DISPATCH(forward_leaf)()(task, scratch);
}

int64_t forward_floats(int64_t size, int64_t v_size, int64_t queries, int64_t keys) {
  const CheckedSize ld = padded(size), v_ld = padded(v_size);
  const CheckedSize block = std::min(kForwardBlock, padded(keys));
  return (padded(queries) * (ld + v_ld + 2) + block * (ld + std::max(ld, v_ld)) +
          kForwardBlock * kMaxTileRows)
      .value();
}

}  // namespace genesis::cpu
#endif
