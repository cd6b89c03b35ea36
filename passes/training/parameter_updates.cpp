#include "passes/training/parameter_updates.h"

#include "passes/core/name_patterns.h"
#include "passes/training/muon.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/nn/optimizer.h"

namespace genesis::passes {
namespace {

constexpr int64_t kFewestCodes = 4096;  // parameters of fewer values keep f32 moments

}  // namespace

ParameterUpdates::ParameterUpdates(Model& model, Graph& graph, const Graph& loss, const TrainOptions& options,
                                   const UpdateScalars& scalars)
    : model_(model),
      graph_(graph),
      options_(options),
      scalars_(scalars),
      tables_and_heads_(passes::tables_and_heads(loss)),
      tables_(passes::tables(loss)) {}

void ParameterUpdates::add(const TrainedParameter& p) {
  const NameScope scope(graph_, model_.state(p.state).name);
  std::visit([&](const auto& optimizer) { update_by(optimizer, p); }, options_.optimizer);
}

void ParameterUpdates::update_by(const optim::SGD& o, const TrainedParameter& p) {
  const SgdOptions sgd{o.momentum, o.dampening, decay_of(p), o.nesterov, bool(scalars_.counts)};
  const Value buffer = o.momentum != 0 ? moment(p, "momentum") : Value();
  const ParameterAndMomentum next =
      sgd_update(p.value, p.gradient, buffer, lr_of(p), scalars_.step, sgd, scalars_.scale);
  set(p.value, next.parameter);
  if (buffer) set(buffer, next.momentum);
}

void ParameterUpdates::update_by(const optim::Adam& o, const TrainedParameter& p) {
  update_adam(o, false, p);
}
void ParameterUpdates::update_by(const optim::AdamW& o, const TrainedParameter& p) {
  update_adam({o.lr, o.beta1, o.beta2, o.eps, o.weight_decay, o.moments}, true, p);
}
void ParameterUpdates::update_adam(const optim::Adam& o, bool decoupled, const TrainedParameter& p,
                                   double lr_factor) {
  const AdamOptions adam{o.beta1, o.beta2, o.eps, decay_of(p), decoupled, bool(scalars_.counts)};
  const Value lr = lr_of(p, lr_factor);
  if (has_moment_codes(o, p)) {
    const Shape& shape = model_.state(p.state).type.shape;
    const TensorType codes{DType::u8, shape}, scales{DType::f32, ops::moment_scales_shape(shape)};
    const CodedMoments old{moment(p, "m", codes), moment(p, "v", codes), moment(p, "m_scales", scales),
                           moment(p, "v_scales", scales)};
    const AdamResult next = adam_update(p.value, p.gradient, old, lr, scalars_.step, adam, scalars_.scale);
    set(p.value, next.parameter);
    set(old.m, next.m);
    set(old.v, next.v);
    set(old.m_scales, next.m_scales);
    set(old.v_scales, next.v_scales);
    return;
  }
  const Value m = moment(p, "m"), v = moment(p, "v");
  const AdamResult next = adam_update(p.value, p.gradient, m, v, lr, scalars_.step, adam, scalars_.scale);
  set(p.value, next.parameter);
  set(m, next.m);
  set(v, next.v);
}

bool ParameterUpdates::has_moment_codes(const optim::Adam& o, const TrainedParameter& p) const {
  const TensorType& type = model_.state(p.state).type;
  return o.moments == MomentFormat::k8bit && ops::can_have_moment_codes(type) &&
         type.numel() >= kFewestCodes && !tables_.contains(p.state);
}

void ParameterUpdates::update_by(const optim::Lion& o, const TrainedParameter& p) {
  const LionOptions lion{o.beta1, o.beta2, decay_of(p), bool(scalars_.counts)};
  const Value m = moment(p, "m");
  const ParameterAndMomentum next = lion_update(p.value, p.gradient, m, lr_of(p), lion, scalars_.scale);
  set(p.value, next.parameter);
  set(m, next.momentum);
}

void ParameterUpdates::update_by(const optim::Muon& o, const TrainedParameter& p) {
  if (!takes_muon(p))
    return update_adam({o.lr, o.adamw_beta1, o.adamw_beta2, o.adamw_eps, o.weight_decay}, true, p,
                       o.lr > 0 ? o.adamw_lr / o.lr : 0);
  const DType products = options_.precision == TrainPrecision::kF32 ? DType::f32 : DType::bf16;
  const Value old = moment(p, "momentum");
  const MuonResult next =
      muon_update(p.value, p.gradient, old, lr_of(p), o, decay_of(p), products, scalars_.scale);
  const auto unless_skipped = [&](Value value, Value before) {
    return scalars_.counts ? where(scalars_.counts, value, before) : value;
  };
  set(p.value, unless_skipped(next.parameter, p.value));
  set(old, unless_skipped(next.momentum, old));
}

bool ParameterUpdates::takes_muon(const TrainedParameter& p) const {
  const State& state = model_.state(p.state);
  const ParameterGroup* group = group_of(options_.groups, state.name);
  if (group && group->optimizer != GroupOptimizer::kDefault) return group->optimizer == GroupOptimizer::kMuon;
  return state.type.shape.rank() == 2 && !tables_and_heads_.contains(p.state) &&
         !matches_any({"*lm_head*"}, state.name);
}

Value ParameterUpdates::lr_of(const TrainedParameter& p, double factor) {
  const ParameterGroup* group = group_of(options_.groups, model_.state(p.state).name);
  if (group) factor *= group->lr_factor;
  if (factor == 1) return scalars_.lr;
  Value& rate = rates_[factor];
  if (!rate) rate = scalars_.lr * factor;
  return rate;
}

double ParameterUpdates::decay_of(const TrainedParameter& p) const {
  const State& state = model_.state(p.state);
  const ParameterGroup* group = group_of(options_.groups, state.name);
  if (group && group->weight_decay) return *group->weight_decay;
  const bool one_axis = state.type.shape.rank() <= 1 && matches_any(options_.no_decay, "1d");
  if (one_axis || matches_any(options_.no_decay, state.name)) return 0;
  return std::visit([](const auto& optimizer) { return optimizer.weight_decay; }, options_.optimizer);
}

Value ParameterUpdates::moment(const TrainedParameter& p, const std::string& name) {
  return moment(p, name, {DType::f32, model_.state(p.state).type.shape});
}

Value ParameterUpdates::moment(const TrainedParameter& p, const std::string& name, const TensorType& type) {
  return graph_.state(model_.add_state({.name = "optimizer." + model_.state(p.state).name + "." + name,
                                        .type = type,
                                        .role = StateRole::kOptimizer,
                                        .trainable = false,
                                        .initial = {}}));
}

void ParameterUpdates::set(Value state, Value next) { results_[graph_.value(state.id).index] = next; }

}  // namespace genesis::passes
