#include "executor/snapshot.h"

namespace genesis {

std::unique_ptr<Model> with_values(const Session& session) {
  auto model = std::make_unique<Model>(session.model());
  for (const auto& [name, value] : session.states()) model->set_initial(model->find_state(name), value);
  return model;
}

std::unique_ptr<Model> snapshot(const Session& session) {
  std::unique_ptr<Model> model = with_values(session);
  std::erase_if(model->metadata, [](const auto& entry) { return entry.first.starts_with("checkpoint."); });
  return model;
}

}  // namespace genesis
