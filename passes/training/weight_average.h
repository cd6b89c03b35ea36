// The exponential moving average (EMA) of the trained weights, TrainOptions::ema. After each step
//
//   average += (1 - decay) * (weight - average),  decay = min(ema, (1 + t) / (ema_warmup + t))
//
// where t is the number of steps done before, so that early weights are forgotten soon (TensorFlow's ExponentialMovingAverage
// with num_updates; torch's AveragedModel with ema_warmup = 0). An average is a state "ema.<weight>" that starts as the weight,
// so a resumed run continues exactly. A step that f16 skips does not change it.
#pragma once

#include <map>

#include "passes/training/train_options.h"
#include "schema/graph/model.h"

namespace genesis::passes {

// Returns the state that holds the average of `state`; -1 if there is none.
int32_t average_of(const Model& model, int32_t state);

// Adds the averages of `states` to the model and the graph. `newest` holds the new values of `states` and gets those of the
// averages. `steps_done` is an i64 scalar; `counts` is a bool scalar, false in a skipped step, or empty. Throws an Error for a
// weight that is neither f32 nor f64.
void add_averages(Model& model, Graph& graph, const TrainOptions& options, const std::vector<int32_t>& states,
                  Value steps_done, Value counts, std::map<int32_t, Value>& newest);

// Replaces the initial value of every weight that has an average by it. Returns the number of these weights.
int take_averages(Model& model);

}  // namespace genesis::passes
