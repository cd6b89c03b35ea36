// Lets a tool see how far the drawing of initial values has come while a model is built, which takes a minute for some
// billions of them. Used by genesis-build.
#pragma once

#include "schema/messages/progress.h"

namespace genesis::init {

// While it lives, `progress` hears of the parameters drawn on the thread that made it: bytes so far, no total.
class Watcher {
 public:
  explicit Watcher(OnProgress progress);
  ~Watcher();
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

  static void add(uint64_t bytes);  // one more tensor is ready; nothing where nobody watches

 private:
  OnProgress progress_;
  uint64_t bytes_ = 0;
};

}  // namespace genesis::init
