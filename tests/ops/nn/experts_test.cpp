// Tests the ops of mixtures of experts against loops: sorting pairs, routers with each kind of scores and with groups, and experts
// with weights of each format, with and without an addend, biases and a clamped activation, and with pairs of no group.
#include "schema/ops/nn/grouped_matmul.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "schema/encoding/q4m.h"
#include "schema/ops/create.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/tensor/index.h"
#include "schema/ops/tensor/reduce.h"
#include "schema/ops/tensor/reshape.h"
#include "schema/ops/tensor/sort.h"
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

// Replaces what is wanted outside of the best groups by -inf.
void keep_best_groups(const ops::Route& op, std::vector<double>& wanted) {
  const auto each = static_cast<int64_t>(wanted.size()) / op.groups;
  std::vector<std::pair<double, int64_t>> sums;  // less the sum, and the group
  for (int64_t g = 0; g < op.groups; ++g) {
    std::vector<double> own(wanted.begin() + g * each, wanted.begin() + (g + 1) * each);
    std::ranges::sort(own, std::greater<>());
    sums.emplace_back(-std::accumulate(own.begin(), own.begin() + op.best_of_group, 0.0), g);
  }
  std::ranges::sort(sums);
  for (auto i = static_cast<size_t>(op.chosen_groups); i < sums.size(); ++i)
    std::fill_n(wanted.begin() + sums[i].second * each, each, -INFINITY);
}

Refs routed(const RouteSizes& s, const Refs& in) {
  std::vector<int64_t> shape = s.rows;
  shape.push_back(s.op.k);
  Ref factors = ref_zeros(shape), ids = factors;
  for (int64_t row = 0; row < in[0].numel() / s.experts; ++row) {
    std::vector<double> scores, wanted, order(static_cast<size_t>(s.experts));
    for (int64_t e = 0; e < s.experts; ++e) scores.push_back(in[0][row * s.experts + e]);
    if (s.op.scores == RouteScores::kSoftmax) scores = softmax_of(scores);
    if (s.op.scores == RouteScores::kSigmoid)
      for (double& v : scores) v = 1 / (1 + std::exp(-v));
    std::iota(order.begin(), order.end(), 0);
    for (int64_t e = 0; e < s.experts; ++e)
      wanted.push_back(scores[static_cast<size_t>(e)] + (s.bias ? in[1][e] : 0));
    keep_best_groups(s.op, wanted);
    std::ranges::stable_sort(order, [&](double a, double b) {
      return wanted[static_cast<size_t>(a)] > wanted[static_cast<size_t>(b)];
    });
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

TEST(Experts, RoutersWithGroups) {
  // DeepSeek-V3, on one block and with more pairs than one has; DeepSeek-V2; groups that share a warp's lanes.
  const ops::Route v3 = {.k = 8,
                         .scores = RouteScores::kSigmoid,
                         .normalized = true,
                         .least_sum = 1e-20,
                         .factor = 2.5,
                         .groups = 8,
                         .chosen_groups = 4,
                         .best_of_group = 2};
  check_route("deepseek_v3", {.rows = {32, 1}, .experts = 256, .op = v3, .bias = true});
  check_route("deepseek_v3_rows", {.rows = {70}, .experts = 256, .op = v3, .bias = true});
  check_route(
      "deepseek_v2",
      {.rows = {3, 2}, .experts = 160, .op = {.k = 6, .factor = 16, .groups = 8, .chosen_groups = 3}});
  check_route(
      "small_groups",
      {.rows = {5}, .experts = 18, .op = {.k = 4, .groups = 6, .chosen_groups = 2, .best_of_group = 3}});
  check_route(
      "all_groups",
      {.rows = {5}, .experts = 12, .op = {.k = 5, .groups = 4, .chosen_groups = 4, .best_of_group = 2}});
}

// Makes a router with groups as a chain of single ops, with the outputs of route.
Outputs chain_of(const ops::Route& op, Value logits, Value bias) {
  const int64_t experts = logits.dim(1).value(), each = experts / op.groups;
  const Value scores = sigmoid(logits), wanted = scores + bias,
              grouped = reshape(wanted, {logits.dim(0), op.groups, each});
  const Value sums = sum(topk(grouped, op.best_of_group).values, {2}),
              best = topk(sums, op.chosen_groups).indices,
              is_best = any(eq(unsqueeze(best, 1), unsqueeze(arange(*logits.graph, op.groups), 1)), {2});
  const Value kept = reshape(where(unsqueeze(is_best, 2), grouped, -INFINITY), wanted.shape()),
              ids = topk(kept, op.k).indices;
  const SortedGroups sorted = sort_groups(ids, experts);
  return {gather(scores, 1, ids), sorted.rows, sorted.sorted, sorted.places, sorted.offsets};
}

// Equal scores, NaN and infinite biases are chosen in the order of topk, of groups and within them.
TEST(Experts, GroupsKeepTheOrderOfTopk) {
  constexpr int64_t kRows = 80, kExperts = 24;
  const ops::Route op = {
      .k = 5, .scores = RouteScores::kSigmoid, .groups = 6, .chosen_groups = 2, .best_of_group = 2};
  std::vector<float> logits, bias(kExperts, 0.25f);
  for (int64_t i = 0; i < kRows * kExperts; ++i) {
    const int64_t kind = i * i % 1009 * 7 % 64;
    logits.push_back(kind == 0 ? NAN : static_cast<float>(kind % 4));
  }
  for (const int64_t least : {5, 6, 7, 12}) bias[static_cast<size_t>(least)] = -INFINITY;
  for (const std::string device : {"cpu", "cuda"}) {
    if (device == "cuda" && !why_no_cuda().empty()) continue;
    for (const int64_t rows : {kRows, int64_t{9}, int64_t{1}}) {
      const std::vector<float> own(logits.begin(), logits.begin() + rows * kExperts);
      const auto both = run_graph({{"logits", Tensor::of<float>({rows, kExperts}, own)},
                                   {"bias", Tensor::of<float>({kExperts}, bias)}},
                                  [&](const Inputs& in) {
                                    std::vector<std::pair<std::string, Value>> named;
                                    const auto fused = emit_node(op, {in[0], in[1]});
                                    const Outputs chain = chain_of(op, in[0], in[1]);
                                    for (size_t i = 0; i < fused.size(); ++i) {
                                      named.emplace_back("fused" + std::to_string(i), fused[i]);
                                      named.emplace_back("chain" + std::to_string(i), chain[i]);
                                    }
                                    return named;
                                  },
                                  {.device = device});
      for (const std::string i : {"1", "2", "3", "4"})
        EXPECT_EQ(both.at("fused" + i).to_doubles(), both.at("chain" + i).to_doubles())
            << device << ", " << rows << " rows, output " << i;
      const auto fused = both.at("fused0").to_doubles(), chain = both.at("chain0").to_doubles();
      for (size_t i = 0; i < fused.size(); ++i)
        EXPECT_TRUE(std::isnan(chain[i]) ? std::isnan(fused[i]) : std::abs(fused[i] - chain[i]) < 1e-6)
            << device << ": " << fused[i] << " and " << chain[i];
    }
  }
}

// --- experts

struct ExpertSizes {
  std::vector<int64_t> rows;  // leading axes of places
  int64_t chosen = 2, experts = 4, k = 32, n = 64, hidden = 10;
  WeightFormat format = WeightFormat::kPlain, down = WeightFormat::kPlain;
  bool addend = false;
  int64_t lost = 0;  // places before the first offset, which belong to no expert
  bool biases = false;
  double limit = 0;  // above 0: the clamped activation

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

double activated(const ops::Experts& op, double gate, double up) {
  if (op.activation == ExpertActivation::kSwiglu) return gate / (1 + std::exp(-gate)) * up;
  const double g = std::min(gate, op.limit), u = std::clamp(up, -op.limit, op.limit);
  return g / (1 + std::exp(-op.slope * g)) * (u + 1);
}

Ref expert_sums(const ExpertSizes& s, const ops::Experts& op, const Refs& in) {
  using Op = ops::Experts;
  const auto at = [&](int i) -> const Ref& { return in[static_cast<size_t>(i)]; };
  const auto bias = [&](int i, int64_t line) { return s.biases ? at(op.biases() + i)[line] : 0; };
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
        double gate = bias(0, e * s.n + j), up = bias(1, e * s.n + j);
        for (int64_t p = 0; p < s.k; ++p) {
          gate += at(Op::kX)[x + p] *
                  weight_at(at(Op::kGate), scales(op.scales()), s.format, e * s.n + j, p, s.k);
          up += at(Op::kX)[x + p] *
                weight_at(at(Op::kUp), scales(op.scales() + 1), s.format, e * s.n + j, p, s.k);
        }
        between.push_back(activated(op, gate, up));
      }
      for (int64_t j = 0; j < s.hidden; ++j) {
        double result = bias(2, e * s.hidden + j);
        for (int64_t p = 0; p < s.n; ++p)
          result += between[static_cast<size_t>(p)] *
                    weight_at(at(Op::kDown), scales(op.down_scales()), s.down, e * s.hidden + j, p, s.n);
        y[pair / s.chosen * s.hidden + j] += at(Op::kFactors)[pair] * result;
      }
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
  const ops::Experts op{
      .format = s.format,
      .down_format = s.down,
      .has_addend = s.addend,
      .has_biases = s.biases,
      .activation = s.limit > 0 ? ExpertActivation::kClampedSwiglu : ExpertActivation::kSwiglu,
      .limit = s.limit,
      .slope = 1.7};
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
  if (s.biases)
    inputs.insert(inputs.end(),
                  {real({s.experts, s.n}), real({s.experts, s.n}), real({s.experts, s.hidden})});
  if (gate.size() > 1) inputs.insert(inputs.end(), {gate[1], up[1]});
  if (down.size() > 1) inputs.push_back(down[1]);
  const bool plain = s.format == WeightFormat::kPlain && s.down == WeightFormat::kPlain;
  check(
      {.name = "experts_" + name,
       .inputs = inputs,
       .build =
           [op](const Inputs& in) {
             std::vector<Value> values = in.values;
             for (auto i = static_cast<size_t>(op.scales()); i < values.size(); ++i)
               if (is_float(values[i].dtype())) values[i] = cast(values[i], DType::f16);
             return Outputs{emit(op, values)};
           },
       .reference = [s, op](const Refs& in) { return Refs{expert_sums(s, op, in)}; },
       .gradient = false,
       .f64 = plain,
       // Products with quantized weights round what they multiply to bytes. The products with gate and up are rounded in
       // proportion to what k terms add up to.
       .tolerance = plain ? 4e-6 : 0.03,
       .tolerance_low = plain ? 0.02 * std::max(1.0, static_cast<double>(s.k) / 128) : 0.05});
}

TEST(Experts, ProductsAndTheirWeightedSum) {
  check_experts("one_row", {.rows = {1, 1}});
  check_experts("odd_sizes", {.rows = {3}, .chosen = 3, .k = 7, .n = 5, .hidden = 33, .addend = true});
  check_experts("shared", {.rows = {4, 5}, .experts = 3, .hidden = 40, .addend = true});
  check_experts("shared_long", {.rows = {9}, .experts = 5, .k = 328, .n = 88, .hidden = 72});
  check_experts("of_no_group", {.rows = {2, 1}, .lost = 2});
  check_experts("more_of_no_group", {.rows = {6}, .hidden = 4, .lost = 5});
  check_experts("many_rows", {.rows = {150}, .k = 8, .n = 3, .hidden = 8});
}

// The limits cut off a part of what the products and biases give.
TEST(Experts, BiasesAndAClampedActivation) {
  check_experts("biases", {.rows = {1, 1}, .biases = true});
  check_experts("clamped", {.rows = {2}, .limit = 0.3});
  check_experts("gpt_oss", {.rows = {3, 1}, .k = 24, .n = 40, .addend = true, .biases = true, .limit = 0.4});
  check_experts("gpt_oss_rows", {.rows = {9}, .chosen = 3, .hidden = 40, .biases = true, .limit = 0.4});
  check_experts("gpt_oss_one_expert",
                {.rows = {37}, .chosen = 1, .experts = 1, .hidden = 24, .biases = true, .limit = 0.4});
  check_experts("biases_of_no_group", {.rows = {6}, .hidden = 4, .lost = 5, .biases = true});
  for (const int64_t rows : {2, 7})
    check_experts("gpt_oss_q4_" + std::to_string(rows), {.rows = {rows},
                                                         .format = WeightFormat::kQ4,
                                                         .down = WeightFormat::kQ8,
                                                         .biases = true,
                                                         .limit = 0.4});
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
  const auto infer_experts = [](int64_t rows, const ops::Experts& op) {
    const TensorType weights{DType::f32, {3, 4, 4}};
    infer_case({{DType::f32, {rows, 4}},
                weights,
                weights,
                weights,
                {DType::i64, {4}},
                {DType::i64, {4}},
                {DType::i64, {2, 2}},
                {DType::f32, {2, 2}}},
               [&](const Inputs& in) { return Outputs{emit(op, in.values)}; });
  };
  expect_error([&] { infer_experts(0, {}); }, {"x and places must have the same number of rows"});
  constexpr auto kClamped = ExpertActivation::kClampedSwiglu;
  infer_experts(2, {.activation = kClamped, .limit = 7, .slope = 1.702});
  for (const double limit : {0.0, -5.0, std::nan("")})
    expect_error([&] { infer_experts(2, {.activation = kClamped, .limit = limit}); }, {"a limit above 0"});
  expect_error([&] { infer_experts(2, {.activation = kClamped, .limit = 7, .slope = INFINITY}); },
               {"a finite slope, got 7 and inf"});
  expect_error([&] { infer({{DType::f32, {2, 4}}}, {.k = 5}); }, {"k must be from 1 to 4"});
  expect_error([&] { infer({{DType::f32, {2, 4}}, {DType::f32, {3}}}, {.k = 2}); }, {"bias must be f32[4]"});
  const std::vector<TensorType> twelve = {{DType::f32, {2, 12}}};
  expect_error([&] { infer(twelve, {.groups = 5}); }, {"groups must be from 1 to 32 and divide 12", "5"});
  expect_error([&] { infer(twelve, {.groups = 0}); }, {"groups must be from 1 to 32"});
  expect_error([&] { infer(twelve, {.k = 5, .groups = 3}); }, {"chosen_groups", "have 5 experts", "of 4"});
  expect_error([&] { infer(twelve, {.groups = 3, .chosen_groups = 4}); }, {"chosen_groups", "1 to 3"});
  expect_error([&] { infer(twelve, {.groups = 3, .best_of_group = 5}); }, {"best_of_group", "1 to 4"});
}

}  // namespace
}  // namespace genesis::testing
