// Damages files and records at random, reproducibly by a seed. The mutation tests and the fuzzer's corpus use it.
#pragma once

#include <random>
#include <span>
#include <string>

#include "schema/file/format/records.h"

namespace genesis::testing {

class Mutator {
 public:
  explicit Mutator(uint64_t seed) : random_(seed) {}
  // Takes its choices from these bytes while they last, and then from a seed. A fuzzer changes the bytes.
  explicit Mutator(std::span<const uint8_t> choices) : choices_(choices) {}

  void damage_in_place(std::string& bytes);  // flips or overwrites a few bytes
  void damage(std::string& bytes);  // does the same, or inserts, removes, repeats or cuts off some bytes
  // Changes one field of the records to a value that is wrong, extreme, or merely different.
  void damage(file::ModelRecord& record);
  // Returns a value similar to `like` or of another kind, often extreme.
  AttrValue attribute(const AttrValue& like);

  uint64_t below(uint64_t limit) { return limit == 0 ? 0 : next(limit) % limit; }
  bool chance(uint64_t one_in) { return below(one_in) == 0; }
  int64_t number();  // small, extreme or random
  Shape shape();
  TensorType type();

 private:
  void damage(file::EntryRecord& entry);
  void damage(file::NodeRecord& node);
  void damage(file::TensorRecord& tensor);
  uint64_t next(uint64_t limit = 0);  // a number below `limit`; 0: any 64 bits
  int32_t index() { return static_cast<int32_t>(number()); }
  std::string text();
  template <class T>
  void shuffle_list(std::vector<T>& items);

  std::mt19937_64 random_;
  std::span<const uint8_t> choices_;
};

}  // namespace genesis::testing
