// The calls of Session. Each marks the session as busy and passes on to what the session holds; session_states.cpp has those that
// are made of others.
#include "executor/session.h"

#include <utility>

#include "executor/session_impl.h"
#include "executor/state_dict.h"

namespace genesis {

Session::Session(std::shared_ptr<const Model> model, SessionOptions options) {
  if (!model) fail("a Session was given no model");
  impl_ = std::make_unique<Impl>(std::move(model), std::move(options));
}
Session::~Session() = default;
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;

const Model& Session::model() const { return impl_->model(); }
const std::string& Session::device() const { return impl_->options().device; }

NamedTensors Session::run(const std::string& entry, const NamedTensors& inputs) {
  const OneCall call = impl_->one_call();
  impl_->check_idle();
  impl_->start(impl_->compile(entry, inputs), inputs);
  return impl_->result();
}

void Session::start(const std::string& entry, const NamedTensors& inputs) {
  const OneCall call = impl_->one_call();
  impl_->start(impl_->compile(entry, inputs), inputs);
}

void Session::stage(const std::string& entry, const NamedTensors& inputs) {
  const OneCall call = impl_->one_call();
  impl_->stage(impl_->compile(entry, inputs), inputs);
}

NamedTensors Session::result() {
  const OneCall call = impl_->one_call();
  return impl_->result();
}

void Session::add_entries(const std::shared_ptr<const Model>& model) {
  const OneCall call = impl_->one_call();
  impl_->add_entries(model);
}
bool Session::has_entry(const std::string& entry) const { return impl_->find_model(entry) != nullptr; }

bool Session::is_asynchronous() const { return impl_->device().is_asynchronous(); }

Plan Session::plan(const std::string& entry, const Bindings& sizes) {
  const OneCall call = impl_->one_call();
  return impl_->compile(entry, sizes)->plan;
}

Bindings Session::sizes_of(const std::string& entry, const NamedTensors& inputs) const {
  return bind_inputs(impl_->model_of(entry).entry(entry), inputs);
}

Tensor Session::state(const std::string& name) const {
  const OneCall call = impl_->one_call();
  return impl_->states().copy(impl_->state_index(name));
}

void Session::set_state(const std::string& name, const Tensor& value) {
  const OneCall call = impl_->one_call();
  impl_->set_states({{name, value}});
}

NamedTensors Session::states_that(bool (*is_wanted)(const State&)) const {
  const OneCall call = impl_->one_call();
  return impl_->state_values(is_wanted);
}

void Session::put_states(const NamedTensors& values) {
  const OneCall call = impl_->one_call();
  impl_->set_states(values);
}

std::map<int32_t, EncodedValues> Session::encoded_values() const {
  const OneCall call = impl_->one_call();
  return impl_->states().encoded();
}

void Session::put_encoded(const std::map<int32_t, EncodedValues>& values) {
  const OneCall call = impl_->one_call();
  impl_->set_encoded(values);
}

bool Session::shares_states() const { return impl_->states().shares(); }

void Session::take_part_in_gather() const {
  const OneCall call = impl_->one_call();
  for (int32_t i = 0; i < static_cast<int32_t>(model().states().size()); ++i)
    if (is_kept(model().state(i)) && impl_->states().is_shared(i)) static_cast<void>(impl_->states().copy(i));
}

void Session::reset_states(StateRole role) {
  const OneCall call = impl_->one_call();
  impl_->note_changed_states();
  for (size_t i = 0; i < model().states().size(); ++i)
    if (model().states()[i].role == role) impl_->states().reset(static_cast<int32_t>(i));
}

void Session::grow_cache(int64_t positions) {
  const OneCall call = impl_->one_call();
  impl_->grow_cache(positions);
}

}  // namespace genesis
