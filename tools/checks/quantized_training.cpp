#include "tools/checks/quantized_training.h"

#include <algorithm>

#include "passes/lora/lora.h"
#include "schema/core/error.h"
#include "schema/messages/log.h"

namespace genesis::tools {

namespace {

// Warns of weights in bf16 or f16. No f32 copy stands behind them, so an update smaller than half of a weight's last
// bit is lost.
void warn_of_short_weights(const Model& model) {
  const auto is_short = [](const State& state) {
    return state.role == StateRole::kParameter && state.trainable && !state.encoded &&
           is_float(state.type.dtype) && size_of(state.type.dtype) == 2;
  };
  const auto first = std::ranges::find_if(model.states(), is_short);
  if (first == model.states().end()) return;
  log_warning(
      "{} weights are {}, in which small updates of a training are lost: keep them in f32 (`genesis-build "
      "... --set "
      "dtype=f32`) and compute in bf16 with precision=bf16 among the training options",
      std::ranges::count_if(model.states(), is_short), name_of(first->type.dtype));
}

}  // namespace

void check_quantized_training(const Model& model) {
  if (passes::lora_of(model)) return;
  warn_of_short_weights(model);
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
      "`genesis-run train --lora 16` trains adapters beside them, or train first and quantize then";
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
