#include "builder/graph_builder.h"

#include "schema/graph/inactive_layers.h"
#include "schema/graph/model.h"
#include "schema/ops/tensor/random.h"

namespace genesis {

GraphBuilder::GraphBuilder(Model& model, const std::string& entry, Mode mode)
    : graph_(&model.add_entry(entry)) {
  graph_->set_training(mode == Mode::kTrain);
  forget_inactive_layers(model, entry);
}

Value GraphBuilder::constant(const std::string& name, const Tensor& tensor) {
  return graph_->constant(model().add_tensor(name, tensor));
}

Value GraphBuilder::state(const std::string& name) {
  const int32_t index = model().find_state(name);
  if (index < 0) fail_no_state(model(), name);
  return graph_->state(index);
}

Value GraphBuilder::arange(Dim end, DType dtype) const { return arange(0, std::move(end), 1, dtype); }

Value GraphBuilder::arange(int64_t start, Dim end, int64_t step, DType dtype) const {
  if (step == 0) fail("arange with step 0: give a positive or negative step");
  Dim length = end - Dim(start);
  if (step != 1) {
    if (!end.is_constant())
      fail("arange from {} to {} with step {}: a symbolic end takes step 1 only", start, end.to_string(),
           step);
    const int64_t distance = step < 0 ? start - end.value() : end.value() - start;
    const int64_t stride = step < 0 ? -step : step;
    length = Dim((distance + stride - 1) / stride);
  }
  if (length.is_constant() && length.value() < 0) length = Dim(0);
  return genesis::arange(*graph_, std::move(length), start, step, dtype);
}

Value GraphBuilder::linspace(double start, double end, int64_t steps, DType dtype) const {
  if (steps < 1) fail("linspace was asked for {} numbers: give a positive number", steps);
  const double step = steps == 1 ? 0 : (end - start) / static_cast<double>(steps - 1);
  return genesis::arange(*graph_, steps, start, step, dtype);
}

Value GraphBuilder::eye(int64_t size, DType dtype) const { return one_hot(arange(size), size, dtype); }

Parameter GraphBuilder::rng() { return Scope(model()).rng(); }

Value GraphBuilder::rand(Shape shape, DType dtype) {
  return genesis::rand(value(rng()), std::move(shape), dtype);
}

Value GraphBuilder::randn(Shape shape, DType dtype) {
  return genesis::randn(value(rng()), std::move(shape), dtype);
}

Value GraphBuilder::randint(Shape shape, int64_t low, int64_t high, DType dtype) {
  return genesis::randint(value(rng()), std::move(shape), low, high, dtype);
}

}  // namespace genesis
