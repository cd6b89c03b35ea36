// A training in f16 whose gradients overflow in every step at any loss scale, because the weight itself is too large.
#pragma once

#include "executor/training/batch_source.h"
#include "passes/training/train_step.h"
#include "schema/graph/text.h"

namespace genesis::testing {

inline std::shared_ptr<Model> overflowing_f16_model() {
  const std::shared_ptr<Model> model = parse_text(R"(
state @w: f32[2,2] parameter trainable = (100000.0, 1.0, 1.0, 1.0)
entry loss(x: f32[3,2]) {
  %h = linear(x, @w)
  %q = mul(%h, %h)
  %loss = mean(%q)
  return loss = %loss
}
)");
  passes::add_train_step(*model, passes::parse_train_options("adamw,precision=f16"));
  return model;
}

// Equal batches for this model.
class ThreeRows final : public BatchSource {
 public:
  NamedTensors batch(int64_t) override { return {{"x", Tensor::of<float>({3, 2}, {1, 2, 3, 4, 5, 6})}}; }
  int64_t items_per_batch() const override { return 3; }
};

}  // namespace genesis::testing
