// Creates parameters without values, for callers that set all of them at once, such as a reader of weights. The shapes can then
// be compared with those of the weights before any memory is taken, however large the configuration claims they are.
#pragma once

namespace genesis::init {

// While it lives, parameters and buffers created on its thread are as with unset(), whatever their layers ask for.
class SkipInit {
 public:
  SkipInit();
  ~SkipInit();
  SkipInit(const SkipInit&) = delete;
  SkipInit& operator=(const SkipInit&) = delete;

  static bool is_active();  // true if this thread has a live SkipInit

 private:
  const bool before_;
};

}  // namespace genesis::init
