// Tensors by name: what a run takes and what it gives. Used by Session, by sources of batches and by tools.
#pragma once

#include <map>
#include <string>

#include "schema/core/tensor.h"

namespace genesis {

// A std::map, but for names that are not there. To read one is an Error that lists the names there are, and
// so is operator[] once the set is complete: a result that is misspelt is not a tensor without data. As long
// as a caller builds a set, operator[] adds.
class NamedTensors : public std::map<std::string, Tensor> {
 public:
  using Map = std::map<std::string, Tensor>;
  using Map::Map;
  NamedTensors() = default;
  NamedTensors(Map tensors) : Map(std::move(tensors)) {}

  Tensor& operator[](const std::string& name);
  const Tensor& operator[](const std::string& name) const { return at(name); }
  Tensor& at(const std::string& name);
  const Tensor& at(const std::string& name) const;

  // From now on operator[] adds nothing. `missing` begins what is said of a name that is not there: "entry
  // point 'loss' has no output".
  void complete(std::string missing) { missing_ = std::move(missing); }

 private:
  [[noreturn]] void fail_missing(const std::string& name) const;

  std::string missing_;  // empty: the set is being built
};

}  // namespace genesis
