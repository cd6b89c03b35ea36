// Rewrites one entry point so that it computes in bf16 or f16, by the precision class each op declares
// (schema/graph/op.h). Used by cast_precision (inference: the weights themselves are low) and mixed_precision
// (training: the weights stay f32 and are cast once per run).
//
// What a value is decides how ops that follow their inputs treat it:
//   low        made by an op that ran low;
//   parameter  a trained weight of f32: low for whoever reads it in low precision;
//   free       f32 made from nothing (constants, positions, masks over them): takes the precision it meets;
//   firm       f32 that must stay: inputs, other states, what ops of class kF32 give (losses, sums), and constants beyond
//              the range of f16.
// An op that follows runs in f32 where one of its inputs is firm, else low where one is low or a parameter.
// Single numbers keep their precision: they steer a computation and cost nothing.
#pragma once

#include <string>
#include <vector>

#include "schema/core/tensor.h"
#include "schema/graph/graph.h"

namespace genesis::passes {

class PrecisionCaster {
 public:
  // `into` is an empty graph of a model whose tables have the indices of those of `from`'s model; their f32
  // rows may be low there. Nodes whose name, or the name of an author's node they came from, matches one of
  // `keep_f32` (* any text, ? any character) compute in f32; others read their results low.
  PrecisionCaster(const Graph& from, Graph& into, DType low, const std::vector<std::string>& keep_f32);

  void run();

 private:
  enum class Kind : uint8_t { kLow, kParameter, kFree, kFirm };
  struct Mapped {
    Value value;  // as it is made
    Value other;  // cast to the other precision, once somebody asked for it
    Kind kind = Kind::kFree;
  };

  void map_table_value(ValueId id);
  void copy(const Node& node);
  // Whether the node runs in f32 rather than low precision.
  bool runs_wide(const Node& node) const;
  bool any_input(const Node& node, Kind kind) const;
  Kind kind_of_result(const Node& node, bool wide, bool kept) const;
  std::vector<Value> operands(const Node& node, bool wide);
  // A norm's weight is read as it is where the result's type does not depend on it.
  bool reads_parameters_as_they_are(const Node& node) const;
  Value in_dtype(ValueId id, DType dtype);

  Mapped& at(ValueId id) { return values_[static_cast<size_t>(id.index)]; }
  const Mapped& at(ValueId id) const { return values_[static_cast<size_t>(id.index)]; }
  bool is_real(ValueId id) const { return from_.type(id).dtype == DType::f32; }
  bool is_tensor(ValueId id) const { return is_real(id) && from_.type(id).shape.rank() > 0; }

  const Graph& from_;
  Graph& into_;
  const DType low_;
  const std::vector<std::string>& keep_f32_;
  std::vector<Mapped> values_;  // by value of from_
};

// Whether a constant would lose numbers to infinities.
bool stays_f32(const Tensor& constant, DType low);
// Whether the patterns name the node or one it came from.
bool keeps_f32(const Node& node, const std::vector<std::string>& patterns);

}  // namespace genesis::passes
