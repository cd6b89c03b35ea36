// Tests random numbers: the promised bits, the right distributions, and gradients through the same mask.
#include "schema/ops/tensor/random.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <set>

#include "passes/training/autodiff.h"
#include "schema/core/philox.h"
#include "schema/ops/tensor/reduce.h"
#include "tests/op_harness.h"

namespace genesis::testing {
namespace {

using Named = std::vector<std::pair<std::string, Value>>;

const Tensor kRng = Tensor::of<int64_t>({2}, {42, 3});

Tensor draw(const std::function<Value(Value)>& op, const Tensor& rng = kRng, int threads = 0) {
  SessionOptions options;
  options.threads = threads;
  return run_graph(
             {{"rng", rng}},
             [&](const Inputs& in) {
               return Named{{"y", op(in[0])}};
             },
             options)
      .at("y");
}

struct Moments {
  double mean = 0, var = 0, low = 1e300, high = -1e300;
};
Moments moments(const std::vector<double>& x) {
  Moments m;
  for (double v : x) {
    m.mean += v / static_cast<double>(x.size());
    m.low = std::min(m.low, v), m.high = std::max(m.high, v);
  }
  for (double v : x) m.var += (v - m.mean) * (v - m.mean) / static_cast<double>(x.size());
  return m;
}

// Known answers of Random123's Philox 4x32-10.
TEST(Random, PhiloxKnownAnswers) {
  const PhiloxBlock zero = philox(0, 0, 0, 0);
  EXPECT_EQ((std::vector<uint32_t>(zero.word, zero.word + 4)),
            (std::vector<uint32_t>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  const PhiloxBlock ones = philox(~uint64_t{0}, ~0u, ~0u, ~uint64_t{0});
  EXPECT_EQ((std::vector<uint32_t>(ones.word, ones.word + 4)),
            (std::vector<uint32_t>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
}

// The layout is a promise: element i takes word i % 4 of block i / 4, on every device.
TEST(Random, ElementsFollowThePromisedLayout) {
  const Tensor uniform = draw([](Value rng) { return rand(rng, {5003}); });
  const Tensor normal = draw([](Value rng) { return randn(rng, {5003}); });
  for (int64_t i = 0; i < 5003; ++i) {
    const PhiloxBlock block = philox(42, 1, 3, static_cast<uint64_t>(i / 4));
    const auto pair = static_cast<size_t>(i % 4 / 2 * 2);
    const NormalPair normals = normals_from(block.word[pair], block.word[pair + 1]);
    ASSERT_EQ(uniform.as<float>()[static_cast<size_t>(i)], uniform_from(block.word[i % 4])) << i;
    ASSERT_EQ(normal.as<float>()[static_cast<size_t>(i)], i % 2 ? normals.second : normals.first) << i;
  }
}

TEST(Random, NodesStepsAndSeedsDiffer) {
  const auto both = run_graph({{"rng", kRng}}, [](const Inputs& in) {
    const Value next = rng_next(in[0]);
    return Named{{"a", rand(in[0], {64})}, {"b", rand(in[0], {64})}, {"next", next}};
  });
  EXPECT_NE(both.at("a").to_doubles(), both.at("b").to_doubles());
  EXPECT_EQ(both.at("next").to_doubles(), (std::vector<double>{42, 4}));
  const auto numbers = [](int64_t seed, int64_t step) {
    return draw([](Value rng) { return rand(rng, {64}); }, Tensor::of<int64_t>({2}, {seed, step}))
        .to_doubles();
  };
  EXPECT_EQ(numbers(1, 2), numbers(1, 2));
  EXPECT_NE(numbers(1, 2), numbers(1, 3));
  EXPECT_NE(numbers(1, 2), numbers(2, 2));
}

TEST(Random, SameBitsForEveryNumberOfThreads) {
  for (const auto& op :
       {std::function<Value(Value)>([](Value rng) {
          return randn(rng, {300, 300});
        }),
        std::function<Value(Value)>([](Value rng) { return rand(rng, {90001}, DType::bf16); })}) {
    const auto one = draw(op, kRng, 1).to_doubles();
    EXPECT_EQ(one, draw(op, kRng, 2).to_doubles());
    EXPECT_EQ(one, draw(op, kRng, 4).to_doubles());
  }
}

TEST(Random, Distributions) {
  for (DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16}) {
    const Moments u = moments(draw([&](Value rng) { return rand(rng, {100000}, dtype); }).to_doubles());
    EXPECT_NEAR(u.mean, 0.5, 0.005) << name_of(dtype);
    EXPECT_NEAR(u.var, 1.0 / 12, 0.002) << name_of(dtype);
    EXPECT_GE(u.low, 0);
    EXPECT_LT(u.high, 1) << name_of(dtype);
    const Moments n = moments(draw([&](Value rng) { return randn(rng, {100000}, dtype); }).to_doubles());
    EXPECT_NEAR(n.mean, 0, 0.015) << name_of(dtype);
    EXPECT_NEAR(n.var, 1, 0.02) << name_of(dtype);
    EXPECT_GT(n.high, 3.5);
  }
}

TEST(Random, RandInt) {
  std::map<double, int> count;
  for (double v : draw([](Value rng) { return randint(rng, {60000}, -2, 4, DType::i32); }).to_doubles())
    ++count[v];
  ASSERT_EQ(count.size(), 6u);
  EXPECT_EQ(count.begin()->first, -2);
  for (const auto& [value, times] : count) EXPECT_NEAR(times, 10000, 400) << value;
  const Moments wide = moments(draw([](Value rng) {
                                 return randint(rng, {20000}, -(int64_t{1} << 60), int64_t{1} << 60);
                               }).to_doubles());
  EXPECT_LT(wide.low, -0.99 * 0x1p60);
  EXPECT_GT(wide.high, 0.99 * 0x1p60);
}

TEST(Random, Bernoulli) {
  const auto sure =
      run_graph({{"rng", kRng}, {"p", Tensor::of<float>({4}, {0, 1, 1, 0})}}, [](const Inputs& in) {
        return Named{{"y", bernoulli(in[0], in[1])}};
      });
  EXPECT_EQ(sure.at("y").to_doubles(), (std::vector<double>{0, 1, 1, 0}));
  const Tensor quarter = Tensor::of<float>({40000}, std::vector<float>(40000, 0.25f));
  const auto many = run_graph({{"rng", kRng}, {"p", quarter}}, [](const Inputs& in) {
    return Named{{"y", bernoulli(in[0], in[1])}};
  });
  EXPECT_NEAR(moments(many.at("y").to_doubles()).mean, 0.25, 0.01);
}

TEST(Random, DropoutAndItsGradientShareTheMask) {
  const int64_t n = 10000;
  auto model = std::make_shared<Model>();
  Graph& g = model->add_entry("main");
  const Value rng = g.add_input("rng", {DType::i64, {2}}), x = g.add_input("x", {DType::f32, {n}});
  const Value y = dropout(rng, x, 0.3);
  g.add_output("y", y);
  g.add_output("dx", passes::gradients(g, sum(y), {x})[0]);
  Session session(model);
  const Tensor ones = Tensor::of<float>({n}, std::vector<float>(static_cast<size_t>(n), 1.0f));
  const NamedTensors results = session.run("main", {{"rng", kRng}, {"x", ones}});
  EXPECT_EQ(results.at("y").to_doubles(), results.at("dx").to_doubles());
  const std::set<float> values(results.at("y").as<float>().begin(), results.at("y").as<float>().end());
  EXPECT_EQ(values, (std::set<float>{0.0f, 1.0f / 0.7f}));
  EXPECT_NEAR(moments(results.at("y").to_doubles()).mean, 1, 0.02);
}

TEST(Random, DropoutOfAllAndNothing) {
  const auto results =
      run_graph({{"rng", kRng}, {"x", Tensor::of<float>({3}, {1, 2, 3})}}, [](const Inputs& in) {
        return Named{{"all", dropout(in[0], in[1], 1)}, {"nothing", dropout(in[0], in[1], 0)}};
      });
  EXPECT_EQ(results.at("all").to_doubles(), (std::vector<double>{0, 0, 0}));
  EXPECT_EQ(results.at("nothing").to_doubles(), (std::vector<double>{1, 2, 3}));
}

// --- choosing

std::vector<double> frequencies(const std::vector<double>& chosen, size_t classes) {
  std::vector<double> f(classes, 0);
  for (double v : chosen) f[static_cast<size_t>(v)] += 1.0 / static_cast<double>(chosen.size());
  return f;
}

Tensor repeated_rows(const std::vector<float>& row, int64_t times) {
  std::vector<float> all;
  for (int64_t i = 0; i < times; ++i) all.insert(all.end(), row.begin(), row.end());
  return Tensor::of<float>({times, static_cast<int64_t>(row.size())}, all);
}

constexpr int64_t kRows = 20000;
const std::vector<float> kLogits = {1, 2, 0.5, 3, 2, -1};

// Returns the softmax over the tokens kept.
std::vector<double> probabilities(const std::vector<size_t>& kept, double temperature) {
  std::vector<double> p(kLogits.size(), 0);
  double sum = 0;
  for (size_t i : kept) sum += p[i] = std::exp(static_cast<double>(kLogits[i]) / temperature);
  for (double& v : p) v /= sum;
  return p;
}

void expect_sampled(const SampleOptions& options, const std::vector<double>& expected) {
  const auto results = run_graph({{"rng", kRng},
                                  {"logits", repeated_rows(kLogits, kRows)},
                                  {"temperature", Tensor::scalar(static_cast<float>(options.temperature))},
                                  {"top_k", Tensor::scalar(options.top_k)},
                                  {"top_p", Tensor::scalar(static_cast<float>(options.top_p))}},
                                 [&](const Inputs& in) {
                                   return Named{{"fixed", sample_logits(in[0], in[1], options)},
                                                {"data", sample_logits(in[0], in[1], in[2], in[3], in[4])}};
                                 });
  for (const char* name : {"fixed", "data"}) {
    const auto f = frequencies(results.at(name).to_doubles(), kLogits.size());
    for (size_t i = 0; i < f.size(); ++i) {
      EXPECT_NEAR(f[i], expected[i], 0.012) << name << ", token " << i;
      EXPECT_TRUE(expected[i] > 0 || f[i] == 0) << name << ", token " << i;
    }
  }
}

TEST(Random, Sample) {
  expect_sampled({}, probabilities({0, 1, 2, 3, 4, 5}, 1));
  expect_sampled({.temperature = 0.5}, probabilities({0, 1, 2, 3, 4, 5}, 0.5));
  expect_sampled({.temperature = 0}, probabilities({3}, 1));
  expect_sampled({.top_k = 3}, probabilities({1, 3, 4}, 1));
  expect_sampled({.top_k = 2}, probabilities({1, 3}, 1));  // the first of equal logits
  expect_sampled({.top_k = 99}, probabilities({0, 1, 2, 3, 4, 5}, 1));
  expect_sampled({.top_p = 0.6}, probabilities({1, 3}, 1));
  expect_sampled({.top_p = 0.8}, probabilities({1, 3, 4}, 1));
  expect_sampled({.top_p = 0}, probabilities({3}, 1));
  expect_sampled({.temperature = 2, .top_k = 3, .top_p = 0.5}, probabilities({1, 3}, 2));
}

TEST(Random, SampleOfManyTokens) {  // top-k and top-p agree with sorting
  std::vector<float> logits(30000);
  for (size_t i = 0; i < logits.size(); ++i)
    logits[i] = static_cast<float>(std::fmod(static_cast<double>(i) * 0.618033988749895, 1.0)) * 8;
  std::vector<float> order = logits;
  std::sort(order.begin(), order.end(), std::greater<>());
  double total = 0, mass = 0;
  for (float v : order) total += std::exp(static_cast<double>(v));
  size_t kept = 0;
  while (mass < 0.3 * total) mass += std::exp(static_cast<double>(order[kept++]));
  const auto results =
      run_graph({{"rng", kRng}, {"logits", repeated_rows(logits, 200)}}, [](const Inputs& in) {
        return Named{{"k", sample_logits(in[0], in[1], {.top_k = 50})},
                     {"p", sample_logits(in[0], in[1], {.top_p = 0.3})}};
      });
  std::set<double> distinct;
  for (double token : results.at("k").to_doubles()) {
    EXPECT_GE(logits[static_cast<size_t>(token)], order[49]);
    distinct.insert(token);
  }
  EXPECT_GT(distinct.size(), 40u);
  for (double token : results.at("p").to_doubles())
    EXPECT_GE(logits[static_cast<size_t>(token)], order[std::min(kept, order.size() - 1)]);
}

// With its own seed, step and settings a row draws the same as alone, wherever it is in the batch.
TEST(Random, ARowOfSamplesDrawsAsIfAlone) {
  const std::vector<int64_t> seeds = {5, 42, -7, 5, 1}, steps = {0, 3, 11, 12, (int64_t{1} << 40) + 3};
  const std::vector<int64_t> top_k = {0, 4, 0, 0, 2};
  const std::vector<float> temperature = {1, 0.5, 2, 0, 1}, top_p = {1, 1, 0.7f, 1, 0.9f},
                           min_p = {0, 0, 0.1f, 0, 0.3f};
  std::vector<float> logits;
  for (int i = 0; i < 5 * 90; ++i) logits.push_back(static_cast<float>((i * 7919 + 13) % 101) / 17);
  const auto sample = [](const NamedTensors& in) {
    const auto op = [](const Inputs& x) {
      return Named{{"y", sample_logits(x[0], x[1], x[2], x[3], x[4], x[5])}};
    };
    return run_graph({{"rng", in.at("rng")},
                      {"logits", in.at("logits")},
                      {"temperature", in.at("temperature")},
                      {"top_k", in.at("top_k")},
                      {"top_p", in.at("top_p")},
                      {"min_p", in.at("min_p")}},
                     op)
        .at("y")
        .to_doubles();
  };
  std::vector<int64_t> rng = seeds;
  rng.insert(rng.end(), steps.begin(), steps.end());
  const auto together = sample({{"rng", Tensor::of<int64_t>({2, 5}, rng)},
                                {"logits", Tensor::of<float>({5, 90}, logits)},
                                {"temperature", Tensor::of<float>({5}, temperature)},
                                {"top_k", Tensor::of<int64_t>({5}, top_k)},
                                {"top_p", Tensor::of<float>({5}, top_p)},
                                {"min_p", Tensor::of<float>({5}, min_p)}});
  std::set<double> distinct;
  for (size_t r = 0; r < seeds.size(); ++r) {
    const std::vector<float> row(logits.begin() + static_cast<int64_t>(r) * 90,
                                 logits.begin() + static_cast<int64_t>(r + 1) * 90);
    const auto alone = sample({{"rng", Tensor::of<int64_t>({2}, {seeds[r], steps[r]})},
                               {"logits", Tensor::of<float>({1, 90}, row)},
                               {"temperature", Tensor::scalar(temperature[r])},
                               {"top_k", Tensor::scalar(top_k[r])},
                               {"top_p", Tensor::scalar(top_p[r])},
                               {"min_p", Tensor::scalar(min_p[r])}});
    EXPECT_EQ(together[r], alone[0]) << "row " << r;
    distinct.insert(alone[0]);
  }
  EXPECT_GT(distinct.size(), 2u);
}

TEST(Random, SampleOfInfinities) {
  const float inf = std::numeric_limits<float>::infinity();
  const auto results = run_graph(
      {{"rng", kRng}, {"logits", Tensor::of<float>({3, 3}, {-inf, 1, -inf, 0, inf, 1, -inf, -inf, -inf})}},
      [](const Inputs& in) {
        return Named{{"y", sample_logits(in[0], in[1])}};
      });
  EXPECT_EQ(results.at("y").to_doubles(), (std::vector<double>{1, 1, 0}));
}

TEST(Random, Multinomial) {
  const Tensor weights = repeated_rows({1, 0, 3, 6}, kRows);
  const auto results = run_graph({{"rng", kRng}, {"w", weights}}, [](const Inputs& in) {
    return Named{{"with", multinomial(in[0], in[1], 2, true)}, {"without", multinomial(in[0], in[1], 2)}};
  });
  const auto f = frequencies(results.at("with").to_doubles(), 4);
  const double expected[] = {0.1, 0, 0.3, 0.6};
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(f[i], expected[i], 0.01);
  EXPECT_EQ(f[1], 0);
  std::map<std::pair<int64_t, int64_t>, double> pairs;
  const auto chosen = results.at("without").as<int64_t>();
  for (size_t i = 0; i < chosen.size(); i += 2) pairs[{chosen[i], chosen[i + 1]}] += 1.0 / kRows;
  EXPECT_EQ(pairs.size(), 6u);  // never the same twice, never the one of weight 0
  const auto pair_of = [](double first, double second) { return first * second / (1 - first); };
  EXPECT_NEAR((pairs[{3, 2}]), pair_of(0.6, 0.3), 0.012);
  EXPECT_NEAR((pairs[{2, 3}]), pair_of(0.3, 0.6), 0.012);
  EXPECT_NEAR((pairs[{0, 2}]), pair_of(0.1, 0.3), 0.012);
}

TEST(Random, Initializers) {
  std::vector<float> x(100000), y(100000);
  fill_uniform(x, 7, 1, -2, 4);
  const Moments u = moments({x.begin(), x.end()});
  EXPECT_NEAR(u.mean, 1, 0.03);
  EXPECT_NEAR(u.var, 3, 0.05);
  fill_normal(x, 7, 2, 5, 0.5);
  const Moments n = moments({x.begin(), x.end()});
  EXPECT_NEAR(n.mean, 5, 0.01);
  EXPECT_NEAR(n.var, 0.25, 0.005);
  fill_trunc_normal(x, 7, 3, 0, 1, -2, 2);
  const Moments t = moments({x.begin(), x.end()});
  EXPECT_GE(t.low, -2);
  EXPECT_LE(t.high, 2);
  EXPECT_NEAR(t.var, 0.7737, 0.01);  // 1 - 4 phi(2) / (2 Phi(2) - 1)
  fill_trunc_normal(y, 7, 3, 0, 1, -2, 2);
  EXPECT_EQ(x, y);
}

TEST(Random, Errors) {
  const TensorType rng{DType::i64, {2}}, x{DType::f32, {3, 4}}, whole{DType::i32, {3}},
      none{DType::f32, {3, 0}};
  const auto fails = [](const std::vector<TensorType>& types, const std::function<Value(const Inputs&)>& op,
                        const std::vector<std::string>& parts) {
    expect_error([&] { infer_case(types, [&](const Inputs& in) { return Outputs{op(in)}; }); }, parts);
  };
  fails({x}, [](const Inputs& in) { return rand(in[0], {2}); }, {"i64[2] {seed, step}", "f32[3,4]"});
  fails({rng}, [](const Inputs& in) { return rand(in[0], {2}, DType::i32); }, {"rand takes real numbers"});
  fails({rng}, [](const Inputs& in) { return randint(in[0], {2}, 3, 3); }, {"low < high", "[3, 3)"});
  fails({rng, x}, [](const Inputs& in) { return dropout(in[0], in[1], 1.5); }, {"p in [0, 1]", "1.5"});
  fails({rng, whole}, [](const Inputs& in) { return dropout(in[0], in[1], 0.5); },
        {"dropout takes real numbers"});
  // A file may contain such values: the last is a multiple of 4 and leaves no room for x after it.
  for (const int64_t first : {int64_t{-4}, int64_t{6}, INT64_MAX - 3})
    fails({rng, x},
          [=](const Inputs& in) {
            return emit(ops::Dropout{0.5, 1, first}, {in[0], in[1]});
          },
          {"`first`", std::to_string(first)});
  fails({rng, x}, [](const Inputs& in) { return multinomial(in[0], in[1], 5); },
        {"draw 5 samples", "without"});
  fails({rng, none}, [](const Inputs& in) { return sample_logits(in[0], in[1]); },
        {"choose from no elements"});
  fails({rng, x}, [](const Inputs& in) { return sample_logits(in[0], in[1], {.temperature = -1}); },
        {"temperature"});
  fails({rng, x}, [](const Inputs& in) { return sample_logits(in[0], in[1], in[1], in[1], in[1]); },
        {"temperature must be one f32", "f32[3]"});
  fails({{DType::i64, {2, 4}}, x}, [](const Inputs& in) { return sample_logits(in[0], in[1]); },
        {"i64[2] {seed, step}", "i64[2,3]", "i64[2,4]"});
  expect_error(
      [] {
        run_graph({{"rng", kRng}, {"w", Tensor::of<float>({1, 3}, {0, 1, 0})}}, [](const Inputs& in) {
          return Named{{"y", multinomial(in[0], in[1], 2)}};
        });
      },
      {"multinomial"});
}

}  // namespace
}  // namespace genesis::testing
