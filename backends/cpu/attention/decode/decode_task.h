// The decode leaf of attention, as plain data: what one task of attention_decode.cpp computes.
#pragma once

#include "backends/cpu/attention/attention_tasks.h"

namespace genesis::cpu {

// A task that attends a few query rows to keys [first, first + count) of one key head. The result is unnormalized sums that are
// merged in order later.
struct DecodeTask {
  AttentionHead head;              // the first query head
  int64_t queries = 0, group = 1;  // the task has group * queries rows, head by head
  int64_t q_head_step = 0, mask_head_step = 0;
  int64_t first = 0, count = 0;
  float* partial = nullptr;  // per row: maximum (in base 2), sum of weights, v_size weighted sums
};

void run_leaf(const DecodeTask& task, float* scratch);

// Merges `parts` partial results of one row, `stride` floats apart, in order into y. Returns the row's log-sum-exp. Overwrites
// `partials`.
float merge_partials(float* partials, int64_t parts, int64_t stride, int64_t v_size, const HeadRows& y);

constexpr int64_t kDecodeKeys = 128;  // maximum number of keys of a decode task
constexpr int64_t kDecodeRows = 16;   // maximum number of query rows of a decode task

// Returns the size of the scratch memory of one leaf, in floats.
int64_t decode_floats(int64_t size, int64_t v_size);

}  // namespace genesis::cpu
