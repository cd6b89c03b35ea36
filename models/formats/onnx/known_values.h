// Finds out what values of a graph are before it runs, as far as they follow from constants and sizes: foreign programs compute the
// sizes they reshape to with nodes of the graph. Symbolic sizes stay symbolic.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "schema/core/tensor.h"
#include "schema/graph/graph.h"

namespace genesis::models::onnx {

// The elements of a small tensor of integers, row-major.
struct KnownSizes {
  std::vector<int64_t> shape;
  std::vector<Dim> elements;
};

// An integer that depends on data, as the sum of a value and a number, and at most a limit.
struct Shifted {
  ValueId base;
  int64_t offset = 0;
  std::optional<int64_t> limit = {};
};

class KnownValues {
 public:
  // Returns the elements of an integer tensor, or of reals that are whole; nothing if they depend on data of inputs, or are
  // no polynomials of symbols. Weights count with the values in the file.
  std::optional<KnownSizes> sizes(Value value);
  // Returns a tensor that depends on constants and weights alone, which is computed by running that part of the graph on the CPU.
  std::optional<Tensor> tensor(Value value);
  // Returns the names of the inputs and states that a value depends on.
  std::vector<std::string> sources(Value value) const;
  // Returns what an integer of one element is, up to sums with numbers and a minimum with one. Reals that hold integers count as these.
  Shifted shifted(Value value);
  // Returns true if the value is computed from the result of a loop whose number of steps depends on data.
  bool follows_loop(Value value) const;

 private:
  std::optional<KnownSizes> compute(Value value);

  std::map<int32_t, std::optional<KnownSizes>> sizes_;  // by value
  std::map<int32_t, std::optional<Tensor>> tensors_;
  int depth_ = 0;  // nodes being followed, one behind another
};

// Adds the elements to the graph as a value of the dtype: a constant, or sizes joined.
Value value_of_sizes(Graph& graph, const KnownSizes& sizes, DType dtype);

}  // namespace genesis::models::onnx
