// Tests cached_attention against its formula: the caches with the new token, and the result of attention to them. On
// a GPU the sizes below use one split of the keys, many splits, and the decomposed form. Also tests attention to a cache in 8 bits.
#include "schema/ops/nn/cached_attention.h"

#include <cmath>

#include "schema/ops/nn/quantized_cache.h"

#include "tests/op_harness.h"

namespace genesis::testing {
namespace {

struct Setting {
  int64_t batch = 1, heads = 2, key_heads = 2, size = 64, v_size = 64, positions = 9, start = 5;
  ops::CachedAttention op = {};
  std::vector<double> starts = {};  // one per row of the batch, in place of one start
  bool frequencies = false;         // frequencies are an input

  int64_t start_of(int64_t b) const {
    return starts.empty() ? start : static_cast<int64_t>(starts[static_cast<size_t>(b)]);
  }
};

double frequency(const Setting& s, int64_t pair, int64_t rotated) {
  if (s.frequencies) return 1.0 / static_cast<double>(1 + pair);
  return static_cast<double>(std::pow(static_cast<long double>(s.op.theta), -2.0L * pair / rotated));
}

Ref rotated(const Setting& s, Ref x) {
  const int64_t rotated = s.op.rotary_size ? s.op.rotary_size : s.size, pairs = rotated / 2;
  const bool halves = s.op.kind == RopeKind::kHalf;
  for (int64_t row = 0; row < x.numel() / s.size; ++row)
    for (int64_t i = 0; i < pairs; ++i) {
      const int64_t start = s.start_of(row / (x.numel() / s.size / s.batch));
      const long double angle = static_cast<long double>(start) * frequency(s, i, rotated);
      double &a = x[row * s.size + (halves ? i : 2 * i)],
             &b = x[row * s.size + (halves ? i + pairs : 2 * i + 1)];
      const double c = static_cast<double>(std::cos(angle)), d = static_cast<double>(std::sin(angle));
      const double turned_a = a * c - b * d, turned_b = b * c + a * d;
      a = turned_a, b = turned_b;
    }
  return x;
}

void append(const Setting& s, Ref& cache, const Ref& token) {
  const int64_t row = token.numel() / s.batch;
  for (int64_t i = 0; i < token.numel(); ++i)
    cache[(i / row * s.positions + s.start_of(i / row)) * row + i % row] = token[i];
}

Refs reference_of(const Setting& s, const Refs& x) {
  const Ref q = s.op.rotates ? rotated(s, x[0]) : x[0];
  Ref k_cache = x[3], v_cache = x[4], y = ref_zeros({s.batch, 1, s.heads, s.v_size});
  append(s, k_cache, s.op.rotates ? rotated(s, x[1]) : x[1]);
  append(s, v_cache, x[2]);
  const double scale = s.op.scale != 0 ? s.op.scale : 1 / std::sqrt(static_cast<double>(s.size));
  for (int64_t head = 0; head < s.batch * s.heads; ++head) {
    const int64_t b = head / s.heads, key_head = head % s.heads / (s.heads / s.key_heads);
    const auto row_of = [&](int64_t j) { return (b * s.positions + j) * s.key_heads + key_head; };
    double sum = 0;
    const int64_t last = s.start_of(b),
                  first = s.op.window ? std::max<int64_t>(0, last + 1 - s.op.window) : 0;
    for (int64_t j = first; j <= last; ++j) {
      double score = 0;
      for (int64_t d = 0; d < s.size; ++d) score += q[head * s.size + d] * k_cache[row_of(j) * s.size + d];
      const double weight = std::exp(scale * score);
      sum += weight;
      for (int64_t d = 0; d < s.v_size; ++d)
        y[head * s.v_size + d] += weight * v_cache[row_of(j) * s.v_size + d];
    }
    for (int64_t d = 0; d < s.v_size; ++d) y[head * s.v_size + d] /= sum;
  }
  return {y, k_cache, v_cache};
}

void check_cached(const std::string& name, const Setting& s) {
  const auto token = [&](int64_t heads, int64_t size) { return constant_real({s.batch, 1, heads, size}); };
  const auto cache = [&](int64_t size) { return constant_real({s.batch, s.positions, s.key_heads, size}); };
  OpCase one{.name = "cached_attention_" + name,
             .inputs = {token(s.heads, s.size), token(s.key_heads, s.size), token(s.key_heads, s.v_size),
                        cache(s.size), cache(s.v_size),
                        s.starts.empty() ? integer_data({}, {static_cast<double>(s.start)})
                                         : integer_data({s.batch}, s.starts)},
             .build =
                 [=](const Inputs& x) {
                   return cached_attention(x[0], x[1], x[2], x[3], x[4], x[5], s.op,
                                           s.frequencies ? x[6] : Value{});
                 },
             .reference = [=](const Refs& x) { return reference_of(s, x); },
             .gradient = false};
  one.terms = [=](Refs x) {
    for (const size_t i : {2, 4})
      for (double& v : x[i].data) v = std::abs(v);
    Refs terms = reference_of(s, x);
    // A rotated key is a sum of two products; its elements are at most of size 1 here.
    terms[1].data.assign(terms[1].data.size(), 2);
    return terms;
  };
  if (s.frequencies) {
    const int64_t rotated = s.op.rotary_size ? s.op.rotary_size : s.size;
    std::vector<double> frequencies;
    for (int64_t i = 0; i < rotated / 2; ++i) frequencies.push_back(frequency(s, i, rotated));
    one.inputs.push_back(integer_data({rotated / 2}, frequencies, DType::f64));
  }
  check(one);
}

TEST(CachedAttention, AsItIs) {
  check_cached("plain", {});
  check_cached("first", {.start = 0});
  check_cached("last", {.start = 8});
  check_cached("batch_and_groups", {.batch = 2, .heads = 6, .key_heads = 2});
  check_cached("many_groups", {.heads = 7, .key_heads = 1, .positions = 40, .start = 33});
  check_cached("scale", {.op = {.scale = 0.3}});
}

TEST(CachedAttention, Rotated) {
  check_cached("half", {.heads = 4, .op = {.rotates = true, .theta = 1e6}});
  check_cached("half_first", {.start = 0, .op = {.rotates = true}});
  check_cached("neighbors", {.heads = 14, .op = {.rotates = true, .kind = RopeKind::kInterleaved}});
  check_cached("part", {.op = {.rotates = true, .rotary_size = 16}});
  check_cached("part_neighbors", {.op = {.rotates = true, .kind = RopeKind::kInterleaved, .rotary_size = 6}});
}

TEST(CachedAttention, GivenFrequencies) {
  check_cached("given", {.heads = 4, .op = {.rotates = true}, .frequencies = true});
  check_cached("given_part", {.op = {.rotates = true, .rotary_size = 16}, .frequencies = true});
  check_cached("given_odd",
               {.heads = 4, .size = 10, .v_size = 6, .op = {.rotates = true}, .frequencies = true});
}

TEST(CachedAttention, StartOfEachRow) {
  check_cached("starts", {.batch = 3, .heads = 4, .op = {.rotates = true}, .starts = {5, 0, 8}});
  check_cached("starts_as_they_are", {.batch = 2, .heads = 4, .starts = {7, 2}});
  check_cached("starts_many", {.batch = 3,
                               .heads = 6,
                               .key_heads = 2,
                               .positions = 600,
                               .op = {.rotates = true},
                               .starts = {599, 3, 260},
                               .frequencies = true});
  check_cached("starts_odd",
               {.batch = 2, .heads = 4, .size = 10, .v_size = 6, .op = {.rotates = true}, .starts = {8, 1}});
}

TEST(CachedAttention, Window) {
  for (int64_t window : {1, 4, 6, 50})
    check_cached("window_" + std::to_string(window), {.heads = 4, .op = {.rotates = true, .window = window}});
  for (int64_t window : {1, 100, 128, 300, 599})
    check_cached("window_many_" + std::to_string(window),
                 {.heads = 4, .positions = 600, .start = 599, .op = {.rotates = true, .window = window}});
  check_cached("window_starts", {.batch = 3,
                                 .heads = 4,
                                 .positions = 600,
                                 .op = {.rotates = true, .window = 200},
                                 .starts = {599, 3, 260}});
  check_cached("window_odd", {.heads = 4, .size = 10, .v_size = 6, .op = {.window = 3}});
}

// On a GPU in 16 bits, one block has all query heads of a key head, and the blocks of a cluster share a text.
TEST(CachedAttention, ManyTexts) {
  const Setting eight{
      .batch = 8, .heads = 14, .key_heads = 2, .positions = 40, .op = {.rotates = true, .theta = 1e6}};
  const auto with = [&](auto&& change) {
    Setting s = eight;
    change(s);
    return s;
  };
  check_cached("texts", eight);
  check_cached("texts_first", with([](Setting& s) { s.start = 0; }));
  check_cached("texts_last", with([](Setting& s) { s.start = 39; }));
  check_cached("texts_starts", with([](Setting& s) { s.starts = {0, 1, 15, 16, 17, 39, 32, 5}; }));
  check_cached("texts_long", with([](Setting& s) {
                 s.positions = 700;
                 s.starts = {0, 699, 64, 65, 128, 513, 31, 600};
                 s.frequencies = true;
               }));
  check_cached("texts_window", with([](Setting& s) {
                 s.positions = 300;
                 s.starts = {0, 299, 64, 65, 128, 213, 31, 200};
                 s.op.window = 70;
               }));
  check_cached("texts_neighbors", with([](Setting& s) {
                 s.heads = 16, s.op.kind = RopeKind::kInterleaved, s.op.rotary_size = 32;
               }));
  check_cached("texts_as_they_are", with([](Setting& s) { s.heads = 2, s.op = {.scale = 0.2}; }));
  check_cached("texts_128", with([](Setting& s) {
                 s.heads = 8, s.size = s.v_size = 128, s.positions = 500;
                 s.starts = {0, 499, 64, 65, 128, 413, 31, 400};
               }));
  check_cached(
      "texts_of_one_split",
      {.batch = 34, .heads = 40, .key_heads = 8, .positions = 70, .start = 69, .op = {.rotates = true}});
  // More key heads than three blocks of each multiprocessor.
  check_cached(
      "texts_of_one_wave",
      {.batch = 50, .heads = 8, .key_heads = 8, .positions = 20, .start = 17, .op = {.rotates = true}});
}

TEST(CachedAttention, ManyKeys) {
  check_cached("one_split", {.heads = 4, .positions = 600, .start = 127, .op = {.rotates = true}});
  check_cached("two_splits", {.heads = 4, .positions = 600, .start = 129, .op = {.rotates = true}});
  check_cached("all_splits",
               {.batch = 2, .heads = 4, .positions = 600, .start = 599, .op = {.rotates = true}});
}

TEST(CachedAttention, OtherSizes) {
  check_cached("128", {.heads = 4, .size = 128, .v_size = 128, .positions = 300, .start = 260});
  check_cached("256", {.size = 256, .v_size = 256, .positions = 20, .op = {.rotates = true}});
  for (const int64_t size : {80, 96}) {
    const std::string name = std::to_string(size);
    check_cached(name, {.heads = 4, .size = size, .v_size = size, .positions = 20, .op = {.rotates = true}});
    check_cached(name + "_splits", {.batch = 2,
                                    .heads = 4,
                                    .size = size,
                                    .v_size = size,
                                    .positions = 600,
                                    .op = {.rotates = true, .rotary_size = 32, .window = 300},
                                    .starts = {599, 130}});
  }
  check_cached("odd", {.heads = 4, .size = 10, .v_size = 6, .op = {.rotates = true}});
  check_cached("sixteen", {.heads = 4, .size = 16, .v_size = 32, .op = {.rotates = true}});
}

TEST(CachedAttention, BadInputIsNamed) {
  const TensorType one{DType::f32, {1, 1, 2, 8}}, cache{DType::f32, {1, 5, 2, 8}}, start{DType::i64, {}};
  const auto fails = [](const std::vector<TensorType>& types, const std::vector<std::string>& parts) {
    expect_error(
        [&] {
          infer_case(types,
                     [](const Inputs& x) { return cached_attention(x[0], x[1], x[2], x[3], x[4], x[5]); });
        },
        parts);
  };
  fails({{DType::f32, {1, 2, 2, 8}}, one, one, cache, cache, start},
        {"q must be of one token", "f32[1,2,2,8]"});
  fails({one, one, one, {DType::f32, {1, 5, 1, 8}}, cache, start}, {"k", "does not fit k_cache"});
  fails({one, one, one, cache, cache, {DType::i64, {2}}},
        {"start must be an i64 scalar", "i64[1]", "i64[2]"});
  fails({{DType::f32, {1, 1, 3, 8}}, one, one, cache, cache, start}, {"3 query heads", "multiple of 2"});
}

TEST(CachedAttention, AStartOutsideTheCacheIsAnError) {
  for (int64_t start : {-1, 5})
    expect_error(
        [&] {
          run_graph({{"x", Tensor::zeros({DType::f32, {1, 1, 2, 64}})},
                     {"cache", Tensor::zeros({DType::f32, {1, 5, 2, 64}})},
                     {"start", Tensor::scalar(start)}},
                    [](const Inputs& x) {
                      return std::vector<std::pair<std::string, Value>>{
                          {"y", cached_attention(x[0], x[0], x[0], x[1], x[1], x[2])[0]}};
                    });
        },
        {fmt::format("{}", start), "5"});
}

// --- a cache in 8 bits

struct EightBits {
  int64_t batch = 1, queries = 1, heads = 4, key_heads = 2, size = 16, v_size = 16, positions = 9;
  std::vector<double> lengths = {6};  // one for all texts, or one for each
  ops::QuantizedAttention op = {};
};

Refs quantized_reference(const EightBits& s, const Refs& x) {
  Ref y = ref_zeros({s.batch, s.queries, s.heads, s.v_size});
  const double scale = s.op.scale != 0 ? s.op.scale : 1 / std::sqrt(static_cast<double>(s.size));
  for (int64_t at = 0; at < s.batch * s.queries * s.heads; ++at) {
    const int64_t head = at % s.heads, query = at / s.heads % s.queries, b = at / s.heads / s.queries;
    const auto length = static_cast<int64_t>(s.lengths[s.lengths.size() == 1 ? 0 : static_cast<size_t>(b)]);
    const int64_t end = query + length - s.queries + 1;
    double sum = 0;
    for (int64_t j = s.op.window ? std::max<int64_t>(0, end - s.op.window) : 0; j < end; ++j) {
      const int64_t row = (b * s.positions + j) * s.key_heads + head / (s.heads / s.key_heads);
      double score = 0;
      for (int64_t d = 0; d < s.size; ++d) score += x[0][at * s.size + d] * x[1][row * s.size + d];
      const double weight = std::exp(scale * score * x[3][row]);
      sum += weight;
      for (int64_t d = 0; d < s.v_size; ++d)
        y[at * s.v_size + d] += weight * x[2][row * s.v_size + d] * x[4][row];
    }
    for (int64_t d = 0; d < s.v_size; ++d) y[at * s.v_size + d] /= sum;
  }
  return {y};
}

void check_quantized(const std::string& name, const EightBits& s) {
  const auto quants = [&](int64_t size) {
    return integers({s.batch, s.positions, s.key_heads, size}, -127, 128, DType::i8);
  };
  CaseInput scales = constant_real({s.batch, s.positions, s.key_heads, 1}, 0.002, 0.01);
  scales.keep_dtype = true;
  check({.name = "quantized_attention_" + name,
         .inputs = {constant_real({s.batch, s.queries, s.heads, s.size}), quants(s.size), quants(s.v_size),
                    scales, scales,
                    s.lengths.size() == 1 ? integer_data({}, s.lengths) : integer_data({s.batch}, s.lengths)},
         .build =
             [=](const Inputs& x) {
               return Outputs{quantized_attention(x[0], {x[1], x[3]}, {x[2], x[4]}, x[5], s.op)};
             },
         .reference = [=](const Refs& x) { return quantized_reference(s, x); },
         .gradient = false,
         .f64 = false});
}

TEST(QuantizedCache, Attention) {
  check_quantized("one_token", {});
  check_quantized("prompt", {.queries = 5});
  check_quantized("odd", {.queries = 3, .heads = 3, .key_heads = 3, .size = 10, .v_size = 6});
  check_quantized("scale_and_window", {.queries = 2, .op = {.scale = 0.3, .window = 3}});
  check_quantized("texts",
                  {.batch = 3, .size = 64, .v_size = 64, .positions = 300, .lengths = {1, 300, 140}});
  check_quantized("prompts", {.batch = 2, .queries = 20, .size = 64, .positions = 150, .lengths = {150, 33}});
}

// Every quant is at most half a step away from its number, and the largest is 127.
TEST(QuantizedCache, RoundsRows) {
  check({.name = "quantize_rows",
         .inputs = {constant_real({3, 5, 24}, -7, 7)},
         .build =
             [](const Inputs& x) {
               const QuantizedRows rows = quantize_rows(x[0]);
               return Outputs{rows.quants, rows.scales};
             },
         .reference =
             [](const Refs& x) {
               Ref quants = x[0], scales = ref_zeros({3, 5, 1});
               for (int64_t row = 0; row < 15; ++row) {
                 double most = 0;
                 for (int64_t i = 0; i < 24; ++i) most = std::max(most, std::abs(x[0][row * 24 + i]));
                 scales[row] = most / 127;
                 for (int64_t i = row * 24; i < row * 24 + 24; ++i)
                   quants[i] = std::nearbyint(x[0][i] / scales[row]);
               }
               return Refs{quants, scales};
             },
         .gradient = false,
         .f64 = false});
}

TEST(QuantizedCache, RoundsExtremeRows) {
  const float least = std::numeric_limits<float>::denorm_min(), most = std::numeric_limits<float>::max();
  const auto results = run_graph(
      {{"x", Tensor::of({4, 2}, std::vector<float>{0, 0, 190 * least, least, most, -most / 4, 1,
                                                   -std::numeric_limits<float>::infinity()})}},
      [](const Inputs& x) {
        const QuantizedRows rows = quantize_rows(x[0]);
        return std::vector<std::pair<std::string, Value>>{{"quants", rows.quants}, {"scales", rows.scales}};
      });
  EXPECT_EQ(results.at("quants").to_doubles(), (std::vector<double>{0, 0, 127, 1, 127, -32, 0, 0}));
  const std::vector<double> scales = results.at("scales").to_doubles();
  EXPECT_EQ(scales[0], 0);
  EXPECT_TRUE(std::isnan(scales[3]));
}

TEST(QuantizedCache, BadInputIsNamed) {
  const TensorType q{DType::f32, {1, 1, 2, 8}}, quants{DType::i8, {1, 5, 2, 8}},
      scales{DType::f32, {1, 5, 2, 1}}, length{DType::i64, {}};
  const auto fails = [](const std::vector<TensorType>& types, const std::vector<std::string>& parts) {
    expect_error(
        [&] {
          infer_case(types, [](const Inputs& x) {
            return Outputs{quantized_attention(x[0], {x[1], x[3]}, {x[2], x[4]}, x[5])};
          });
        },
        parts);
  };
  fails({{DType::f64, {1, 1, 2, 8}}, quants, quants, scales, scales, length}, {"q must be f32", "f64"});
  fails({q, q, quants, scales, scales, length}, {"keys must be i8", "f32[1,1,2,8]"});
  fails({q, quants, quants, scales, {DType::f32, {1, 5, 2, 8}}, length},
        {"scales of values", "f32[1,5,2,1]"});
  fails({{DType::f32, {1, 1, 3, 8}}, quants, quants, scales, scales, length},
        {"3 query heads", "multiple of 2"});
  fails({q, quants, quants, scales, scales, {DType::i64, {2}}}, {"key_length", "i64[1]", "i64[2]"});
}

}  // namespace
}  // namespace genesis::testing
