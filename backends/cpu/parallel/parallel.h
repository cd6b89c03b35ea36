// Parallel loops over TBB. Results never depend on the number of threads, because the result of an index must not depend on how
// indices are grouped into tasks. Small work runs on the calling thread without touching TBB.
#pragma once

#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>
#include <tbb/partitioner.h>

#include <algorithm>
#include <cstdint>

#include "backends/cpu/parallel/work_trace.h"
#include "schema/core/task_edges.h"

namespace genesis::cpu {

inline constexpr int64_t kInlineBytes = 64 << 10;  // one thread moves this much before others wake up

// Calls body(first, last) on disjoint ranges of [0, count), in parallel. A range of more than `grain` indices may be halved.
template <class Body>
void parallel_ranges(int64_t count, int64_t grain, const Body& body) {
  if (count <= 0) return;
  if (count <= grain) return body(int64_t{0}, count);
  TaskEdges edges;
  tbb::parallel_for(tbb::blocked_range<int64_t>(0, count, static_cast<size_t>(grain)),
                    edges.around(traced([&](const tbb::blocked_range<int64_t>& range) {
                      body(range.begin(), range.end());
                    })));
}

// Calls body(first, last) on ranges of rows of which each moves `row_bytes`; ranges of up to kInlineBytes are not split.
template <class Body>
void parallel_rows(int64_t rows, int64_t row_bytes, const Body& body) {
  parallel_ranges(rows, std::max<int64_t>(1, kInlineBytes / std::max<int64_t>(1, row_bytes)), body);
}

// Calls body(i) for every i in [0, count), each as its own task.
template <class Body>
void parallel_chunks(int64_t count, const Body& body) {
  if (count == 1) return body(int64_t{0});
  TaskEdges edges;
  tbb::parallel_for(tbb::blocked_range<int64_t>(0, count),
                    edges.around(traced([&](const tbb::blocked_range<int64_t>& range) {
                      for (int64_t i = range.begin(); i < range.end(); ++i) body(i);
                    })),
                    tbb::simple_partitioner());
}

}  // namespace genesis::cpu
