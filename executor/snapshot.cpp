#include "executor/snapshot.h"

#include "executor/session_impl.h"
#include "executor/state_dict.h"
#include "executor/states/state_snapshot.h"

namespace genesis {

std::unique_ptr<Model> with_values(const Session& session) {
  auto model = std::make_unique<Model>(session.model());
  const auto is_plain = [](const State& state) { return is_kept(state) && !state.encoded; };
  for (const auto& [name, value] : session.states_that(is_plain))
    model->set_initial(model->find_state(name), value);
  for (auto& [state, values] : session.encoded_values()) model->set_encoded(state, std::move(values));
  return model;
}

void forget_checkpoint(Model& model) {
  std::erase_if(model.metadata, [](const auto& entry) { return entry.first.starts_with("checkpoint."); });
}

std::unique_ptr<Model> snapshot(const Session& session) {
  std::unique_ptr<Model> model = with_values(session);
  forget_checkpoint(*model);
  return model;
}

std::unique_ptr<StateSnapshot> make_state_snapshot(Session& session) {
  Session::Impl& impl = *session.impl_;
  const SessionOptions& options = impl.options();
  StateShards shards;
  if (options.mesh.ranks() > 1)
    shards = divide_states(impl.model(), impl.states().storage(), options.mesh, options.rank);
  return std::make_unique<StateSnapshot>(impl.model(), impl.states(), impl.device(), std::move(shards));
}

}  // namespace genesis
