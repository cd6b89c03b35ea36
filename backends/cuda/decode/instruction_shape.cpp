#include "backends/cuda/decode/instruction_shape.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "backends/cuda/decode/megakernel_program.h"
#include "schema/ops/nn/cached_attention.h"
#include "schema/ops/nn/grouped_matmul.h"
#include "schema/ops/nn/matmul.h"
#include "schema/ops/nn/norm.h"

namespace genesis::cuda {
namespace {

// The describe functions below fill in the shape. They return why a step cannot be such an instruction, or an empty
// text.

// x is one row, and rows of weights can be copied in their layout: `count` weights from input shape.weight on.
std::string describe_weights(const KernelQuery& query, InstructionShape& shape, int count) {
  const TensorType& x = query.inputs[0];
  const bool quantized = shape.format != WeightFormat::kPlain;
  const int64_t block = quantized ? kQuantizedDepth : 32;  // elements of k that the kernel takes at once
  if (count < 1 || count > InstructionShape::kMaxLayers)
    return fmt::format("{} weights: it takes 1 to {}", count, InstructionShape::kMaxLayers);
  if (x.shape.rank() < 1) return "x has no axes";
  shape.k = x.shape[x.shape.rank() - 1].value();
  if (x.numel() != shape.k) return "x is not one row";
  if (shape.k < block || shape.k % block != 0)
    return fmt::format("rows of {} elements: it takes multiples of {}", shape.k, block);
  for (int i = 0; i < count; ++i) {
    const TensorType& weight = query.inputs[static_cast<size_t>(shape.weight + i)];
    shape.n.push_back(weight.shape[0].value());
    if (shape.n.back() < 4 || shape.n.back() % 4 != 0)  // words are read two at a time
      return fmt::format("{} results: it takes multiples of 4", shape.n.back());
  }
  for (int i = 0; i < static_cast<int>(query.inputs.size()); ++i) {
    const bool packed = quantized && i >= shape.weight && i < shape.scales + count;
    if (!packed && query.inputs[static_cast<size_t>(i)].dtype != x.dtype) return "operands of several dtypes";
  }
  shape.elements = shape.swiglu ? std::vector{shape.n[0]} : shape.n;
  return "";
}

std::string describe_linear(const KernelQuery& query, InstructionShape& shape) {
  const auto op = from_attributes<ops::Linear>(query.attributes);
  if (op.activation != Activation::kNone) return "an activation";
  if (op.epilogue == ops::LinearEpilogue::kWithSwiglu) return "gate and up are one weight";
  shape.swiglu = op.epilogue == ops::LinearEpilogue::kSwiglu;
  shape.wide = op.wide;
  shape.format = op.weight_format;
  shape.weight = static_cast<int>(op.first_weight());
  if (op.is_quantized()) shape.scales = static_cast<int>(op.first_scale());
  if (std::string why = describe_weights(query, shape, static_cast<int>(op.weights)); !why.empty())
    return why;
  if (op.has_norm()) shape.norm = 1;
  if (op.has_norm()) shape.eps = static_cast<float>(op.eps);
  if (op.has_bias(query.inputs.size())) shape.bias = static_cast<int>(op.first_bias());
  if (op.has_addend) shape.addend = static_cast<int>(query.inputs.size()) - 1;
  return "";
}

std::string decline_cached_attention(const KernelQuery& query, const ops::CachedAttention& op) {
  const auto cache = query.inputs[3].shape.sizes();
  if (cache[0] != 1) return "several texts";
  if (query.outputs[0].numel() == 0 || query.inputs[3].numel() == 0) return "an empty cache, or no new token";
  for (int i = 1; i < 5; ++i)
    if (query.inputs[static_cast<size_t>(i)].dtype != DType::bf16) return "keys or values that are not bf16";
  if (query.inputs[4].shape.sizes()[3] != cache[3]) return "keys and values of different sizes";
  if (cache[3] != 64 && cache[3] != 128) return fmt::format("heads of {}: it takes 64 and 128", cache[3]);
  if (query.inputs[5].numel() != 1) return "a start for each text";
  if (query.inputs.size() > 6 && query.inputs[6].shape.rank() != 1) return "frequencies for each head";
  const int64_t rotated = op.rotary_size == 0 ? cache[3] : op.rotary_size;
  if (!op.rotates || op.kind != RopeKind::kHalf || rotated != cache[3])
    return "heads that are rotated in part, or in neighboring pairs";
  return "";
}

std::string describe_cached_attention(const KernelQuery& query, InstructionShape& shape) {
  const auto op = from_attributes<ops::CachedAttention>(query.attributes);
  if (std::string why = decline_cached_attention(query, op); !why.empty()) return why;
  const auto q = query.inputs[0].shape.sizes(), cache = query.inputs[3].shape.sizes();
  shape.kind = InstructionShape::Kind::kAttention;
  shape.heads = static_cast<int>(q[2]);
  shape.key_heads = static_cast<int>(cache[2]);
  shape.size = static_cast<int>(cache[3]);
  shape.positions = cache[1];
  shape.scale = static_cast<float>(op.scale != 0 ? op.scale : 1 / std::sqrt(static_cast<double>(cache[3])));
  shape.theta = op.theta;
  shape.window = op.window < shape.positions ? op.window : 0;
  shape.elements = {query.outputs[0].numel()};
  return "";
}

std::string describe_norm(const KernelQuery& query, InstructionShape& shape) {
  const auto op = from_attributes<ops::RmsNorm>(query.attributes);
  const TensorType& x = query.inputs[0];
  shape.kind = InstructionShape::Kind::kNorm;
  if (!op.has_weight) return "a norm without a weight";
  if (op.num_axes != 1 || x.shape.rank() < 2) return "not a norm of rows";
  if (query.inputs[1].dtype != x.dtype) return "a weight of another dtype";
  if (x.numel() == 0) return "nothing to compute";
  shape.size = static_cast<int>(x.shape[x.shape.rank() - 1].value());
  shape.eps = static_cast<float>(op.eps);
  shape.norm = 1;
  shape.elements = {x.numel()};
  return "";
}

std::string describe_route(const KernelQuery& query, InstructionShape& shape) {
  const auto op = from_attributes<ops::Route>(query.attributes);
  const TensorType& logits = query.inputs[0];
  const int64_t experts = logits.shape[logits.shape.rank() - 1].value();
  shape.kind = InstructionShape::Kind::kRoute;
  if (logits.numel() != experts) return "logits are not one row";
  if (op.groups > 1) return "groups of experts";
  if (experts > kMaxRouted) return fmt::format("{} experts: it takes up to {}", experts, kMaxRouted);
  if (op.k < 1 || op.k > kMaxChosen || !std::has_single_bit(static_cast<uint64_t>(op.k)))
    return fmt::format("{} experts of a token: it takes a power of two up to {}", op.k, kMaxChosen);
  shape.rule = route_rule(op, experts);
  if (query.inputs.size() > 1) shape.bias = 1;
  return "";
}

// Returns a number of which k must be a multiple, so that a row of weights can be copied; with scales of 16 bytes if it is
// one of several rows that are one behind the other in the ring.
int64_t depth_unit(WeightFormat format, bool is_one_of_several) {
  return format == WeightFormat::kPlain ? 32 : is_one_of_several ? 2 * kQuantizedDepth : kQuantizedDepth;
}

// Returns true if two chunks of down's rows and x surely exceed the shared memory of every chip. A mixture that a megakernel takes in
// vain costs all steps beside it their megakernel, because the sizes of the ring are only known when addresses are.
bool exceeds_shared_memory(const ops::Experts& op, int64_t chosen, int64_t n, int64_t hidden) {
  constexpr int64_t kMaxShared = 227 << 10, kMaxBlocks = 160, kMaxRows = 16;
  const bool is_plain = op.down_format == WeightFormat::kPlain;
  const int64_t rows = std::min(kMaxRows, 2 * ((hidden / 2 + kMaxBlocks - 1) / kMaxBlocks));
  const int64_t row = is_plain ? 2 * n : n / values_each_quant(op.down_format) + n / kQuantBlock * 2;
  return 2 * rows * row + (is_plain ? 4 : 1) * chosen * n > kMaxShared;
}

std::string describe_experts(const KernelQuery& query, InstructionShape& shape) {
  using Op = ops::Experts;
  const auto op = from_attributes<Op>(query.attributes);
  const TensorType &x = query.inputs[Op::kX], &gate = query.inputs[Op::kGate];
  const int64_t hidden = query.inputs[Op::kDown].shape[1].value(), n = gate.shape[1].value();
  shape.kind = InstructionShape::Kind::kMixture;
  shape.k = x.shape[x.shape.rank() - 1].value();
  if (op.has_biases || op.activation != ExpertActivation::kSwiglu)
    return "experts with biases or another activation than swiglu";
  if (x.numel() != shape.k || query.outputs[0].numel() != hidden) return "x is not one row";
  if (shape.k % depth_unit(op.format, false) != 0 || n % depth_unit(op.down_format, true) != 0)
    return fmt::format("experts of {} and {} elements", shape.k, n);
  if (shape.k * n * hidden == 0 || hidden % 4 != 0) return "results that are no multiples of 4";
  shape.chosen = static_cast<int>(query.inputs[Op::kPlaces].numel());
  if (exceeds_shared_memory(op, shape.chosen, n, hidden))
    return fmt::format("experts of {} elements: shared memory is too small for rows of down", n);
  shape.n = {n};
  shape.format = op.format, shape.down_format = op.down_format;
  shape.weight = Op::kGate;
  if (op.format != WeightFormat::kPlain) shape.scales = op.scales();
  if (op.down_format != WeightFormat::kPlain) shape.down_scales = op.down_scales();
  if (op.has_addend) shape.addend = Op::kAddend;
  shape.experts = static_cast<int>(gate.shape[0].value());
  shape.elements = {hidden};
  return "";
}

struct InstructionOf {
  std::string_view op;
  std::string (*describe)(const KernelQuery& query, InstructionShape& shape);
};
const InstructionOf kInstructions[] = {
    {ops::Linear::info.name, describe_linear},   {ops::CachedAttention::info.name, describe_cached_attention},
    {ops::RmsNorm::info.name, describe_norm},    {ops::Route::info.name, describe_route},
    {ops::Experts::info.name, describe_experts},
};

// Returns null if there is no instruction for such nodes.
const InstructionOf* find_instruction(const OpDef& op) {
  const auto* found = std::ranges::find(kInstructions, op.name(), &InstructionOf::op);
  return found == std::end(kInstructions) ? nullptr : found;
}

}  // namespace

std::vector<int> InstructionShape::vectors() const {
  return kind == Kind::kAttention ? std::vector<int>{0, 1, 2} : std::vector<int>{0};
}

std::vector<int> InstructionShape::independent(size_t num_inputs) const {
  std::vector<int> inputs;
  if (kind == Kind::kAttention) return inputs;  // caches and start are read after the kernels ahead
  const auto is_of_route = [&](int i) {
    return kind == Kind::kMixture && i >= ops::Experts::kRows && i <= ops::Experts::kFactors;
  };
  for (int i = 1; i < static_cast<int>(num_inputs); ++i)
    if (i != addend && !is_of_route(i)) inputs.push_back(i);
  return inputs;
}

bool is_of_a_megakernel(const OpDef& op) { return find_instruction(op) != nullptr; }

std::string describe_instruction(const KernelQuery& query, InstructionShape& shape) {
  const InstructionOf* instruction = find_instruction(query.op);
  if (!instruction) return fmt::format("it has no instruction for {}", query.op.name());
  if (query.inputs[0].dtype != (query.op.name() == ops::Route::info.name ? DType::f32 : DType::bf16))
    return "x is not bf16";  // f16 could not hold x times a norm's weight
  return instruction->describe(query, shape);
}

}  // namespace genesis::cuda
