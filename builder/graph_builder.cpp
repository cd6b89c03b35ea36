#include "builder/graph_builder.h"

#include "schema/graph/inactive_layers.h"
#include "schema/graph/model.h"

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

}  // namespace genesis
