#include "backends/cuda/decode/instruction_shape.h"

#include <cmath>

#include "backends/cuda/decode/megakernel_program.h"
#include "schema/ops/nn/cached_attention.h"
#include "schema/ops/nn/matmul.h"
#include "schema/ops/nn/norm.h"

namespace genesis::cuda {
namespace {

// x is one row, and rows of weights can be copied as they lie: all of `count` weights from shape.weight on.
bool fits(const KernelQuery& query, InstructionShape& shape, int count) {
  const TensorType& x = query.inputs[0];
  const bool quantized = shape.format != WeightFormat::kPlain;
  const int64_t block = quantized ? kQuantizedDepth : 32;  // elements of k that the kernel takes at once
  if (count < 1 || count > InstructionShape::kMaxLayers || x.shape.rank() < 1) return false;
  shape.k = x.shape[x.shape.rank() - 1].value();
  if (x.numel() != shape.k || shape.k < block || shape.k % block != 0) return false;
  for (int i = 0; i < count; ++i) {
    const TensorType& weight = query.inputs[static_cast<size_t>(shape.weight + i)];
    shape.n.push_back(weight.shape[0].value());
    if (shape.n.back() < 4 || shape.n.back() % 4 != 0) return false;  // words are read two at a time
  }
  for (int i = 0; i < static_cast<int>(query.inputs.size()); ++i) {
    const bool packed = quantized && i >= shape.weight && i < shape.scales + count;
    if (!packed && query.inputs[static_cast<size_t>(i)].dtype != x.dtype) return false;
  }
  shape.elements = shape.swiglu ? std::vector{shape.n[0]} : shape.n;
  return true;
}

std::optional<InstructionShape> linear(const KernelQuery& query) {
  const auto op = from_attributes<ops::Linear>(query.attributes);
  InstructionShape shape;
  if (op.activation != Activation::kNone || op.epilogue == ops::LinearEpilogue::kWithSwiglu)
    return std::nullopt;
  shape.swiglu = op.epilogue == ops::LinearEpilogue::kSwiglu;
  if (op.weights > InstructionShape::kMaxLayers) return std::nullopt;
  shape.format = op.weight_format;
  shape.weight = static_cast<int>(op.first_weight());
  if (op.is_quantized()) shape.scales = static_cast<int>(op.first_scale());
  if (!fits(query, shape, static_cast<int>(op.weights))) return std::nullopt;
  if (op.has_norm()) shape.norm = 1;
  if (op.has_norm()) shape.eps = static_cast<float>(op.eps);
  if (op.has_bias(query.inputs.size())) shape.bias = static_cast<int>(op.first_bias());
  if (op.has_addend) shape.addend = static_cast<int>(query.inputs.size()) - 1;
  return shape;
}

std::optional<InstructionShape> cached_attention(const KernelQuery& query) {
  const auto op = from_attributes<ops::CachedAttention>(query.attributes);
  const auto q = query.inputs[0].shape.sizes(), cache = query.inputs[3].shape.sizes();
  InstructionShape shape;
  shape.kind = InstructionShape::Kind::kAttention;
  if (cache[0] != 1 || query.outputs[0].numel() == 0 || query.inputs[3].numel() == 0) return std::nullopt;
  for (int i = 1; i < 5; ++i)
    if (query.inputs[static_cast<size_t>(i)].dtype != DType::bf16) return std::nullopt;
  if (query.inputs[4].shape.sizes()[3] != cache[3] || (cache[3] != 64 && cache[3] != 128))
    return std::nullopt;
  // One start for all, and one set of frequencies.
  if (query.inputs[5].shape.rank() != 0) return std::nullopt;
  if (query.inputs.size() > 6 && query.inputs[6].shape.rank() != 1) return std::nullopt;
  const int64_t rotated = op.rotary_size == 0 ? cache[3] : op.rotary_size;
  if (!op.rotates || op.kind != RopeKind::kHalf || rotated != cache[3]) return std::nullopt;
  shape.heads = static_cast<int>(q[2]);
  shape.key_heads = static_cast<int>(cache[2]);
  shape.size = static_cast<int>(cache[3]);
  shape.positions = cache[1];
  shape.scale = static_cast<float>(op.scale != 0 ? op.scale : 1 / std::sqrt(static_cast<double>(cache[3])));
  shape.theta = op.theta;
  shape.window = op.window < shape.positions ? op.window : 0;
  shape.elements = {query.outputs[0].numel()};
  return shape;
}

std::optional<InstructionShape> head_norm(const KernelQuery& query) {
  const auto op = from_attributes<ops::RmsNorm>(query.attributes);
  const TensorType& x = query.inputs[0];
  InstructionShape shape;
  shape.kind = InstructionShape::Kind::kHeadNorm;
  if (!op.has_weight || op.num_axes != 1 || query.inputs[1].dtype != x.dtype || x.shape.rank() < 2)
    return std::nullopt;
  shape.size = static_cast<int>(x.shape[x.shape.rank() - 1].value());
  if (x.numel() == 0) return std::nullopt;
  shape.eps = static_cast<float>(op.eps);
  shape.norm = 1;
  shape.elements = {x.numel()};
  return shape;
}

}  // namespace

std::vector<int> InstructionShape::vectors() const {
  return kind == Kind::kAttention ? std::vector<int>{0, 1, 2} : std::vector<int>{0};
}

std::vector<int> InstructionShape::independent(size_t num_inputs) const {
  std::vector<int> inputs;
  if (kind == Kind::kAttention) return inputs;  // caches and the start are read behind the kernels ahead
  for (int i = 1; i < static_cast<int>(num_inputs); ++i)
    if (i != addend) inputs.push_back(i);
  return inputs;
}

std::optional<InstructionShape> instruction_shape_of(const KernelQuery& query) {
  // f16 could not hold x times a norm's weight.
  if (query.inputs.empty() || query.inputs[0].dtype != DType::bf16) return std::nullopt;
  const std::string_view op = query.op.name();
  std::optional<InstructionShape> shape;
  if (op == ops::Linear::info.name) shape = linear(query);
  if (op == ops::CachedAttention::info.name) shape = cached_attention(query);
  if (op == ops::RmsNorm::info.name) shape = head_norm(query);
  return shape;
}

}  // namespace genesis::cuda
