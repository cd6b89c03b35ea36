// Damages files and records at random, the same way for the same seed: what the mutation tests and the corpus
// of the fuzzer are made with.
#pragma once

#include <random>
#include <span>
#include <string>

#include "schema/file/format/records.h"

namespace genesis::testing {

class Mutator {
 public:
  explicit Mutator(uint64_t seed) : random_(seed) {}
  // Chooses by these bytes as long as they last, then as by a seed: what a fuzzer changes.
  explicit Mutator(std::span<const uint8_t> choices) : choices_(choices) {}

  void damage_in_place(std::string& bytes);  // flips or overwrites a few bytes
  void damage(std::string& bytes);           // that, or inserts, removes, repeats or cuts off some
  // Changes one thing the records say, to a value that is wrong, extreme, or merely different.
  void damage(file::ModelRecord& record);
  // A value like this one or of another kind, often extreme.
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
  uint64_t next(uint64_t limit = 0);  // for numbers below `limit`; 0: any 64 bits
  int32_t index() { return static_cast<int32_t>(number()); }
  std::string text();
  template <class T>
  void shuffle_list(std::vector<T>& items);

  std::mt19937_64 random_;
  std::span<const uint8_t> choices_;
};

}  // namespace genesis::testing
