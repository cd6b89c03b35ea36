// The leaves of attention on the CPU: what one task computes, as plain data and functions chosen once for the
// CPU at hand. Used by kernels/nn/attention.cpp; those of decoding are in decode/. A leaf runs on one thread, in f32, within the scratch its
// *_floats() names; its result depends on nothing but its task.
#pragma once

#include <algorithm>
#include <cstdint>

#include "schema/core/dtype.h"

namespace genesis::cpu {

// Rows of one head: element (i, d) lies at data[i * stride + d].
struct HeadRows {
  std::byte* data = nullptr;
  DType dtype = DType::f32;
  int64_t stride = 0;  // elements

  HeadRows from(int64_t row) const {
    return {data + row * stride * static_cast<int64_t>(size_of(dtype)), dtype, stride};
  }
};

// One head's plane of the mask: element (i, j) lies at data[i * row_stride + j * key_stride]; null: no mask.
struct MaskPlane {
  const std::byte* data = nullptr;
  DType dtype = DType::boolean;
  int64_t row_stride = 0, key_stride = 0;  // elements; 0 where broadcast
};

// What a query sees.
struct Sight {
  int64_t keys = 0;  // that exist
  bool causal = false;
  int64_t offset = 0;  // causal: query i sees keys j <= i + offset
  int64_t window = 0;  // and j > i + offset - window; 0: all
  MaskPlane mask;
  const int64_t* starts = nullptr;  // query i sees keys j >= starts[i], which never fall; null: all

  // Keys [0, result) may be seen by queries up to `query`.
  int64_t end(int64_t query) const {
    if (!causal) return keys;
    const int64_t last = query + offset + 1;
    return last < 0 ? 0 : last < keys ? last : keys;
  }
  // Keys [0, result) are seen by none of the queries from `query` on.
  int64_t begin(int64_t query) const {
    int64_t first = window == 0 ? 0 : query + offset + 1 - window;
    if (starts && starts[query] > first) first = starts[query];
    return first < 0 ? 0 : first < keys ? first : keys;
  }
  // Queries [result, end) see none of keys [0, key].
  int64_t past(int64_t key, int64_t end) const {
    int64_t first = window == 0 ? end : key - offset + window;
    first = first > end ? end : first < 0 ? 0 : first;
    return starts ? std::upper_bound(starts, starts + first, key) - starts : first;
  }
};

// One query head and its key head.
struct AttentionHead {
  HeadRows q, k, v;
  int64_t size = 0, v_size = 0;  // of a row of q and k, and of v
  float scale = 1;
  Sight sight;
};

// y and lse of queries [first, first + count) of one head. lse may be null.
struct ForwardTask {
  AttentionHead head;
  HeadRows y;
  float* lse = nullptr;
  int64_t first = 0, count = 0;
};

// Contributions of keys [first, first + count) of one key head: dk and dv in full, summed over the `group`
// query heads that read it (`head`, y, dy, dq and lse are those of the first), and dq as far as these keys
// make it.
struct BackwardTask {
  AttentionHead head;
  HeadRows y, dy, dq, dk, dv;
  const float* lse = nullptr;
  int64_t queries = 0, group = 1;
  int64_t q_head_step = 0, y_head_step = 0,
          dq_head_step = 0;  // elements from one query head to the next; lse: `queries`
  int64_t mask_head_step = 0;
  int64_t first = 0, count = 0;
};

void run_leaf(const ForwardTask& task, float* scratch);
void run_leaf(const BackwardTask& task, float* scratch);

// What follows backward tasks that share a query: to[0..n) = the sum of `parts` rows `stride` floats apart,
// in order.
void sum_partials(const float* from, int64_t parts, int64_t stride, int64_t n, const HeadRows& to);

constexpr int64_t kForwardRows = 256;   // queries of a forward task at most
constexpr int64_t kBackwardKeys = 256;  // keys of a backward task at most
constexpr int64_t kForwardBlock = 128;  // keys that a forward task works on at a time
constexpr int64_t kBackwardBlock = 64;  // keys, and queries, that a backward task works on at a time

// Scratch of one leaf, in floats, for tasks of at most `queries` and `keys`.
int64_t forward_floats(int64_t size, int64_t v_size, int64_t queries, int64_t keys);
int64_t backward_floats(int64_t size, int64_t v_size, int64_t queries, int64_t keys);

// Rows of buffers are padded to a multiple of kRowPad, which every instruction set's register tile divides.
constexpr int64_t kRowPad = 32;
constexpr int64_t kMaxTileRows = 12;
constexpr int64_t padded(int64_t n) { return (n + kRowPad - 1) / kRowPad * kRowPad; }

}  // namespace genesis::cpu
