// The backward leaf of attention (after Dao et al., "FlashAttention", 2022): the weights p are recomputed from the scores and
// their log-sum-exp, block by block. With delta = sum(dy * y) of a row:
//   dv = p^T dy,  ds = p * (dy v^T - delta),  dq = scale * ds k,  dk = scale * ds^T q.
#include <algorithm>
#include <cmath>

#include "backends/cpu/attention/attention_tasks.h"
#include "backends/cpu/simd/highway_targets.h"
#include "schema/core/checked_size.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/attention/attention_backward.cpp"
#include <hwy/foreach_target.h>  // must precede highway.h
#include <hwy/highway.h>
//
#include "backends/cpu/attention/attention_simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace genesis::cpu::HWY_NAMESPACE {
namespace {

constexpr int64_t kBlock = kBackwardBlock;

// The scratch memory of a task. For its keys: k, then k and v transposed into panels block by block, and the accumulators dk and
// dv. For a block of queries: q (times scale * log2(e)), dy, dq and the statistics of the rows. For a pair of blocks: p and ds.
struct Buffers {
  int64_t ld, v_ld;
  float *k, *k_panels, *v_panels, *dk, *dv;
  float *q, *dy, *dq, *lse, *delta;
  float *p, *ds;
};

Buffers carve(const BackwardTask& task, float* at) {
  const int64_t ld = padded(task.head.size), v_ld = padded(task.head.v_size);
  const int64_t keys = padded(task.count), queries = std::min(kBlock, padded(task.queries));
  const auto take = [&](int64_t rows, int64_t row_floats) {
    float* taken = at;
    at += rows * row_floats;
    return taken;
  };
  Buffers b{};
  b.ld = ld;
  b.v_ld = v_ld;
  b.k = take(keys, ld);
  b.k_panels = take(keys, ld);
  b.v_panels = take(keys, v_ld);
  b.dk = take(keys, ld);
  b.dv = take(keys, v_ld);
  b.q = take(queries, ld);
  b.dy = take(queries, v_ld);
  b.dq = take(queries, ld);
  b.lse = take(queries, 1);
  b.delta = take(queries, 1);
  b.p = take(queries, kBlock);
  b.ds = take(queries, kBlock);
  return b;
}

void load_keys(const BackwardTask& task, const Buffers& b) {
  const AttentionHead& head = task.head;
  const int64_t whole = (task.count + kNr - 1) / kNr * kNr;
  float* v = b.dv;  // holds the rows of v until they are transposed
  load_rows(head.v.from(task.first), task.count, head.v_size, 1, v, b.v_ld);
  std::fill(v + task.count * b.v_ld, v + whole * b.v_ld, 0.0f);
  transpose_rows(v, b.v_ld, whole, b.v_ld, b.v_panels);
  load_rows(head.k.from(task.first), task.count, head.size, 1, b.k, b.ld);
  std::fill(b.k + task.count * b.ld, b.k + whole * b.ld, 0.0f);
  transpose_rows(b.k, b.ld, whole, b.ld, b.k_panels);
  std::fill(b.dk, b.dk + task.count * b.ld, 0.0f);
  std::fill(b.dv, b.dv + task.count * b.v_ld, 0.0f);
}

float dot_row(const float* a, const HeadRows& row, int64_t n) {
  const F f;
  float total = 0;
  with_elements(row, [&](const auto* data) {
    V sum = hn::Zero(f);
    int64_t d = 0;
    for (; d + kLanes <= n; d += kLanes) sum = hn::MulAdd(hn::LoadU(f, a + d), load(f, data + d), sum);
    total = hn::GetLane(hn::SumOfLanes(f, sum));
    for (; d < n; ++d) total += a[d] * static_cast<float>(data[d]);
  });
  return total;
}

// A block of queries of one head.
struct QueryBlock {
  HeadRows q, y, dy, dq;
  const float* lse;
  VisibleKeys visible;
  int64_t first, rows;
};

void load_queries(const AttentionHead& head, const QueryBlock& queries, const Buffers& b) {
  load_rows(queries.q, queries.rows, head.size, head.scale * kLog2E, b.q, b.ld);
  load_rows(queries.dy, queries.rows, head.v_size, 1, b.dy, b.v_ld);
  for (int64_t i = 0; i < queries.rows; ++i) {
    b.lse[i] = queries.lse[i] * kLog2E;
    b.delta[i] = dot_row(b.dy + i * b.v_ld, queries.y.from(i), head.v_size);
  }
  std::fill(b.dq, b.dq + queries.rows * b.ld, 0.0f);
}

// Turns one row of scores p and of products ds into weights and gradients of the scores; zero for keys that the row does not see.
void gradient_row(const QueryBlock& queries, const Buffers& b, int64_t row, int64_t first, int64_t count) {
  const F f;
  float *p = b.p + row * kBlock, *ds = b.ds + row * kBlock;
  const int64_t query = queries.first + row;
  int64_t n = std::clamp<int64_t>(queries.visible.end(query) - first, 0, count);
  if (b.lse[row] == kMinusInfinity) n = 0;
  if (n > 0 && queries.visible.mask.data) apply_mask(queries.visible.mask, query, first, n, p);
  if (n > 0) hide_before(queries.visible, query, first, n, p);
  fill_tail(p, n, kMinusInfinity);
  fill_tail(ds, n, 0);
  const V lse = hn::Set(f, b.lse[row]), delta = hn::Set(f, b.delta[row]);
  int64_t j = 0;
  for (; j < n; j += kLanes) {
    const V weight = exp2(f, hn::Sub(hn::LoadU(f, p + j), lse));
    hn::StoreU(weight, f, p + j);
    hn::StoreU(hn::Mul(weight, hn::Sub(hn::LoadU(f, ds + j), delta)), f, ds + j);
  }
  std::fill(p + j, p + kBlock, 0.0f);
  std::fill(ds + j, ds + kBlock, 0.0f);
}

// Computes p, ds and dq for up to kMr queries, beginning at `row`, against the block of `count` keys that begins at the task's
// key `at`.
void query_tile(const BackwardTask& task, const QueryBlock& queries, const Buffers& b, int64_t row,
                int64_t at, int64_t count) {
  const int64_t rows = std::min<int64_t>(kMr, queries.rows - row), first = task.first + at;
  const int64_t n =
      std::clamp<int64_t>(queries.visible.end(queries.first + row + rows - 1) - first, 0, count);
  float *p = b.p + row * kBlock, *ds = b.ds + row * kBlock;
  if (n == 0 || queries.visible.begin(queries.first + row) >= first + count) {
    std::fill(p, p + rows * kBlock, 0.0f);
    return std::fill(ds, ds + rows * kBlock, 0.0f);
  }
  row_of_tiles<Stored::kRows>(rows, n, task.head.size, b.q + row * b.ld, b.ld,
                              transposed(b.k_panels + at * b.ld, b.ld), p, kBlock, false);
  row_of_tiles<Stored::kRows>(rows, n, task.head.v_size, b.dy + row * b.v_ld, b.v_ld,
                              transposed(b.v_panels + at * b.v_ld, b.v_ld), ds, kBlock, false);
  for (int64_t i = 0; i < rows; ++i) gradient_row(queries, b, row + i, first, count);
  row_of_tiles<Stored::kRows>(rows, task.head.size, n, ds, kBlock, rows_of(b.k + at * b.ld, b.ld),
                              b.dq + row * b.ld, b.ld, true);
}

// Adds to dk and dv of up to kMr keys, beginning at the task's key `at` + `key`, the contributions of the queries that see any of
// them.
void key_tile(const BackwardTask& task, const QueryBlock& queries, const Buffers& b, int64_t at, int64_t key,
              int64_t count) {
  const int64_t keys = std::min<int64_t>(kMr, count - key), to = at + key;
  const VisibleKeys& visible = queries.visible;
  const int64_t start =
      visible.causal ? std::clamp<int64_t>(task.first + to - visible.offset - queries.first, 0, queries.rows)
                     : 0;
  const int64_t end = visible.past(task.first + to + keys - 1, queries.first + queries.rows) - queries.first;
  const int64_t depth = end - start;
  if (depth <= 0) return;
  row_of_tiles<Stored::kColumns>(keys, task.head.v_size, depth, b.p + start * kBlock + key, kBlock,
                                 rows_of(b.dy + start * b.v_ld, b.v_ld), b.dv + to * b.v_ld, b.v_ld, true);
  row_of_tiles<Stored::kColumns>(keys, task.head.size, depth, b.ds + start * kBlock + key, kBlock,
                                 rows_of(b.q + start * b.ld, b.ld), b.dk + to * b.ld, b.ld, true);
}

void query_block(const BackwardTask& task, const QueryBlock& queries, const Buffers& b) {
  const int64_t seen =
      std::min(task.count, queries.visible.end(queries.first + queries.rows - 1) - task.first);
  const int64_t hidden = std::max<int64_t>(0, queries.visible.begin(queries.first) - task.first);
  if (hidden < seen)
    load_queries(task.head, queries, b);
  else
    std::fill(b.dq, b.dq + queries.rows * b.ld, 0.0f);
  for (int64_t at = hidden / kBlock * kBlock; at < seen; at += kBlock) {
    const int64_t count = std::min(kBlock, task.count - at);
    for (int64_t row = 0; row < queries.rows; row += kMr) query_tile(task, queries, b, row, at, count);
    for (int64_t key = 0; key < count; key += kMr) key_tile(task, queries, b, at, key, count);
  }
  store_rows(b.dq, b.ld, queries.rows, task.head.scale, task.head.size, queries.dq);
}

HeadRows head_of(const HeadRows& first, int64_t number, int64_t step) {
  return {first.data + number * step * static_cast<int64_t>(size_of(first.dtype)), first.dtype, first.stride};
}

void backward(const BackwardTask& task, float* scratch) {
  const AttentionHead& head = task.head;
  const Buffers b = carve(task, scratch);
  load_keys(task, b);
  for (int64_t number = 0; number < task.group; ++number) {
    VisibleKeys visible = head.visible;
    if (visible.mask.data)
      visible.mask.data += number * task.mask_head_step * static_cast<int64_t>(size_of(visible.mask.dtype));
    for (int64_t first = 0; first < task.queries; first += kBlock) {
      const QueryBlock queries{head_of(head.q, number, task.q_head_step).from(first),
                               head_of(task.y, number, task.y_head_step).from(first),
                               head_of(task.dy, number, task.y_head_step).from(first),
                               head_of(task.dq, number, task.dq_head_step).from(first),
                               task.lse + number * task.queries + first,
                               visible,
                               first,
                               std::min(kBlock, task.queries - first)};
      query_block(task, queries, b);
    }
  }
  store_rows(b.dk, b.ld, task.count, kLn2, head.size, task.dk.from(task.first));  // q includes log2(e)
  store_rows(b.dv, b.v_ld, task.count, 1, head.v_size, task.dv.from(task.first));
}

void sum(const float* from, int64_t parts, int64_t stride, int64_t n, const HeadRows& to) {
  const F f;
  HWY_ALIGN float total[hn::MaxLanes(F())];
  for (int64_t d = 0; d < n; d += kLanes) {
    V acc = hn::Zero(f);
    for (int64_t part = 0; part < parts; ++part) acc = hn::Add(acc, hn::LoadU(f, from + part * stride + d));
    hn::Store(acc, f, total);
    const int64_t bytes = static_cast<int64_t>(size_of(to.dtype));
    store_row(total, 1, std::min(kLanes, n - d), {to.data + d * bytes, to.dtype, to.stride});
  }
}

}  // namespace

using Backward = void (*)(const BackwardTask&, float*);
Backward backward_leaf() { return backward; }
using Sum = void (*)(const float*, int64_t, int64_t, int64_t, const HeadRows&);
Sum sum_leaf() { return sum; }

}  // namespace genesis::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace genesis::cpu {

HWY_EXPORT(backward_leaf);
HWY_EXPORT(sum_leaf);

void run_leaf(const BackwardTask& task, float* scratch) {
  HWY_DYNAMIC_DISPATCH(backward_leaf)()(task, scratch);
}

void sum_partials(const float* from, int64_t parts, int64_t stride, int64_t n, const HeadRows& to) {
  HWY_DYNAMIC_DISPATCH(sum_leaf)()(from, parts, stride, n, to);
}

int64_t backward_floats(int64_t size, int64_t v_size, int64_t queries, int64_t keys) {
  const CheckedSize ld = padded(size), v_ld = padded(v_size);
  const CheckedSize block = std::min(kBackwardBlock, padded(queries));
  return (padded(keys) * (3 * ld + 2 * v_ld) + block * (2 * ld + v_ld + 2 + 2 * kBackwardBlock)).value();
}

}  // namespace genesis::cpu
#endif
