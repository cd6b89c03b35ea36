#include "tools/checks/quantized_training.h"

#include "passes/lora/lora.h"
#include "schema/core/error.h"
#include "schema/messages/log.h"

namespace genesis::tools {

void check_quantized_training(const Model& model) {
  if (passes::lora_of(model)) return;
  size_t frozen = 0, matrices = 0, vectors = 0;
  for (const State& state : model.states()) {
    if (state.role != StateRole::kParameter) continue;
    if (state.encoded)
      ++frozen;
    else if (state.trainable)
      ++(state.type.shape.rank() > 1 ? matrices : vectors);
  }
  if (frozen == 0) return;
  constexpr const char* kRemedy =
      "`genesis-run train --lora 16` trains adapters beside them, or train first and quantise then";
  if (matrices == 0)
    fail(
        "{} weights are kept as q8 or q4, which no training changes, and only {} norms and biases would be "
        "trained: {}",
        frozen, vectors, kRemedy);
  log_warning(
      "{} weights are kept as q8 or q4 and stay as they are: only {} other matrices (embedding, head) and {} "
      "norms and biases are trained; {}",
      frozen, matrices, vectors, kRemedy);
}

}  // namespace genesis::tools
