// Tests layers, losses, attention and exchanges between ranks with a NaN and with tensors of no elements: the rows of
// nan_and_empty_test.cpp for schema/ops/nn.
#include "passes/training/autodiff.h"
#include "schema/ops/collective/collective.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/nn/attention.h"
#include "schema/ops/nn/cached_attention.h"
#include "schema/ops/nn/convolution.h"
#include "schema/ops/nn/dequantize.h"
#include "schema/ops/nn/gated_delta.h"
#include "schema/ops/nn/grouped_matmul.h"
#include "schema/ops/nn/loss.h"
#include "schema/ops/nn/mamba2.h"
#include "schema/ops/nn/matmul.h"
#include "schema/ops/nn/norm.h"
#include "schema/ops/nn/pooling.h"
#include "schema/ops/nn/quantized_cache.h"
#include "schema/ops/nn/recurrent.h"
#include "schema/ops/nn/rope.h"
#include "schema/ops/nn/softmax.h"
#include "schema/ops/nn/swiglu.h"
#include "schema/ops/tensor/bounded.h"
#include "schema/ops/tensor/random.h"
#include "schema/ops/tensor/reduce.h"
#include "tests/nan_and_empty.h"

namespace genesis::testing {
namespace {

using Row = NanAndEmptyRow;
using Build = std::function<Outputs(const Inputs&)>;
using Unary = Value (*)(Value);

const std::vector<EmptyCase> kNoRows = {{{{0, 3}}, {""}}},
                             kNoRowsOrColumns = {{{{0, 3}}, {""}}, {{{2, 0}}, {""}}},
                             kNoRowsOfTwo = {{{{0, 3}, {0, 3}}, {""}}};

const std::vector<EmptyCase> kDeltaOfNothing = {
    {{{1, 0, 1, 2}, {1, 0, 1, 2}, {1, 0, 1, 2}, {1, 0, 1}, {1, 0, 1}}, {""}},
    {{{0, 2, 1, 2}, {0, 2, 1, 2}, {0, 2, 1, 2}, {0, 2, 1}, {0, 2, 1}}, {""}}};
std::vector<CaseInput> delta_inputs() {
  const CaseInput x = some_numbers({1, 2, 1, 2}), gate = some_numbers({1, 2, 1});
  return {x, x, x, gate, gate};
}

const std::vector<EmptyCase> kRecurrenceOfNothing = {{{{0, 1, 1}, {1, 1}, {1, 1}}, {""}},
                                                     {{{2, 0, 1}, {1, 1}, {0, 1}}, {""}}};
std::vector<CaseInput> recurrent_inputs() {
  return {some_numbers({2, 1, 1}), some_numbers({1, 1}), some_numbers({1, 1})};
}
Outputs recurrent_of(const Inputs& x) { return {recurrent(RecurrentCell::kTanh, x[0], x[1], x[2]).y}; }

CaseInput x23() { return some_numbers({2, 3}); }
Outputs found(const BoundedRows& rows) { return {rows.rows, rows.count}; }
CaseInput at(std::vector<double> values) {
  const auto n = static_cast<int64_t>(values.size());
  return integer_data({n}, std::move(values));
}

CaseInput quants1214() { return integers({1, 2, 1, 4}, -127, 128, DType::i8); }
CaseInput scales1211() {
  CaseInput scales = some_numbers({1, 2, 1, 1});
  scales.keep_dtype = true;
  return scales;
}

Value batch_normalized(Value x) { return batch_norm(x, {}, {}, {}, {}, true, 0.1, 0.5).y; }

// Returns the gradient of the sum of the squares of an output with respect to the first input.
Build gradient_of(const std::function<Value(const Inputs&)>& op) {
  return [op](const Inputs& x) {
    const Value y = op(x);
    return Outputs{passes::gradients(x.graph, sum(y * y), {x[0]})[0]};
  };
}

Row unary(std::string_view op, Unary f, std::string letters, std::vector<EmptyCase> empty) {
  return {
      op, {x23()}, [f](const Inputs& x) { return Outputs{f(x[0])}; }, {std::move(letters)}, std::move(empty)};
}
Row gradient(std::string_view op, Unary f, std::string letters, std::vector<EmptyCase> empty) {
  return {op,
          {x23()},
          gradient_of([f](const Inputs& x) { return f(x[0]); }),
          {std::move(letters)},
          std::move(empty)};
}

CaseInput x1214() { return some_numbers({1, 2, 1, 4}); }
CaseInput x1114() { return some_numbers({1, 1, 1, 4}); }
CaseInput cache() { return some_numbers({1, 3, 1, 4}); }

// Windows of two elements that move by one.
const Windows kPairs{{1}, {1}, {0}, {0}};
Value max_of_pairs(Value x) { return emit(ops::MaxPool{.windows = kPairs, .window = {2}}, {x}); }
Value mean_of_pairs(Value x) { return emit(ops::AveragePool{.windows = kPairs, .window = {2}}, {x}); }
CaseInput x114() { return some_numbers({1, 1, 4}); }
Row pooling(std::string_view op, Unary f, std::string letters) {
  return {op,
          {x114()},
          [f](const Inputs& x) { return Outputs{f(x[0])}; },
          {std::move(letters)},
          {{{{0, 1, 4}}, {""}}, {{{1, 0, 4}}, {""}}}};
}
Row pooling_gradient(std::string_view op, Unary f, std::string letters) {
  Row row = pooling(op, f, std::move(letters));
  row.build = gradient_of([f](const Inputs& x) { return f(x[0]); });
  return row;
}

CaseInput kept_f32(CaseInput x) {
  x.keep_dtype = true;
  return x;
}
CaseInput router_logits() { return kept_f32(some_numbers({2, 3})); }
CaseInput router_factors() { return kept_f32(some_numbers({1, 1})); }

const Row kLayers[] = {
    unary(
        "softmax", [](Value x) { return softmax(x); }, "nnn...", kNoRowsOrColumns),
    gradient(
        "softmax_grad", [](Value x) { return softmax(x); }, "nnn...", kNoRowsOrColumns),
    unary(
        "log_softmax", [](Value x) { return log_softmax(x); }, "nnn...", kNoRowsOrColumns),
    gradient(
        "log_softmax_grad", [](Value x) { return log_softmax(x); }, "nnn...", kNoRowsOrColumns),
    unary(
        "causal_softmax", [](Value x) { return causal_softmax(x); }, "nn0...", kNoRowsOrColumns),
    unary("batch_norm", batch_normalized, ".n..n.", kNoRowsOrColumns),
    gradient("batch_norm_grad", batch_normalized, ".n..n.", kNoRowsOrColumns),
    unary(
        "layer_norm", [](Value x) { return layer_norm(x); }, "nnn...", kNoRowsOrColumns),
    gradient(
        "layer_norm_grad", [](Value x) { return layer_norm(x); }, "nnn...", kNoRowsOrColumns),
    unary(
        "rms_norm", [](Value x) { return rms_norm(x); }, "nnn...", kNoRowsOrColumns),
    gradient(
        "rms_norm_grad", [](Value x) { return rms_norm(x); }, "nnn...", kNoRowsOrColumns),
    {"matmul",
     {x23(), some_numbers({3, 2})},
     [](const Inputs& x) { return Outputs{matmul(x[0], x[1])}; },
     {"nn.."},
     {{{{0, 3}, {3, 2}}, {""}}, {{{2, 0}, {0, 2}}, {"0000"}}}},
    {"linear",
     {x23(), some_numbers({4, 3})},
     [](const Inputs& x) { return Outputs{linear(x[0], x[1])}; },
     {"nnnn...."},
     {{{{0, 3}, {4, 3}}, {""}}, {{{2, 0}, {4, 0}}, {"00000000"}}, {{{2, 3}, {0, 3}}, {""}}}},
    {"gated_delta",
     delta_inputs(),
     [](const Inputs& x) { return Outputs{gated_delta(x[0], x[1], x[2], x[3], x[4]).y}; },
     {"nn.."},
     kDeltaOfNothing},
    {"gated_delta_grad",
     delta_inputs(),
     gradient_of([](const Inputs& x) { return gated_delta(x[0], x[1], x[2], x[3], x[4]).y; }),
     {"nn.."},
     kDeltaOfNothing},
    {"nms",
     {some_numbers({1, 2, 4}), real_data({1, 1, 2}, {0.75, 0.5})},
     [](const Inputs& x) {
       return found(non_max_suppression(x[0], x[1], {.max_boxes = 2, .iou_threshold = 0.5}));
     },
     {"000001", "2"},
     {{{{1, 0, 4}, {1, 1, 0}}, {"000000", "0"}}, {{{0, 2, 4}, {0, 1, 2}}, {"", "0"}}}},
    {"nonzero",
     {x23()},
     [](const Inputs& x) { return found(nonzero(x[0])); },
     {"000102101112", "6"},
     {{{{0, 3}}, {"", "0"}}}},
    {"recurrent", recurrent_inputs(), recurrent_of, {".n"}, kRecurrenceOfNothing},
    {"recurrent_grad",
     recurrent_inputs(),
     gradient_of([](const Inputs& x) { return recurrent_of(x)[0]; }),
     {"nn"},
     kRecurrenceOfNothing},
    {"mamba2",
     delta_inputs(),
     [](const Inputs& x) { return Outputs{mamba2(x[0], x[1], x[2], x[3], x[4]).y}; },
     {"nn.."},
     kDeltaOfNothing},
    {"mamba2_grad",
     delta_inputs(),
     gradient_of([](const Inputs& x) { return mamba2(x[0], x[1], x[2], x[3], x[4]).y; }),
     {"nn.."},
     kDeltaOfNothing},
    {"grouped_matmul",
     {x23(), some_numbers({2, 2, 3}), at({0, 1, 2})},
     [](const Inputs& x) { return Outputs{grouped_matmul(x[0], x[1], x[2])}; },
     {"nn.."},
     {{{{2, 0}, {2, 2, 0}, {3}}, {"0000"}}, {{{2, 3}, {2, 0, 3}, {3}}, {""}}}},
    {"grouped_matmul_grad",
     {some_numbers({2, 2, 3}), x23(), at({0, 1, 2})},
     gradient_of([](const Inputs& x) { return grouped_matmul(x[1], x[0], x[2]); }),
     {"nnn........."},
     {{{{2, 2, 0}, {2, 0}, {3}}, {""}}, {{{2, 0, 3}, {2, 3}, {3}}, {""}}}},
    {"sort_groups",
     {integers({2, 1}, 0, 1)},
     [](const Inputs& x) {
       const SortedGroups sorted = sort_groups(x[0], 2);
       return Outputs{sorted.rows, sorted.sorted, sorted.places, sorted.offsets};
     },
     {},
     {{{{0, 2}}, {"", "", "", "000"}}, {{{2, 0}}, {"", "", "", "000"}}}},
    {"route",
     {router_logits()},
     [](const Inputs& x) { return Outputs(emit_node(ops::Route{}, {x[0]})); },
     {"n.", "..", "..", "..", "...."},
     {{{{0, 3}}, {"", "", "", "", "0000"}}},
     false},
    {"experts",
     {some_numbers({1, 2}), some_numbers({1, 2, 2}), some_numbers({1, 2, 2}), some_numbers({1, 3, 2}),
      at({0}), at({0, 1}), integer_data({1, 1}, {0}), router_factors()},
     [](const Inputs& x) { return Outputs(emit_node(ops::Experts{}, x.values)); },
     {"nnn"},
     {{{{1, 0}, {1, 2, 0}, {1, 2, 0}, {1, 3, 2}, {1}, {2}, {1, 1}, {1, 1}}, {"000"}},
      {{{1, 2}, {1, 0, 2}, {1, 0, 2}, {1, 3, 0}, {1}, {2}, {1, 1}, {1, 1}}, {"000"}},
      {{{0, 2}, {1, 2, 2}, {1, 2, 2}, {1, 3, 2}, {0}, {2}, {0, 1}, {0, 1}}, {""}}}},
    {"convolution",
     {x114(), some_numbers({1, 1, 2})},
     [](const Inputs& x) {
       return Outputs{convolution({.windows = kPairs}, {x[0], x[1]})};
     },
     {"nn."},
     {{{{0, 1, 4}, {1, 1, 2}}, {""}}, {{{1, 1, 4}, {0, 1, 2}}, {""}}}},
    {"convolution_transposed",
     {some_numbers({1, 1, 3}), some_numbers({1, 1, 2})},
     [](const Inputs& x) {
       return Outputs{convolution_transposed({.windows = kPairs, .sizes = {4}}, x[0], x[1])};
     },
     {".nn."},
     {{{{0, 1, 3}, {1, 1, 2}}, {""}}, {{{1, 0, 3}, {0, 1, 2}}, {"0000"}}}},
    {"convolution_weight_gradient",
     {x114(), some_numbers({1, 1, 3})},
     [](const Inputs& x) {
       return Outputs{emit(ops::ConvolutionWeightGradient{.windows = kPairs, .window = {2}}, {x[0], x[1]})};
     },
     {"nn"},
     {{{{0, 1, 4}, {0, 1, 3}}, {"00"}}}},
    pooling("max_pool", max_of_pairs, "nn."),
    pooling_gradient("max_pool_grad", max_of_pairs, "0n.."),
    pooling("average_pool", mean_of_pairs, "nn."),
    pooling_gradient("average_pool_grad", mean_of_pairs, "nnn."),
    {"swiglu",
     {x23(), x23()},
     [](const Inputs& x) { return Outputs{swiglu(x[0], x[1])}; },
     {".n...."},
     kNoRowsOfTwo},
    {"swiglu_grad",
     {x23(), x23()},
     gradient_of([](const Inputs& x) { return swiglu(x[0], x[1]); }),
     {".n...."},
     kNoRowsOfTwo},
    {"rope",
     {x1214(), at({0, 1})},
     [](const Inputs& x) { return Outputs{rope(x[0], x[1])}; },
     {".n.n...."},
     {{{{1, 0, 1, 4}, {0}}, {""}}, {{{0, 2, 1, 4}, {2}}, {""}}}},
    {"attention",
     {x1214(), x1214(), x1214()},
     [](const Inputs& x) { return Outputs{attention(x[0], x[1], x[2])}; },
     {"nnnn...."},
     {{{{1, 0, 1, 4}, {1, 2, 1, 4}, {1, 2, 1, 4}}, {""}},
      {{{0, 2, 1, 4}, {0, 2, 1, 4}, {0, 2, 1, 4}}, {""}},
      {{{1, 2, 1, 4}, {1, 0, 1, 4}, {1, 0, 1, 4}}, {"00000000"}}}},
    {"attention_grad",
     {x1214(), x1214(), x1214()},
     gradient_of([](const Inputs& x) { return attention(x[0], x[1], x[2]); }),
     {"nnnn...."},
     {{{{1, 0, 1, 4}, {1, 2, 1, 4}, {1, 2, 1, 4}}, {""}},
      {{{1, 2, 1, 4}, {1, 0, 1, 4}, {1, 0, 1, 4}}, {"00000000"}}}},
    {"cached_attention",
     {x1114(), x1114(), x1114(), cache(), cache(), integer_data({}, {0})},
     [](const Inputs& x) { return cached_attention(x[0], x[1], x[2], x[3], x[4], x[5]); },
     {"nnnn", "............", "............"},
     {{{{0, 1, 1, 4}, {0, 1, 1, 4}, {0, 1, 1, 4}, {0, 3, 1, 4}, {0, 3, 1, 4}, {}}, {"", "", ""}}}},
    {"quantize_rows",
     {x23()},
     [](const Inputs& x) {
       const QuantizedRows rows = quantize_rows(x[0]);
       return Outputs{rows.quants, rows.scales};
     },
     {"000...", "n."},
     {{{{0, 3}}, {"", ""}}, {{{2, 0}}, {"", "00"}}}},
    {"quantized_attention",
     {x1214(), quants1214(), quants1214(), scales1211(), scales1211(), at({2})},
     [](const Inputs& x) {
       return Outputs{quantized_attention(x[0], {x[1], x[3]}, {x[2], x[4]}, x[5])};
     },
     {"nnnn...."},
     {{{{1, 0, 1, 4}, {1, 2, 1, 4}, {1, 2, 1, 4}, {1, 2, 1, 1}, {1, 2, 1, 1}, {1}}, {""}},
      {{{0, 2, 1, 4}, {0, 2, 1, 4}, {0, 2, 1, 4}, {0, 2, 1, 1}, {0, 2, 1, 1}, {0}}, {""}}},
     false},
    {"cross_entropy",
     {x23(), at({0, 2})},
     [](const Inputs& x) { return Outputs{cross_entropy(x[0], x[1])}; },
     {"n"},
     {{{{0, 3}, {0}}, {"n"}}}},
    {"cross_entropy_grad",
     {x23(), at({0, 2})},
     [](const Inputs&
            x) { return Outputs{passes::gradients(x.graph, cross_entropy(x[0], x[1]), {x[0]})[0]}; },
     {"nnn..."},
     {{{{0, 3}, {0}}, {""}}}},
    {"linear_cross_entropy",
     {x23(), some_numbers({4, 3}), at({0, 2})},
     [](const Inputs& x) { return Outputs{linear_cross_entropy(x[0], x[1], x[2])}; },
     {"n"},
     {{{{0, 3}, {4, 3}, {0}}, {"n"}}}},
    {"bce",
     {some_numbers({3}), some_numbers({3})},
     [](const Inputs& x) { return Outputs{bce_loss(x[0] * 0.4, x[1] * 0.4, {}, Reduction::kNone)}; },
     {".n."},
     {{{{0}, {0}}, {""}}}},
    {"dequantize",
     {some_numbers({2, 1}), integers({2, 32}, -127, 128, DType::i8)},
     [](const Inputs&
            x) { return Outputs{dequantize(WeightFormat::kQ8, x[1], cast(x[0], DType::f16), DType::f32)}; },
     {std::string(32, '.') + std::string(32, 'n')},
     {{{{0, 1}, {0, 32}}, {""}}, {{{2, 0}, {2, 0}}, {""}}},
     false},
    {"dropout",
     {x23(), at({42, 3})},
     [](const Inputs& x) { return Outputs{dropout(x[1], x[0], 0.3)}; },
     {".n...."},
     {{{{0, 3}, {2}}, {""}}}},
    unary(
        "all_reduce", [](Value x) { return all_reduce(x, "data"); }, ".n....", kNoRows),
    unary(
        "all_gather", [](Value x) { return all_gather(x, "data", 1); }, ".n....", kNoRows),
    unary(
        "reduce_scatter", [](Value x) { return reduce_scatter(x, "data", 1); }, ".n....", kNoRows),
    unary(
        "all_to_all", [](Value x) { return all_to_all(x, "data", 1); }, ".n....", kNoRows),
    unary(
        "broadcast", [](Value x) { return broadcast(x, "data"); }, ".n....", kNoRows),
};

TEST(NanAndEmpty, Layers) { check_nan_and_empty(kLayers); }

}  // namespace

std::span<const NanAndEmptyRow> nan_and_empty_layers() { return kLayers; }

}  // namespace genesis::testing
