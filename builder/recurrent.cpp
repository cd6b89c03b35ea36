#include "builder/recurrent.h"

#include <cmath>

#include "builder/functions.h"
#include "builder/layers.h"
#include "schema/core/error.h"
#include "schema/ops/create.h"
#include "schema/ops/nn/matmul.h"
#include "schema/ops/tensor/layout.h"
#include "schema/ops/tensor/slice.h"

namespace genesis {
namespace {

// Returns layer `i` of states [layers, batch, hidden], or zeros.
Value state_at(Value states, int64_t i, Value x, Dim hidden) {
  if (states) return select(states, 0, i);
  return zeros(*x.graph, {x.dim(1), hidden}, x.dtype());
}

}  // namespace

RecurrentResult recurrent_layer(RecurrentCell cell, Value x, const RecurrentWeights& weights, Value h,
                                Value c, Value lengths, bool reverse) {
  const Dim hidden = weights.weight_hh.dim(1);
  Value bias, extra = c;
  if (cell == RecurrentCell::kGru) {  // the bias of the new gate stays beside the product of the state
    extra = zeros(*x.graph, {hidden}, x.dtype());
    if (weights.bias_hh) {
      extra = narrow(weights.bias_hh, 0, hidden * 2, hidden);
      const Value others =
          narrow(weights.bias_ih, 0, 0, hidden * 2) + narrow(weights.bias_hh, 0, 0, hidden * 2);
      bias = concat({others, narrow(weights.bias_ih, 0, hidden * 2, hidden)}, 0);
    }
  } else if (weights.bias_hh) {
    bias = weights.bias_ih + weights.bias_hh;
  }
  return recurrent(cell, linear(x, weights.weight_ih, bias), weights.weight_hh, h, extra, lengths, reverse);
}

RecurrentResult recurrent_layers(RecurrentCell cell, Value x, const std::vector<RecurrentWeights>& weights,
                                 Value h, Value c, Value lengths, const RecurrentOptions& options,
                                 const std::function<Value(Value)>& between) {
  const int64_t directions = options.bidirectional ? 2 : 1;
  if (static_cast<int64_t>(weights.size()) != options.num_layers * directions)
    fail("recurrent layers: {} sets of weights for {} layers of {} directions", weights.size(),
         options.num_layers, directions);
  Value y = options.batch_first ? permute(x, {1, 0, 2}) : x;
  std::vector<Value> last_h, last_c;
  for (int64_t layer = 0; layer < options.num_layers; ++layer) {
    if (layer > 0 && between) y = between(y);
    std::vector<Value> results;
    for (int64_t direction = 0; direction < directions; ++direction) {
      const int64_t i = layer * directions + direction;
      const RecurrentWeights& own = weights[static_cast<size_t>(i)];
      const Dim hidden = own.weight_hh.dim(1);
      const Value cell_state = cell == RecurrentCell::kLstm ? state_at(c, i, y, hidden) : Value{};
      const RecurrentResult r =
          recurrent_layer(cell, y, own, state_at(h, i, y, hidden), cell_state, lengths, direction == 1);
      results.push_back(r.y), last_h.push_back(r.h);
      if (r.c) last_c.push_back(r.c);
    }
    y = results.size() == 1 ? results[0] : concat(results, 2);
  }
  if (options.batch_first) y = permute(y, {1, 0, 2});
  return {y, stack(last_h, 0), last_c.empty() ? Value{} : stack(last_c, 0)};
}

namespace nn {

RecurrentStack::RecurrentStack(const Scope& scope, RecurrentCell cell, int64_t input_size,
                               int64_t hidden_size, const RecurrentOptions& options)
    : Module(scope), cell_(cell), options_(options) {
  if (input_size < 1 || hidden_size < 1 || options.num_layers < 1)
    fail("layer '{}': {} inputs, {} hidden values and {} layers: expected at least 1 of each", path(),
         input_size, hidden_size, options.num_layers);
  const double bound = 1 / std::sqrt(static_cast<double>(hidden_size));
  const init::Init within = init::uniform(-bound, bound);
  const int64_t directions = options.bidirectional ? 2 : 1, rows = gates_of(cell) * hidden_size;
  for (int64_t i = 0; i < options.num_layers * directions; ++i) {
    const std::string suffix =
        "_l" + std::to_string(i / directions) + (i % directions == 1 ? "_reverse" : "");
    const int64_t in = i < directions ? input_size : directions * hidden_size;
    weights.push_back(scope.parameter("weight_ih" + suffix, {rows, in}, within));
    weights.push_back(scope.parameter("weight_hh" + suffix, {rows, hidden_size}, within));
    if (!options.bias) continue;
    for (const char* name : {"bias_ih", "bias_hh"})
      weights.push_back(scope.parameter(name + suffix, {rows}, within));
  }
  if (options.dropout > 0 && options.num_layers > 1) dropout_.emplace(scope, options.dropout);
}

RecurrentResult RecurrentStack::forward(Value x, Value h, Value c, Value lengths) const {
  std::vector<RecurrentWeights> all;
  const size_t each = options_.bias ? 4 : 2;
  for (size_t i = 0; i < weights.size(); i += each) {
    const auto at = [&](size_t k) { return weights[i + k].in(*x.graph); };
    all.push_back({at(0), at(1), each > 2 ? at(2) : Value{}, each > 2 ? at(3) : Value{}});
  }
  return recurrent_layers(cell_, x, all, h, c, lengths, options_,
                          [&](Value y) { return dropout_ ? dropout_->forward(y) : y; });
}

RNN::RNN(const Scope& scope, int64_t input_size, int64_t hidden_size, const RecurrentOptions& options,
         const std::string& nonlinearity)
    : RecurrentStack(scope, nonlinearity == "relu" ? RecurrentCell::kRelu : RecurrentCell::kTanh, input_size,
                     hidden_size, options) {
  if (nonlinearity != "tanh" && nonlinearity != "relu")
    fail("layer '{}': its nonlinearity is '{}', expected 'tanh' or 'relu'", path(), nonlinearity);
}

}  // namespace nn
}  // namespace genesis
