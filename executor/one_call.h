// Guards an object that only one thread at a time may use: a call that begins while another one runs gets an Error instead of a
// crash.
#pragma once

#include <atomic>

#include "schema/core/error.h"

namespace genesis {

// Marks the object as busy during one call. Memory effects of one call are visible to the next, so different threads may call in
// turn.
class OneCall {
 public:
  explicit OneCall(std::atomic<bool>& busy) : busy_(busy) {
    if (busy.exchange(true, std::memory_order_acquire))
      fail(
          "the Session is at work on another call: a Session is for one thread at a time, and a callback of "
          "its run may not call it; give every thread a Session of its own (they may share the model), or "
          "end one call before the next");
  }
  ~OneCall() { busy_.store(false, std::memory_order_release); }
  OneCall(const OneCall&) = delete;
  OneCall& operator=(const OneCall&) = delete;

 private:
  std::atomic<bool>& busy_;
};

}  // namespace genesis
