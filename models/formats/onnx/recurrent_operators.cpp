// Recurrent layers. The usual cells become one op, whose time may be open; others are unrolled over the time, which must be known.
#include <functional>

#include "builder/functions.h"
#include "builder/recurrent.h"
#include "models/formats/onnx/operators.h"
#include "schema/core/error.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/nn/matmul.h"

namespace genesis::models::onnx {
namespace {

constexpr int64_t kMaxSteps = 4096;

using Function = std::function<Value(Value)>;

Function activation(const std::string& name, double alpha, double beta) {
  if (name == "Tanh") return [](Value x) { return tanh(x); };
  if (name == "Sigmoid") return [](Value x) { return sigmoid(x); };
  if (name == "Relu") return [](Value x) { return relu(x); };
  if (name == "Softsign") return [](Value x) { return x / (abs(x) + 1.0); };
  if (name == "Softplus") return [](Value x) { return softplus(x, 1.0, 1e30); };
  if (name == "Affine") return [=](Value x) { return x * alpha + beta; };
  if (name == "LeakyRelu") return [=](Value x) { return leaky_relu(x, alpha); };
  if (name == "Elu") return [=](Value x) { return elu(x, alpha); };
  if (name == "ScaledTanh") return [=](Value x) { return tanh(x * beta) * alpha; };
  if (name == "HardSigmoid") return [=](Value x) { return clamp(x * alpha + beta, 0, 1); };
  if (name == "ThresholdedRelu") return [=](Value x) { return where(x > alpha, x, Scalar(0.0)); };
  fail("its activation '{}' is not read", name);
}

// The usual parameters of activations that have some.
double usual_alpha(const std::string& name) {
  return name == "HardSigmoid" ? 0.2 : name == "LeakyRelu" ? 0.01 : 1.0;
}
double usual_beta(const std::string& name) {
  return name == "HardSigmoid" ? 0.5 : name == "ScaledTanh" ? 1.0 : 0.0;
}

struct Layer {
  int64_t hidden = 0, directions = 1, steps = 0;
  bool batch_first = false, backward_only = false;
  double clip = 0;
  std::vector<Function> functions;         // all of the first direction, then those of the second
  std::optional<RecurrentCell> cell = {};  // the op that computes the layer, if one does
};

// Returns the cell of a layer with these activations, the same in both directions.
std::optional<RecurrentCell> cell_of(const std::vector<std::string>& names, size_t directions) {
  const size_t each = names.size() / directions;
  const std::vector<std::string> first(names.begin(), names.begin() + static_cast<ptrdiff_t>(each));
  if (directions == 2 &&
      !std::equal(first.begin(), first.end(), names.begin() + static_cast<ptrdiff_t>(each)))
    return {};
  using Names = std::vector<std::string>;
  if (first == Names{"Sigmoid", "Tanh", "Tanh"}) return RecurrentCell::kLstm;
  if (first == Names{"Sigmoid", "Tanh"}) return RecurrentCell::kGru;
  if (first == Names{"Tanh"}) return RecurrentCell::kTanh;
  if (first == Names{"Relu"}) return RecurrentCell::kRelu;
  return {};
}

Layer layer_of(Call& call, Value x, const std::vector<std::string>& usual) {
  Layer layer;
  const std::string direction = call.text("direction", "forward");
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional")
    fail("its direction is '{}'", direction);
  layer.directions = direction == "bidirectional" ? 2 : 1;
  layer.backward_only = direction == "reverse";
  layer.batch_first = call.attribute("layout", 0) != 0;
  layer.hidden = call.tensor(2).dim(2).value();
  call.accept_any("hidden_size");
  layer.clip = call.real("clip", 0);
  std::vector<std::string> names = call.texts("activations");
  if (names.empty())
    for (int64_t i = 0; i < layer.directions; ++i) names.insert(names.end(), usual.begin(), usual.end());
  if (names.size() != usual.size() * static_cast<size_t>(layer.directions))
    fail("it has {} activations", names.size());
  const bool is_usual =
      layer.clip == 0 && !call.has(7) && (usual.size() != 2 || call.attribute("linear_before_reset", 0) != 0);
  if (is_usual) layer.cell = cell_of(names, static_cast<size_t>(layer.directions));
  const Dim steps = x.dim(layer.batch_first ? 1 : 0);
  if (!layer.cell && !steps.is_constant())
    fail(
        "it takes {} steps: with these activations, a clip, peepholes or linear_before_reset = 0 their "
        "number must be known",
        steps.to_string());
  layer.steps = steps.is_constant() ? steps.value() : 0;
  if (!layer.cell && (layer.steps < 1 || layer.steps > kMaxSteps))
    fail("it takes {} steps: expected 1 to {}", layer.steps, kMaxSteps);
  const std::vector<double> alphas = call.reals("activation_alpha"), betas = call.reals("activation_beta");
  for (size_t i = 0; i < names.size(); ++i)
    layer.functions.push_back(activation(names[i], i < alphas.size() ? alphas[i] : usual_alpha(names[i]),
                                         i < betas.size() ? betas[i] : usual_beta(names[i])));
  return layer;
}

// The parameters of one direction: weights [gates * hidden, in], recurrent ones [gates * hidden, hidden], biases [gates * hidden]
// or empty, peepholes [3 * hidden] or empty, and the states at the start [batch, hidden].
struct Direction {
  Value weight, recurrent, bias, recurrent_bias, peephole, hidden, cell;
  const Function* functions;
  double clip;

  Value clipped(Value x) const { return clip > 0 ? clamp(x, -clip, clip) : x; }
  Value from_state(Value h) const {
    const Value y = matmul(h, recurrent, false, true);
    return recurrent_bias ? y + recurrent_bias : y;
  }
};
struct CellState {
  Value hidden, cell;
};
// Computes the next state from a step's inputs times the weights [batch, gates * hidden].
using Step = CellState (*)(const Direction&, Value from_input, CellState before, bool linear_before_reset);

Value piece(Value all, int64_t i, int64_t pieces) {
  const int64_t size = all.dim(-1).value() / pieces;
  return narrow(all, all.rank() - 1, i * size, size);
}

CellState plain_step(const Direction& d, Value from_input, CellState before, bool) {
  return {d.functions[0](d.clipped(from_input + d.from_state(before.hidden))), {}};
}
// Gates: update, reset, hidden.
CellState gated_step(const Direction& d, Value from_input, CellState before, bool linear_before_reset) {
  const Value h = before.hidden, from_state = d.from_state(h);
  const Value z = d.functions[0](d.clipped(piece(from_input, 0, 3) + piece(from_state, 0, 3)));
  const Value r = d.functions[0](d.clipped(piece(from_input, 1, 3) + piece(from_state, 1, 3)));
  Value candidate;
  if (linear_before_reset) {
    candidate = piece(from_input, 2, 3) + r * piece(from_state, 2, 3);
  } else {
    const int64_t size = h.dim(1).value();
    candidate = piece(from_input, 2, 3) + matmul(r * h, narrow(d.recurrent, 0, 2 * size, size), false, true);
    if (d.recurrent_bias) candidate = candidate + piece(d.recurrent_bias, 2, 3);
  }
  return {(1.0 - z) * d.functions[1](d.clipped(candidate)) + z * h, {}};
}
// Gates: input, output, forget, cell. Peepholes: input, output, forget.
CellState memory_step(const Direction& d, Value from_input, CellState before, bool) {
  const Value gates = from_input + d.from_state(before.hidden);
  const auto with_cell = [&](int64_t i, Value cell) {
    return d.peephole ? piece(gates, i, 4) + piece(d.peephole, i, 3) * cell : piece(gates, i, 4);
  };
  const Value in = d.functions[0](d.clipped(with_cell(0, before.cell)));
  const Value forget = d.functions[0](d.clipped(with_cell(2, before.cell)));
  const Value cell = forget * before.cell + in * d.functions[1](d.clipped(piece(gates, 3, 4)));
  const Value out = d.functions[0](d.clipped(with_cell(1, cell)));
  return {out * d.functions[2](cell), cell};
}

struct Run {
  std::vector<Value> hidden;  // at each step, or one value of all steps [steps, batch, hidden]
  CellState last;
};

Run run_direction(Call& call, const Direction& d, Value x, Step step, bool backward, Value lengths,
                  int64_t steps, bool linear_before_reset) {
  Value from_input = matmul(x, d.weight, false, true);  // [steps, batch, gates * hidden]
  if (d.bias) from_input = from_input + d.bias;
  Run run{std::vector<Value>(static_cast<size_t>(steps)), {d.hidden, d.cell}};
  for (int64_t i = 0; i < steps; ++i) {
    const int64_t t = backward ? steps - 1 - i : i;
    CellState next = step(d, select(from_input, 0, t), run.last, linear_before_reset);
    Value shown = next.hidden;
    if (lengths) {
      const Value goes_on = full(call.graph(), {}, t, DType::i64) < lengths;
      next.hidden = where(goes_on, next.hidden, run.last.hidden);
      if (next.cell) next.cell = where(goes_on, next.cell, run.last.cell);
      shown = where(goes_on, shown, Scalar(0.0));
    }
    run.hidden[static_cast<size_t>(t)] = shown;
    run.last = next;
  }
  return run;
}

Direction direction_of(Call& call, const Layer& layer, Value x, int64_t i, bool has_cell) {
  const Dim batch = x.dim(1);
  const auto state = [&](size_t place) {
    if (!call.has(place)) return call.g().zeros({batch, layer.hidden}, x.dtype());
    return select(call.tensor(place), layer.batch_first ? 1 : 0, i);
  };
  Direction d{};
  d.weight = select(call.tensor(1), 0, i), d.recurrent = select(call.tensor(2), 0, i);
  if (call.has(3)) {
    const Value both = select(call.tensor(3), 0, i);
    d.bias = piece(both, 0, 2), d.recurrent_bias = piece(both, 1, 2);
  }
  d.hidden = state(5);
  if (has_cell) d.cell = state(6);
  if (has_cell && call.has(7)) d.peephole = select(call.tensor(7), 0, i);
  d.functions = &layer.functions[layer.functions.size() / static_cast<size_t>(layer.directions) *
                                 static_cast<size_t>(i)];
  d.clip = layer.clip;
  return d;
}

// Puts ONNX's order of the gates, which are pieces of the first axis, into PyTorch's. ONNX has the input, output, forget and cell gates of an
// lstm, and the update, reset and new gates of a gru.
Value in_torchs_order(RecurrentCell cell, Value all) {
  const std::vector<int64_t> order = cell == RecurrentCell::kLstm  ? std::vector<int64_t>{0, 2, 3, 1}
                                     : cell == RecurrentCell::kGru ? std::vector<int64_t>{1, 0, 2}
                                                                   : std::vector<int64_t>{0};
  const Dim size = all.dim(0).value() / static_cast<int64_t>(order.size());
  std::vector<Value> pieces;
  for (const int64_t i : order) pieces.push_back(narrow(all, 0, size * i, size));
  return concat(pieces, 0);
}

// The layer by one op for each direction. Reverse directions begin at the end of each row.
Run run_cell(RecurrentCell cell, const Direction& d, Value x, bool backward, Value lengths) {
  RecurrentWeights weights{in_torchs_order(cell, d.weight), in_torchs_order(cell, d.recurrent)};
  if (d.bias) weights.bias_ih = in_torchs_order(cell, d.bias);
  if (d.bias) weights.bias_hh = in_torchs_order(cell, d.recurrent_bias);
  const RecurrentResult r = recurrent_layer(cell, x, weights, d.hidden, d.cell, lengths, backward);
  return {{r.y}, {r.h, r.c}};
}

Results run_layer(Call& call, const std::vector<std::string>& usual, Step step, bool has_cell) {
  const Value given = call.tensor(0);
  const Layer layer = layer_of(call, given, usual);
  const bool linear_before_reset = call.attribute("linear_before_reset", 0) != 0;
  if (call.attribute("input_forget", 0) != 0) fail("coupled input and forget gates are not read");
  const Value x = layer.batch_first ? permute(given, {1, 0, 2}) : given;
  const Value lengths = call.has(4) ? cast(call.tensor(4), DType::i64) : Value{};
  const Value column = lengths && !layer.cell ? unsqueeze(lengths, 1) : lengths;
  std::vector<Value> outputs, hidden, cells;
  for (int64_t i = 0; i < layer.directions; ++i) {
    const Direction d = direction_of(call, layer, x, i, has_cell);
    const bool backward = layer.backward_only || i == 1;
    const Run run = layer.cell
                        ? run_cell(*layer.cell, d, x, backward, lengths)
                        : run_direction(call, d, x, step, backward, column, layer.steps, linear_before_reset);
    outputs.push_back(layer.cell ? run.hidden[0] : stack(run.hidden, 0));  // [steps, batch, hidden]
    hidden.push_back(run.last.hidden);
    if (has_cell) cells.push_back(run.last.cell);
  }
  Value y = stack(outputs, 1);  // [steps, directions, batch, hidden]
  if (layer.batch_first) y = permute(y, {2, 0, 1, 3});
  const int64_t axis = layer.batch_first ? 1 : 0;
  Results results = {item_of(y), item_of(stack(hidden, axis))};
  if (has_cell) results.push_back(item_of(stack(cells, axis)));
  return results;
}

Results plain_layer(Call& call) { return run_layer(call, {"Tanh"}, plain_step, false); }
Results gated_layer(Call& call) { return run_layer(call, {"Sigmoid", "Tanh"}, gated_step, false); }
Results memory_layer(Call& call) { return run_layer(call, {"Sigmoid", "Tanh", "Tanh"}, memory_step, true); }

}  // namespace

const Operators& recurrent_operators() {
  static const Operators kOperators = {
      {"GRU", gated_layer, 3},
      {"LSTM", memory_layer},
      {"RNN", plain_layer},
  };
  return kOperators;
}

}  // namespace genesis::models::onnx
