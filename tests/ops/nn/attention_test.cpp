// Tests attention against its formula, and the kernels that work block by block against the one that does not.
#include <hwy/targets.h>

#include <cmath>
#include <limits>
#include <random>

#include "backends/cpu/kernels.h"
#include "schema/ops/nn/attention.h"
#include "tests/op_harness.h"

namespace genesis::testing {
namespace {

struct Setting {
  int64_t batch = 1, heads = 1, key_heads = 1, queries = 1, keys = 1, size = 4, v_size = 0;  // v_size 0: size
  AttentionOptions options;
  std::vector<int64_t> mask = {};        // sizes of the mask; empty: no mask
  int64_t key_length = -1;               // -1: none
  bool gradient = true;                  // also check the gradient, which is too slow with many keys
  std::vector<double> key_lengths = {};  // one per row of the batch, in place of key_length
  std::vector<double> key_starts = {};   // one per query of each row of the batch; empty: none
  int64_t directions = 0;                // OpCase::directions
  double range = 2;                      // elements of q and k are in [-range, range]

  bool has_start() const { return !key_starts.empty(); }
  CaseInput start_input() const { return integer_data({batch, queries}, key_starts); }
  Tensor start_tensor() const {
    return Tensor::of<int64_t>({batch, queries}, std::vector<int64_t>(key_starts.begin(), key_starts.end()));
  }
  bool has_length() const { return key_length >= 0 || !key_lengths.empty(); }
  int64_t length_of(int64_t b) const {
    if (!key_lengths.empty()) return static_cast<int64_t>(key_lengths[static_cast<size_t>(b)]);
    return key_length >= 0 ? key_length : keys;
  }
  CaseInput length_input() const {
    if (key_lengths.empty()) return integer_data({}, {static_cast<double>(key_length)});
    return integer_data({batch}, key_lengths);
  }
  Tensor length_tensor() const {
    if (key_lengths.empty()) return Tensor::scalar(key_length);
    return Tensor::of<int64_t>({batch}, std::vector<int64_t>(key_lengths.begin(), key_lengths.end()));
  }
  int64_t value_size() const { return v_size ? v_size : size; }
  bool heads_first() const { return options.layout == AttentionLayout::kBHTD; }
  std::vector<int64_t> shape(int64_t h, int64_t t, int64_t d) const {
    return heads_first() ? std::vector<int64_t>{batch, h, t, d} : std::vector<int64_t>{batch, t, h, d};
  }
  int64_t at(int64_t b, int64_t h, int64_t t, int64_t d, const std::vector<int64_t>& sizes) const {
    const int64_t row = heads_first() ? (b * sizes[1] + h) * sizes[2] + t : (b * sizes[1] + t) * sizes[2] + h;
    return row * sizes[3] + d;
  }
};

double mask_at(const Ref& mask, int64_t b, int64_t h, int64_t i, int64_t j) {
  const std::vector<int64_t> full = {b, h, i, j};
  std::vector<int64_t> index;
  for (int64_t axis = 0; axis < mask.rank(); ++axis)
    index.push_back(mask.dim(axis) == 1 ? 0 : full[static_cast<size_t>(axis + 4 - mask.rank())]);
  return mask[ravel(index, mask.shape)];
}

// Returns one row of weights; all zero if the query sees no key.
std::vector<double> weights(const Setting& s, const Refs& x, const Ref* mask, bool mask_is_bool, int64_t b,
                            int64_t h, int64_t i) {
  const double infinity = std::numeric_limits<double>::infinity();
  const double scale = s.options.scale != 0 ? s.options.scale : 1 / std::sqrt(static_cast<double>(s.size));
  const int64_t length = s.length_of(b);
  std::vector<double> p(static_cast<size_t>(s.keys), -infinity);
  double top = -infinity, sum = 0;
  const auto start = s.has_start() ? static_cast<int64_t>(s.key_starts[size_t(b * s.queries + i)]) : 0;
  for (int64_t j = std::max<int64_t>(start, 0); j < std::min(length, s.keys); ++j) {
    const int64_t last = i + length - s.queries;
    if (s.options.causal && j > last) continue;
    if (s.options.window > 0 && j <= last - s.options.window) continue;
    double dot = 0;
    for (int64_t d = 0; d < s.size; ++d)
      dot +=
          x[0][s.at(b, h, i, d, x[0].shape)] * x[1][s.at(b, h / (s.heads / s.key_heads), j, d, x[1].shape)];
    double score = dot * scale;
    if (mask)
      score = mask_is_bool ? (mask_at(*mask, b, h, i, j) != 0 ? score : -infinity)
                           : score + mask_at(*mask, b, h, i, j);
    p[static_cast<size_t>(j)] = score;
    top = std::max(top, score);
  }
  for (double& w : p) sum += w = top == -infinity ? 0 : std::exp(w - top);
  for (double& w : p) w = sum == 0 ? 0 : w / sum;
  return p;
}

Ref attention_reference(const Setting& s, const Refs& x, bool mask_is_bool) {
  Ref y = ref_zeros(s.shape(s.heads, s.queries, s.value_size()));
  for (int64_t b = 0; b < s.batch; ++b)
    for (int64_t h = 0; h < s.heads; ++h)
      for (int64_t i = 0; i < s.queries; ++i) {
        const auto p = weights(s, x, s.mask.empty() ? nullptr : &x[3], mask_is_bool, b, h, i);
        for (int64_t j = 0; j < s.keys; ++j)
          for (int64_t d = 0; d < s.value_size(); ++d)
            y[s.at(b, h, i, d, y.shape)] +=
                p[static_cast<size_t>(j)] * x[2][s.at(b, h / (s.heads / s.key_heads), j, d, x[2].shape)];
      }
  return y;
}

// Returns the sums of absolute weighted values. An error of a weight is that of its score, which stays below 8 here.
Ref attention_terms(const Setting& s, Refs x, bool mask_is_bool) {
  for (double& v : x[2].data) v = std::abs(v);
  return attention_reference(s, x, mask_is_bool);
}

// Splits a tensor of heads into q, k and v.
Refs unpacked(const Setting& s, const Refs& x) {
  Refs parts = {ref_zeros(s.shape(s.heads, s.queries, s.size)),
                ref_zeros(s.shape(s.key_heads, s.keys, s.size)),
                ref_zeros(s.shape(s.key_heads, s.keys, s.size))};
  const int64_t rows = s.batch * s.queries;
  int64_t from = 0;
  for (int64_t row = 0; row < rows; ++row)
    for (Ref& part : parts)
      for (int64_t i = 0; i < part.numel() / rows; ++i) part[row * (part.numel() / rows) + i] = x[0][from++];
  parts.insert(parts.end(), x.begin() + 1, x.end());
  return parts;
}

struct OptionalInputs {
  Value mask, start, length;
};
OptionalInputs optional_inputs(const Setting& s, const Inputs& x, size_t first) {
  OptionalInputs found;
  if (!s.mask.empty()) found.mask = x[first++];
  if (s.has_start()) found.start = x[first++];
  if (s.has_length()) found.length = x[first];
  return found;
}

void check_packed_attention(const std::string& name, const Setting& s, CaseInput mask = {}) {
  OpCase one{.name = "packed_attention_" + name,
             .inputs = {real(s.shape(s.heads + 2 * s.key_heads, s.queries, s.size), -2, 2)},
             .build =
                 [=](const Inputs& x) {
                   const auto [mask_value, start, length] = optional_inputs(s, x, 1);
                   return Outputs{packed_attention(x[0], s.key_heads, s.options, mask_value, length, start)};
                 },
             .reference =
                 [=](const Refs& x) {
                   return Refs{attention_reference(s, unpacked(s, x), mask.dtype == DType::boolean)};
                 }};
  one.terms = [=](const Refs& x) {
    return Refs{attention_terms(s, unpacked(s, x), mask.dtype == DType::boolean)};
  };
  if (!s.mask.empty()) one.inputs.push_back(mask);
  if (s.has_start()) one.inputs.push_back(s.start_input());
  if (s.has_length()) one.inputs.push_back(s.length_input());
  check(one);
}

void check_attention(const std::string& name, const Setting& s, CaseInput mask = {}) {
  OpCase one{.name = "attention_" + name,
             .inputs = {real(s.shape(s.heads, s.queries, s.size), -s.range, s.range),
                        real(s.shape(s.key_heads, s.keys, s.size), -s.range, s.range),
                        real(s.shape(s.key_heads, s.keys, s.value_size()))},
             .build =
                 [=](const Inputs& x) {
                   const auto [mask_value, start, length] = optional_inputs(s, x, 3);
                   return Outputs{attention(x[0], x[1], x[2], s.options, mask_value, length, start)};
                 },
             .reference =
                 [=](const Refs& x) { return Refs{attention_reference(s, x, mask.dtype == DType::boolean)}; },
             .gradient = s.gradient,
             .directions = s.directions};
  one.terms = [=](const Refs& x) { return Refs{attention_terms(s, x, mask.dtype == DType::boolean)}; };
  if (!s.mask.empty()) one.inputs.push_back(mask);
  if (s.has_start()) one.inputs.push_back(s.start_input());
  if (s.has_length()) one.inputs.push_back(s.length_input());
  check(one);
}

constexpr AttentionOptions kCausal{.causal = true};
constexpr AttentionOptions kHeadsFirst{.layout = AttentionLayout::kBHTD};
constexpr AttentionOptions kCausalHeadsFirst{.causal = true, .layout = AttentionLayout::kBHTD};

TEST(Attention, Plain) {
  check_attention("plain", {.batch = 2, .heads = 2, .key_heads = 2, .queries = 5, .keys = 7});
  check_attention("heads_first",
                  {.batch = 2, .heads = 2, .key_heads = 2, .queries = 5, .keys = 7, .options = kHeadsFirst});
  check_attention("scaled", {.heads = 2, .key_heads = 2, .queries = 6, .keys = 6, .options = {.scale = 0.7}});
  check_attention("other_value_size",
                  {.heads = 2, .key_heads = 1, .queries = 6, .keys = 5, .size = 3, .v_size = 6});
  check_attention("one_of_each", {});
}

TEST(Attention, Causal) {
  check_attention("causal",
                  {.batch = 2, .heads = 2, .key_heads = 2, .queries = 6, .keys = 6, .options = kCausal});
  check_attention("causal_longer_keys",
                  {.heads = 2, .key_heads = 2, .queries = 5, .keys = 9, .options = kCausal});
  check_attention("causal_blind_queries", {.queries = 9, .keys = 5, .options = kCausal});
  check_attention("causal_heads_first",
                  {.heads = 2, .key_heads = 1, .queries = 6, .keys = 8, .options = kCausalHeadsFirst});
}

TEST(Attention, GroupedHeads) {
  check_attention("grouped",
                  {.batch = 2, .heads = 4, .key_heads = 2, .queries = 5, .keys = 6, .options = kCausal});
  check_attention("one_key_head", {.heads = 3, .key_heads = 1, .queries = 5, .keys = 6});
}

TEST(Attention, Masks) {
  const Setting base{.batch = 2, .heads = 2, .key_heads = 2, .queries = 5, .keys = 6};
  Setting s = base;
  for (const std::vector<int64_t>& sizes :
       std::vector<std::vector<int64_t>>{{5, 6}, {2, 2, 5, 6}, {2, 1, 1, 6}, {1, 2, 5, 1}, {6}}) {
    s.mask = sizes;
    std::string name = "mask";
    for (int64_t size : sizes) name += "_" + std::to_string(size);
    check_attention("bool_" + name, s, booleans(sizes));
    check_attention("float_" + name, s, real(sizes, -2, 2));
  }
  s.mask = {5, 6};
  s.options = kCausal;
  check_attention("float_mask_causal", s, real({5, 6}, -2, 2));
  s.options = kHeadsFirst;
  check_attention("float_mask_heads_first", s, real({5, 6}, -2, 2));
}

TEST(Attention, MaskThatHidesAWholeRow) {
  Setting s{.queries = 2, .keys = 3, .mask = {2, 3}};
  check_attention(
      "hidden_row", s,
      {.dtype = DType::boolean, .shape = {2, 3}, .values = {0, 0, 0, 1, 0, 1}, .differentiable = false});
}

TEST(Attention, KeyLength) {
  check_attention("key_length", {.heads = 2, .key_heads = 2, .queries = 5, .keys = 9, .key_length = 7});
  check_attention(
      "key_length_causal",
      {.batch = 2, .heads = 4, .key_heads = 2, .queries = 5, .keys = 9, .options = kCausal, .key_length = 6});
  check_attention("key_length_zero", {.queries = 2, .keys = 4, .key_length = 0});
}

TEST(Attention, KeyLengthOfEachRow) {
  check_attention(
      "key_lengths",
      {.batch = 3, .heads = 2, .key_heads = 2, .queries = 5, .keys = 9, .key_lengths = {9, 0, 4}});
  check_attention("key_lengths_causal", {.batch = 3,
                                         .heads = 4,
                                         .key_heads = 2,
                                         .queries = 5,
                                         .keys = 9,
                                         .options = kCausal,
                                         .key_lengths = {6, 9, 5}});
  // The queries of a row are padded beyond the end of its keys.
  check_attention("key_lengths_beyond", {.batch = 2,
                                         .heads = 2,
                                         .key_heads = 1,
                                         .queries = 5,
                                         .keys = 9,
                                         .options = kCausal,
                                         .key_lengths = {12, 7}});
  check_attention(
      "key_lengths_masked",
      {.batch = 2, .queries = 3, .keys = 6, .options = kCausal, .mask = {3, 6}, .key_lengths = {4, 6}},
      real({3, 6}, -2, 2));
  check_attention("key_lengths_decode", {.batch = 3,
                                         .heads = 4,
                                         .key_heads = 2,
                                         .queries = 1,
                                         .keys = 300,
                                         .size = 64,
                                         .options = kCausal,
                                         .gradient = false,
                                         .key_lengths = {300, 1, 129}});
}

TEST(Attention, Window) {
  const auto options = [](int64_t window) { return AttentionOptions{.causal = true, .window = window}; };
  for (int64_t window : {1, 3, 6, 40})
    check_attention(
        "window_" + std::to_string(window),
        {.batch = 2, .heads = 2, .key_heads = 1, .queries = 6, .keys = 8, .options = options(window)});
  check_attention("window_blind", {.queries = 9, .keys = 5, .options = options(2)});
  check_attention("window_key_length", {.batch = 2,
                                        .heads = 2,
                                        .key_heads = 2,
                                        .queries = 4,
                                        .keys = 9,
                                        .options = options(3),
                                        .key_length = 7});
  check_attention("window_key_lengths",
                  {.batch = 2, .queries = 4, .keys = 9, .options = options(3), .key_lengths = {7, 4}});
  check_attention("window_masked", {.queries = 5, .keys = 6, .options = options(2), .mask = {5, 6}},
                  real({5, 6}, -2, 2));
  check_packed_attention(
      "window", {.batch = 2, .heads = 2, .key_heads = 1, .queries = 6, .keys = 6, .options = options(4)});
}

// Returns the key starts for texts of these lengths in a row of `queries`.
std::vector<double> starts_of_texts(const std::vector<int64_t>& lengths, int64_t queries) {
  std::vector<double> starts;
  int64_t start = 0;
  for (const int64_t length : lengths) {
    starts.insert(starts.end(), static_cast<size_t>(length), static_cast<double>(start));
    start += length;
  }
  starts.resize(static_cast<size_t>(queries), static_cast<double>(start));
  return starts;
}

// A row contains several texts, and each query sees only keys of its own text.
TEST(Attention, KeyStarts) {
  const std::vector<double> two_rows = {0, 0, 0, 3, 3, 5, 0, 1, 1, 1, 1, 1};
  const Setting texts{.batch = 2, .heads = 4, .key_heads = 2, .queries = 6, .keys = 6, .options = kCausal};
  Setting s = texts;
  s.key_starts = two_rows;
  check_attention("key_starts", s);
  check_packed_attention("key_starts", s);
  s.options.window = 2;
  check_attention("key_starts_window", s);
  s.options.window = 0;
  s.mask = {6, 6};
  check_attention("key_starts_masked", s, real({6, 6}, -2, 2));
  check_attention("key_starts_hidden", s, booleans({6, 6}));
  s.mask = {};
  s.key_lengths = {6, 4};
  check_attention("key_starts_key_lengths", s);
  // Not causal, with other lengths, and with queries that see nothing. A start before the first key means the first
  // key.
  check_attention(
      "key_starts_both_ways",
      {.batch = 2, .heads = 2, .key_heads = 1, .queries = 3, .keys = 7, .key_starts = {-4, 2, 2, 5, 7, 90}});
  check_attention("key_starts_heads_first",
                  {.queries = 4, .keys = 6, .options = kCausalHeadsFirst, .key_starts = {0, 0, 4, 4}});
  check_attention("key_starts_decode", {.batch = 2,
                                        .heads = 4,
                                        .key_heads = 2,
                                        .queries = 2,
                                        .keys = 300,
                                        .size = 64,
                                        .options = kCausal,
                                        .gradient = false,
                                        .key_starts = {0, 170, 299, 299}});
}

TEST(Attention, KeyStartsThatFallAreAnError) {
  expect_error(
      [] {
        run_graph(
            {{"q", Tensor::zeros({DType::f32, {1, 3, 1, 4}})}, {"s", Tensor::of<int64_t>({1, 3}, {0, 1, 0})}},
            [](const Inputs& x) {
              return std::vector<std::pair<std::string, Value>>{
                  {"y", attention(x[0], x[0], x[0], kCausal, {}, {}, x[1])}};
            });
      },
      {"attention", "falls along a row", "side by side"});
}

// There are more keys than a block of any kernel implementation has, so that blocks are skipped.
TEST(Attention, WindowOverManyKeys) {
  const auto options = [](int64_t window) { return AttentionOptions{.causal = true, .window = window}; };
  for (int64_t window : {5, 64, 130})
    check_attention("window_many_" + std::to_string(window), {.heads = 2,
                                                              .key_heads = 1,
                                                              .queries = 150,
                                                              .keys = 200,
                                                              .options = options(window),
                                                              .gradient = false});
  for (int64_t window : {1, 100, 290})
    check_attention("window_decode_" + std::to_string(window), {.batch = 2,
                                                                .heads = 4,
                                                                .key_heads = 2,
                                                                .queries = 2,
                                                                .keys = 300,
                                                                .size = 64,
                                                                .options = options(window),
                                                                .gradient = false,
                                                                .key_lengths = {300, 140}});
}

// The smallest sizes that the implementations on tensor cores of a GPU accept, and one query with enough keys to share.
TEST(Attention, HeadsOf64) {
  const Setting base{
      .heads = 2, .key_heads = 1, .queries = 33, .keys = 40, .size = 64, .options = kCausal, .directions = 6};
  check_attention("heads_of_64", base);
  Setting s = base;
  s.options.window = 7;
  check_attention("heads_of_64_window", s);
  s = base;
  s.keys = s.queries;
  s.key_starts = starts_of_texts({20, 13}, s.queries);
  check_attention("heads_of_64_texts", s);
  check_attention(
      "heads_of_64_split",
      {.heads = 2, .key_heads = 1, .keys = 1300, .size = 64, .options = kCausal, .gradient = false});
}

// Other head sizes that GPUs have kernels for, at their smallest number of scores: all keys, a window, several texts, and
// few queries.
class OtherHeads : public ::testing::TestWithParam<std::pair<int64_t, int64_t>> {
 protected:
  Setting setting(int64_t queries, int64_t keys) const {
    return {.heads = 2,
            .key_heads = 1,
            .queries = queries,
            .keys = keys,
            .size = GetParam().first,
            .v_size = GetParam().second,
            .options = kCausal,
            .gradient = false,
            .directions = 6,
            .range = 1};
  }
  std::string name(const char* of) const { return of + std::to_string(GetParam().first); }
};

TEST_P(OtherHeads, SeeAllKeys) {
  Setting s = setting(33, 40);
  s.gradient = true;
  s.range = 1.4;
  check_attention(name("all_keys_"), s);
}

TEST_P(OtherHeads, SeeRangesOfKeys) {
  Setting s = setting(33, 40);
  s.options.window = 7;
  check_attention(name("window_"), s);
  s = setting(33, 33);
  s.key_starts = starts_of_texts({20, 13}, s.queries);
  check_attention(name("texts_"), s);
}

TEST_P(OtherHeads, Decode) {
  check_attention(name("split_"), setting(1, 1300));
  Setting s = setting(2, 150);
  s.batch = s.key_heads = 2;
  s.options.window = 100;
  s.key_lengths = {150, 70};
  check_attention(name("few_queries_"), s);
}

using Sizes = std::pair<int64_t, int64_t>;
INSTANTIATE_TEST_SUITE_P(Attention, OtherHeads,
                         ::testing::Values(Sizes{80, 80}, Sizes{96, 96}, Sizes{192, 128}, Sizes{256, 256},
                                           Sizes{512, 512}));

// Heads of 16 with few queries use the implementation for decoding.
TEST(Attention, Decode) {
  check_attention(
      "decode",
      {.batch = 2, .heads = 4, .key_heads = 2, .queries = 1, .keys = 9, .size = 16, .options = kCausal});
  check_attention(
      "decode_two_queries",
      {.heads = 2, .key_heads = 1, .queries = 2, .keys = 9, .size = 16, .options = kCausal, .key_length = 5});
  check_attention("decode_many_heads",
                  {.heads = 20, .key_heads = 1, .queries = 1, .keys = 3, .size = 16, .options = kHeadsFirst});
  check_attention("decode_mask",
                  {.heads = 4, .key_heads = 2, .queries = 2, .keys = 5, .size = 16, .mask = {4, 2, 5}},
                  real({4, 2, 5}));
}

TEST(Attention, Packed) {
  check_packed_attention("plain", {.batch = 2, .heads = 2, .key_heads = 2, .queries = 5, .keys = 5});
  check_packed_attention(
      "grouped", {.batch = 2, .heads = 6, .key_heads = 2, .queries = 6, .keys = 6, .options = kCausal});
  check_packed_attention("one_query", {.batch = 2, .heads = 4, .key_heads = 2, .size = 16});
  check_packed_attention(
      "key_length",
      {.heads = 4, .key_heads = 2, .queries = 3, .keys = 3, .size = 16, .options = kCausal, .key_length = 2});
  check_packed_attention("float_mask", {.heads = 4, .key_heads = 2, .queries = 5, .keys = 5, .mask = {5, 5}},
                         real({5, 5}, -2, 2));
  check_packed_attention(
      "bool_mask", {.batch = 2, .heads = 2, .key_heads = 1, .queries = 4, .keys = 4, .mask = {2, 1, 1, 4}},
      booleans({2, 1, 1, 4}));
  check_packed_attention("empty", {.heads = 2, .key_heads = 1, .queries = 0, .keys = 0});
}

TEST(Attention, EmptySizes) {
  check_attention("no_queries", {.heads = 2, .key_heads = 2, .queries = 0, .keys = 4});
  check_attention("no_keys", {.heads = 2, .key_heads = 2, .queries = 3, .keys = 0});
  check_attention("no_batch", {.batch = 0, .queries = 3, .keys = 3});
}

TEST(Attention, NanInAQueryShows) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto results = run_graph(
      {{"q", Tensor::of<float>({1, 2, 1, 1}, {nan, 1})}, {"k", Tensor::of<float>({1, 2, 1, 1}, {1, 2})}},
      [](const Inputs& x) {
        return std::vector<std::pair<std::string, Value>>{{"y", attention(x[0], x[1], x[1])}};
      });
  EXPECT_TRUE(std::isnan(results.at("y").as<float>()[0]));
  EXPECT_FALSE(std::isnan(results.at("y").as<float>()[1]));
}

TEST(Attention, KeyLengthOutOfRangeIsAnError) {
  expect_error(
      [] {
        run_graph({{"q", Tensor::zeros({DType::f32, {1, 1, 1, 4}})},
                   {"k", Tensor::zeros({DType::f32, {1, 3, 1, 4}})},
                   {"n", Tensor::scalar<int64_t>(5)}},
                  [](const Inputs& x) {
                    return std::vector<std::pair<std::string, Value>>{
                        {"y", attention(x[0], x[1], x[1], {}, {}, x[2])}};
                  });
      },
      {"attention", "5"});
}

TEST(Attention, Errors) {
  const auto build = [](std::vector<TensorType> types, AttentionOptions options = {}) {
    return [=] {
      infer_case(types, [=](const Inputs& x) {
        return Outputs{attention(x[0], x[1], x[2], options, types.size() > 3 ? x[3] : Value{},
                                 types.size() > 4 ? x[4] : Value{})};
      });
    };
  };
  const TensorType q{DType::f32, {2, 5, 4, 8}}, k{DType::f32, {2, 6, 2, 8}};
  expect_error(build({q, {DType::f32, {3, 6, 2, 8}}, k}), {"batch sizes", "f32[2,5,4,8]", "f32[3,6,2,8]"});
  expect_error(build({q, {DType::f32, {2, 6, 2, 16}}, k}), {"head sizes of q and k"});
  expect_error(build({q, {DType::f32, {2, 6, 3, 8}}, {DType::f32, {2, 6, 3, 8}}}),
               {"4 query heads", "3 key heads"});
  expect_error(build({q, k, {DType::f32, {2, 7, 2, 8}}}), {"k and v differ"});
  expect_error(build({{DType::f32, {5, 4, 8}}, k, k}), {"[batch, time, heads, head_size]", "f32[5,4,8]"});
  expect_error(build({q, k, k, {DType::boolean, {5, 5}}}), {"mask bool[5,5]", "[2,4,5,6]"});
  expect_error(build({q, k, k, {DType::i32, {5, 6}}}), {"mask must be bool or floating-point"});
  expect_error(build({q, k, k, {DType::boolean, {5, 6}}, {DType::i64, {1}}}),
               {"key_length must be an i64 scalar"});
  expect_error(
      [&] {
        infer_case({q, k, k, {DType::i64, {2, 6}}},
                   [](const Inputs& x) { return Outputs{attention(x[0], x[1], x[2], {}, {}, {}, x[3])}; });
      },
      {"key_start must be i64[2,5]", "i64[2,6]"});
}

TEST(Attention, PackedErrors) {
  const auto build = [](TensorType qkv, int64_t key_heads, AttentionOptions options = {}) {
    return [=] {
      infer_case({qkv}, [=](const Inputs& x) { return Outputs{packed_attention(x[0], key_heads, options)}; });
    };
  };
  const TensorType qkv{DType::f32, {2, 5, 8, 16}};
  expect_error(build(qkv, 5), {"no room", "5 heads", "f32[2,5,8,16]"});
  expect_error(build(qkv, 3), {"2 query heads", "3 key heads"});
  expect_error(build(qkv, 2, kHeadsFirst), {"[batch, time, heads, head_size]"});
  expect_error(build({DType::f32, {2, 5, Dim::symbol("heads"), 16}}, 2), {"must be known"});
  expect_error(build(qkv, 0), {"key_heads must be positive"});
}

TEST(Attention, SymbolicSizes) {
  const Dim batch = Dim::symbol("batch"), time = Dim::symbol("time");
  const TensorType q{DType::bf16, {batch, time, 8, 64}}, k{DType::bf16, {batch, time, 2, 64}};
  const auto types =
      infer_case({q, k, k}, [](const Inputs& x) { return Outputs{attention(x[0], x[1], x[2], kCausal)}; });
  EXPECT_EQ(types[0], q);
}

// Products with values count their own head size.
TEST(Attention, CostKnowsBothHeadSizes) {
  const TensorType q{DType::bf16, {1, 8, 4, 192}}, k{DType::bf16, {1, 16, 2, 192}},
      v{DType::bf16, {1, 16, 2, 128}}, y{DType::bf16, {1, 8, 4, 128}}, lse{DType::f32, {1, 4, 8}};
  const double pairs = 4 * 8 * 16;
  EXPECT_DOUBLE_EQ(ops::Attention{}.cost(std::vector{q, k, v}, std::vector{y}).flops,
                   2 * pairs * (192 + 128));
  EXPECT_DOUBLE_EQ(ops::AttentionGrad{}.cost(std::vector{q, k, v, y, lse, y}, std::vector{q, k, v}).flops,
                   2 * pairs * (3 * 192 + 2 * 128));
}

// --- implementations against each other, at sizes that fill many blocks
// -----------------------------------------------

using Tensors = std::vector<Tensor>;

Tensor random_tensor(const TensorType& type, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::byte* data;
  Tensor tensor = Tensor::uninitialized(type, &data);
  for (int64_t i = 0; i < type.numel(); ++i) {
    if (type.dtype == DType::f32) reinterpret_cast<float*>(data)[i] = normal(random);
    if (type.dtype == DType::bf16) reinterpret_cast<bf16*>(data)[i] = bf16(normal(random));
    if (type.dtype == DType::boolean) reinterpret_cast<bool*>(data)[i] = random() % 4 != 0;
  }
  return tensor;
}

// Returns the results of one implementation; empty if it declines.
std::optional<Tensors> run_with(std::string_view implementation, std::string_view op, const Attributes& given,
                                const Tensors& inputs) {
  const OpDef& def = *find_op(op);
  const Attributes attributes = def.canonical(given);
  std::vector<TensorType> in_types;
  std::vector<TensorView> in, out;
  for (const Tensor& tensor : inputs) {
    in_types.push_back(tensor.type());
    in.push_back(view_of(tensor.type(), const_cast<std::byte*>(tensor.data())));
  }
  const std::vector<TensorType> out_types = infer_types(def, attributes, in_types);
  Tensors results;
  for (const TensorType& type : out_types) {
    std::byte* data;
    results.push_back(Tensor::uninitialized(type, &data));
    out.push_back(view_of(type, data));
  }
  const KernelQuery query{def, attributes, in_types, out_types};
  for (const KernelImpl& kernel : cpu::kernels_for(op)) {
    if (kernel.name != implementation) continue;
    if (kernel.can_run && kernel.can_run(query)) return std::nullopt;
    constexpr int64_t kGuard = 4096;  // bytes after the scratch memory that no kernel may touch
    const int64_t booked = kernel.scratch_bytes(query);
    std::byte* scratch;
    const Tensor owner = Tensor::uninitialized({DType::u8, {booked + 64 + kGuard}}, &scratch);
    scratch += (64 - reinterpret_cast<uintptr_t>(scratch) % 64) % 64;
    std::fill(scratch + booked, scratch + booked + kGuard, std::byte{0xa5});
    const auto parsed = def.parse(attributes);
    const auto prepared = kernel.prepare(query);
    Fault fault;
    kernel.run({.inputs = in,
                .outputs = out,
                .attributes_ptr = parsed.get(),
                .prepared_ptr = prepared.get(),
                .scratch = scratch,
                .fault = &fault});
    for (int64_t i = 0; i < kGuard; ++i)
      EXPECT_EQ(scratch[booked + i], std::byte{0xa5}) << implementation << " wrote past its scratch";
  }
  return results;
}

void expect_alike(const Tensors& got, const Tensors& expected, double tolerance) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    const auto a = got[i].to_doubles(), b = expected[i].to_doubles();
    double worst = 0, largest = 1;
    for (double x : b) largest = std::max(largest, std::isinf(x) ? 0 : std::abs(x));
    for (size_t k = 0; k < a.size(); ++k) worst = std::max(worst, a[k] == b[k] ? 0 : std::abs(a[k] - b[k]));
    EXPECT_LE(worst, tolerance * largest) << "output " << i;
  }
}

// Joins [rows, a], [rows, b], ... to [rows, a + b + ...], as tensors of heads that are side by side.
Tensor side_by_side(const Tensors& parts, const Setting& s) {
  const size_t rows = static_cast<size_t>(s.batch * s.queries);
  std::byte* to;
  const Tensor all = Tensor::uninitialized(
      {parts[0].type().dtype, Shape::of(s.shape(s.heads + 2 * s.key_heads, s.queries, s.size))}, &to);
  for (size_t row = 0; row < rows; ++row)
    for (const Tensor& part : parts) {
      const size_t bytes = static_cast<size_t>(part.type().bytes()) / rows;
      to = std::copy_n(part.data() + row * bytes, bytes, to);
    }
  return all;
}

Tensors apart(const Tensor& all, const Tensors& like, const Setting& s) {
  const size_t rows = static_cast<size_t>(s.batch * s.queries);
  Tensors parts;
  std::vector<std::byte*> to(like.size());
  for (size_t i = 0; i < like.size(); ++i) parts.push_back(Tensor::uninitialized(like[i].type(), &to[i]));
  const std::byte* from = all.data();
  for (size_t row = 0; row < rows; ++row)
    for (size_t i = 0; i < like.size(); ++i) {
      const size_t bytes = static_cast<size_t>(like[i].type().bytes()) / rows;
      to[i] = std::copy_n(from, bytes, to[i]);
      from += bytes;
    }
  return parts;
}

void expect_same_bits(const Tensors& got, const Tensors& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i].type(), expected[i].type());
    EXPECT_TRUE(std::equal(got[i].data(), got[i].data() + got[i].type().bytes(), expected[i].data()))
        << "output " << i;
  }
}

// The memory layout of operands does not change a bit of the results.
void compare_with_packed(const Setting& s, std::string_view implementation, const ops::AttentionRules& rules,
                         const Tensors& inputs, size_t rest_from) {
  const bool gradient = inputs.size() > 3 && rest_from == 6;
  const Tensors qkv(inputs.begin(), inputs.begin() + 3);
  Tensors packed = {side_by_side(qkv, s)};
  packed.insert(packed.end(), inputs.begin() + 3, inputs.end());
  ops::AttentionRules packed_rules = rules;
  packed_rules.packed_key_heads = s.key_heads;
  const auto attributes = [&](const ops::AttentionRules& r) {
    ops::Attention forward;
    ops::AttentionGrad backward;
    static_cast<ops::AttentionRules&>(forward) = static_cast<ops::AttentionRules&>(backward) = r;
    forward.with_lse = true;
    return gradient ? to_attributes(backward) : to_attributes(forward);
  };
  const std::string_view op = gradient ? "attention_grad" : "attention";
  const auto expected = run_with(implementation, op, attributes(rules), inputs);
  const auto got = run_with(implementation, op, attributes(packed_rules), packed);
  ASSERT_EQ(expected.has_value(), got.has_value());
  if (expected) expect_same_bits(gradient ? apart((*got)[0], qkv, s) : *got, *expected);
}

void compare_implementations(const Setting& s, DType dtype, double tolerance) {
  SCOPED_TRACE(fmt::format("b{} h{}/{} q{} k{} d{}/{} causal={} mask={} key_length={}", s.batch, s.heads,
                           s.key_heads, s.queries, s.keys, s.size, s.value_size(), s.options.causal,
                           s.mask.size(), s.key_length));
  ops::Attention op;
  op.causal = s.options.causal;
  op.layout = s.options.layout;
  op.window = s.options.window;
  op.has_mask = !s.mask.empty();
  op.has_key_start = s.has_start();
  op.has_key_length = s.has_length();
  op.with_lse = true;
  Tensors inputs = {random_tensor({dtype, Shape::of(s.shape(s.heads, s.queries, s.size))}, 1),
                    random_tensor({dtype, Shape::of(s.shape(s.key_heads, s.keys, s.size))}, 2),
                    random_tensor({dtype, Shape::of(s.shape(s.key_heads, s.keys, s.value_size()))}, 3)};
  Tensors rest;
  if (op.has_mask) rest.push_back(random_tensor({DType::boolean, Shape::of(s.mask)}, 4));
  if (op.has_key_start) rest.push_back(s.start_tensor());
  if (op.has_key_length) rest.push_back(s.length_tensor());
  inputs.insert(inputs.end(), rest.begin(), rest.end());
  const Tensors expected = *run_with("reference", "attention", to_attributes(op), inputs);
  expect_alike(*run_with("blocks", "attention", to_attributes(op), inputs), expected, tolerance);
  if (const auto decoded = run_with("decode", "attention", to_attributes(op), inputs))
    expect_alike(*decoded, expected, tolerance);

  ops::AttentionGrad grad;
  static_cast<ops::AttentionRules&>(grad) = op;
  Tensors grad_inputs = {inputs[0],   inputs[1],   inputs[2],
                         expected[0], expected[1], random_tensor(expected[0].type(), 5)};
  grad_inputs.insert(grad_inputs.end(), rest.begin(), rest.end());
  expect_alike(*run_with("blocks", "attention_grad", to_attributes(grad), grad_inputs),
               *run_with("reference", "attention_grad", to_attributes(grad), grad_inputs), 2 * tolerance);
  if (s.heads_first() || s.queries != s.keys || s.size != s.value_size()) return;
  for (const char* implementation : {"decode", "blocks", "reference"})
    compare_with_packed(s, implementation, op, inputs, 3);
  for (const char* implementation : {"blocks", "reference"})
    compare_with_packed(s, implementation, grad, grad_inputs, 6);
}

TEST(Attention, BlocksAgreeWithTheFormula) {
  constexpr double kF32 = 1e-5, kBf16 = 8e-3;
  compare_implementations(
      {.batch = 2, .heads = 4, .key_heads = 2, .queries = 300, .keys = 300, .size = 64, .options = kCausal},
      DType::f32, kF32);
  compare_implementations(
      {.heads = 2, .key_heads = 2, .queries = 130, .keys = 421, .size = 48, .options = kCausal}, DType::f32,
      kF32);
  compare_implementations(
      {.heads = 2, .key_heads = 1, .queries = 421, .keys = 130, .size = 20, .options = kCausal}, DType::f32,
      kF32);
  compare_implementations({.heads = 2, .key_heads = 1, .queries = 65, .keys = 129, .size = 80, .v_size = 33},
                          DType::f32, kF32);
  compare_implementations({.batch = 20,
                           .heads = 2,
                           .key_heads = 2,
                           .queries = 140,
                           .keys = 140,
                           .size = 32,
                           .options = kCausalHeadsFirst},
                          DType::f32, kF32);
  compare_implementations({.heads = 2,
                           .key_heads = 1,
                           .queries = 150,
                           .keys = 170,
                           .size = 32,
                           .options = kCausal,
                           .mask = {2, 1, 170}},
                          DType::f32, kF32);
  compare_implementations({.heads = 2,
                           .key_heads = 1,
                           .queries = 70,
                           .keys = 300,
                           .size = 32,
                           .options = kCausal,
                           .key_length = 260},
                          DType::f32, kF32);
  compare_implementations(
      {.heads = 4, .key_heads = 2, .queries = 100, .keys = 300, .size = 64, .options = kCausal}, DType::bf16,
      kBf16);
  compare_implementations({.heads = 4, .key_heads = 2, .queries = 100, .keys = 100, .size = 40}, DType::bf16,
                          kBf16);
}

TEST(Attention, BlocksOfSeveralTextsAgreeWithTheFormula) {
  const Setting s{.heads = 2, .key_heads = 1, .queries = 400, .keys = 400, .size = 32, .options = kCausal};
  for (const std::vector<int64_t>& lengths :
       std::vector<std::vector<int64_t>>{{400}, {200, 200}, {1, 63, 64, 65, 128}, {13, 300, 7}, {}}) {
    Setting texts = s;
    texts.key_starts = starts_of_texts(lengths, s.queries);
    compare_implementations(texts, DType::f32, 1e-5);
    texts.options.causal = false;
    compare_implementations(texts, DType::f32, 1e-5);
  }
  Setting texts = s;
  texts.key_starts = starts_of_texts({100, 30, 300}, s.queries);
  compare_implementations(texts, DType::bf16, 8e-3);
  texts.options.window = 50;
  compare_implementations(texts, DType::f32, 1e-5);
}

// Key starts give the same bits as an equivalent mask, forward and backward.
TEST(Attention, KeyStartsGiveTheBitsOfTheirMask) {
  const int64_t time = 500;
  const std::vector<double> starts = starts_of_texts({37, 120, 260, 3}, time);
  std::byte* data;
  const Tensor mask = Tensor::uninitialized({DType::boolean, {1, 1, time, time}}, &data);
  for (int64_t i = 0; i < time * time; ++i)
    reinterpret_cast<bool*>(data)[i] = static_cast<double>(i % time) >= starts[static_cast<size_t>(i / time)];
  const Tensor start = Tensor::of<int64_t>({1, time}, std::vector<int64_t>(starts.begin(), starts.end()));
  const TensorType q{DType::f32, {1, time, 4, 32}}, k{DType::f32, {1, time, 2, 32}};
  const Tensors inputs = {random_tensor(q, 1), random_tensor(k, 2), random_tensor(k, 3)};
  const auto run = [&](std::string_view op_name, auto op, Tensors given, bool masked) {
    op.causal = true;
    (masked ? op.has_mask : op.has_key_start) = true;
    given.push_back(masked ? mask : start);
    return *run_with("blocks", op_name, to_attributes(op), given);
  };
  ops::Attention forward;
  forward.with_lse = true;
  const Tensors y = run("attention", forward, inputs, true);
  expect_same_bits(run("attention", forward, inputs, false), y);
  Tensors all = inputs;
  all.insert(all.end(), {y[0], y[1], random_tensor(q, 4)});
  expect_same_bits(run("attention_grad", ops::AttentionGrad{}, all, false),
                   run("attention_grad", ops::AttentionGrad{}, all, true));
}

TEST(Attention, DecodeAgreesWithTheFormula) {
  constexpr double kF32 = 1e-5, kBf16 = 8e-3;
  compare_implementations(
      {.heads = 14, .key_heads = 2, .queries = 1, .keys = 700, .size = 64, .options = kCausal}, DType::f32,
      kF32);
  compare_implementations({.batch = 2,
                           .heads = 40,
                           .key_heads = 2,
                           .queries = 3,
                           .keys = 300,
                           .size = 80,
                           .v_size = 48,
                           .options = kCausal,
                           .key_length = 257},
                          DType::f32, kF32);
  compare_implementations({.heads = 6,
                           .key_heads = 2,
                           .queries = 2,
                           .keys = 400,
                           .size = 32,
                           .options = kHeadsFirst,
                           .mask = {6, 2, 400}},
                          DType::f32, kF32);
  compare_implementations(
      {.heads = 8, .key_heads = 8, .queries = 1, .keys = 500, .size = 128, .options = kCausal}, DType::bf16,
      kBf16);
  compare_implementations({.batch = 3,
                           .heads = 6,
                           .key_heads = 2,
                           .queries = 4,
                           .keys = 4,
                           .size = 32,
                           .options = kCausal,
                           .key_length = 3},
                          DType::f32, kF32);
}

TEST(Attention, WindowsAgreeWithTheFormula) {
  constexpr double kF32 = 1e-5, kBf16 = 8e-3;
  const auto options = [](int64_t window) { return AttentionOptions{.causal = true, .window = window}; };
  for (int64_t window : {1, 63, 64, 129, 500})
    compare_implementations({.batch = 2,
                             .heads = 4,
                             .key_heads = 2,
                             .queries = 300,
                             .keys = 330,
                             .size = 32,
                             .options = options(window)},
                            DType::f32, kF32);
  compare_implementations(
      {.heads = 2, .key_heads = 1, .queries = 300, .keys = 130, .size = 20, .options = options(70)},
      DType::f32, kF32);
  compare_implementations({.heads = 2,
                           .key_heads = 1,
                           .queries = 150,
                           .keys = 150,
                           .size = 32,
                           .options = options(40),
                           .mask = {2, 1, 150}},
                          DType::f32, kF32);
  compare_implementations({.batch = 2,
                           .heads = 8,
                           .key_heads = 2,
                           .queries = 3,
                           .keys = 500,
                           .size = 64,
                           .options = options(200)},
                          DType::bf16, kBf16);
}

TEST(Attention, KeyLengthsOfRowsAgreeWithTheFormula) {
  compare_implementations({.batch = 3,
                           .heads = 4,
                           .key_heads = 2,
                           .queries = 100,
                           .keys = 300,
                           .size = 32,
                           .options = kCausal,
                           .key_lengths = {300, 120, 340}},
                          DType::f32, 1e-5);
  compare_implementations({.batch = 3,
                           .heads = 4,
                           .key_heads = 2,
                           .queries = 1,
                           .keys = 700,
                           .size = 64,
                           .options = {.causal = true, .window = 300},
                           .key_lengths = {700, 1, 260}},
                          DType::f32, 1e-5);
}

// Tests every instruction set of this machine for which the kernels are compiled, not only the best.
TEST(Attention, EveryInstructionSetAgreesWithTheFormula) {
  const int64_t all = hwy::SupportedTargets();
  for (int64_t target = 1; target > 0; target <<= 1) {
    if (!(all & target)) continue;
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(target);
    compare_implementations(
        {.heads = 4, .key_heads = 2, .queries = 80, .keys = 150, .size = 48, .options = kCausal}, DType::f32,
        1e-5);
    compare_implementations(
        {.heads = 4, .key_heads = 2, .queries = 2, .keys = 150, .size = 48, .options = kCausal}, DType::bf16,
        8e-3);
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().DeInit();
}

}  // namespace
}  // namespace genesis::testing
