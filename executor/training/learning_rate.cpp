#include "executor/training/learning_rate.h"

#include "passes/training/schedules.h"
#include "schema/core/type_limits.h"

namespace genesis {
namespace {

const char* state_of_rate(const Model& model) {
  for (const char* name : {optim::kBaseRate, optim::kPlateauRate})
    if (model.find_state(name) >= 0) return name;
  fail(
      "the model has no learning rate that can be set, which is the state '{}': it has no training step, or "
      "one that an earlier version made; take the training away and add it again (genesis-opt --inference, "
      "then --train)",
      optim::kBaseRate);
}

}  // namespace

double learning_rate(const Session& session) {
  return session.state(state_of_rate(session.model())).item<double>();
}

void set_learning_rate(Session& session, double rate) {
  const char* state = state_of_rate(session.model());
  if (!(rate >= 0) || !fits_f32(rate))
    fail("a learning rate of {}: expected a number of 0 or more that f32 can hold", rate);
  session.set_state(state, Tensor::scalar<double>(rate));
}

}  // namespace genesis
