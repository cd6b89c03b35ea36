// Tests attention's gradient in bf16 on a GPU against the CPU, and that it gives the same bits again. Includes heads
// of 64, at sizes taken by our kernel on Hopper chips, even and odd, with one or several texts per row; heads of
// other sizes; and keys that start late. Skipped without a GPU.
#include <fmt/format.h>

#include <cmath>

#include "backends/cuda/attention/attention.h"
#include "passes/training/autodiff.h"
#include "schema/core/philox.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/nn/attention.h"
#include "schema/ops/tensor/reduce.h"
#include "tests/cuda/alike.h"
#include "tests/op_harness.h"

namespace genesis {
namespace {

using namespace testing;

class AttentionGradient : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!why_no_cuda().empty()) GTEST_SKIP() << why_no_cuda();
  }
};

struct Sizes {
  int64_t batch, heads, key_heads, queries, keys;
  AttentionOptions options;
  std::vector<int64_t> texts =
      {};  // lengths of the texts in the first row; each next row lacks the first of them; empty: no starts
  int64_t size = 64, late = 0;  // late: how many keys too late the keys of all texts but a row's first start
  int64_t v_size = 0;           // 0: size

  std::vector<int64_t> of(int64_t h, int64_t t, bool of_values = false) const {
    const int64_t row = of_values && v_size ? v_size : size;
    return options.layout == AttentionLayout::kBHTD ? std::vector<int64_t>{batch, h, t, row}
                                                    : std::vector<int64_t>{batch, t, h, row};
  }
  // The rest of a row is one more text.
  Tensor starts() const {
    std::vector<int64_t> all;
    for (int64_t b = 0; b < batch; ++b) {
      int64_t start = 0;
      std::vector<int64_t> row;
      const auto seen = [&] { return start > 0 ? start + late : 0; };
      for (size_t i = static_cast<size_t>(b) % (texts.size() + 1); i < texts.size(); start += texts[i++])
        row.insert(row.end(), static_cast<size_t>(texts[i]), seen());
      row.resize(static_cast<size_t>(queries), seen());
      all.insert(all.end(), row.begin(), row.end());
    }
    return Tensor::of<int64_t>({batch, queries}, all);
  }
};

Tensor noise(const std::vector<int64_t>& shape, uint64_t stream) {
  std::vector<float> values(static_cast<size_t>(TensorType{DType::f32, Shape::of(shape)}.numel()));
  fill_uniform(values, 11, stream, -2, 2);
  return Tensor::of<float>(shape, values);
}

NamedTensors gradients_on(const std::string& device, const Sizes& s) {
  const auto bf16_of = [](const Value& x) { return cast(x, DType::bf16); };
  return run_graph(
      {{"q", noise(s.of(s.heads, s.queries), 1)},
       {"k", noise(s.of(s.key_heads, s.keys), 2)},
       {"v", noise(s.of(s.key_heads, s.keys, true), 3)},
       {"dy", noise(s.of(s.heads, s.queries, true), 4)},
       {"starts", s.starts()}},
      [&](const Inputs& in) {
        const Value y = attention(bf16_of(in[0]), bf16_of(in[1]), bf16_of(in[2]), s.options, {}, {},
                                  s.texts.empty() ? Value{} : in[4]);
        const auto d = passes::gradients(in.graph, sum(cast(y, DType::f32) * in[3]), {in[0], in[1], in[2]});
        return std::vector<std::pair<std::string, Value>>{
            {"y", cast(y, DType::f32)}, {"dq", d[0]}, {"dk", d[1]}, {"dv", d[2]}};
      },
      {.device = device});
}

// Computes the gradient by q, k and v that are slices of one tensor.
NamedTensors packed_gradient_on(const std::string& device, const Sizes& s) {
  return run_graph(
      {{"qkv", noise(s.of(s.heads + 2 * s.key_heads, s.queries), 1)},
       {"dy", noise(s.of(s.heads, s.queries), 2)},
       {"starts", s.starts()}},
      [&](const Inputs& in) {
        const Value y = packed_attention(cast(in[0], DType::bf16), s.key_heads, s.options, {}, {},
                                         s.texts.empty() ? Value{} : in[2]);
        const auto d = passes::gradients(in.graph, sum(cast(y, DType::f32) * in[1]), {in[0]});
        return std::vector<std::pair<std::string, Value>>{{"y", cast(y, DType::f32)}, {"dqkv", d[0]}};
      },
      {.device = device});
}

constexpr AttentionOptions kCausal{.causal = true}, kAll{},
    kCausalHeadsFirst{.causal = true, .layout = AttentionLayout::kBHTD},
    kScaled{.causal = true, .scale = 0.3};

template <class Compute>
void check(const Compute& gradients_on, const Sizes& s) {
  SCOPED_TRACE(fmt::format("b{} h{}/{} q{} k{} d{} window {} {} texts", s.batch, s.heads, s.key_heads,
                           s.queries, s.keys, s.size, s.options.window, s.texts.size()));
  const NamedTensors got = gradients_on("cuda", s), again = gradients_on("cuda", s);
  expect_alike(got, gradients_on("cpu", s));
  for (const auto& [name, tensor] : got) EXPECT_EQ(again.at(name).to_doubles(), tensor.to_doubles()) << name;
}

TEST_F(AttentionGradient, IsThatOfTheCpu) {
  check(gradients_on, {9, 16, 16, 129, 129, kCausal});
  check(gradients_on, {12, 24, 12, 65, 200, kCausal});
  check(gradients_on, {10, 16, 16, 80, 80, kScaled});
  check(gradients_on, {10, 16, 16, 100, 100, kCausalHeadsFirst});
}

TEST_F(AttentionGradient, WithoutAMaskIsThatOfTheCpu) {
  check(gradients_on, {17, 8, 8, 63, 63, kAll});
  check(gradients_on, {12, 24, 12, 200, 65, kAll});
}

TEST_F(AttentionGradient, OfPackedHeadsIsThatOfTheCpu) {
  check(packed_gradient_on, {64, 14, 2, 128, 128, kCausal});
  check(packed_gradient_on, {64, 14, 2, 100, 100, kCausal});
}

TEST_F(AttentionGradient, OfSeveralTextsIsThatOfTheCpu) {
  check(gradients_on, {3, 4, 2, 300, 300, kCausal, {64, 1, 63, 100}});
  check(gradients_on, {2, 6, 2, 129, 129, kScaled, {128}});
  check(gradients_on, {4, 2, 1, 200, 200, kCausalHeadsFirst, {5, 7, 60, 56, 3}});
  check(gradients_on, {2, 2, 2, 65, 200, kCausal, {30, 20}});
  check(gradients_on, {2, 2, 1, 200, 200, kAll, {70, 90}});
  check(packed_gradient_on, {3, 14, 2, 260, 260, kCausal, {100, 129, 20}});
}

// Half of an item's rows sees nothing of more tiles than the ring can hold.
TEST_F(AttentionGradient, OfLongTextsBehindShortOnesIsThatOfTheCpu) {
  check(gradients_on, {1, 4, 2, 1024, 1024, kCausal, {64}});
  check(gradients_on, {2, 2, 1, 1100, 1100, kCausal, {960, 64}});
  check(gradients_on, {1, 2, 2, 1024, 1024, kAll, {64, 832, 64}});
}

// A query that sees no key gives zeros, and so do its gradients.
TEST_F(AttentionGradient, OfTextsThatBeginTooLateIsThatOfTheCpu) {
  check(gradients_on, {2, 2, 1, 300, 300, kCausal, {10, 100, 80}, 64, 70});
  check(gradients_on, {2, 2, 1, 150, 150, kCausal, {10, 60}, 64, 500});
  check(gradients_on, {2, 2, 1, 200, 70, kCausal, {64}});
}

TEST_F(AttentionGradient, OfTextsAndWindowsInOtherHeadsIsThatOfTheCpu) {
  const AttentionOptions window{.causal = true, .window = 37};
  check(gradients_on, {2, 4, 2, 200, 200, kCausal, {64, 1, 63}, 128});
  check(gradients_on, {2, 4, 2, 150, 190, kCausal, {20, 100}, 32});
  check(gradients_on, {2, 4, 2, 200, 200, window, {}, 64});
  check(gradients_on, {2, 4, 2, 200, 200, window, {90, 20}, 64});
}

// Each of the other head sizes with all keys, a window, several texts, and other numbers of queries than keys.
TEST_F(AttentionGradient, OfOtherHeadSizesIsThatOfTheCpu) {
  const AttentionOptions window{.causal = true, .window = 37};
  struct HeadSizes {
    int64_t size, v_size;
  };
  for (const auto& [size, v_size] : {HeadSizes{80, 80}, HeadSizes{96, 96}, HeadSizes{192, 128},
                                     HeadSizes{256, 256}, HeadSizes{512, 512}}) {
    check(gradients_on, {2, 4, 2, 200, 200, kCausal, {}, size, 0, v_size});
    check(gradients_on, {1, 4, 1, 130, 190, kAll, {}, size, 0, v_size});
    check(gradients_on, {2, 4, 2, 200, 200, window, {}, size, 0, v_size});
    check(gradients_on, {2, 4, 2, 200, 200, kCausal, {64, 1, 63}, size, 0, v_size});
    check(gradients_on, {1, 2, 2, 150, 190, window, {20, 100}, size, 0, v_size});
    check(gradients_on, {2, 2, 1, 150, 150, kCausalHeadsFirst, {10, 60}, size, 500, v_size});
  }
}

}  // namespace
}  // namespace genesis
