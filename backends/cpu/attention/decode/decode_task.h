// The leaf of attention with few queries, as plain data: what one task of attention_decode.cpp computes. Used by decode_way.cpp.
#pragma once

#include "backends/cpu/attention/attention_tasks.h"

namespace genesis::cpu {

// A few query rows against keys [first, first + count) of one key head: unnormalised sums, to be merged in
// order.
struct DecodeTask {
  AttentionHead head;              // of the first query head
  int64_t queries = 0, group = 1;  // rows: group * queries, head by head
  int64_t q_head_step = 0, mask_head_step = 0;
  int64_t first = 0, count = 0;
  float* partial = nullptr;  // per row: maximum (in base 2), sum, then v_size sums
};

void run_leaf(const DecodeTask& task, float* scratch);

// What follows decode tasks: `parts` partial results of one row, `stride` floats apart, merged in order into
// y. Returns the row's log-sum-exp. Writes over `partials`.
float merge_partials(float* partials, int64_t parts, int64_t stride, int64_t v_size, const HeadRows& y);

constexpr int64_t kDecodeKeys = 128;  // keys of a decode task at most
constexpr int64_t kDecodeRows = 16;   // query rows of a decode task at most

// Scratch of one leaf, in floats.
int64_t decode_floats(int64_t size, int64_t v_size);

}  // namespace genesis::cpu
