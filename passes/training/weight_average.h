// The exponential moving average (EMA) of the trained weights, TrainOptions::ema: after each step
//
//   average += (1 - decay) * (weight - average),  decay = min(ema, (1 + t) / (ema_warmup + t))
//
// with t steps done before, so that early weights are forgotten soon (TensorFlow's ExponentialMovingAverage with
// num_updates; torch's AveragedModel with ema_warmup = 0). An average is a state "ema.<weight>" that begins as the weight,
// so a resumed run goes on exactly. A step that f16 skips leaves it alone.
#pragma once

#include <map>

#include "passes/training/train_options.h"
#include "schema/graph/model.h"

namespace genesis::passes {

// The state that holds the average of a state; -1: there is none.
int32_t average_of(const Model& model, int32_t state);

// Adds the averages of `states`, whose new values are in `newest`, to the model and the graph, and their new values to
// `newest`. `steps_done` is an i64 scalar; `counts` a bool one, false in a step that is skipped, or empty.
// Throws Error for a weight that is neither f32 nor f64.
void add_averages(Model& model, Graph& graph, const TrainOptions& options, const std::vector<int32_t>& states,
                  Value steps_done, Value counts, std::map<int32_t, Value>& newest);

// Every weight that has an average becomes it. Returns how many did.
int take_averages(Model& model);

}  // namespace genesis::passes
