#include "passes/training/weight_average.h"

#include "schema/ops/elementwise/cast.h"
#include "schema/ops/elementwise/elementwise.h"

namespace genesis::passes {
namespace {

int32_t add_average(Model& model, int32_t index) {
  const State& state = model.state(index);
  if (state.type.dtype != DType::f32 && state.type.dtype != DType::f64)
    fail("the average of '{}' would lose itself in {}: average weights of f32 or f64", state.name,
         state.type.to_string());
  return model.add_state({.name = "ema." + state.name,
                          .type = state.type,
                          .role = StateRole::kOptimizer,
                          .trainable = false,
                          .initial = state.initial});
}

// Returns 1 - decay, an f32 scalar; 0 in a skipped step.
Value share_of_new(const TrainOptions& options, Value steps_done, Value counts) {
  const Value t = cast(steps_done, DType::f64);
  const Value decay = minimum((t + 1.0) / (t + options.ema_warmup), options.ema);
  const Value share = cast(1.0 - decay, DType::f32);
  return counts ? where(counts, share, scalar_like(share, 0)) : share;
}

}  // namespace

int32_t average_of(const Model& model, int32_t state) {
  return model.find_state("ema." + model.state(state).name);
}

void add_averages(Model& model, Graph& graph, const TrainOptions& options, const std::vector<int32_t>& states,
                  Value steps_done, Value counts, std::map<int32_t, Value>& newest) {
  const NameScope scope(graph, "ema");
  const Value share = share_of_new(options, steps_done, counts);
  for (const int32_t state : states) {
    const NameScope inner(graph, model.state(state).name);
    const int32_t index = add_average(model, state);
    const Value average = graph.state(index);
    newest[index] = average + (newest.at(state) - average) * cast(share, average.dtype());
  }
}

int take_averages(Model& model) {
  int taken = 0;
  for (int32_t i = 0; i < static_cast<int32_t>(model.states().size()); ++i) {
    const int32_t average = average_of(model, i);
    if (average < 0) continue;
    model.set_initial(i, model.state(average).initial);
    ++taken;
  }
  return taken;
}

}  // namespace genesis::passes
