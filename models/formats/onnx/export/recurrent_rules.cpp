// Recurrent layers. ONNX's operators hold the product of the inputs, which is a node of its own here: the exporter hands it over if
// nothing else reads it.
#include <numeric>

#include "models/formats/onnx/export/rules.h"
#include "schema/ops/nn/recurrent.h"

namespace genesis::models::onnx {
namespace {

// Puts PyTorch's order of the gates, pieces of the first axis, into ONNX's.
Out in_onnx_order(Emitter& e, RecurrentCell cell, const Out& all, int64_t hidden) {
  const std::vector<int64_t> order = cell == RecurrentCell::kLstm  ? std::vector<int64_t>{0, 3, 1, 2}
                                     : cell == RecurrentCell::kGru ? std::vector<int64_t>{1, 0, 2}
                                                                   : std::vector<int64_t>{};
  std::vector<Out> pieces;
  for (const int64_t i : order)
    pieces.push_back(e.slice(all, 0, e.integers({i * hidden}), e.integers({(i + 1) * hidden})));
  return pieces.empty() ? all : e.add("Concat", pieces, onnx_attribute("axis", int64_t{0}));
}

Tensor identity(int64_t size) {
  std::vector<float> values(static_cast<size_t>(size * size));
  for (int64_t i = 0; i < size; ++i) values[static_cast<size_t>(i * size + i)] = 1;
  return Tensor::of<float>({size, size}, values);
}

// The two biases [2 * gates * hidden] side by side: that of the inputs, and of a gru the one that its reset gate scales.
Out both_biases(Translation& t, RecurrentCell cell, int64_t hidden, const Out& of_inputs) {
  const DType dtype = t.type(0).dtype;
  const int64_t rows = gates_of(cell) * hidden;
  const auto none = [&](int64_t size) {
    return t.e.cast(t.e.constant("no_bias", Tensor::zeros({size})), dtype);
  };
  std::vector<Out> parts = {of_inputs.name.empty() ? none(rows)
                                                   : in_onnx_order(t.e, cell, of_inputs, hidden)};
  if (cell == RecurrentCell::kGru) {
    parts.push_back(none(rows - hidden)), parts.push_back(t.in(3));
  } else {
    parts.push_back(none(rows));
  }
  return t.e.add("Concat", parts, onnx_attribute("axis", int64_t{0}));
}

std::vector<Out> recurrent_rule(Translation& t) {
  const auto op = t.as<ops::Recurrent>();
  if (op.with_gates) fail("a recurrent layer with values for its gradient is not written");
  const DType dtype = t.type(0).dtype;
  const int64_t hidden = t.shape(1)[1].value(), gates = gates_of(op.cell);
  const bool is_lstm = op.cell == RecurrentCell::kLstm;
  const std::vector<Out>& product = t.product();  // x, weight and perhaps bias
  const Out x = product.empty() ? t.in(0) : product[0];
  const Out weight =
      product.empty() ? t.e.cast(t.e.constant("identity", identity(gates * hidden)), dtype) : product[1];
  const Out bias = product.size() > 2 ? product[2] : Out{};
  const auto direction = [&](const Out& one) { return t.e.unsqueeze(one, {0}); };
  std::vector<Out> inputs = {x, direction(in_onnx_order(t.e, op.cell, weight, hidden)),
                             direction(in_onnx_order(t.e, op.cell, t.in(1), hidden)),
                             direction(both_biases(t, op.cell, hidden, bias))};
  const size_t states = gates > 1 ? 4 : 3;
  inputs.push_back(t.count() > states ? t.e.cast(t.in(states), DType::i32) : Out{});
  inputs.push_back(direction(t.in(2)));
  if (is_lstm) inputs.push_back(direction(t.in(3)));
  std::string attributes = onnx_attribute("hidden_size", hidden) +
                           onnx_attribute("direction", std::string(op.reverse ? "reverse" : "forward"));
  if (op.cell == RecurrentCell::kGru) attributes += onnx_attribute("linear_before_reset", int64_t{1});
  if (op.cell == RecurrentCell::kRelu)
    attributes += onnx_attribute("activations", std::vector<std::string>{"Relu"});
  const char* name = is_lstm ? "LSTM" : op.cell == RecurrentCell::kGru ? "GRU" : "RNN";
  std::vector<Out> results =
      t.e.add_several(name, inputs, attributes, std::vector<DType>(is_lstm ? 3 : 2, dtype));
  results[0] = t.e.add("Squeeze", {results[0], t.e.integers({1})});  // [time, directions, batch, hidden]
  for (size_t i = 1; i < results.size(); ++i)
    results[i] = t.e.add("Squeeze", {results[i], t.e.integers({0})});
  return results;
}

}  // namespace

const OpRules& recurrent_rules() {
  static const OpRules kRules = {{"recurrent", recurrent_rule}};
  return kRules;
}

}  // namespace genesis::models::onnx
