// Limits the resources of a rendering: templates come from untrusted folders.
#pragma once

#include <cstddef>
#include <cstdint>

#include "schema/core/error.h"

namespace genesis::jinja {

struct Limits {
  uint64_t steps = 40'000'000;            // evaluated expressions, and the work that they do: see Budget
  size_t text_bytes = size_t{16} << 20;   // size of one text, including the output
  size_t made_bytes = size_t{512} << 20;  // total of all values that one rendering makes
  int depth = 500;                        // nesting of expressions, blocks and macro calls
};

// Approximate overhead in bytes of a text, and of an entry of a mapping.
constexpr size_t kTextBytes = 80, kEntryBytes = 176;

// Counts the resources that a rendering uses. Throws Error that names the limit once one is exceeded. Each operation charges its
// work before it does it. A step is about 50 ns.
class Budget {
 public:
  explicit Budget(const Limits& limits) : limits_(limits) {}

  void step() { work(1); }
  // Charges bytes that are copied or compared in bulk.
  void read(size_t bytes) { work(1 + bytes / 64); }
  // Charges bytes that are processed character by character.
  void characters(size_t bytes) { work(1 + bytes / 4); }
  // Charges a search for `what` bytes in a text of `bytes`, which is linear in both.
  void search(size_t bytes, size_t what) { work(1 + (bytes + what) / 8); }
  // Charges the allocation of a text of this size.
  void make(size_t bytes) {
    check_text(bytes);
    allocate(bytes);
    read(bytes);
  }
  // Charges the allocation of a list of `count` items, without their contents.
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

  // Counts one more level of nesting during its lifetime.
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
