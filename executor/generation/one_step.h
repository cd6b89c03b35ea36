// Keeps callbacks from stepping the engine that has called them (executor/generation/engine.h).
#pragma once

#include "schema/core/error.h"

namespace genesis::generation {

// Marks the engine as busy during a step.
class OneStep {
 public:
  explicit OneStep(bool& busy) : busy_(busy) {
    if (busy)
      fail("a callback has called step() or clear() of its engine: call them when step() has returned");
    busy = true;
  }
  ~OneStep() { busy_ = false; }
  OneStep(const OneStep&) = delete;
  OneStep& operator=(const OneStep&) = delete;

 private:
  bool& busy_;
};

}  // namespace genesis::generation
