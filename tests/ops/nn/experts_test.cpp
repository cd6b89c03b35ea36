// Tests the ops of mixtures of experts against loops: sorting pairs, routers with each kind of scores, and experts with weights of
// each format, with and without an addend, and with pairs of no group.
#include "schema/ops/nn/grouped_matmul.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "schema/encoding/q4m.h"
#include "schema/ops/elementwise/cast.h"
#include "tests/op_harness.h"

namespace genesis::testing {
namespace {

// Returns rows, sorted, places and offsets for ids [..., chosen].
Refs sorted_refs(const Ref& ids, int64_t groups) {
  const int64_t pairs = ids.numel(), chosen = ids.shape.back();
  std::vector<int64_t> order(static_cast<size_t>(pairs));
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](int64_t a, int64_t b) { return ids[a] < ids[b]; });
  Ref rows = ref_zeros({pairs}), sorted = rows, places = ref_zeros(ids.shape),
      offsets = ref_zeros({groups + 1});
  for (int64_t i = 0; i < pairs; ++i) {
    const int64_t pair = order[static_cast<size_t>(i)];
    rows[i] = static_cast<double>(pair / chosen);
    sorted[i] = ids[pair];
    places[pair] = static_cast<double>(i);
    for (auto g = static_cast<int64_t>(ids[pair]); g < groups; ++g) ++offsets[g + 1];
  }
  return {rows, sorted, places, offsets};
}

Outputs outputs_of(const SortedGroups& s) { return {s.rows, s.sorted, s.places, s.offsets}; }

void check_sorting(const std::string& name, const std::vector<int64_t>& shape, int64_t groups) {
  check({.name = "sort_groups_" + name,
         .inputs = {integers(shape, 0, groups)},
         .build = [groups](const Inputs& x) { return outputs_of(sort_groups(x[0], groups)); },
         .reference = [groups](const Refs& x) { return sorted_refs(x[0], groups); },
         .gradient = false});
}

TEST(Experts, PairsAreSortedByGroup) {
  check_sorting("few", {2, 3, 2}, 5);
  check_sorting("one_group", {7, 1}, 1);
  check_sorting("full_block", {64, 8}, 512);
  check_sorting("blocks", {3, 211, 4}, 70);
  check_sorting("many_groups", {40, 3}, 1500);
}

// --- route

struct RouteSizes {
  std::vector<int64_t> rows;
  int64_t experts = 9;
  ops::Route op = {};
  bool bias = false;
};

std::vector<double> softmax_of(std::vector<double> x) {
  const double greatest = std::ranges::max(x);
  double sum = 0;
  for (double& v : x) sum += v = std::exp(v - greatest);
  for (double& v : x) v /= sum;
  return x;
}

Refs routed(const RouteSizes& s, const Refs& in) {
  std::vector<int64_t> shape = s.rows;
  shape.push_back(s.op.k);
  Ref factors = ref_zeros(shape), ids = factors;
  for (int64_t row = 0; row < in[0].numel() / s.experts; ++row) {
    std::vector<double> scores, order(static_cast<size_t>(s.experts));
    for (int64_t e = 0; e < s.experts; ++e) scores.push_back(in[0][row * s.experts + e]);
    if (s.op.scores == RouteScores::kSoftmax) scores = softmax_of(scores);
    if (s.op.scores == RouteScores::kSigmoid)
      for (double& v : scores) v = 1 / (1 + std::exp(-v));
    std::iota(order.begin(), order.end(), 0);
    const auto wanted = [&](double e) {
      return scores[static_cast<size_t>(e)] + (s.bias ? in[1][static_cast<int64_t>(e)] : 0);
    };
    std::ranges::stable_sort(order, [&](double a, double b) { return wanted(a) > wanted(b); });
    std::vector<double> own;
    for (int64_t j = 0; j < s.op.k; ++j) {
      ids[row * s.op.k + j] = order[static_cast<size_t>(j)];
      own.push_back(scores[static_cast<size_t>(order[static_cast<size_t>(j)])]);
    }
    if (s.op.scores == RouteScores::kSoftmaxOfChosen) own = softmax_of(own);
    const double sum = std::accumulate(own.begin(), own.end(), s.op.least_sum);
    for (int64_t j = 0; j < s.op.k; ++j)
      factors[row * s.op.k + j] = own[static_cast<size_t>(j)] / (s.op.normalized ? sum : 1) * s.op.factor;
  }
  Refs all = sorted_refs(ids, s.experts);
  all.insert(all.begin(), factors);
  return all;
}

void check_route(const std::string& name, const RouteSizes& s) {
  std::vector<int64_t> shape = s.rows;
  shape.push_back(s.experts);
  // Logits that differ by more than rounding does, in an order without a pattern.
  std::vector<double> logits, bias;
  const int64_t count = std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
  for (int64_t i = 0; i < count; ++i)
    logits.push_back(static_cast<double>((i * 7919 + i / s.experts * 31) % 10007) / 1250 - 4);
  for (int64_t i = 0; i < s.experts; ++i) bias.push_back(static_cast<double>(i * 5 % 7) / 11);
  CaseInput x = real_data(shape, logits), b = real_data({s.experts}, bias);
  x.keep_dtype = b.keep_dtype = true;
  x.differentiable = b.differentiable = false;
  check({.name = "route_" + name,
         .inputs = s.bias ? std::vector<CaseInput>{x, b} : std::vector<CaseInput>{x},
         .build = [s](const Inputs& in) { return Outputs(emit_node(s.op, in.values)); },
         .reference = [s](const Refs& in) { return routed(s, in); },
         .gradient = false,
         .f64 = false});
}

TEST(Experts, RoutersOfEveryKind) {
  check_route("softmax", {.rows = {2, 3}, .op = {.k = 3}});
  check_route("normalized", {.rows = {5, 1}, .experts = 130, .op = {.k = 8, .normalized = true}});
  check_route(
      "sigmoid",
      {.rows = {64},
       .experts = 256,
       .op = {.k = 8, .scores = RouteScores::kSigmoid, .normalized = true, .least_sum = 1e-3, .factor = 2.5},
       .bias = true});
  check_route("of_chosen",
              {.rows = {4}, .experts = 512, .op = {.k = 4, .scores = RouteScores::kSoftmaxOfChosen}});
  check_route("all",
              {.rows = {2}, .experts = 3, .op = {.k = 3, .scores = RouteScores::kSigmoid, .factor = 0.5}});
  check_route("many_rows", {.rows = {90, 2}, .experts = 40, .op = {.k = 6, .normalized = true}});
}

// --- experts

struct ExpertSizes {
  std::vector<int64_t> rows;  // leading axes of places
  int64_t chosen = 2, experts = 4, k = 32, n = 64, hidden = 10;
  WeightFormat format = WeightFormat::kPlain, down = WeightFormat::kPlain;
  bool addend = false;
  int64_t lost = 0;  // places before the first offset, which belong to no expert

  int64_t row_count() const {
    return std::accumulate(rows.begin(), rows.end(), int64_t{1}, std::multiplies<>());
  }
};

// The scales of `blocks` blocks: numbers, or for q4m words with scales from 2^-9 to 1/137 and some zeros.
CaseInput scales_of(std::vector<int64_t> shape, int64_t blocks, WeightFormat format) {
  std::vector<double> scales;
  for (int64_t i = 0; i < blocks; ++i) {
    const int64_t word = (i * 7 % 23 == 9 ? 0 : (14 << 4) + i * 7 % 31) << 7 | i * 13 % 128;
    scales.push_back(format == WeightFormat::kQ4m ? static_cast<double>(word)
                                                  : static_cast<double>(i * 7 % 23 - 9) / 4096);
  }
  if (format == WeightFormat::kQ4m) return integer_data(std::move(shape), scales, DType::i16);
  CaseInput scale = real_data(std::move(shape), scales);
  scale.differentiable = false;
  scale.keep_dtype = true;
  return scale;
}

// The stored parts of weights [experts, lines, k], with values that bytes of x hold exactly.
std::vector<CaseInput> stored(int64_t experts, int64_t lines, int64_t k, WeightFormat format) {
  if (format == WeightFormat::kPlain) return {real({experts, lines, k}, -0.3, 0.3)};
  return {has_four_bits(format) ? integers({experts, lines, k / 2}, 0, 256, DType::u8)
                                : integers({experts, lines, k}, -127, 128, DType::i8),
          scales_of({experts, lines, k / 32}, experts * lines * k / 32, format)};
}

double weight_at(const Ref& data, const Ref* scales, WeightFormat format, int64_t line, int64_t p,
                 int64_t k) {
  if (format == WeightFormat::kPlain) return data[line * k + p];
  const bool halves = has_four_bits(format);
  const auto byte = static_cast<int>(data[halves ? line * k / 2 + p / 32 * 16 + p % 16 : line * k + p]);
  const int quant = !halves ? byte : p % 32 < 16 ? byte & 15 : byte >> 4;
  const double scale = (*scales)[line * (k / 32) + p / 32];
  if (format == WeightFormat::kQ4m)
    return Q4mGrid(static_cast<uint16_t>(static_cast<int16_t>(scale))).value(static_cast<float>(quant));
  return (halves ? quant - kQ4Zero : quant) * scale;
}

Ref expert_sums(const ExpertSizes& s, const ops::Experts& op, const Refs& in) {
  using Op = ops::Experts;
  const auto at = [&](int i) -> const Ref& { return in[static_cast<size_t>(i)]; };
  const auto scales = [&](int i) { return i < std::ssize(in) ? &at(i) : nullptr; };
  std::vector<int64_t> shape = s.rows;
  shape.push_back(s.hidden);
  Ref y = ref_zeros(shape);
  if (s.addend) y.data = at(Op::kAddend).data;
  for (int64_t pair = 0; pair < s.row_count() * s.chosen; ++pair) {
    const auto place = static_cast<int64_t>(at(Op::kPlaces)[pair]);
    const auto x = static_cast<int64_t>(at(Op::kRows)[place]) * s.k;
    for (int64_t e = 0; e < s.experts; ++e) {
      if (place < at(Op::kOffsets)[e] || place >= at(Op::kOffsets)[e + 1]) continue;
      std::vector<double> between;
      for (int64_t j = 0; j < s.n; ++j) {
        double gate = 0, up = 0;
        for (int64_t p = 0; p < s.k; ++p) {
          gate += at(Op::kX)[x + p] *
                  weight_at(at(Op::kGate), scales(op.scales()), s.format, e * s.n + j, p, s.k);
          up += at(Op::kX)[x + p] *
                weight_at(at(Op::kUp), scales(op.scales() + 1), s.format, e * s.n + j, p, s.k);
        }
        between.push_back(gate / (1 + std::exp(-gate)) * up);
      }
      for (int64_t j = 0; j < s.hidden; ++j)
        for (int64_t p = 0; p < s.n; ++p)
          y[pair / s.chosen * s.hidden + j] +=
              at(Op::kFactors)[pair] * between[static_cast<size_t>(p)] *
              weight_at(at(Op::kDown), scales(op.down_scales()), s.down, e * s.hidden + j, p, s.n);
    }
  }
  return y;
}

// Pairs sorted by expert, as sort_groups has them.
struct SortedCase {
  CaseInput rows, offsets, places;

  explicit SortedCase(const ExpertSizes& s) {
    std::vector<int64_t> shape = s.rows;
    shape.push_back(s.chosen);
    Ref ids = ref_zeros(shape);
    for (int64_t i = 0; i < ids.numel(); ++i)
      ids[i] = static_cast<double>((i * 5 / s.chosen + i % s.chosen) % s.experts);
    Refs sorted = sorted_refs(ids, s.experts);
    for (double& offset : sorted[3].data) offset = std::max(offset, static_cast<double>(s.lost));
    rows = integer_data(sorted[0].shape, sorted[0].data);
    places = integer_data(shape, sorted[2].data);
    offsets = integer_data(sorted[3].shape, sorted[3].data);
  }
};

void check_experts(const std::string& name, const ExpertSizes& s) {
  const ops::Experts op{.format = s.format, .down_format = s.down, .has_addend = s.addend};
  const SortedCase sorted(s);
  std::vector<int64_t> y_shape = s.rows, chosen = s.rows;
  y_shape.push_back(s.hidden);
  chosen.push_back(s.chosen);
  const auto gate = stored(s.experts, s.n, s.k, s.format), up = gate,
             down = stored(s.experts, s.hidden, s.n, s.down);
  CaseInput factors = real(chosen);
  factors.keep_dtype = true;
  std::vector<CaseInput> inputs = {real({s.row_count(), s.k}),
                                   gate[0],
                                   up[0],
                                   down[0],
                                   sorted.rows,
                                   sorted.offsets,
                                   sorted.places,
                                   factors};
  if (s.addend) inputs.push_back(real(y_shape));
  if (gate.size() > 1) inputs.insert(inputs.end(), {gate[1], up[1]});
  if (down.size() > 1) inputs.push_back(down[1]);
  const bool plain = s.format == WeightFormat::kPlain && s.down == WeightFormat::kPlain;
  check({.name = "experts_" + name,
         .inputs = inputs,
         .build =
             [op](const Inputs& in) {
               std::vector<Value> values = in.values;
               for (size_t i = static_cast<size_t>(op.scales()); i < values.size(); ++i)
                 if (is_float(values[i].dtype())) values[i] = cast(values[i], DType::f16);
               return Outputs{emit(op, values)};
             },
         .reference = [s, op](const Refs& in) { return Refs{expert_sums(s, op, in)}; },
         .gradient = false,
         .f64 = plain,
         // Products with quantized weights round what they multiply to bytes.
         .tolerance = plain ? 4e-6 : 0.03,
         .tolerance_low = plain ? 0.02 : 0.05});
}

TEST(Experts, ProductsAndTheirWeightedSum) {
  check_experts("one_row", {.rows = {1, 1}});
  check_experts("odd_sizes", {.rows = {3}, .chosen = 3, .k = 7, .n = 5, .hidden = 33, .addend = true});
  check_experts("shared", {.rows = {4, 5}, .experts = 3, .hidden = 40, .addend = true});
  check_experts("of_no_group", {.rows = {2, 1}, .lost = 2});
  check_experts("more_of_no_group", {.rows = {6}, .hidden = 4, .lost = 5});
  check_experts("many_rows", {.rows = {150}, .k = 8, .n = 3, .hidden = 8});
}

TEST(Experts, QuantizedWeights) {
  for (const WeightFormat format : {WeightFormat::kQ8, WeightFormat::kQ4, WeightFormat::kQ4m}) {
    const std::string name(EnumNames<WeightFormat>::names[static_cast<size_t>(format)]);
    check_experts(name, {.rows = {2}, .format = format, .down = format});
    check_experts(name + "_rows", {.rows = {7}, .format = format, .down = WeightFormat::kQ8, .addend = true});
    check_experts(name + "_down", {.rows = {1}, .down = format});
  }
  // Rows of several chunks of bytes, and more experts of a row than a block has warps.
  check_experts("q4m_long", {.rows = {2},
                             .chosen = 12,
                             .experts = 13,
                             .k = 2080,
                             .n = 32,
                             .hidden = 5,
                             .format = WeightFormat::kQ4m,
                             .down = WeightFormat::kQ4m});
}

// Runs 300 experts with two of two rows each, on all devices that there are.
TEST(Experts, ReportRowsPlacesAndOffsetsThatCannotBe) {
  constexpr int64_t kExperts = 300;
  const auto run = [](const std::vector<int64_t>& rows, const std::vector<int64_t>& places, int64_t bad,
                      int64_t offset, const std::string& device) {
    std::vector<int64_t> offsets(kExperts + 1, 4);
    std::iota(offsets.begin(), offsets.begin() + 4, 0);
    if (bad >= 0) offsets[static_cast<size_t>(bad)] = offset;
    const std::vector<float> weights(kExperts * 2, 0.5f), ones(4, 1.0f);
    return run_graph(
        {{"x", Tensor::of<float>({2, 2}, ones)},
         {"gate", Tensor::of<float>({kExperts, 1, 2}, weights)},
         {"up", Tensor::of<float>({kExperts, 1, 2}, weights)},
         {"down", Tensor::of<float>({kExperts, 2, 1}, weights)},
         {"rows", Tensor::of<int64_t>({4}, rows)},
         {"offsets", Tensor::of<int64_t>({kExperts + 1}, offsets)},
         {"places", Tensor::of<int64_t>({2, 2}, places)},
         {"factors", Tensor::of<float>({2, 2}, ones)}},
        [](const Inputs& in) {
          return std::vector<std::pair<std::string, Value>>{{"y", emit(ops::Experts{}, in.values)}};
        },
        {.device = device});
  };
  const std::vector<int64_t> rows = {0, 0, 1, 1}, places = {0, 1, 2, 3};
  for (const std::string device : {"cpu", "cuda"}) {
    if (device == "cuda" && !why_no_cuda().empty()) continue;
    run(rows, places, -1, 0, device);
    expect_error([&] { run({0, 0, 2, 1}, places, -1, 0, device); }, {"2", "experts"});
    expect_error([&] { run({0, -1, 1, 1}, places, -1, 0, device); }, {"-1", "experts"});
    expect_error([&] { run(rows, {0, 1, 4, 3}, -1, 0, device); }, {"4", "experts"});
    expect_error([&] { run(rows, places, kExperts, 5, device); }, {"5", "experts"});
    expect_error([&] { run(rows, places, 280, 3, device); }, {"experts"});
  }
}

TEST(Experts, ANanIsTheGreatestScore) {
  const std::vector<float> logits = {INFINITY, std::nanf(""), 1, 1, INFINITY, 2, INFINITY, 3, INFINITY};
  const auto chosen = run_graph({{"logits", Tensor::of<float>({3, 3}, logits)}}, [](const Inputs& in) {
    const auto route = emit_node(ops::Route{.k = 1, .scores = RouteScores::kSoftmaxOfChosen}, {in[0]});
    return std::vector<std::pair<std::string, Value>>{{"offsets", route[4]}, {"places", route[3]}};
  });
  EXPECT_EQ(chosen.at("offsets").to_doubles(), (std::vector<double>{0, 1, 3, 3}));
  EXPECT_EQ(chosen.at("places").to_doubles(), (std::vector<double>{1, 2, 0}));
}

TEST(Experts, SayWhatDoesNotFit) {
  const auto ids = [](const std::vector<int64_t>& values) {
    return run_graph({{"ids", Tensor::of<int64_t>({std::ssize(values), 1}, values)}}, [](const Inputs& in) {
      return std::vector<std::pair<std::string, Value>>{{"y", sort_groups(in[0], 3).places}};
    });
  };
  EXPECT_EQ(ids({2, 0, 2}).at("y").to_doubles(), (std::vector<double>{1, 0, 2}));
  expect_error([&] { ids({0, 3}); }, {"3", "sort_groups"});
  expect_error([&] { ids({-1}); }, {"-1", "sort_groups"});
  const auto infer = [](const std::vector<TensorType>& types, const ops::Route& op) {
    infer_case(types, [op](const Inputs& in) { return Outputs(emit_node(op, in.values)); });
  };
  expect_error(
      [&] {
        infer_case({{DType::i64, {2, 4}}}, [](const Inputs& in) {
          return Outputs{sort_groups(in[0], std::numeric_limits<int64_t>::max()).offsets};
        });
      },
      {"sort_groups"});
  const TensorType weights{DType::f32, {3, 4, 4}}, choices{DType::i64, {2, 2}};
  expect_error(
      [&] {
        infer_case({{DType::f32, {0, 4}},
                    weights,
                    weights,
                    weights,
                    {DType::i64, {4}},
                    {DType::i64, {4}},
                    choices,
                    {DType::f32, {2, 2}}},
                   [](const Inputs& in) { return Outputs{emit(ops::Experts{}, in.values)}; });
      },
      {"x and places must have the same number of rows"});
  expect_error([&] { infer({{DType::f32, {2, 4}}}, {.k = 5}); }, {"k must be from 1 to 4"});
  expect_error([&] { infer({{DType::f32, {2, 4}}, {DType::f32, {3}}}, {.k = 2}); }, {"bias must be f32[4]"});
}

}  // namespace
}  // namespace genesis::testing
