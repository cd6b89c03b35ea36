// Tests CUDA kernels as far as possible without a GPU: every op has a kernel, the planner's queries are answered, and
// the moves that implement strided copies visit every element once.
#include "backends/cpu/moves/run_moves.h"
#include "backends/cuda/kernels.h"

#include <gtest/gtest.h>

#include <cstring>

#include "backends/cuda/device/divisor.h"
#include "backends/cuda/device/radix_sort.h"
#include "backends/cuda/moves/moves.h"
#include "schema/graph/model.h"
#include "schema/ops/create.h"
#include "schema/ops/nn/attention.h"
#include "schema/ops/nn/matmul.h"
#include "schema/ops/nn/norm.h"
#include "schema/ops/nn/rope.h"
#include "schema/ops/nn/softmax.h"
#include "schema/ops/nn/swiglu.h"
#include "schema/ops/tensor/dynamic_slice.h"
#include "schema/ops/tensor/index.h"
#include "schema/ops/tensor/layout.h"
#include "schema/ops/tensor/random.h"
#include "schema/ops/tensor/reduce.h"
#include "schema/ops/tensor/slice.h"
#include "schema/ops/tensor/sort.h"

namespace genesis {
namespace {

TEST(CudaKernels, EveryOpHasOne) {
  std::string missing;
  for (const OpDef* op : all_ops())
    if (cuda::kernels_for(op->name()).empty()) missing += std::string(op->name()) + " ";
  EXPECT_EQ(missing, "");
}

// Checks that every query about a node that a plan makes is answered on any machine.
void expect_answers(const Graph& graph) {
  for (const Node& node : graph.nodes()) {
    SCOPED_TRACE(node.name);
    const std::vector<TensorType> inputs = graph.input_types(node);
    std::vector<TensorType> outputs;
    for (ValueId id : node.outputs) outputs.push_back(graph.type(id));
    const KernelQuery query{*node.op, node.attributes, inputs, outputs};
    const Target target = cuda::cuda_target(0);
    EXPECT_EQ(target.can_run(query), std::nullopt);
    EXPECT_GE(target.scratch_bytes(query), 0);
    for (const KernelImpl& kernel : cuda::kernels_for(node.op->name())) {
      const auto why_not = kernel.can_run ? kernel.can_run(query) : std::nullopt;
      if (why_not) {
        EXPECT_FALSE(why_not->empty());
      } else if (kernel.scratch_bytes) {
        EXPECT_GE(kernel.scratch_bytes(query), 0);
      }
    }
  }
}

class Answers : public ::testing::TestWithParam<DType> {
 protected:
  Value input(Shape shape) { return typed(GetParam(), std::move(shape)); }
  Value indices(Shape shape) { return typed(DType::i64, std::move(shape)); }
  Value typed(DType dtype, Shape shape) {
    return graph_.add_input("x" + std::to_string(count_++), {dtype, std::move(shape)});
  }

  Model model_;
  Graph graph_{model_, "forward"};
  int count_ = 0;
};

TEST_P(Answers, OfMoves) {
  const Value x = input({6, 8, 10});
  transpose(x);
  permute(x, {1, 0, 2});
  expand(input({1, 8, 1}), {6, 8, 10});
  flip(x, {0});
  roll(x, {3}, {1});
  slice(x, 1, 1, 7, 2);
  concat({x, x}, 1);
  split(x, {4, 6}, 2);
  pad(x, {1, 0, 2}, {0, 1, 2});
  tril(x);
  triu(x);
  dynamic_slice(x, indices({}), 1, 3);
  dynamic_update_slice(x, input({6, 2, 10}), indices({}), 1);
  one_hot(indices({5}), 7, GetParam());
  arange(graph_, 5, 0, 2, GetParam());
  full(graph_, {3, 4}, 1, GetParam());
  expect_answers(graph_);
}

TEST_P(Answers, OfIndices) {
  const Value x = input({6, 8});
  gather(x, 1, indices({6, 3}));
  scatter(x, 1, indices({6, 3}), input({6, 3}));
  scatter_add(x, 1, indices({6, 3}), input({6, 3}));
  index_select(x, 0, indices({9}));
  index_add(x, 0, indices({9}), input({9, 8}));
  embedding(indices({2, 5}), x);
  sort(x);
  sort(input({2, 100000}));
  topk(input({2, 100000}), 5);
  expect_answers(graph_);
}

TEST_P(Answers, OfRandomNumbers) {
  const Value state = indices({2}), x = input({4, 151936});
  rand(state, {1000}, GetParam());
  randn(state, {1000}, GetParam());
  randint(state, {1000}, 0, 10);
  bernoulli(state, x);
  dropout(state, x, 0.1);
  multinomial(state, x, 3, true);
  multinomial(state, x, 3, false);
  sample_logits(state, x, {.temperature = 0.7, .top_k = 50, .top_p = 0.9});
  rng_next(state);
  expect_answers(graph_);
}

TEST_P(Answers, OfLayers) {
  const Value x = input({2, 16, 64});
  softmax(x);
  sum(x, {1});
  matmul(x, transpose(x));
  swiglu(x, x);
  const Value heads = input({2, 16, 4, 64});
  rope(heads, indices({16}));
  attention(heads, heads, heads, {.causal = true});
  expect_answers(graph_);
}

INSTANTIATE_TEST_SUITE_P(Dtypes, Answers, ::testing::Values(DType::f32, DType::bf16, DType::f16, DType::f64),
                         [](const auto& info) { return std::string(name_of(info.param)); });

TEST(Divisor, DividesLikeADivision) {
  for (int64_t by : {1, 2, 3, 5, 7, 10, 64, 127, 128, 1000, 65535, 65536, 65537, 1 << 30, INT32_MAX}) {
    const cuda::Divisor divisor = cuda::make_divisor(by);
    for (int64_t n : {int64_t{0}, int64_t{1}, by - 1, by, 2 * by - 1, 3 * by + 1, int64_t{INT32_MAX - 1},
                      int64_t{INT32_MAX}}) {
      if (n > INT32_MAX) continue;
      EXPECT_EQ(divisor.quotient(static_cast<uint32_t>(n)), n / by) << n << " / " << by;
    }
  }
}

// Does the work of the kernel on the host, item by item.
void run_on_host(const cuda::DeviceMove& move) {
  for (int64_t item = 0; item < move.items; ++item) {
    int64_t rest = item, to = 0, from = 0;
    for (int axis = move.rank - 1; axis >= 0; --axis) {
      const int64_t size = axis == 0 ? move.items : move.dims[axis].size, at = rest % size;
      rest /= size;
      to += at * move.to_strides[axis], from += at * move.from_strides[axis];
    }
    for (int64_t byte = 0; byte < move.width; ++byte)
      move.to[to + byte] = move.from[from + (move.splat == 0 ? byte : byte % move.splat)];
  }
}

struct MoveCase {
  std::string name;
  std::vector<int64_t> dims, from;  // dims of the target, which is dense
  int64_t element, offset;          // offset: into the source, in elements
  int width;
};

class Moves : public ::testing::TestWithParam<MoveCase> {};

TEST_P(Moves, AreTheStridedCopyInTheWidestAccesses) {
  const MoveCase& c = GetParam();
  const std::vector<int64_t> to = dense_strides(c.dims);
  const StridedCopy copy = make_strided_copy(c.dims, to, c.from, c.element, 0, c.offset);
  alignas(16) std::byte source[1 << 14];
  for (size_t i = 0; i < sizeof source; ++i) source[i] = static_cast<std::byte>(i * 7 + i / 256);
  alignas(16) std::byte expected[1 << 12] = {}, got[1 << 12] = {};
  cpu::run_strided_copy(copy, expected, source);
  const cuda::DeviceMove move = cuda::make_device_move(copy, got, source, 0, 0);
  EXPECT_EQ(move.width, c.width);
  run_on_host(move);
  EXPECT_EQ(std::memcmp(expected, got, sizeof got), 0);
}

INSTANTIATE_TEST_SUITE_P(Copies, Moves,
                         ::testing::Values(MoveCase{"dense", {8, 16}, {16, 1}, 4, 0, 16},
                                         MoveCase{"one_element", {1}, {1}, 2, 3, 2},
                                         MoveCase{"heads", {4, 6, 32}, {32, 128, 1}, 2, 0, 16},
                                         MoveCase{"rows_of_six_bytes", {4, 6, 3}, {3, 12, 1}, 2, 0, 2},
                                         MoveCase{"off_by_four_bytes", {6, 32}, {40, 1}, 4, 1, 4},
                                         MoveCase{"reversed", {6, 32}, {32, -1}, 4, 31, 4},
                                         MoveCase{"every_second", {6, 16}, {64, 2}, 4, 0, 4},
                                         MoveCase{"repeated_row", {6, 32}, {0, 1}, 4, 5, 4},
                                         MoveCase{"repeated_element", {6, 32}, {1, 0}, 4, 3, 16},
                                         MoveCase{"repeated_element_of_an_odd_row", {6, 7}, {1, 0}, 2, 3, 2},
                                         MoveCase{"pairs", {5, 4, 2}, {2, 10, 1}, 4, 0, 8}),
                         [](const auto& info) { return info.param.name; });

TEST(RadixSort, BuffersFitTheScratchThatWasBooked) {
  for (int key_bits : {16, 31, 32, 64})
    for (int64_t n : {1, 63, 4096, 4097, 100000}) {
      const cuda::SortShape shape{.rows = 3, .n = n, .key_bits = key_bits};
      std::vector<std::byte> memory(static_cast<size_t>(cuda::sort_scratch_bytes(shape)));
      const cuda::SortBuffers b = cuda::sort_buffers(shape, memory.data());
      EXPECT_LT(b.work - memory.data(), static_cast<int64_t>(memory.size()));
      for (const std::byte* part :
           {static_cast<std::byte*>(b.keys[1]), reinterpret_cast<std::byte*>(b.places[0]), b.work})
        EXPECT_EQ((part - memory.data()) % 64, 0);
    }
}

TEST(RadixSort, KeysHaveRoomForTheNumberOfTheirRow) {
  using cuda::SortShape;
  EXPECT_EQ((SortShape{.rows = 1, .n = 9, .key_bits = 32}.key_bytes()), 4);
  EXPECT_EQ((SortShape{.rows = 1 << 16, .n = 9, .key_bits = 16}.key_bytes()), 4);
  EXPECT_EQ((SortShape{.rows = 2, .n = 9, .key_bits = 32}.key_bytes()), 8);
  EXPECT_EQ((SortShape{.rows = 1, .n = 9, .key_bits = 64}.key_bytes()), 8);
  EXPECT_EQ((SortShape{.rows = 2, .n = 9, .key_bits = 64}.key_bytes()), 16);
}

}  // namespace
}  // namespace genesis
