// Holds tensors by name: the inputs and the outputs of a run.
#pragma once

#include <map>
#include <string>

#include "schema/core/tensor.h"

namespace genesis {

// A std::map with errors for missing names. Reading a missing name is an Error that lists the names that exist. operator[] adds a
// missing name only while a caller builds the set; once the set is complete it throws too, so that a misspelled result name does
// not yield an empty tensor.
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

  // Marks the set as complete: from now on operator[] adds nothing. `missing` begins the message about a missing name, e.g.
  // "entry point 'loss' has no output".
  void complete(std::string missing) { missing_ = std::move(missing); }

 private:
  [[noreturn]] void fail_missing(const std::string& name) const;

  std::string missing_;  // empty while the set is being built
};

}  // namespace genesis
