// Recurrent layers with PyTorch's names, parameters and defaults (torch.nn.LSTM, GRU, RNN).
//
//     const nn::LSTM lstm(scope / "lstm", 40, 128, {.num_layers = 2, .bidirectional = true});
//     const auto [y, h, c] = lstm(x);  // x [time, batch, 40] -> y [time, batch, 256]
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "builder/layers.h"
#include "schema/ops/nn/recurrent.h"

namespace genesis {

// The weights of one layer in one direction, as PyTorch lays them out: weight_ih [gates * hidden, in], weight_hh [gates * hidden,
// hidden], the biases [gates * hidden], both or none.
struct RecurrentWeights {
  Value weight_ih, weight_hh, bias_ih = {}, bias_hh = {};
};

// Computes one layer in one direction over x [time, batch, in]. h and c [batch, hidden] are the states at the start; c is empty but for
// an lstm. Rows have `lengths` steps, i64[batch], or all if it is empty.
RecurrentResult recurrent_layer(RecurrentCell cell, Value x, const RecurrentWeights& weights, Value h,
                                Value c = {}, Value lengths = {}, bool reverse = false);

struct RecurrentOptions {
  int64_t num_layers = 1;
  bool bias = true;
  bool batch_first = false;  // x and y are [batch, time, ...]; the states stay [layers, batch, hidden]
  double dropout = 0;        // in training, applied to the results of all layers but the last
  bool bidirectional = false;
};

// Computes layers on top of each other. `weights` has one entry for each layer and direction, forward before backward, and so have the
// states h and c [layers * directions, batch, hidden], which may be empty (zeros). y is [time, batch, directions * hidden] (or batch
// first). `between` is applied to the results of all layers but the last.
RecurrentResult recurrent_layers(RecurrentCell cell, Value x, const std::vector<RecurrentWeights>& weights,
                                 Value h, Value c, Value lengths, const RecurrentOptions& options,
                                 const std::function<Value(Value)>& between = {});

namespace nn {

// The states of a stack of recurrent layers are called weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0 and, for the other
// direction, weight_ih_l0_reverse and so on; all begin uniform within 1 / sqrt(hidden_size).
class RecurrentStack : public Module<RecurrentStack> {
 public:
  RecurrentStack(const Scope& scope, RecurrentCell cell, int64_t input_size, int64_t hidden_size,
                 const RecurrentOptions& options = {});
  // x [time, batch, input_size] (or batch first); h and c as in recurrent_layers. `lengths`, integers [batch], ends each row on its
  // own step, as torch's packed sequences do: y is 0 behind it.
  RecurrentResult forward(Value x, Value h = {}, Value c = {}, Value lengths = {}) const;
  std::vector<Parameter>
      weights;  // in the order of their creation: by layer, direction, then ih, hh and biases

 private:
  RecurrentCell cell_;
  RecurrentOptions options_;
  std::optional<Dropout> dropout_;
};

class LSTM : public RecurrentStack {
 public:
  LSTM(const Scope& scope, int64_t input_size, int64_t hidden_size, const RecurrentOptions& options = {})
      : RecurrentStack(scope, RecurrentCell::kLstm, input_size, hidden_size, options) {}
};
class GRU : public RecurrentStack {
 public:
  GRU(const Scope& scope, int64_t input_size, int64_t hidden_size, const RecurrentOptions& options = {})
      : RecurrentStack(scope, RecurrentCell::kGru, input_size, hidden_size, options) {}
};
// `nonlinearity` is "tanh" or "relu".
class RNN : public RecurrentStack {
 public:
  RNN(const Scope& scope, int64_t input_size, int64_t hidden_size, const RecurrentOptions& options = {},
      const std::string& nonlinearity = "tanh");
};

}  // namespace nn
}  // namespace genesis
