#include "executor/inspection/rounding.h"

#include <algorithm>
#include <cmath>

#include "passes/core/match.h"
#include "schema/graph/cost_model.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/elementwise/fused.h"
#include "schema/ops/elementwise/fused_program.h"
#include "schema/ops/nn/attention.h"
#include "schema/ops/nn/cached_attention.h"
#include "schema/ops/nn/loss.h"
#include "schema/ops/nn/norm.h"
#include "schema/ops/nn/optimizer.h"
#include "schema/ops/nn/softmax.h"
#include "schema/ops/nn/swiglu.h"
#include "schema/ops/tensor/dynamic_slice.h"
#include "schema/ops/tensor/index.h"
#include "schema/ops/tensor/layout.h"
#include "schema/ops/tensor/random.h"
#include "schema/ops/tensor/reduce.h"
#include "schema/ops/tensor/reshape.h"
#include "schema/ops/tensor/slice.h"

namespace genesis {
namespace {

using passes::is;

// Returns half an ulp of 1: the relative error of one rounding.
double half_ulp(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return 0x1p-53;
    case DType::f32:
      return 0x1p-24;
    case DType::f16:
      return 0x1p-11;
    case DType::bf16:
      return 0x1p-8;
    default:
      return 0;  // integers are exact
  }
}

// Describes the effect of an op or step on the errors of its inputs.
struct Kind {
  bool moves = false, adds = false, exponentiates = false;
};

Kind kind_of(const OpDef& op) {
  using namespace ops;
  return {
      .moves = is<Reshape, Permute, Slice, Split, Concat, Expand, Pad, Unslice, Flip, Roll, Gather, Embedding,
                  Tril, Triu, IndexSelect, DynamicSlice, Where, DynamicUpdateSlice>(op),
      .adds = is<Add, Sub, Sum, Mean, CumSum, IndexAdd, ScatterAdd, Var, Std, Fused, LayerNorm, LayerNormGrad,
                 RmsNormGrad, SoftmaxGrad, LogSoftmaxGrad, CrossEntropyGrad, AttentionGrad, Dropout>(op),
      .exponentiates = is<Exp, Expm1, Sigmoid, Silu, Gelu, Softmax, Pow, LogSoftmax, CausalSoftmax,
                          CrossEntropy, CrossEntropyGrad, LinearCrossEntropy, Attention, AttentionGrad,
                          CachedAttention, Swiglu, SwigluGrad, LogSumExp, Fused>(op)};
}

// Returns the number of successive roundings in a result.
double roundings(const Step& step) {
  if (!is<ops::Fused>(*step.op)) return 1;
  const auto program = parse_fused_program(from_attributes<ops::Fused>(step.attributes), step.input_types);
  return static_cast<double>(std::max<size_t>(1, program.ops.size()));
}

double own_error(const Step& step, DType result, const Kind& kind) {
  if (kind.moves) return 0;
  const double terms = sum_length_of(*step.op, step.attributes, step.input_types, step.output_types);
  const double sums = terms > 1 ? half_ulp(wide_dtype(result)) * std::sqrt(terms) : 0;
  // Functions such as exp are accurate to a few ulps on every device.
  return 2 * half_ulp(result) * std::sqrt(roundings(step)) + sums;
}

constexpr double kMaxAmplified = 1e4;

// Returns how far rounding alone may move a weight: Adam and Lion move it by the learning rate however small the
// gradient is, so a gradient that consists of rounding errors may move it either way. The learning rate is the first
// scalar among their inputs.
double largest_update(const Step& step, std::span<const TensorView> inputs) {
  if (!is<ops::AdamUpdate, ops::LionUpdate>(*step.op)) return 0;
  for (const TensorView& input : inputs)
    if (input.rank == 0 && is_float(input.dtype))
      return std::abs(Tensor::copy_of({input.dtype, {}}, input.data).to_doubles()[0]);
  return 0;
}

// Returns the number of outputs that are parameters, or that hold parameters. They come first, before the optimizer's
// states.
size_t count_of_parameters(const Step& step) {
  if (!is<ops::AdamUpdate>(*step.op)) return 1;
  return static_cast<size_t>(from_attributes<ops::AdamUpdate>(step.attributes).num_holders());
}

}  // namespace

double root_mean_square(std::span<const double> elements) {
  double sum = 0, count = 0;
  for (const double x : elements)
    if (std::isfinite(x)) sum += x * x, count += 1;
  return count > 0 ? std::sqrt(sum / count) : 0;
}

std::vector<double> Rounding::step(const Step& step, std::span<const TensorView> input_views,
                                   std::span<const TensorView> outputs) {
  const double update = largest_update(step, input_views);
  const Kind kind = kind_of(*step.op);
  std::vector<Value> inputs;  // collected before an output overwrites an input
  for (const BufferRef& ref : step.inputs)
    if (const Value* value = find(ref)) inputs.push_back(*value);
  const bool exact = std::ranges::all_of(inputs, [](const Value& v) { return v.error == 0; });
  std::vector<double> errors;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const double size = root_mean_square(copy_of(outputs[i]).to_doubles());
    if (!is_float(outputs[i].dtype)) {
      errors.push_back(exact ? 0 : INFINITY);
    } else {
      double squares = std::pow(own_error(step, outputs[i].dtype, kind), 2);
      for (const Value& input : inputs) {
        double more = kind.exponentiates ? std::max(1.0, input.size) : 1;
        if (kind.adds && size > 0) more *= std::max(1.0, input.size / size);
        squares += std::pow(input.error * std::min(more, kMaxAmplified), 2);
      }
      const bool is_weight = update > 0 && !exact && size > 0 && i < count_of_parameters(step);
      errors.push_back(std::sqrt(squares) + (is_weight ? 2 * update / size / kRoundingSafety : 0));
    }
    keep({step.outputs[i], std::isinf(errors.back()) ? half_ulp(DType::f32) : errors.back(), size});
  }
  return errors;
}

const Rounding::Value* Rounding::find(const BufferRef& ref) const {
  const auto overlaps = [&](const Value& value) {
    return value.at.space == ref.space && value.at.index == ref.index &&
           value.at.offset < ref.offset + ref.bytes && ref.offset < value.at.offset + value.at.bytes;
  };
  const auto found = std::find_if(values_.rbegin(), values_.rend(), overlaps);
  return found == values_.rend() ? nullptr : &*found;
}

void Rounding::keep(const Value& value) {
  std::erase_if(values_, [&](const Value& old) {
    return old.at.space == value.at.space && old.at.index == value.at.index &&
           old.at.offset >= value.at.offset &&
           old.at.offset + old.at.bytes <= value.at.offset + value.at.bytes;
  });
  values_.push_back(value);
}

}  // namespace genesis
