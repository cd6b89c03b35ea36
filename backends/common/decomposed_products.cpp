#include "backends/common/decomposed_products.h"

#include <algorithm>

#include "schema/ops/nn/dequantize.h"
#include "schema/ops/nn/norm.h"
#include "schema/ops/nn/swiglu.h"
#include "schema/ops/tensor/reduce.h"

namespace genesis {

DecomposedLinear::DecomposedLinear(KernelsOf kernels, bool ready, const KernelQuery& query)
    : op_(from_attributes<ops::Linear>(query.attributes)), has_bias_(op_.has_bias(query.inputs.size())) {
  const auto inner = [&](const auto& op, std::vector<TensorType> in, std::vector<TensorType> out) {
    return InnerKernel::of(kernels, ready, query.disabled, op, std::move(in), std::move(out));
  };
  const TensorType &x = query.inputs[0], &y = query.outputs[0];
  const std::vector<TensorType> outputs(query.outputs.begin(), query.outputs.end());
  if (op_.has_norm()) {
    std::vector<TensorType> behind_norm = {x};
    behind_norm.insert(behind_norm.end(), query.inputs.begin() + 2, query.inputs.end());
    ops::Linear rest = op_;
    rest.prologue = ops::LinearPrologue::kNone;
    norm_ = inner(ops::RmsNorm{op_.eps, 1, true}, {x, query.inputs[1]}, {x});
    products_.push_back(inner(rest, behind_norm, outputs));
    value_bytes_ = CheckedSize(x.bytes()).rounded_up(256).value();
    return;
  }
  const bool gated = op_.epilogue == ops::LinearEpilogue::kSwiglu;
  for (size_t i = 0; i < static_cast<size_t>(op_.weights); ++i) {
    std::vector<TensorType> inputs = {x, query.inputs[op_.first_weight() + i]};
    if (op_.is_quantized()) inputs.push_back(query.inputs[op_.first_scale() + i]);
    if (has_bias_) inputs.push_back(query.inputs[op_.first_bias() + i]);
    const ops::Linear one{.activation = op_.activation, .weight_format = op_.weight_format, .wide = op_.wide};
    products_.push_back(inner(one, inputs, {outputs[gated ? 0 : i]}));
  }
  if (gated) swiglu_ = inner(ops::Swiglu{}, {y, y}, {y});
  if (gated) value_bytes_ = CheckedSize(y.bytes()).rounded_up(256).value();
  if (op_.epilogue == ops::LinearEpilogue::kWithSwiglu) swiglu_ = inner(ops::Swiglu{}, {y}, {outputs[1]});
}

int64_t DecomposedLinear::scratch_bytes() const {
  int64_t most = std::max(norm_ ? norm_->scratch_bytes() : 0, swiglu_ ? swiglu_->scratch_bytes() : 0);
  for (const InnerKernel& product : products_) most = std::max(most, product.scratch_bytes());
  return (CheckedSize(value_bytes_) + most).value();
}

void DecomposedLinear::run(const KernelContext& c) const {
  std::byte* scratch = c.scratch + value_bytes_;
  if (norm_) return run_norm(c, scratch);
  const bool gated = op_.epilogue == ops::LinearEpilogue::kSwiglu;
  for (size_t i = 0; i < products_.size(); ++i) {
    const void* inputs[4] = {c.input(0).data, c.inputs[op_.first_weight() + i].data};
    size_t count = 2;
    if (op_.is_quantized()) inputs[count++] = c.inputs[op_.first_scale() + i].data;
    if (has_bias_) inputs[count++] = c.inputs[op_.first_bias() + i].data;
    void* result = !gated ? c.outputs[i].data : i == 0 ? c.output().data : c.scratch;
    products_[i].run(c, std::span(inputs).first(count), {&result, 1}, scratch);
  }
  if (gated)
    swiglu_->run(c, {c.output().data, c.scratch}, c.output().data, scratch);
  else if (swiglu_)
    swiglu_->run(c, {c.output(0).data}, c.output(1).data, scratch);
}

void DecomposedLinear::run_norm(const KernelContext& c, std::byte* scratch) const {
  norm_->run(c, {c.input(0).data, c.input(1).data}, c.scratch, scratch);
  std::array<const void*, 1 + 3 * ops::Linear::kMaxNormedWeights> inputs = {c.scratch};
  std::array<void*, ops::Linear::kMaxNormedWeights> outputs;
  for (size_t i = 2; i < c.inputs.size(); ++i) inputs[i - 1] = c.inputs[i].data;
  for (size_t i = 0; i < c.outputs.size(); ++i) outputs[i] = c.outputs[i].data;
  products_[0].run(c, std::span(inputs).first(c.inputs.size() - 1),
                   std::span(outputs).first(c.outputs.size()), scratch);
}

DequantizedLinear::DequantizedLinear(KernelsOf kernels, bool ready, const KernelQuery& query) {
  auto op = from_attributes<ops::Linear>(query.attributes);
  const TensorType &x = query.inputs[0], &quants = query.inputs[1], &scales = query.inputs[2];
  const ops::Dequantize decode{op.weight_format, x.dtype};
  const TensorType weight = decode.infer(query.inputs.subspan(1, 2))[0];
  dequantize_ = InnerKernel::of(kernels, ready, query.disabled, decode, {quants, scales}, {weight});
  op.weight_format = WeightFormat::kPlain;
  std::vector<TensorType> inputs = {x, weight};
  inputs.insert(inputs.end(), query.inputs.begin() + 3, query.inputs.end());
  product_ = InnerKernel::of(kernels, ready, query.disabled, op, inputs, {query.outputs[0]});
  weight_bytes_ = CheckedSize(weight.bytes()).rounded_up(256).value();
}

int64_t DequantizedLinear::scratch_bytes() const {
  return (CheckedSize(weight_bytes_) + std::max(dequantize_.scratch_bytes(), product_.scratch_bytes()))
      .value();
}

void DequantizedLinear::run(const KernelContext& c) const {
  std::byte* scratch = c.scratch + weight_bytes_;
  dequantize_.run(c, {c.input(1).data, c.input(2).data}, c.scratch, scratch);
  std::array<const void*, 4> inputs = {c.input(0).data, c.scratch};  // plus a bias, an addend
  for (size_t i = 3; i < c.inputs.size(); ++i) inputs[i - 1] = c.inputs[i].data;
  void* result = c.output().data;
  product_.run(c, std::span(inputs).first(c.inputs.size() - 1), {&result, 1}, scratch);
}

DecomposedMatmul::DecomposedMatmul(KernelsOf kernels, bool ready, const KernelQuery& query) {
  const auto inner = [&](const auto& op, std::vector<TensorType> in, std::vector<TensorType> out) {
    return InnerKernel::of(kernels, ready, query.disabled, op, std::move(in), std::move(out));
  };
  const auto op = from_attributes<ops::Matmul>(query.attributes);
  const ops::Matmul plain{op.transpose_a, op.transpose_b};
  const TensorType product = plain.infer(query.inputs.first(2))[0];
  product_ = inner(plain, {query.inputs[0], query.inputs[1]}, {product});
  is_bias_grad_ = op.epilogue == ops::MatmulEpilogue::kBiasGrad;
  if (is_bias_grad_) {
    ops::Sum sum;
    sum.axes = {op.transpose_a ? 0 : 1};
    epilogue_ = inner(sum, {query.inputs[0]}, {query.outputs[1]});
  } else {
    epilogue_ = inner(ops::SwigluGrad{op.with_output}, {query.inputs[2], product},
                      {query.outputs.begin(), query.outputs.end()});
    if (!op.with_output) dy_bytes_ = CheckedSize(product.bytes()).rounded_up(256).value();
  }
}

int64_t DecomposedMatmul::scratch_bytes() const {
  return (CheckedSize(dy_bytes_) + std::max(product_.scratch_bytes(), epilogue_.scratch_bytes())).value();
}

void DecomposedMatmul::run(const KernelContext& c) const {
  std::byte* scratch = c.scratch + dy_bytes_;
  void* product = is_bias_grad_ ? c.output(0).data : dy_bytes_ > 0 ? c.scratch : c.outputs.back().data;
  product_.run(c, {c.input(0).data, c.input(1).data}, product, scratch);
  if (is_bias_grad_) return epilogue_.run(c, {c.input(0).data}, c.output(1).data, scratch);
  const void* inputs[] = {c.input(2).data, product};
  void* outputs[] = {c.output(0).data, c.outputs.back().data};
  epilogue_.run(c, inputs, std::span(outputs).first(c.outputs.size()), scratch);
}

}  // namespace genesis
