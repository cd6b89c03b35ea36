// How much a template may ask for: templates come from folders that nobody vouches for.
#pragma once

#include <cstddef>
#include <cstdint>

#include "schema/core/error.h"

namespace genesis::jinja {

struct Limits {
  uint64_t steps = 100'000'000;          // expressions evaluated, and 64 bytes looked at each count as one
  size_t text_bytes = size_t{64} << 20;  // of one text, the output among them
  size_t made_bytes = size_t{1} << 30;   // of all values that one rendering makes
  int depth = 500;  // of expressions and blocks inside each other, macros that call macros
};

// What is left of it. Throws Error once something is used up.
class Budget {
 public:
  explicit Budget(const Limits& limits) : limits_(limits) {}

  void step(size_t bytes_read = 0) {
    steps_ += 1 + bytes_read / 64;
    if (steps_ > limits_.steps) fail("it takes more than {} steps", limits_.steps);
  }
  // Ahead of an allocation of a text or a list of this size.
  void make(size_t bytes) {
    check_text(bytes);
    made_ += bytes;
    if (made_ > limits_.made_bytes) fail("it makes more than {} bytes of values", limits_.made_bytes);
  }
  void check_text(size_t bytes) const {
    if (bytes > limits_.text_bytes) fail("it makes a value of more than {} bytes", limits_.text_bytes);
  }

  // One level deeper, for as long as this lives.
  class Level {
   public:
    explicit Level(Budget& budget) : budget_(budget) {
      if (++budget_.depth_ > budget_.limits_.depth) {
        --budget_.depth_;
        fail("it nests more than {} deep", budget_.limits_.depth);
      }
    }
    ~Level() { --budget_.depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    Budget& budget_;
  };

 private:
  Limits limits_;
  uint64_t steps_ = 0;
  size_t made_ = 0;
  int depth_ = 0;
};

}  // namespace genesis::jinja
