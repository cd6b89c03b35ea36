// A parallel loop over memory that is read from end to end. Every thread takes a run of neighboring chunks, so that it reads few
// long streams, and then helps with the other runs. The result of a chunk must not depend on the thread that computes it.
#pragma once

#include <tbb/task_arena.h>

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "backends/cpu/parallel/parallel.h"

namespace genesis::cpu {

// The chunks [begin, end) of a run that no thread has taken yet.
struct alignas(64) ChunkRun {
  std::atomic<int64_t> begin{0};
  int64_t end = 0;
};

// Calls body(i) for every i in [0, count).
template <class Body>
void parallel_runs(int64_t count, const Body& body) {
  constexpr int kMaxRuns = 64;
  const int runs =
      static_cast<int>(std::min<int64_t>(count, std::min(kMaxRuns, tbb::this_task_arena::max_concurrency())));
  if (runs <= 1) {
    for (int64_t i = 0; i < count; ++i) body(i);
    return;
  }
  ChunkRun chunks[kMaxRuns];
  for (int r = 0; r < runs; ++r) {
    chunks[r].begin.store(count * r / runs, std::memory_order_relaxed);
    chunks[r].end = count * (r + 1) / runs;
  }
  // A thread begins with the same run in every call: in a sequence of products it finds its data in its caches.
  const auto work = [&] {
    const int own = std::max(0, tbb::this_task_arena::current_thread_index()) % runs;
    for (int r = 0; r < runs; ++r) {
      ChunkRun& run = chunks[(own + r) % runs];
      for (;;) {
        const int64_t chunk = run.begin.fetch_add(1, std::memory_order_relaxed);
        if (chunk >= run.end) break;
        body(chunk);
      }
    }
  };
  parallel_chunks(runs, [&](int64_t) { work(); });
}

}  // namespace genesis::cpu
