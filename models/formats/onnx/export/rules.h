// The ops that can be written as ONNX nodes, each translated by a rule. One file for each kind of op; a new op is one row of a table.
#pragma once

#include <string_view>
#include <vector>

#include "models/formats/onnx/export/emitter.h"

namespace genesis::models::onnx {

// One node of our graph while it is translated.
class Translation {
 public:
  // `product` has the inputs of the plain linear that input 0 is the result of, if no other node reads this.
  Translation(Emitter& emitter, const Graph& graph, const Node& node, std::vector<Out> inputs,
              std::vector<Out> product = {})
      : e(emitter), graph_(graph), node_(node), inputs_(std::move(inputs)), product_(std::move(product)) {}

  Emitter& e;

  template <class Op>
  Op as() const {
    return from_attributes<Op>(node_.attributes);
  }
  std::string_view op() const { return node_.op->name(); }
  size_t count() const { return inputs_.size(); }
  size_t results() const { return node_.outputs.size(); }
  const Out& in(size_t i = 0) const { return inputs_.at(i); }
  const std::vector<Out>& inputs() const { return inputs_; }
  const std::vector<Out>& product() const { return product_; }  // empty, or x, weight and perhaps bias
  const TensorType& type(size_t i = 0) const { return graph_.type(node_.inputs.at(i)); }
  const Shape& shape(size_t i = 0) const { return type(i).shape; }
  const TensorType& result(size_t i = 0) const { return graph_.type(node_.outputs.at(i)); }
  int64_t rank(size_t i = 0) const { return shape(i).rank(); }
  int64_t axis(int64_t given, size_t i = 0) const { return given < 0 ? given + rank(i) : given; }

  // Returns the input in the dtype in which an op computes that must not round to 16 bits on its way.
  Out wide(size_t i = 0) const { return e.cast(in(i), wide_dtype(i)); }
  DType wide_dtype(size_t i = 0) const {
    return in(i).dtype == DType::bf16 || in(i).dtype == DType::f16 ? DType::f32 : in(i).dtype;
  }

 private:
  const Graph& graph_;
  const Node& node_;
  std::vector<Out> inputs_, product_;
};

using Rule = std::vector<Out> (*)(Translation&);

struct OpRule {
  std::string_view name;  // the name of our op
  Rule translate;
};
using OpRules = std::vector<OpRule>;

const OpRules& elementwise_rules();
const OpRules& tensor_rules();
const OpRules& index_rules();
const OpRules& reduction_rules();
const OpRules& product_rules();
const OpRules& attention_rules_of_export();
const OpRules& recurrent_rules();

const OpRule* find_rule(std::string_view op);  // null if ONNX gets no such op

// For tables: a rule with one result.
template <Out (*translate)(Translation&)>
std::vector<Out> single(Translation& t) {
  return {translate(t)};
}

// Formulas that several rules need.
Out scaled_by(Emitter& e, const Out& x, double factor);  // x * factor
Out silu_of(Emitter& e, const Out& x);
Out rms_norm_of(Emitter& e, const Out& x, double eps, int64_t num_axes, const Out& weight);

}  // namespace genesis::models::onnx
