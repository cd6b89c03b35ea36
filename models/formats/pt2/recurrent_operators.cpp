// Operators of recurrent layers.
#include "builder/recurrent.h"
#include "models/formats/pt2/operators.h"
#include "schema/core/error.h"
#include "schema/ops/tensor/reshape.h"

namespace genesis::models::pt2 {
namespace {

// The weights of all layers and directions, in torch's order.
std::vector<RecurrentWeights> weights_of(Call& call, bool has_biases) {
  const std::vector<Value> given = call.tensors("params");
  const size_t each = has_biases ? 4 : 2;
  if (given.empty() || given.size() % each != 0) fail("it has {} parameters", given.size());
  std::vector<RecurrentWeights> weights;
  for (size_t i = 0; i < given.size(); i += each) {
    RecurrentWeights one{given[i], given[i + 1]};
    if (has_biases) one.bias_ih = given[i + 2], one.bias_hh = given[i + 3];
    weights.push_back(one);
  }
  return weights;
}

template <RecurrentCell cell>
Results layers(Call& call) {
  RecurrentOptions options{.num_layers = call.integer("num_layers"),
                           .bias = call.flag_or("has_biases", true)};
  options.batch_first = call.flag_or("batch_first", false);
  options.bidirectional = call.flag_or("bidirectional", false);
  if (call.flag_or("train", false) && call.number_or("dropout", 0) > 0)
    fail("it drops values between its layers: call model.eval() before the export");
  call.accept_any("dropout");
  Value h, c;
  if constexpr (cell == RecurrentCell::kLstm) {
    const std::vector<Value> states = call.tensors("hx");
    if (states.size() != 2) fail("an lstm has 2 states, got {}", states.size());
    h = states[0], c = states[1];
  } else {
    h = call.tensor("hx");
  }
  const RecurrentResult r =
      recurrent_layers(cell, call.tensor("input"), weights_of(call, options.bias), h, c, {}, options);
  return cell == RecurrentCell::kLstm ? std::vector<Value>{r.y, r.h, r.c} : std::vector<Value>{r.y, r.h};
}

// One step of a layer: x [batch, in].
template <RecurrentCell cell>
Results one_step(Call& call) {
  RecurrentWeights weights{call.tensor("w_ih"), call.tensor("w_hh"), call.tensor_or("b_ih", {}),
                           call.tensor_or("b_hh", {})};
  Value h, c;
  if constexpr (cell == RecurrentCell::kLstm) {
    const std::vector<Value> states = call.tensors("hx");
    if (states.size() != 2) fail("an lstm_cell has 2 states, got {}", states.size());
    h = states[0], c = states[1];
  } else {
    h = call.tensor("hx");
  }
  const RecurrentResult r = recurrent_layer(cell, unsqueeze(call.tensor("input"), 0), weights, h, c);
  return cell == RecurrentCell::kLstm ? std::vector<Value>{r.h, r.c} : std::vector<Value>{r.h};
}

}  // namespace

const Operators& recurrent_operators() {
  static const Operators kOperators = {
      {"aten.gru.input", layers<RecurrentCell::kGru>},
      {"aten.gru_cell.default", one_step<RecurrentCell::kGru>},
      {"aten.lstm.input", layers<RecurrentCell::kLstm>},
      {"aten.lstm_cell.default", one_step<RecurrentCell::kLstm>},
      {"aten.rnn_relu.input", layers<RecurrentCell::kRelu>},
      {"aten.rnn_relu_cell.default", one_step<RecurrentCell::kRelu>},
      {"aten.rnn_tanh.input", layers<RecurrentCell::kTanh>},
      {"aten.rnn_tanh_cell.default", one_step<RecurrentCell::kTanh>},
  };
  return kOperators;
}

}  // namespace genesis::models::pt2
