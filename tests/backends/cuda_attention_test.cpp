// Tests what CUDA's attention kernels report while a plan is made: which kernel takes a node, and its scratch memory.
// Needs no GPU.
#include <gtest/gtest.h>

#include "backends/cuda/attention/cudnn/cudnn_attention.h"
#include "backends/cuda/attention/split/attention_split.h"
#include "backends/cuda/hopper/implementations.h"
#include "backends/cuda/kernels.h"
#include "backends/kernel_table.h"

namespace genesis::cuda {
namespace {

struct Node {
  Attributes attributes;
  std::vector<TensorType> inputs, outputs;
  std::string_view op = "attention";
  KernelQuery query() const { return {*find_op(op), attributes, inputs, outputs}; }
};

Node node(DType dtype, int64_t queries, int64_t keys, int64_t size,
          AttentionLayout layout = AttentionLayout::kBTHD, int64_t v_size = 0) {
  ops::Attention op;
  op.causal = true;
  op.layout = layout;
  const bool heads_first = layout == AttentionLayout::kBHTD;
  const auto type = [&](int64_t heads, int64_t time, int64_t of_row) {
    return heads_first ? TensorType{dtype, {2, heads, time, of_row}}
                       : TensorType{dtype, {2, time, heads, of_row}};
  };
  const int64_t values = v_size ? v_size : size;
  return {to_attributes(op),
          {type(14, queries, size), type(2, keys, size), type(2, keys, values)},
          {type(14, queries, values)}};
}

std::string_view chosen(const Node& n) { return select_kernel(kernels_for(n.op), n.query()).name; }

TEST(CudaAttention, ReadsStepsOfBothLayouts) {
  const AttentionShape time_first = attention_shape(node(DType::bf16, 5, 9, 64).query());
  EXPECT_EQ(time_first.q.batch, 5 * 14 * 64);
  EXPECT_EQ(time_first.q.head, 64);
  EXPECT_EQ(time_first.q.row, 14 * 64);
  EXPECT_EQ(time_first.k.row, 2 * 64);
  const AttentionShape heads_first =
      attention_shape(node(DType::bf16, 5, 9, 64, AttentionLayout::kBHTD).query());
  EXPECT_EQ(heads_first.queries, 5);
  EXPECT_EQ(heads_first.keys, 9);
  EXPECT_EQ(heads_first.q.head, 5 * 64);
  EXPECT_EQ(heads_first.q.row, 64);
}

Node packed_node(DType dtype, int64_t time, int64_t size) {
  ops::Attention op;
  op.causal = true;
  op.packed_key_heads = 2;
  return {to_attributes(op), {{dtype, {2, time, 18, size}}}, {{dtype, {2, time, 14, size}}}};
}

TEST(CudaAttention, PackedHeadsStandInOneRow) {
  const AttentionShape s = attention_shape(packed_node(DType::bf16, 5, 64).query());
  EXPECT_EQ(s.heads, 14);
  EXPECT_EQ(s.key_heads, 2);
  for (const HeadSteps& steps : {s.q, s.k, s.v}) {
    EXPECT_EQ(steps.batch, 5 * 18 * 64);
    EXPECT_EQ(steps.head, 64);
    EXPECT_EQ(steps.row, 18 * 64);
  }
  EXPECT_EQ(s.y.row, 14 * 64);
  EXPECT_EQ(s.first_optional, 1);
  std::vector<bf16> qkv(2 * 5 * 18 * 64);
  const TensorView view = view_of({DType::bf16, {2, 5, 18, 64}}, qkv.data());
  const std::vector<TensorView> views = {view, view, view, view};
  const Launch launch;
  const AttentionData d =
      backward_data(s, {.inputs = views, .outputs = std::span(views).first(1), .launch = &launch});
  EXPECT_EQ(d.k, qkv.data() + 14 * 64);
  EXPECT_EQ(d.v, qkv.data() + 16 * 64);
  EXPECT_EQ(d.dq, qkv.data());
  EXPECT_EQ(d.dv, qkv.data() + 16 * 64);
}

TEST(CudaAttention, EachShapeHasItsKernel) {
  EXPECT_EQ(chosen(packed_node(DType::bf16, 1024, 64)), "fused");
  EXPECT_EQ(chosen(packed_node(DType::f32, 1024, 64)), "tiles");
  EXPECT_EQ(chosen(packed_node(DType::bf16, 2, 64)), "split_keys");

  EXPECT_EQ(chosen(node(DType::bf16, 1, 4096, 64)), "split_keys");
  EXPECT_EQ(chosen(node(DType::f32, 1, 1024, 128)), "split_keys");
  EXPECT_EQ(chosen(node(DType::bf16, 1024, 1024, 64)), "fused");
  EXPECT_EQ(chosen(node(DType::bf16, 1024, 1024, 264)), "tiles");
  EXPECT_EQ(chosen(node(DType::f32, 1024, 1024, 64)), "tiles");
  EXPECT_EQ(chosen(node(DType::f64, 1, 1024, 64)), "tiles");
  EXPECT_EQ(chosen(node(DType::bf16, 16, 16, 64)), "tiles");
}

Node with_values(int64_t queries, int64_t keys, int64_t size, int64_t v_size) {
  return node(DType::bf16, queries, keys, size, AttentionLayout::kBTHD, v_size);
}

TEST(CudaAttention, HeadsOfOtherSizesHaveTheirKernels) {
  for (const int64_t size : {72, 80, 96, 256}) {
    SCOPED_TRACE(size);
    EXPECT_EQ(chosen(node(DType::bf16, 1024, 1024, size)), "fused");
    EXPECT_EQ(chosen(node(DType::f16, 1, 4096, size)), "split_keys");
    EXPECT_EQ(chosen(node(DType::f32, 8, 4096, size)), "split_keys");
  }
  EXPECT_EQ(chosen(with_values(1024, 1024, 192, 128)), "fused");
  EXPECT_EQ(chosen(with_values(1, 4096, 192, 128)), "split_keys");
  EXPECT_EQ(chosen(node(DType::bf16, 1, 1024, 512)), "split_keys");
  EXPECT_EQ(chosen(node(DType::bf16, 1024, 1024, 512)), why_no_hopper_here() ? "tiles" : "hopper_long");
  EXPECT_EQ(chosen(node(DType::f16, 1024, 1024, 512)), "tiles");
  EXPECT_EQ(chosen(node(DType::f32, 1, 1024, 512)), "tiles");
  EXPECT_EQ(chosen(node(DType::bf16, 1, 1024, 100)), "tiles");
}

// cuDNN takes windows, but not in few queries. A length per row is data to it, like a single length.
TEST(CudaAttention, WindowsAndLengthsOfRowsHaveTheirKernels) {
  const auto changed = [](Node n, int64_t window, bool lengths) {
    auto op = from_attributes<ops::Attention>(n.attributes);
    op.window = window;
    op.has_key_length = lengths;
    n.attributes = to_attributes(op);
    if (lengths) n.inputs.push_back({DType::i64, {2}});
    return n;
  };
  EXPECT_EQ(chosen(changed(node(DType::bf16, 1024, 1024, 64), 100, false)), "fused");
  EXPECT_EQ(chosen(changed(node(DType::bf16, 1, 1024, 64), 100, false)), "split_keys");
  EXPECT_EQ(chosen(changed(node(DType::bf16, 1024, 1024, 64), 0, true)), "fused");
  EXPECT_EQ(chosen(changed(node(DType::bf16, 1, 4096, 64), 0, true)), "split_keys");
  for (const int64_t size : {80, 96, 256}) {
    EXPECT_EQ(chosen(changed(node(DType::bf16, 1024, 1024, size), 100, false)), "fused");
    EXPECT_EQ(chosen(changed(node(DType::bf16, 1024, 1024, size), 100, true)), "fused");
  }
  const Node window = changed(node(DType::bf16, 1024, 1024, 256), 100, false);
  KernelQuery query = window.query();
  const KernelNames disabled = {"attention.fused"};
  query.disabled = &disabled;
  EXPECT_EQ(choose_kernel(kernels_for("attention"), query).name,
            why_no_hopper_here() ? "attention.ranges" : "attention.hopper_long");
}

TEST(CudaAttention, RowsOfSeveralTextsHaveTheirKernels) {
  for (const auto& [size, v_size] :
       std::vector<std::pair<int64_t, int64_t>>{{64, 64}, {80, 80}, {96, 96}, {192, 128}, {256, 256}}) {
    SCOPED_TRACE(size);
    Node n = with_values(1024, 1024, size, v_size);
    auto op = from_attributes<ops::Attention>(n.attributes);
    op.has_key_start = true;
    n.attributes = to_attributes(op);
    n.inputs.push_back({DType::i64, {2, 1024}});
    EXPECT_EQ(chosen(n), size == 256 && !why_no_hopper_here() ? "hopper_long" : "ranges");
  }
}

// The plan knows the largest number of keys. If it is too small for splitting to pay, cuDNN takes the node if it can.
TEST(CudaAttention, KeysAreSplitWhereThereMayBeEnoughOfThem) {
  const auto choice_of = [](const Node& n, const KernelNames& disabled = {}) {
    KernelQuery query = n.query();
    query.disabled = &disabled;
    return choose_kernel(kernels_for(n.op), query);
  };
  const KernelChoice few = choice_of(node(DType::bf16, 1, 1151, 64));
  EXPECT_EQ(few.name, "attention.fused");
  ASSERT_EQ(few.declined.front().name, "attention.split_keys");
  EXPECT_EQ(few.declined.front().reason,
            "room for 1151 keys at most: with fewer than 1152 attention.fused is as fast");
  EXPECT_EQ(choice_of(node(DType::bf16, 1, 1152, 64)).name, "attention.split_keys");
  EXPECT_EQ(choice_of(node(DType::bf16, 1, 1151, 64), {"attention.fused"}).name, "attention.split_keys");
  EXPECT_EQ(choice_of(node(DType::f32, 1, 1151, 64)).name, "attention.split_keys");
}

TEST(CudaAttention, ScratchOfAGradientCoversTheTilesToo) {
  const AttentionShape s = attention_shape(node(DType::bf16, 1024, 1024, 64).query());
  EXPECT_GE(cudnn_backward_scratch(s), plain_gradient_scratch(s));
}

// cuDNN may have no plan for heads of 256 that sums dq in order: the scratch memory has room for the sums of the other.
TEST(CudaAttention, ScratchOfAGradientOfLongHeadsCoversBothPlans) {
  const AttentionShape s = attention_shape(node(DType::bf16, 1024, 1024, 256).query());
  const int64_t sums = s.rows() * 256 * 4, scores = s.batch * s.heads * 1024 * 1024 * 2;
  EXPECT_GE(cudnn_backward_scratch(s), std::max(sums, scores));
}

Node gradient_node(int64_t batch, int64_t time, int64_t size, bool has_mask = false) {
  ops::AttentionGrad op;
  op.causal = true;
  op.has_mask = has_mask;
  op.packed_key_heads = 2;
  const TensorType qkv{DType::bf16, {batch, time, 18, size}}, y{DType::bf16, {batch, time, 14, size}};
  Node n{to_attributes(op), {qkv, y, {DType::f32, {batch, 14, time}}, y}, {qkv}, "attention_grad"};
  if (has_mask) n.inputs.push_back({DType::boolean, {time, time}});
  return n;
}

// The kernel for Hopper chips takes heads of 64 if there are enough of them for all multiprocessors. A plan is made
// without a GPU, so the scratch memory must also suffice for the kernel of another chip.
TEST(CudaAttention, TheGradientForHopperChipsDeclines) {
  if (const auto why_not = why_no_hopper_here()) GTEST_SKIP() << *why_not;
  const Node taken = gradient_node(8, 1024, 64);
  EXPECT_EQ(chosen(taken), "hopper_d64");
  EXPECT_GE(hopper_gradient_implementation().scratch_bytes(taken.query()),
            select_kernel(general_gradient_implementations(), taken.query()).scratch_bytes(taken.query()));
  EXPECT_EQ(chosen(gradient_node(2, 1024, 64)), "fused");
  EXPECT_EQ(chosen(gradient_node(8, 1024, 128)), "fused");
  EXPECT_EQ(chosen(gradient_node(8, 2048, 64)), "fused");
  EXPECT_EQ(chosen(gradient_node(64, 16, 64)), "tiles");
  EXPECT_EQ(chosen(gradient_node(8, 1024, 64, true)), "tiles");
}

TEST(CudaAttention, GradientsOfLongHeadsHaveTheirKernels) {
  EXPECT_EQ(chosen(gradient_node(8, 1024, 256)), "fused");
  EXPECT_EQ(chosen(gradient_node(8, 1024, 256, true)), "tiles");
  EXPECT_EQ(chosen(gradient_node(8, 1024, 512)), why_no_hopper_here() ? "tiles" : "hopper_long");
}

// The number of splits depends only on shapes, so that results do too: a cache of any length takes the same scratch
// memory on every chip.
TEST(CudaAttention, SplitsAreBounded) {
  const AttentionShape s = attention_shape(node(DType::bf16, 1, 1 << 20, 64).query());
  EXPECT_GT(split_attention_scratch(s), 0);
  EXPECT_LT(split_attention_scratch(s), int64_t{4} << 20);
}

}  // namespace
}  // namespace genesis::cuda
