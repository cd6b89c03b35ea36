// Tests the recurrence of LSTM, GRU and plain layers against loops: both directions, rows of their own lengths, and types that do not
// fit.
#include "schema/ops/nn/recurrent.h"

#include <cmath>

#include "tests/op_harness.h"

namespace genesis::testing {
namespace {

struct Sizes {
  int64_t time = 4, batch = 3, hidden = 2;
};

double logistic(double x) { return 1 / (1 + std::exp(-x)); }

// Computes one step of a row: x and p are its sums, [gates * hidden].
void step(RecurrentCell cell, int64_t n, const double* x, const double* p, double* h, double* c,
          const Ref& extra) {
  for (int64_t j = 0; j < n; ++j) {
    const auto sum = [&](int64_t gate) { return x[gate * n + j] + p[gate * n + j]; };
    if (cell == RecurrentCell::kLstm) {
      c[j] = logistic(sum(1)) * c[j] + logistic(sum(0)) * std::tanh(sum(2));
      h[j] = logistic(sum(3)) * std::tanh(c[j]);
    } else if (cell == RecurrentCell::kGru) {
      const double z = logistic(sum(1));
      h[j] = (1 - z) * std::tanh(x[2 * n + j] + logistic(sum(0)) * (p[2 * n + j] + extra[j])) + z * h[j];
    } else {
      h[j] = cell == RecurrentCell::kTanh ? std::tanh(sum(0)) : std::max(0.0, sum(0));
    }
  }
}

// Returns y, the last h and, of an lstm, the last c. in: x, weight, h, then c or bias, then lengths.
Refs recurrence(RecurrentCell cell, bool reverse, const Sizes& s, const Refs& in) {
  const int64_t n = s.hidden, gates = gates_of(cell);
  const bool is_lstm = cell == RecurrentCell::kLstm;
  const size_t states = gates > 1 ? 4 : 3;
  Refs out = {ref_zeros({s.time, s.batch, n}), in[2]};
  if (is_lstm) out.push_back(in[3]);
  for (int64_t b = 0; b < s.batch; ++b) {
    const auto length = in.size() > states ? static_cast<int64_t>(in[states][b]) : s.time;
    for (int64_t i = 0; i < length; ++i) {
      const int64_t t = reverse ? length - 1 - i : i;
      double* h = &out[1][b * n];
      std::vector<double> p(static_cast<size_t>(gates * n));
      for (int64_t row = 0; row < gates * n; ++row)
        for (int64_t k = 0; k < n; ++k) p[static_cast<size_t>(row)] += in[1][row * n + k] * h[k];
      step(cell, n, &in[0].data[static_cast<size_t>((t * s.batch + b) * gates * n)], p.data(), h,
           is_lstm ? &out[2][b * n] : nullptr, in.size() > 3 ? in[3] : in[2]);
      for (int64_t j = 0; j < n; ++j) out[0][(t * s.batch + b) * n + j] = h[j];
    }
  }
  return out;
}

OpCase case_of(const std::string& name, RecurrentCell cell, const Sizes& s, bool reverse,
               std::vector<double> lengths = {}) {
  const int64_t rows = gates_of(cell) * s.hidden;
  OpCase made{
      .name = "recurrent_" + name,
      .inputs = {real({s.time, s.batch, rows}, -2, 2), real({rows, s.hidden}), real({s.batch, s.hidden})}};
  if (cell == RecurrentCell::kLstm) made.inputs.push_back(real({s.batch, s.hidden}));
  if (cell == RecurrentCell::kGru) made.inputs.push_back(real({s.hidden}));
  const size_t states = made.inputs.size();
  if (!lengths.empty()) made.inputs.push_back(integer_data({s.batch}, std::move(lengths)));
  made.build = [=](const Inputs& x) {
    const RecurrentResult r = recurrent(cell, x[0], x[1], x[2], states > 3 ? x[3] : Value{},
                                        x.values.size() > states ? x[states] : Value{}, reverse);
    Outputs results{r.y, r.h};
    if (r.c) results.push_back(r.c);
    return results;
  };
  made.reference = [=](const Refs& x) { return recurrence(cell, reverse, s, x); };
  made.low_gradient = cell != RecurrentCell::kRelu;
  return made;
}

constexpr std::pair<const char*, RecurrentCell> kCells[] = {{"lstm", RecurrentCell::kLstm},
                                                            {"gru", RecurrentCell::kGru},
                                                            {"tanh", RecurrentCell::kTanh},
                                                            {"relu", RecurrentCell::kRelu}};

TEST(Recurrent, IsTheRecurrence) {
  for (const auto& [name, cell] : kCells) check(case_of(name, cell, {}, false));
  for (const auto& [name, cell] : kCells) check(case_of(std::string(name) + "_reverse", cell, {}, true));
}

// A row of no steps keeps its states, and one that claims more steps than there are has all.
TEST(Recurrent, RowsHaveTheirLengths) {
  for (const auto& [name, cell] : kCells)
    for (const bool reverse : {false, true})
      check(case_of(std::string(name) + (reverse ? "_lengths_reverse" : "_lengths"), cell, {}, reverse,
                    {2, 0, 4}));
}

// The sizes take several vectors and tails of them, and tiles of rows of a GPU.
TEST(Recurrent, WideStates) {
  for (const auto& [name, cell] : {kCells[0], kCells[1]}) {
    OpCase wide = case_of(std::string(name) + "_wide", cell, {.time = 3, .batch = 11, .hidden = 37}, true);
    wide.inputs[1] = real(wide.inputs[1].shape, -0.2, 0.2);
    wide.directions = 2;
    check(wide);
  }
}

TEST(Recurrent, SmallSumsKeepTheirDigits) {
  for (const float x : {1e-8F, 1e-5F, 1e-2F, 0.17F, 0.18F}) {
    const double y = run_graph({{"x", Tensor::of<float>({1, 1, 1}, {x})},
                                {"w", Tensor::zeros({1, 1})},
                                {"h", Tensor::zeros({1, 1})}},
                               [](const Inputs& in) {
                                 return std::vector<std::pair<std::string, Value>>{
                                     {"y", recurrent(RecurrentCell::kTanh, in[0], in[1], in[2]).y}};
                               })
                         .at("y")
                         .to_doubles()[0];
    EXPECT_NEAR(y / std::tanh(double{x}), 1, 2e-6) << x;
  }
}

// Sums beyond the range of the exponential saturate the gates.
TEST(Recurrent, LargeSums) {
  const auto y = [](float x) {
    return run_graph({{"x", Tensor::of<float>({1, 1, 4}, {x, x, x, x})},
                      {"w", Tensor::zeros({4, 1})},
                      {"h", Tensor::zeros({1, 1})}},
                     [](const Inputs& in) {
                       return std::vector<std::pair<std::string, Value>>{
                           {"y", recurrent(RecurrentCell::kLstm, in[0], in[1], in[2], in[2]).y}};
                     })
        .at("y")
        .to_doubles()[0];
  };
  EXPECT_NEAR(y(1e30F), std::tanh(1.0), 1e-6);
  EXPECT_NEAR(y(std::numeric_limits<float>::infinity()), std::tanh(1.0), 1e-6);
  EXPECT_NEAR(y(-1e30F), 0, 1e-6);
  EXPECT_TRUE(std::isnan(y(std::numeric_limits<float>::quiet_NaN())));
}

TEST(Recurrent, TypesThatDoNotFit) {
  const auto infer = [](RecurrentCell cell, const std::vector<TensorType>& types) {
    infer_case(types, [cell](const Inputs& x) {
      return Outputs{recurrent(cell, x[0], x[1], x[2], x.values.size() > 3 ? x[3] : Value()).y};
    });
  };
  const Dim time = Dim::symbol("time"), batch = Dim::symbol("batch");
  const TensorType x{DType::f32, {time, batch, 12}}, weight{DType::f32, {12, 3}}, h{DType::f32, {batch, 3}},
      bias{DType::f32, {4}};
  infer(RecurrentCell::kLstm, {x, weight, h, h});
  expect_error([&] { infer(RecurrentCell::kLstm, {x, weight, h}); }, {"recurrent: 3 inputs", "takes 4"});
  expect_error([&] { infer(RecurrentCell::kGru, {x, weight, h, bias}); }, {"weight is", "expected f32[9,3]"});
  expect_error([&] { infer(RecurrentCell::kLstm, {h, weight, h, h}); }, {"x must be [time, batch"});
  expect_error([&] { infer(RecurrentCell::kLstm, {x, weight, bias, h}); }, {"recurrent: h is"});
}

}  // namespace
}  // namespace genesis::testing
