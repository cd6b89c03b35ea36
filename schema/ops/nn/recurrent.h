// The recurrence of LSTM, GRU and plain recurrent layers over time (torch.nn.LSTM, GRU, RNN). The products of the inputs with their
// weights are one product for all steps and stand before this op; builder/recurrent.h has whole layers.
#pragma once

#include "schema/graph/graph.h"

namespace genesis {

enum class RecurrentCell : uint8_t { kLstm, kGru, kTanh, kRelu };
template <>
struct EnumNames<RecurrentCell> {
  static constexpr std::string_view names[] = {"lstm", "gru", "tanh", "relu"};
};

// Returns how many gates a cell has (lstm 4, gru 3, else 1), in PyTorch's order: lstm input, forget, cell, output; gru reset,
// update, new.
int64_t gates_of(RecurrentCell cell);

namespace ops {

// Inputs, all f32 or all f64: x [time, batch, gates * hidden], the products of the inputs with the biases added; weight [gates *
// hidden, hidden]; h [batch, hidden], the state before the first step; lstm: c [batch, hidden]; gru: bias [hidden], which the reset
// gate scales together with the product of the state; then lengths i64[batch], or nothing. With p = h weight^T, s the logistic
// function and the gates' slices of x + p named by their letters:
//
//   lstm:  c <- s(f) c + s(i) tanh(g);  h <- s(o) tanh(c)
//   gru:   n = tanh(x_n + s(r) (p_n + bias));  h <- (1 - s(z)) n + s(z) h
//   tanh, relu:  h <- tanh(x + p), max(x + p, 0)
//
// `reverse` goes from the last step to the first. A row with a length has only the steps before it: behind them y is 0, and its state
// does not change. Outputs: y [time, batch, hidden], the last h, and lstm: the last c. `with_gates` adds what the gradient reads
// [time, batch, n * hidden]: lstm the gates and c, gru the gates and p_n + bias.
struct Recurrent {
  static constexpr OpInfo info{
      .name = "recurrent",
      .doc =
          "The recurrence of an LSTM, a GRU or a plain layer (`cell`) over x [time, batch, gates * hidden], "
          "the products of all steps: inputs x, weight, h, then c (lstm) or the bias of the new gate (gru), "
          "then lengths or none. Outputs y [time, batch, hidden], the last h, and the last c of an lstm; "
          "`with_gates` adds the values of the gates. `reverse` begins at the last step.",
      .inputs = {3, 5},
      .precision = Precision::kF32};
  RecurrentCell cell = RecurrentCell::kLstm;
  bool reverse = false, with_gates = false;
  static void fields(auto& self, auto&& visit) {
    visit("cell", self.cell), visit("reverse", self.reverse), visit("with_gates", self.with_gates);
  }

  std::vector<TensorType> infer(Types in) const;
  Cost cost(Types in, Types out) const;
  double sum_length(Types in, Types) const;
  void grad(GradientContext& g) const;
};

// Inputs: those of recurrent without x; then y, the values of the gates, and the gradients of y, the last h and (lstm) the last c.
// Outputs: the gradients of x, h and (lstm) c.
struct RecurrentGrad {
  static constexpr OpInfo info{
      .name = "recurrent_grad",
      .doc =
          "The gradients of recurrent for x, h and the c of an lstm. Inputs: those of recurrent without x, "
          "y, "
          "the values of the gates, and the gradients of y, the last h and the last c.",
      .inputs = {6, 9},
      .precision = Precision::kF32};
  RecurrentCell cell = RecurrentCell::kLstm;
  bool reverse = false, has_lengths = false;
  static void fields(auto& self, auto&& visit) {
    visit("cell", self.cell), visit("has_lengths", self.has_lengths), visit("reverse", self.reverse);
  }

  std::vector<TensorType> infer(Types in) const;
  Cost cost(Types in, Types out) const;
  double sum_length(Types in, Types) const;
};

}  // namespace ops

struct RecurrentResult {
  Value y;     // [time, batch, hidden]
  Value h, c;  // [batch, hidden]: the states after the last step; c is empty but for an lstm
};

// Computes ops::Recurrent in f32 at least. `extra` is the c of an lstm or the bias of a gru; `lengths`, integers [batch], may be
// empty. The results have the dtype of x.
RecurrentResult recurrent(RecurrentCell cell, Value x, Value weight, Value h, Value extra = {},
                          Value lengths = {}, bool reverse = false);

}  // namespace genesis
