#include "builder/scope.h"

#include "builder/skip_init.h"

namespace genesis {

Value Parameter::in(Graph& graph) const {
  if (&graph.model() != model)
    fail("state '{}' belongs to another model than entry point '{}'", state().name, graph.name());
  return graph.state(index);
}

namespace {

Graph& graph_of(Value x, const std::string& path) {
  if (!x) fail("layer '{}' was called with an empty value: it was never assigned", path);
  return *x.graph;
}

}  // namespace

std::vector<Parameter> without_names(const std::vector<NamedParameter>& named) {
  std::vector<Parameter> parameters;
  for (const NamedParameter& row : named) parameters.push_back(row.parameter);
  return parameters;
}

LayerScope::LayerScope(Value x, const std::string& path) : graph_(graph_of(x, path)) {
  graph_.push_layer_scope(path);
}

Scope Scope::operator/(const std::string& name) const {
  Scope child = *this;
  child.path_ = full_name(name);
  return child;
}

std::string Scope::full_name(const std::string& name) const {
  return path_.empty() ? name : path_ + "." + name;
}

std::vector<NamedParameter> Scope::states_below(StateRole role) const {
  const std::string start = full_name("");
  std::vector<NamedParameter> found;
  for (size_t i = 0; i < model_->states().size(); ++i) {
    const State& state = model_->states()[i];
    if (state.role == role && state.name.starts_with(start))
      found.push_back({state.name.substr(start.size()), {model_, static_cast<int32_t>(i)}});
  }
  return found;
}

std::vector<NamedParameter> Scope::named_parameters() const { return states_below(StateRole::kParameter); }
std::vector<NamedParameter> Scope::named_buffers() const { return states_below(StateRole::kBuffer); }
std::vector<Parameter> Scope::parameters() const { return without_names(named_parameters()); }
std::vector<Parameter> Scope::buffers() const { return without_names(named_buffers()); }

Parameter Scope::add(State state, const init::Init& init) const {
  state.name = full_name(state.name);
  for (const Dim& size : state.type.shape)
    if (size.constant() && *size.constant() < 0)
      fail("state '{}' has shape {}: sizes cannot be negative", state.name, state.type.shape.to_string());
  if (state.type.shape.is_constant() && init.kind != init::Kind::kUnset && !init::SkipInit::is_active())
    state.initial = init::make(init, state.type, seed_, state.name);
  return {model_, model_->add_state(std::move(state))};  // throws Error naming the state with symbolic sizes
}

Parameter Scope::parameter(const std::string& name, Shape shape, const init::Init& init) const {
  return add(
      {.name = name, .type = {dtype_, std::move(shape)}, .role = StateRole::kParameter, .trainable = true},
      init);
}

Parameter Scope::buffer(const std::string& name, Shape shape, const init::Init& init) const {
  return add({.name = name, .type = {DType::f32, std::move(shape)}, .role = StateRole::kBuffer}, init);
}

Parameter Scope::cache(const std::string& name, Shape shape, DType dtype,
                       std::optional<CacheLayout> layout) const {
  return {model_, model_->add_state({.name = full_name(name),
                                     .type = {dtype, std::move(shape)},
                                     .role = StateRole::kCache,
                                     .cache = std::move(layout)})};
}

Parameter Scope::rng() const {
  const int32_t found = model_->find_state("rng");
  if (found >= 0) return {model_, found};
  const Tensor start = Tensor::of<int64_t>({2}, {static_cast<int64_t>(seed_), 0});
  return {model_, model_->add_state(
                      {.name = "rng", .type = start.type(), .role = StateRole::kRandom, .initial = start})};
}

}  // namespace genesis
