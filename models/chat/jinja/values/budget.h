// How much a template may ask for: templates come from folders that nobody vouches for.
#pragma once

#include <cstddef>
#include <cstdint>

#include "schema/core/error.h"

namespace genesis::jinja {

struct Limits {
  uint64_t steps = 40'000'000;            // evaluated expressions, and the work that they do: see Budget
  size_t text_bytes = size_t{16} << 20;   // of one text, the output among them
  size_t made_bytes = size_t{512} << 20;  // of all values that one rendering makes
  int depth = 500;  // of expressions and blocks inside each other, macros that call macros
};

// Approximate bytes that a text and an entry of a mapping take beside what they hold.
constexpr size_t kTextBytes = 80, kEntryBytes = 176;

// Counts what a rendering uses. Throws Error that names the limit once something is used up. Each operation charges its work
// before it does it. A step is some 50 ns.
class Budget {
 public:
  explicit Budget(const Limits& limits) : limits_(limits) {}

  void step() { work(1); }
  // Bytes that are copied or compared as a whole.
  void read(size_t bytes) { work(1 + bytes / 64); }
  // Bytes that are looked at character by character.
  void characters(size_t bytes) { work(1 + bytes / 4); }
  // A search for `what` bytes in a text of `bytes`, in time linear in both.
  void search(size_t bytes, size_t what) { work(1 + (bytes + what) / 8); }
  // Ahead of an allocation of a text of this size.
  void make(size_t bytes) {
    check_text(bytes);
    allocate(bytes);
    read(bytes);
  }
  // Ahead of a list of so many items; what the items hold is not counted.
  void make_items(size_t count) {
    allocate(count * kItemBytes);
    work(1 + count);
  }
  void make_entries(size_t count) {
    allocate(count * kEntryBytes);
    work(1 + 4 * count);
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
  static constexpr size_t kItemBytes = 32;

  void work(uint64_t steps) {
    steps_ += steps;
    if (steps_ > limits_.steps)
      fail("it takes more than {} steps, the limit of one rendering", limits_.steps);
  }
  void allocate(size_t bytes) {
    made_ += bytes;
    if (bytes > limits_.made_bytes || made_ > limits_.made_bytes)
      fail("it makes more than {} bytes of values, the limit of one rendering", limits_.made_bytes);
  }

  Limits limits_;
  uint64_t steps_ = 0;
  size_t made_ = 0;
  int depth_ = 0;
};

}  // namespace genesis::jinja
