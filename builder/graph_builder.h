// GraphBuilder, with which an author writes one entry point of a model. Ops are functions of Values, as in torch; functions that
// take no Value take the GraphBuilder, or are its members:
//
//     GraphBuilder g(model, "loss", Mode::kTrain);
//     Value x = g.input("x", DType::f32, {batch, 784});
//     g.output("loss", cross_entropy(net(x), g.input("target", DType::i64, {batch})));
//     g.output("masked", where(x > 0.5, x, g.zeros({784})));
#pragma once

#include "builder/scope.h"
#include "schema/ops/create.h"

namespace genesis {

enum class Mode : uint8_t { kEval, kTrain };  // selects the behavior of dropout and batch norm

// Returns a symbolic size, whose value is known when the model runs:
//
//     const Dim time = symbol("time");
inline Dim symbol(const std::string& name) { return Dim::symbol(name); }

class GraphBuilder {
 public:
  GraphBuilder(Model& model, const std::string& entry, Mode mode = Mode::kEval);

  Graph& graph() const { return *graph_; }
  operator Graph&() const { return *graph_; }  // so that zeros(g, {2, 3}) takes the builder
  Model& model() const { return graph_->model(); }
  Value input(const std::string& name, DType dtype, Shape shape) {
    return graph_->add_input(name, {dtype, std::move(shape)});
  }
  Value constant(const std::string& name, const Tensor& tensor);
  Value state(const std::string& name);  // by its full name; throws Error if there is none
  Value value(Parameter parameter) { return parameter.in(*graph_); }
  void output(const std::string& name, Value value) { graph_->add_output(name, value); }
  void update(Parameter parameter, Value value) { graph_->add_update(parameter.index, value); }

  // Create tensors as the functions of torch do: g.zeros({2, 3}). Sizes may be symbolic.
  Value zeros(Shape shape, DType dtype = DType::f32) const {
    return genesis::zeros(*graph_, std::move(shape), dtype);
  }
  Value ones(Shape shape, DType dtype = DType::f32) const {
    return genesis::ones(*graph_, std::move(shape), dtype);
  }
  Value full(Shape shape, Scalar value, DType dtype = DType::f32) const {
    return genesis::full(*graph_, std::move(shape), value, dtype);
  }
  // Returns 0, 1, ..., end - 1, or start, start + step, ... up to, but without, `end`. Throws Error if step is 0, or if it is not
  // 1 and `end` is symbolic.
  Value arange(Dim end, DType dtype = DType::i64) const;
  Value arange(int64_t start, Dim end, int64_t step = 1, DType dtype = DType::i64) const;
  // Returns `steps` numbers from start to end, both included.
  Value linspace(double start, double end, int64_t steps, DType dtype = DType::f32) const;
  Value eye(int64_t size, DType dtype = DType::f32) const;  // the identity matrix [size, size]

  // Draw random numbers: uniform in [0, 1), standard normal, integers in [low, high). A training step draws new ones in every
  // step; any other entry point draws the same in each run, unless it has update(rng, rng_next(rng)) with rng = rng().
  Value rand(Shape shape, DType dtype = DType::f32);
  Value randn(Shape shape, DType dtype = DType::f32);
  Value randint(Shape shape, int64_t low, int64_t high, DType dtype = DType::i64);
  // The model's random number state, which layers share. If the model has none yet, it gets one with the seed 0.
  Parameter rng();

 private:
  Graph* graph_;
};

// The members as functions, with torch's arguments. (With a Graph, arange() takes a length.)
inline Value arange(const GraphBuilder& g, Dim end, DType dtype = DType::i64) {
  return g.arange(std::move(end), dtype);
}
inline Value arange(const GraphBuilder& g, int64_t start, Dim end, int64_t step = 1,
                    DType dtype = DType::i64) {
  return g.arange(start, std::move(end), step, dtype);
}
inline Value linspace(const GraphBuilder& g, double start, double end, int64_t steps,
                      DType dtype = DType::f32) {
  return g.linspace(start, end, steps, dtype);
}
inline Value eye(const GraphBuilder& g, int64_t size, DType dtype = DType::f32) { return g.eye(size, dtype); }
inline Value rand(GraphBuilder& g, Shape shape, DType dtype = DType::f32) {
  return g.rand(std::move(shape), dtype);
}
inline Value randn(GraphBuilder& g, Shape shape, DType dtype = DType::f32) {
  return g.randn(std::move(shape), dtype);
}
inline Value randint(GraphBuilder& g, Shape shape, int64_t low, int64_t high, DType dtype = DType::i64) {
  return g.randint(std::move(shape), low, high, dtype);
}

}  // namespace genesis
