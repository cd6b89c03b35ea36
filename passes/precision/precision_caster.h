// Rewrites one entry point so that it computes in bf16 or f16, by the precision class that each op declares
// (schema/graph/op.h): for inference, where the weights themselves are low, and for training, where the weights stay f32 and
// are cast once per run.
//
// The kind of a value decides how ops of class kFollow treat it:
//   low        the result of an op that ran in low precision;
//   parameter  a trained f32 weight: readers in low precision get it cast;
//   free       f32 made from nothing (constants, positions, masks over them): takes the precision of the values it meets;
//   firm       f32 that must stay: inputs, other states, results of class kF32 (losses, sums), constants beyond f16's range.
// Such an op runs in f32 if one of its inputs is firm, else in low precision if one of them is low or a parameter.
// Single numbers keep their precision: they steer a computation and cost nothing.
#pragma once

#include <string>
#include <vector>

#include "schema/core/tensor.h"
#include "schema/graph/graph.h"

namespace genesis::passes {

class PrecisionCaster {
 public:
  // `into` is an empty graph of a model whose tables have the same indices as those of `from`'s model; its f32 rows may be low
  // there. Nodes compute in f32 if their name, or one of their origins, matches one of `keep_f32` (* any text, ? any
  // character); other nodes read their results in low precision.
  PrecisionCaster(const Graph& from, Graph& into, DType low, const std::vector<std::string>& keep_f32);

  void run();

 private:
  enum class Kind : uint8_t { kLow, kParameter, kFree, kFirm };
  struct Mapped {
    Value value;  // the result of its node
    Value other;  // cast to the other precision, at the first request
    Kind kind = Kind::kFree;
  };

  void map_table_value(ValueId id);
  void copy(const Node& node);
  // Returns whether the node runs in f32 instead of low precision.
  bool runs_wide(const Node& node) const;
  bool any_input(const Node& node, Kind kind) const;
  Kind kind_of_result(const Node& node, bool wide, bool kept) const;
  std::vector<Value> operands(const Node& node, bool wide);
  // Returns whether the node can read parameters uncast, because the type of its result does not depend on theirs, as with the
  // weight of a norm.
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
  std::vector<Mapped> values_;  // by value id of from_
};

// Returns whether values of the constant would become infinite in `low`.
bool stays_f32(const Tensor& constant, DType low);
// Returns whether the patterns match the node's name or one of its origins.
bool keeps_f32(const Node& node, const std::vector<std::string>& patterns);

}  // namespace genesis::passes
