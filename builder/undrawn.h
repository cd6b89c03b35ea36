// Parameters without values, for who gives all of them theirs at once: a model whose weights are read. Their shapes can then be
// compared with those of the weights before any memory is taken, however large a configuration says that they are.
#pragma once

namespace genesis::init {

// While it lives, parameters and buffers made on its thread are as with unset(), whatever their layers ask for.
class Undrawn {
 public:
  Undrawn();
  ~Undrawn();
  Undrawn(const Undrawn&) = delete;
  Undrawn& operator=(const Undrawn&) = delete;

  static bool here();  // whether one lives on this thread

 private:
  const bool before_;
};

}  // namespace genesis::init
