// GraphBuilder, with which an author writes one entry point of a model:
//
//     GraphBuilder g(model, "loss", Mode::kTrain);
//     Value x = g.input("x", DType::f32, {batch, 784});
//     g.output("loss", cross_entropy(net(x), g.input("target", DType::i64, {batch})));
#pragma once

#include "builder/scope.h"

namespace genesis {

enum class Mode : uint8_t { kEval, kTrain };  // selects the behavior of dropout and batch norm

// Returns a symbolic size: `const Dim batch = symbol("batch");`
inline Dim symbol(const std::string& name) { return Dim::symbol(name); }

class GraphBuilder {
 public:
  GraphBuilder(Model& model, const std::string& entry, Mode mode = Mode::kEval);

  Graph& graph() const { return *graph_; }
  Model& model() const { return graph_->model(); }
  Value input(const std::string& name, DType dtype, Shape shape) {
    return graph_->add_input(name, {dtype, std::move(shape)});
  }
  Value constant(const std::string& name, const Tensor& tensor);
  Value state(const std::string& name);  // by its full name; throws Error if there is none
  Value value(Parameter parameter) { return parameter.in(*graph_); }
  void output(const std::string& name, Value value) { graph_->add_output(name, value); }
  void update(Parameter parameter, Value value) { graph_->add_update(parameter.index, value); }

 private:
  Graph* graph_;
};

}  // namespace genesis
