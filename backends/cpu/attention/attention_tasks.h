// The leaves of attention on the CPU: plain data that describes what one task computes, and functions compiled per instruction
// set that compute it (those for decoding are in decode/). A leaf runs on one thread, in f32, in scratch memory of the size that
// its *_floats() returns; its result depends only on its task.
#pragma once

#include <algorithm>
#include <cstdint>

#include "schema/core/dtype.h"

namespace genesis::cpu {

// The rows of one head: element (i, d) lies at data[i * stride + d]. Rows of i8 are quants: the scale of row i lies at
// scales[i * scale_stride].
struct HeadRows {
  std::byte* data = nullptr;
  DType dtype = DType::f32;
  int64_t stride = 0;  // elements
  const float* scales = nullptr;
  int64_t scale_stride = 0;

  HeadRows from(int64_t row) const {
    HeadRows rest = *this;
    rest.data += row * stride * static_cast<int64_t>(size_of(dtype));
    rest.scales += row * scale_stride;
    return rest;
  }
};

// One head's plane of the mask: element (i, j) lies at data[i * row_stride + j * key_stride]; data is null if there is no mask.
struct MaskPlane {
  const std::byte* data = nullptr;
  DType dtype = DType::boolean;
  int64_t row_stride = 0, key_stride = 0;  // elements; 0 where broadcast
};

// The keys that each query sees.
struct VisibleKeys {
  int64_t keys = 0;  // number of keys
  bool causal = false;
  int64_t offset = 0;  // if causal, query i sees keys j <= i + offset
  int64_t window = 0;  // and only keys j > i + offset - window; 0 = no window
  MaskPlane mask;
  const int64_t* starts = nullptr;  // query i sees keys j >= starts[i], which never decrease; or null

  // Returns the end of the keys [0, end) that queries up to `query` may see.
  int64_t end(int64_t query) const {
    if (!causal) return keys;
    const int64_t last = query + offset + 1;
    return last < 0 ? 0 : last < keys ? last : keys;
  }
  // Returns the first key that any query from `query` on may see: none of them sees keys [0, result).
  int64_t begin(int64_t query) const {
    int64_t first = window == 0 ? 0 : query + offset + 1 - window;
    if (starts && starts[query] > first) first = starts[query];
    return first < 0 ? 0 : first < keys ? first : keys;
  }
  // Returns the first query q such that queries [q, end) see none of the keys [0, key].
  int64_t past(int64_t key, int64_t end) const {
    int64_t first = window == 0 ? end : key - offset + window;
    first = first > end ? end : first < 0 ? 0 : first;
    return starts ? std::upper_bound(starts, starts + first, key) - starts : first;
  }
};

// One query head with its key and value head.
struct AttentionHead {
  HeadRows q, k, v;
  int64_t size = 0, v_size = 0;  // elements of a row of q and k, and of a row of v
  float scale = 1;
  VisibleKeys visible;
};

// A task that computes y and lse of queries [first, first + count) of one head. lse may be null.
struct ForwardTask {
  AttentionHead head;
  HeadRows y;
  float* lse = nullptr;
  int64_t first = 0, count = 0;
};

// A task that computes the contributions of keys [first, first + count) of one key head: dk and dv completely, summed over the
// `group` query heads that read it (`head`, y, dy, dq and lse are those of the first one), and the share of dq that comes from
// these keys.
struct BackwardTask {
  AttentionHead head;
  HeadRows y, dy, dq, dk, dv;
  const float* lse = nullptr;
  int64_t queries = 0, group = 1;
  int64_t q_head_step = 0, y_head_step = 0,
          dq_head_step = 0;  // elements from one query head to the next; for lse it is `queries`
  int64_t mask_head_step = 0;
  int64_t first = 0, count = 0;
};

void run_leaf(const ForwardTask& task, float* scratch);
void run_leaf(const BackwardTask& task, float* scratch);

// Sums the shares of dq that several backward tasks left for the same query: to[0..n) = the sum of `parts` rows that lie `stride`
// floats apart, added in order.
void sum_partials(const float* from, int64_t parts, int64_t stride, int64_t n, const HeadRows& to);

constexpr int64_t kForwardRows = 256;   // maximum number of queries of a forward task
constexpr int64_t kBackwardKeys = 256;  // maximum number of keys of a backward task
constexpr int64_t kForwardBlock = 128;  // keys that a forward task processes at a time
constexpr int64_t kBackwardBlock = 64;  // keys and queries that a backward task processes at a time

// Returns the size of the scratch memory of one leaf, in floats, for tasks of at most `queries` and `keys`.
int64_t forward_floats(int64_t size, int64_t v_size, int64_t queries, int64_t keys);
int64_t backward_floats(int64_t size, int64_t v_size, int64_t queries, int64_t keys);

// Rows of buffers are padded to a multiple of kRowPad, a multiple of the width of every instruction set's register tile.
constexpr int64_t kRowPad = 32;
constexpr int64_t kMaxTileRows = 12;
constexpr int64_t padded(int64_t n) { return (n + kRowPad - 1) / kRowPad * kRowPad; }

}  // namespace genesis::cpu
