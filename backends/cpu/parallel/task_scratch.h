// Scratch memory for the tasks of one parallel loop: at most kMax equal buffers that running tasks hold in turn. So memory is
// bounded for any number of tasks, and a thread usually gets the buffer that is still in its cache. Tasks must not wait for one
// another, and a result must not depend on which buffer its task gets.
#pragma once

#include <tbb/task_arena.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <thread>

#include "schema/core/checked_size.h"

namespace genesis::cpu {

class TaskScratch {
 public:
  static constexpr int64_t kMax = 32;

  static int64_t count_for(int64_t tasks) { return std::clamp<int64_t>(tasks, 1, kMax); }
  static int64_t bytes_for(int64_t tasks, int64_t bytes_each) {
    return (CheckedSize(bytes_each).rounded_up(64) * count_for(tasks) + kHead).value();
  }

  // `memory` has bytes_for(tasks, bytes_each) bytes and is aligned to 64.
  TaskScratch(std::byte* memory, int64_t tasks, int64_t bytes_each)
      : busy_(reinterpret_cast<std::atomic<bool>*>(memory)),
        buffers_(memory + kHead),
        count_(count_for(tasks)),
        stride_(rounded(bytes_each)) {
    for (int64_t i = 0; i < count_; ++i) new (busy_ + i) std::atomic<bool>(false);
  }

  // Calls body(buffer) with a buffer that no other task uses during the call.
  template <class Body>
  void with(Body&& body) {
    int64_t i = std::max(0, tbb::this_task_arena::current_thread_index()) % count_;
    while (busy_[i].exchange(true, std::memory_order_acquire)) {
      i = (i + 1) % count_;
      if (i == 0) std::this_thread::yield();
    }
    body(buffers_ + i * stride_);
    busy_[i].store(false, std::memory_order_release);
  }

 private:
  static constexpr int64_t kHead = 64;
  static_assert(kMax <= kHead && sizeof(std::atomic<bool>) == 1);
  static constexpr int64_t rounded(int64_t bytes) { return (bytes + 63) / 64 * 64; }

  std::atomic<bool>* busy_;
  std::byte* buffers_;
  int64_t count_, stride_;
};

}  // namespace genesis::cpu
