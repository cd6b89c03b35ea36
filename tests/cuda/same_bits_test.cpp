// Tests that ops which move, order or draw elements give the CPU's bits on a GPU, at sizes where many blocks share
// the work. Skipped without a GPU.
#include <cmath>
#include <cstring>

#include "schema/core/philox.h"
#include "schema/ops/create.h"
#include "schema/ops/tensor/dynamic_slice.h"
#include "schema/ops/tensor/index.h"
#include "schema/ops/tensor/layout.h"
#include "schema/ops/tensor/random.h"
#include "schema/ops/tensor/slice.h"
#include "schema/ops/tensor/sort.h"
#include "tests/op_harness.h"

namespace genesis {
namespace {

using namespace testing;

struct Given {
  DType dtype;
  std::vector<int64_t> shape;
  double low = -4, high = 4;
};

struct BitsCase {
  std::string name;
  std::vector<Given> inputs;
  std::function<std::vector<Value>(const Inputs&)> build;
};

Tensor draw_tensor(const Given& given, uint64_t stream) {
  const TensorType type{given.dtype, Shape::of(given.shape)};
  std::vector<float> values(static_cast<size_t>(type.numel()));
  fill_uniform(values, 7, stream, given.low, given.high);
  std::byte* data;
  Tensor tensor = Tensor::uninitialized(type, &data);
  dispatch(given.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (size_t i = 0; i < values.size(); ++i) {
      const T element =
          std::is_integral_v<T> ? static_cast<T>(std::floor(values[i])) : static_cast<T>(values[i]);
      std::memcpy(data + i * sizeof(T), &element, sizeof(T));
    }
  });
  return tensor;
}

NamedTensors run_on(const BitsCase& c, const std::string& device) {
  std::vector<std::pair<std::string, Tensor>> inputs;
  for (size_t i = 0; i < c.inputs.size(); ++i)
    inputs.emplace_back("x" + std::to_string(i), draw_tensor(c.inputs[i], i));
  const auto build = [&](const Inputs& x) {
    std::vector<std::pair<std::string, Value>> named;
    for (const Value& value : c.build(x)) named.emplace_back("y" + std::to_string(named.size()), value);
    return named;
  };
  return run_graph(inputs, build, {.device = device});
}

class CudaBits : public ::testing::TestWithParam<BitsCase> {};

TEST_P(CudaBits, AreThoseOfTheCpu) {
  if (!why_no_cuda().empty()) GTEST_SKIP() << why_no_cuda();
  const NamedTensors expected = run_on(GetParam(), "cpu"), got = run_on(GetParam(), "cuda");
  for (const auto& [name, tensor] : expected) {
    const Tensor& other = got.at(name);
    ASSERT_EQ(other.type(), tensor.type());
    const auto size = static_cast<int64_t>(size_of(tensor.type().dtype));
    for (int64_t i = 0; i < tensor.type().numel(); ++i)
      ASSERT_EQ(std::memcmp(tensor.data() + i * size, other.data() + i * size, static_cast<size_t>(size)), 0)
          << name << ", element " << i;
  }
}

// --- cases

using Values = std::vector<Value>;
constexpr DType f32 = DType::f32, bf16 = DType::bf16, f64 = DType::f64, u8 = DType::u8, i64 = DType::i64;

Values both(const ValuesAndIndices& pair) { return {pair.values, pair.indices}; }
Given state() { return {i64, {2}, 0, 1000}; }

std::vector<BitsCase> moves() {
  std::vector<BitsCase> cases;
  for (DType d : {u8, bf16, f32, f64}) {
    const std::string n(name_of(d));
    cases.push_back({"transpose_" + n, {{d, {1030, 777}}}, [](auto& x) { return Values{transpose(x[0])}; }});
    cases.push_back(
        {"transpose_packed_" + n, {{d, {5, 512, 768}}}, [](auto& x) { return Values{transpose(x[0])}; }});
    cases.push_back({"heads_" + n, {{d, {3, 257, 14, 64}}}, [](auto& x) {
                       return Values{permute(x[0], {0, 2, 1, 3})};
                     }});
    cases.push_back({"reversed_axes_" + n, {{d, {17, 18, 19, 20}}}, [](auto& x) {
                       return Values{permute(x[0], {3, 2, 1, 0})};
                     }});
    cases.push_back({"expand_" + n, {{d, {300, 1, 40}}, {d, {300, 50, 1}}}, [](auto& x) {
                       return Values{expand(x[0], {300, 50, 40}), expand(x[1], {300, 50, 40})};
                     }});
    cases.push_back({"concat_" + n, {{d, {200, 3, 64}}, {d, {200, 5, 64}}}, [](auto& x) {
                       return Values{concat({x[0], x[1], x[0]}, 1), concat({x[0], x[0]}, 2)};
                     }});
    cases.push_back(
        {"pad_roll_flip_" + n, {{d, {40, 50, 60}}}, [](auto& x) {
           return Values{pad(x[0], {1, 0, 4}, {2, -3, 5}, 1), roll(x[0], {3, 7}, {0, 2}), flip(x[0], {0, 2})};
         }});
    cases.push_back({"triangles_" + n, {{d, {7, 300, 256}}}, [](auto& x) {
                       return Values{tril(x[0], 3), triu(x[0], -2)};
                     }});
    cases.push_back(
        {"cache_" + n, {{d, {2, 512, 128}}, {d, {2, 3, 128}}, {i64, {}, 100, 200}}, [](auto& x) {
           return Values{dynamic_update_slice(x[0], x[1], x[2], 1), dynamic_slice(x[0], x[2], 1, 64)};
         }});
  }
  return cases;
}

std::vector<BitsCase> indices() {
  std::vector<BitsCase> cases;
  for (DType d : {bf16, f32, f64, i64}) {
    const std::string n(name_of(d));
    cases.push_back({"gather_" + n, {{d, {500, 300}}, {i64, {500, 200}, 0, 300}}, [](auto& x) {
                       return Values{gather(x[0], 1, x[1])};
                     }});
    cases.push_back({"index_select_" + n, {{d, {300, 96}}, {i64, {5000}, 0, 300}}, [](auto& x) {
                       return Values{index_select(x[0], 0, x[1])};
                     }});
    cases.push_back({"writes_" + n, {{d, {100000}}, {i64, {50000}, 0, 30000}, {d, {50000}}}, [](auto& x) {
                       return Values{scatter(x[0], 0, x[1], x[2]), scatter_add(x[0], 0, x[1], x[2])};
                     }});
    cases.push_back({"index_add_" + n, {{d, {700, 96}}, {i64, {9000}, 0, 700}, {d, {9000, 96}}}, [](auto& x) {
                       return Values{index_add(x[0], 0, x[1], x[2])};
                     }});
    cases.push_back({"sort_rows_" + n, {{d, {300, 700}, -50, 50}}, [](auto& x) { return both(sort(x[0])); }});
    cases.push_back(
        {"sort_columns_" + n, {{d, {5000, 9}, -50, 50}}, [](auto& x) { return both(sort(x[0], 0, true)); }});
    cases.push_back({"sort_long_" + n, {{d, {300000}, -50, 50}}, [](auto& x) { return both(sort(x[0])); }});
    cases.push_back({"topk_" + n, {{d, {4, 151936}, -50, 50}}, [](auto& x) { return both(topk(x[0], 50)); }});
  }
  return cases;
}

std::vector<BitsCase> draws() {
  std::vector<BitsCase> cases;
  for (DType d : {bf16, f32, f64}) {
    const std::string n(name_of(d));
    cases.push_back(
        {"numbers_" + n, {state()}, [d](auto& x) {
           return Values{rand(x[0], {100003}, d), randn(x[0], {100003}, d), randint(x[0], {100003}, -5, 900)};
         }});
    cases.push_back({"dropout_" + n, {state(), {d, {1001, 77}, 0, 1}}, [](auto& x) {
                       return Values{dropout(x[0], x[1], 0.3), bernoulli(x[0], x[1])};
                     }});
    cases.push_back({"sample_" + n, {state(), {d, {5, 151936}, -8, 8}}, [](auto& x) {
                       Values tokens;
                       for (const SampleOptions& o :
                            {SampleOptions{0, 0, 1}, SampleOptions{1, 0, 1}, SampleOptions{0.8, 50, 1},
                             SampleOptions{0.7, 0, 0.9}, SampleOptions{1.3, 200, 0.8},
                             SampleOptions{0.1, 0, 0.05}, SampleOptions{0, 0, 1, 0.1},
                             SampleOptions{1, 0, 1, 0.02}, SampleOptions{0.9, 60, 0.9, 0.2},
                             SampleOptions{1.5, 0, 0.99, 0.3}, SampleOptions{2, 0, 1, 1}})
                         tokens.push_back(sample_logits(x[0], x[1], o));
                       return tokens;
                     }});
    cases.push_back({"sample_rows_" + n,
                     {{i64, {2, 5}, 0, 1000},
                      {d, {5, 151936}, -8, 8},
                      {f32, {5}, 0, 2},
                      {i64, {5}, 0, 300},
                      {f32, {5}, 0.1, 1},
                      {f32, {5}, 0, 0.2}},
                     [](auto& x) { return Values{sample_logits(x[0], x[1], x[2], x[3], x[4], x[5])}; }});
    cases.push_back(
        {"sample_equal_logits_" + n, {state(), {d, {3, 5000}, 1, 1}}, [](auto& x) {
           return Values{sample_logits(x[0], x[1], {1, 77, 1}), sample_logits(x[0], x[1], {1, 0, 0.5})};
         }});
    cases.push_back({"multinomial_" + n, {state(), {d, {5, 20000}, 0, 3}}, [](auto& x) {
                       return Values{multinomial(x[0], x[1], 100, true), multinomial(x[0], x[1], 100, false)};
                     }});
  }
  return cases;
}

std::string name_of_case(const ::testing::TestParamInfo<BitsCase>& info) { return info.param.name; }
INSTANTIATE_TEST_SUITE_P(Moves, CudaBits, ::testing::ValuesIn(moves()), name_of_case);
INSTANTIATE_TEST_SUITE_P(Indices, CudaBits, ::testing::ValuesIn(indices()), name_of_case);
INSTANTIATE_TEST_SUITE_P(Draws, CudaBits, ::testing::ValuesIn(draws()), name_of_case);

}  // namespace
}  // namespace genesis
