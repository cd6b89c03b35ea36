// The decode leaf of attention: few query rows against a chunk of keys, read directly from the KV cache, since reading it takes
// most of the time. The partial results of a row's chunks are merged in order.
#include <algorithm>
#include <cmath>

#include "backends/cpu/attention/decode/decode_task.h"
#include "backends/cpu/simd/highway_targets.h"
#include "schema/core/checked_size.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/attention/decode/attention_decode.cpp"
#include <hwy/foreach_target.h>  // must precede highway.h
#include <hwy/highway.h>
//
#include "backends/cpu/attention/attention_simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace genesis::cpu::HWY_NAMESPACE {
namespace {

// Computes kKeys dot products of one query with adjacent keys; `size` is a multiple of 16.
template <int kKeys, class T>
HWY_INLINE void dot_keys(const float* q, const T* k, int64_t stride, int64_t size, float* scores) {
  const F f;
  V sum[kKeys];
  for (int i = 0; i < kKeys; ++i) sum[i] = hn::Zero(f);
  for (int64_t d = 0; d < size; d += kLanes) {
    const V x = hn::LoadU(f, q + d);
    for (int i = 0; i < kKeys; ++i) sum[i] = hn::MulAdd(x, load(f, k + i * stride + d), sum[i]);
  }
  for (int i = 0; i < kKeys; ++i) scores[i] = hn::GetLane(hn::SumOfLanes(f, sum[i]));
}

template <class T>
void score_keys(const float* q, int64_t rows, int64_t size, const T* k, int64_t stride, int64_t count,
                float* scores) {
  int64_t j = 0;
  for (; j + 4 <= count; j += 4, k += 4 * stride)
    for (int64_t row = 0; row < rows; ++row)
      dot_keys<4>(q + row * size, k, stride, size, scores + row * kDecodeKeys + j);
  for (; j < count; ++j, k += stride)
    for (int64_t row = 0; row < rows; ++row)
      dot_keys<1>(q + row * size, k, stride, size, scores + row * kDecodeKeys + j);
}

// Multiplies kRows rows of weights by kVectors vectors of columns of v.
template <int kRows, int kVectors, class T>
HWY_INLINE void weigh(const float* p, const T* v, int64_t stride, int64_t count, float* o, int64_t o_stride) {
  const F f;
  V sum[kRows][kVectors];
  for (int i = 0; i < kRows; ++i)
    for (int c = 0; c < kVectors; ++c) sum[i][c] = hn::Zero(f);
  for (int64_t j = 0; j < count; ++j, v += stride) {
    for (int c = 0; c < kVectors; ++c) {
      const V x = load(f, v + c * kLanes);
      for (int i = 0; i < kRows; ++i)
        sum[i][c] = hn::MulAdd(hn::Set(f, p[i * kDecodeKeys + j]), x, sum[i][c]);
    }
  }
  for (int i = 0; i < kRows; ++i)
    for (int c = 0; c < kVectors; ++c) hn::StoreU(sum[i][c], f, o + i * o_stride + c * kLanes);
}

template <int kRows, class T>
void weigh_rows(const float* p, const T* v, int64_t stride, int64_t count, int64_t size, float* o,
                int64_t o_stride) {
  int64_t d = 0;
  for (; d + 4 * kLanes <= size; d += 4 * kLanes) weigh<kRows, 4>(p, v + d, stride, count, o + d, o_stride);
  for (; d < size; d += kLanes) weigh<kRows, 1>(p, v + d, stride, count, o + d, o_stride);
}

// Turns one row of scores into weights, and stores its maximum and sum in front of its partial result.
void softmax_row(const VisibleKeys& visible, int64_t query, int64_t first, int64_t count, float* scores,
                 float* partial) {
  const int64_t n = std::clamp<int64_t>(visible.end(query) - first, 0, count);
  if (visible.mask.data) apply_mask(visible.mask, query, first, n, scores);
  hide_before(visible, query, first, n, scores);
  fill_tail(scores, n, kMinusInfinity);
  const float max = max_of(scores, n);
  partial[0] = max;
  partial[1] = max == kMinusInfinity ? 0 : exponentials(scores, n, max);
  std::fill(scores + (max == kMinusInfinity ? 0 : n), scores + count, 0.0f);
}

// Calls body(elements, stride) with rows that `readers` query rows will read. Quants are converted once, into `wide`, and so is
// low precision if there are several readers.
template <class Body>
void with_keys(const HeadRows& rows, int64_t count, int64_t size, int64_t readers, float* wide,
               const Body& body) {
  if (rows.dtype == DType::f32 || (readers == 1 && rows.dtype != DType::i8))
    return with_elements(rows, [&](const auto* data) { body(data, rows.stride); });
  load_rows(rows, count, size, 1, wide, size);
  body(static_cast<const float*>(wide), size);
}

template <class T>
void weigh_all(const float* p, int64_t rows, const T* v, int64_t v_stride, int64_t count, int64_t size,
               float* o, int64_t o_stride) {
  int64_t row = 0;
  for (; row + 4 <= rows; row += 4)
    weigh_rows<4>(p + row * kDecodeKeys, v, v_stride, count, size, o + row * o_stride, o_stride);
  for (; row < rows; ++row)
    weigh_rows<1>(p + row * kDecodeKeys, v, v_stride, count, size, o + row * o_stride, o_stride);
}

// Returns the keys that query row `row` of the task sees.
VisibleKeys visible_keys_of(const DecodeTask& task, int64_t row) {
  VisibleKeys visible = task.head.visible;
  const int64_t offset = row / task.queries * task.mask_head_step;
  if (visible.mask.data) visible.mask.data += offset * static_cast<int64_t>(size_of(visible.mask.dtype));
  return visible;
}

void load_queries(const DecodeTask& task, float* q) {
  const AttentionHead& head = task.head;
  const int64_t step = task.q_head_step * static_cast<int64_t>(size_of(head.q.dtype));
  for (int64_t h = 0; h < task.group; ++h)
    load_rows({head.q.data + h * step, head.q.dtype, head.q.stride}, task.queries, head.size,
              head.scale * kLog2E, q + h * task.queries * head.size, head.size);
}

void decode(const DecodeTask& task, float* scratch) {
  const AttentionHead& head = task.head;
  const int64_t rows = task.group * task.queries, stride = head.v_size + 2;
  float *q = scratch, *scores = q + kDecodeRows * head.size, *wide = scores + kDecodeRows * kDecodeKeys;
  load_queries(task, q);
  with_keys(head.k.from(task.first), task.count, head.size, rows, wide, [&](const auto* k, int64_t k_stride) {
    score_keys(q, rows, head.size, k, k_stride, task.count, scores);
  });
  for (int64_t row = 0; row < rows; ++row)
    softmax_row(visible_keys_of(task, row), row % task.queries, task.first, task.count,
                scores + row * kDecodeKeys, task.partial + row * stride);
  with_keys(head.v.from(task.first), task.count, head.v_size, rows, wide,
            [&](const auto* v, int64_t v_stride) {
              weigh_all(scores, rows, v, v_stride, task.count, head.v_size, task.partial + 2, stride);
            });
}

float merge(float* partials, int64_t parts, int64_t stride, int64_t v_size, const HeadRows& y) {
  const F f;
  float max = kMinusInfinity, sum = 0;
  for (int64_t part = 0; part < parts; ++part) {
    const float here = partials[part * stride];
    if (here > max || here != here) max = here;
  }
  for (int64_t part = 0; part < parts; ++part) {
    float& factor = partials[part * stride];  // replaces the maximum of this chunk
    factor = factor == kMinusInfinity ? 0.0f : exp2_of(factor - max);
    sum += partials[part * stride + 1] * factor;
  }
  const float scale = max == kMinusInfinity ? 0 : 1 / sum;
  const int64_t bytes = static_cast<int64_t>(size_of(y.dtype));
  HWY_ALIGN float total[hn::MaxLanes(F())];
  for (int64_t d = 0; d < v_size; d += kLanes) {
    V acc = hn::Zero(f);
    for (int64_t part = 0; part < parts; ++part)
      acc = hn::MulAdd(hn::Set(f, partials[part * stride]), hn::LoadU(f, partials + part * stride + 2 + d),
                       acc);
    hn::Store(acc, f, total);
    store_row(total, scale, kLanes, {y.data + d * bytes, y.dtype, y.stride});
  }
  return (max + std::log2(sum)) * kLn2;
}

}  // namespace

using Decode = void (*)(const DecodeTask&, float*);
Decode decode_leaf() { return decode; }
using Merge = float (*)(float*, int64_t, int64_t, int64_t, const HeadRows&);
Merge merge_leaf() { return merge; }

}  // namespace genesis::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace genesis::cpu {

HWY_EXPORT(decode_leaf);
HWY_EXPORT(merge_leaf);

void run_leaf(const DecodeTask& task, float* scratch) { HWY_DYNAMIC_DISPATCH(decode_leaf)()(task, scratch); }

float merge_partials(float* partials, int64_t parts, int64_t stride, int64_t v_size, const HeadRows& y) {
  return HWY_DYNAMIC_DISPATCH(merge_leaf)()(partials, parts, stride, v_size, y);
}

int64_t decode_floats(int64_t size, int64_t v_size) {
  return (kDecodeRows * (CheckedSize(size) + kDecodeKeys) + kDecodeKeys * CheckedSize(std::max(size, v_size)))
      .value();
}

}  // namespace genesis::cpu
#endif
