// Reports progress while a model's initial values are drawn: for some billions of parameters this takes a minute.
#pragma once

#include "schema/messages/progress.h"

namespace genesis::init {

// While it lives, calls `progress` after each parameter drawn on the thread that created it, with the bytes drawn so far and a
// total of 0 (unknown).
class Watcher {
 public:
  explicit Watcher(OnProgress progress);
  ~Watcher();
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

  static void add(uint64_t bytes);  // one more tensor is ready; does nothing if this thread has no Watcher

 private:
  OnProgress progress_;
  uint64_t bytes_ = 0;
};

}  // namespace genesis::init
