#include "builder/scope.h"

namespace genesis {

Scope Scope::operator/(const std::string& name) const {
  Scope child = *this;
  child.path_ = path_.empty() ? name : path_ + "." + name;
  return child;
}

Parameter Scope::add(State state) const {
  if (!path_.empty()) state.name = path_ + "." + state.name;
  return {model_, model_->add_state(std::move(state))};
}

Parameter Scope::parameter(const std::string& name, Shape shape, const init::Init& init) const {
  const TensorType type{dtype_, std::move(shape)};
  const std::string full_name = path_.empty() ? name : path_ + "." + name;
  return add({.name = name,
              .type = type,
              .role = StateRole::kParameter,
              .trainable = true,
              .initial = init::make(init, type, seed_, full_name)});
}

Parameter Scope::buffer(const std::string& name, Shape shape, const init::Init& init) const {
  const TensorType type{DType::f32, std::move(shape)};
  return add({.name = name,
              .type = type,
              .role = StateRole::kBuffer,
              .initial = init::make(init, type, seed_, name)});
}

Parameter Scope::cache(const std::string& name, Shape shape, DType dtype) const {
  return add({.name = name, .type = {dtype, std::move(shape)}, .role = StateRole::kCache});
}

Parameter Scope::rng() const {
  const int32_t found = model_->find_state("rng");
  if (found >= 0) return {model_, found};
  const Tensor start = Tensor::of<int64_t>({2}, {static_cast<int64_t>(seed_), 0});
  return {model_, model_->add_state(
                      {.name = "rng", .type = start.type(), .role = StateRole::kRandom, .initial = start})};
}

}  // namespace genesis
