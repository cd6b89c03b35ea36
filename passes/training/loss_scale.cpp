#include "passes/training/loss_scale.h"

#include <limits>

#include "schema/ops/elementwise/cast.h"
#include "schema/ops/elementwise/elementwise.h"

namespace genesis::passes {
namespace {

constexpr double kGrowth = 2, kBackoff = 0.5;

int32_t add_state(Model& model, const char* name, TensorType type, Tensor initial = {}) {
  return model.add_state({.name = name,
                          .type = std::move(type),
                          .role = StateRole::kOptimizer,
                          .trainable = false,
                          .initial = std::move(initial)});
}

}  // namespace

LossScale::LossScale(Model& model, Graph& graph, const TrainOptions& options)
    : scale_state_(add_state(model, "optimizer.loss_scale", {DType::f32, {}},
                             Tensor::of<float>({}, {static_cast<float>(options.loss_scale)}))),
      good_state_(add_state(model, "optimizer.good_steps", {DType::i64, {}})),
      skipped_state_(add_state(model, "optimizer.skipped_steps", {DType::i64, {}})),
      interval_(options.scale_interval),
      scale_(graph.state(scale_state_)),
      good_(graph.state(good_state_)),
      skipped_(graph.state(skipped_state_)) {}

Value LossScale::unscale() const { return 1.0 / scale_; }

void LossScale::decide(Value norm) {
  finite_ = isfinite(norm);
  next_skipped_ = where(finite_, scalar_like(skipped_, 0), skipped_ + 1);
}

Value LossScale::or_skip(Value factor) const {
  return where(finite_, factor, scalar_like(factor, std::numeric_limits<double>::infinity()));
}

std::vector<LossScale::Update> LossScale::updates() const {
  const Value good = good_ + 1, long_enough = ge(good, scalar_like(good, interval_));
  const Value zero = scalar_like(good, 0);
  const Value grown = where(long_enough, scale_ * kGrowth, scale_);
  return {{scale_state_, where(finite_, grown, scale_ * kBackoff)},
          {good_state_, where(finite_, where(long_enough, zero, good), zero)},
          {skipped_state_, next_skipped_}};
}

void LossScale::add_outputs(Graph& graph) const {
  graph.add_output("loss_scale", scale_);
  graph.add_output("skipped_steps", next_skipped_);
}

}  // namespace genesis::passes
