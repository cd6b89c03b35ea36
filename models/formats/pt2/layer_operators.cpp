// Operators of layers: products, convolutions, pools, norms and attention.
#include <algorithm>

#include "builder/convolution.h"
#include "builder/functions.h"
#include "models/formats/pt2/operators.h"
#include "schema/core/error.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/nn/matmul.h"
#include "schema/ops/nn/norm.h"

namespace genesis::models::pt2 {
namespace {

Value linear_layer(Call& call) {
  return linear(call.tensor("input"), call.tensor("weight"), call.tensor_or("bias", {}));
}

Value product(Call& call) {
  const Value a = call.tensor("self"), b = call.tensor(call.has("mat2") ? "mat2" : "other");
  if (a.rank() == 1 && b.rank() == 1) return sum(a * b);
  if (a.rank() == 1) return squeeze(matmul(unsqueeze(a, 0), b), -2);
  if (b.rank() == 1) return squeeze(matmul(a, unsqueeze(b, 1)), -1);
  return matmul(a, b);
}
// beta self + alpha a b
template <const char* first, const char* second>
Results product_and_sum(Call& call) {
  Value y = matmul(call.tensor(first), call.tensor(second)), addend = call.tensor("self");
  if (const double alpha = call.number_or("alpha", 1); alpha != 1) y = y * alpha;
  if (const double beta = call.number_or("beta", 1); beta != 1) addend = addend * beta;
  return std::vector<Value>{y + addend};
}
constexpr char kMat1[] = "mat1", kMat2[] = "mat2", kBatch1[] = "batch1", kBatch2[] = "batch2";

Value outer_product(Call& call) {
  return unsqueeze(call.tensor("self"), 1) * unsqueeze(call.tensor("vec2"), 0);
}
Value product_of_indices(Call& call) { return einsum(call.text_or("equation", ""), call.tensors("tensors")); }

// --- convolution and pooling; a list of one number is meant for all axes

std::vector<int64_t> for_axes(std::vector<int64_t> values, int64_t axes) {
  if (values.size() == 1) values.assign(static_cast<size_t>(axes), values[0]);
  return values;
}

// 'same' and 'valid' are names of paddings.
std::vector<int64_t> conv_padding(Call& call, Value weight, const std::vector<int64_t>& dilation) {
  if (!call.is_text("padding")) return call.integers_or("padding", {});
  const std::string name = call.text_or("padding", "valid");
  if (name == "valid") return {};
  std::vector<int64_t> padding;
  for (int axis = 2; axis < weight.rank(); ++axis) {
    const int64_t step = dilation.empty() ? 1 : dilation[static_cast<size_t>(axis) - 2];
    const int64_t total = step * (weight.dim(axis).value() - 1);
    if (total % 2 != 0) fail("padding 'same' of a window of even size is not read");
    padding.push_back(total / 2);
  }
  return padding;
}
template <bool transposed>
Value convolved(Call& call) {
  Value x = call.tensor("input");
  const Value weight = call.tensor("weight");
  const int64_t axes = weight.rank() - 2;
  const bool is_transposed = call.flag_or("transposed", transposed);
  const std::vector<int64_t> output_padding = for_axes(call.integers_or("output_padding", {}), axes);
  ConvOptions options{.stride = for_axes(call.integers_or("stride", {}), axes),
                      .dilation = for_axes(call.integers_or("dilation", {}), axes),
                      .groups = call.integer_or("groups", 1)};
  options.padding = for_axes(conv_padding(call, weight, options.dilation), axes);
  const bool is_one = x.rank() == weight.rank() - 1;  // without a batch
  if (is_one) x = unsqueeze(x, 0);
  const Value bias = call.tensor_or("bias", {});
  const Value y = is_transposed ? conv_transpose(x, weight, bias, options, output_padding)
                                : conv(x, weight, bias, options);
  return is_one ? squeeze(y, 0) : y;
}

PoolOptions pool_options(Call& call, int64_t axes) {
  PoolOptions options{.window = for_axes(call.integers("kernel_size"), axes),
                      .stride = for_axes(call.integers_or("stride", {}), axes),
                      .padding = for_axes(call.integers_or("padding", {}), axes),
                      .dilation = for_axes(call.integers_or("dilation", {}), axes),
                      .ceil_mode = call.flag_or("ceil_mode", false),
                      .count_padding = call.flag_or("count_include_pad", true)};
  call.must_be("divisor_override", nullptr);
  return options;
}
// A window that hangs over the end of a whole axis counts what is there, with ceil_mode.
void cut_windows(PoolOptions& options, Value x) {
  for (size_t axis = 0; options.ceil_mode && axis < options.window.size(); ++axis) {
    const Dim& size = x.dim(static_cast<int64_t>(axis) + 2);
    const bool is_dilated = !options.dilation.empty() && options.dilation[axis] != 1;
    if (!size.is_constant() || is_dilated) continue;
    const int64_t padding = options.padding.empty() ? 0 : options.padding[axis];
    options.window[axis] = std::min(options.window[axis], size.value() + 2 * padding);
  }
}
template <Value (*pool)(Value, const PoolOptions&), int axes>
Results pooled(Call& call) {
  Value x = call.tensor("self");
  const bool is_one = x.rank() == axes + 1;
  if (is_one) x = unsqueeze(x, 0);
  PoolOptions options = pool_options(call, axes);
  if (options.stride.empty()) options.stride = options.window;
  cut_windows(options, x);
  const Value y = pool(x, options);
  return std::vector<Value>{is_one ? squeeze(y, 0) : y};
}
template <int axes>
Results pooled_to_size(Call& call) {
  Value x = call.tensor("self");
  const bool is_one = x.rank() == axes + 1;
  if (is_one) x = unsqueeze(x, 0);
  const Value y = adaptive_avg_pool(x, for_axes(call.integers("output_size"), axes));
  return std::vector<Value>{is_one ? squeeze(y, 0) : y};
}

// --- norms

Value normalized_layer(Call& call) {
  call.accept_any("cudnn_enable");
  const auto axes = static_cast<int64_t>(call.sizes("normalized_shape").size());
  return layer_norm(call.tensor("input"), call.tensor_or("weight", {}), call.tensor_or("bias", {}),
                    call.number_or("eps", 1e-5), axes);
}
Value normalized_by_root(Call& call) {
  const Value x = call.tensor("input");
  const auto axes = static_cast<int64_t>(call.sizes("normalized_shape").size());
  const double epsilon = x.dtype() == DType::f64 ? 2.220446049250313e-16 : 1.1920928955078125e-07;
  return rms_norm(x, call.tensor_or("weight", {}), call.number_or("eps", epsilon), axes);
}

Value normalized_groups(Call& call) {
  call.accept_any("cudnn_enabled");
  return group_norm(call.tensor("input"), call.integer("num_groups"), call.tensor_or("weight", {}),
                    call.tensor_or("bias", {}), call.number_or("eps", 1e-5));
}
Value instance_norm(Call& call) {
  call.accept_any("cudnn_enabled"), call.accept_any("momentum"), call.accept_any("running_mean"),
      call.accept_any("running_var");
  call.must_be("use_input_stats", true);
  const Value x = call.tensor("input");
  return group_norm(x, x.dim(1).value(), call.tensor_or("weight", {}), call.tensor_or("bias", {}),
                    call.number_or("eps", 1e-5));
}

BatchNormResult batch_normalized(Call& call, bool training) {
  call.accept_any("cudnn_enabled");
  return batch_norm(call.tensor("input"), call.tensor_or("weight", {}), call.tensor_or("bias", {}),
                    call.tensor_or("running_mean", {}), call.tensor_or("running_var", {}), training,
                    call.number_or("momentum", 0.1), call.number_or("eps", 1e-5));
}
Value batch_norm_of_eval(Call& call) {
  const bool is_training = call.flag_or("training", false);
  if (!call.has("running_mean")) return batch_normalized(call, true).y;  // nothing is written
  if (is_training)
    fail(
        "it normalizes by the batch, whose statistics this operator writes unseen: export with "
        "`torch.export.export(...).run_decompositions()`, or call model.eval() first");
  return batch_normalized(call, false).y;
}
// Returns y and the saved statistics, which nothing reads without a gradient.
Results batch_norm_without_training(Call& call) {
  const Value y = batch_normalized(call, false).y, none = call.g().zeros({0}, DType::f32);
  return std::vector<Value>{y, none, none};
}
// y, two saved statistics, and the new running mean and variance.
Results batch_norm_with_running_statistics(Call& call) {
  const BatchNormResult r = batch_normalized(call, call.flag_or("training", true));
  const Value none = call.g().zeros({0}, DType::f32);
  return std::vector<Value>{r.y, none, none, r.running_mean, r.running_var};
}
Results native_layer_norm(Call& call) {
  const Value y = normalized_layer(call), none = call.g().zeros({0}, DType::f32);
  return std::vector<Value>{y, none, none};
}

// --- attention

Value attended(Call& call) {
  const Value q = call.tensor("query"), k = call.tensor("key"), v = call.tensor("value");
  call.must_be("dropout_p", 0.0);
  call.accept_any("enable_gqa");  // heads of k and v may be fewer
  const bool is_causal = call.flag_or("is_causal", false);
  if (is_causal && q.dim(-2) != k.dim(-2))
    fail("causal attention of {} queries to {} keys is not read", q.dim(-2).to_string(),
         k.dim(-2).to_string());
  Value mask = call.tensor_or("attn_mask", {});
  if (mask && mask.rank() < 4) {
    Shape shape(std::vector<Dim>(4 - static_cast<size_t>(mask.rank()), Dim(1)));
    for (const Dim& dim : mask.shape()) shape.push_back(dim);
    mask = reshape(mask, shape);
  }
  if (q.rank() != 4)
    fail("attention of tensors with {} axes is not read: expected [batch, heads, time, size]", q.rank());
  return scaled_dot_product_attention(q, k, v, mask, is_causal, call.number_or("scale", 0));
}

// v scaled so that its norm over all axes but one is g.
Value weight_of_norm(Call& call) {
  const Value v = call.tensor("v");
  const int64_t axis = call.integer_or("dim", 0);  // -1: the norm of all elements
  std::vector<int64_t> others;
  for (int i = 0; i < v.rank(); ++i)
    if (i != axis) others.push_back(i);
  return v * (call.tensor("g") / sqrt(sum(v * v, others, true)));
}

Value pixels_from_channels(Call& call) {
  const Value x = call.tensor("self");
  const int64_t factor = call.integer("upscale_factor");
  if (factor < 1 || factor > 65536) fail("its upscale_factor is {}: expected 1 to 65536", factor);
  const auto channels = x.dim(1).divide_exact(factor * factor);
  if (!channels) fail("{} channels are not made of blocks of {}", x.dim(1).to_string(), factor * factor);
  const Value blocks = reshape(x, {x.dim(0), *channels, factor, factor, x.dim(2), x.dim(3)});
  return reshape(permute(blocks, {0, 1, 4, 2, 5, 3}),
                 {x.dim(0), *channels, x.dim(2) * factor, x.dim(3) * factor});
}

}  // namespace

const Operators& layer_operators() {
  static const Operators kOperators = {
      {"aten.adaptive_avg_pool1d.default", pooled_to_size<1>},
      {"aten.adaptive_avg_pool2d.default", pooled_to_size<2>},
      {"aten._adaptive_avg_pool2d.default", pooled_to_size<2>},
      {"aten.adaptive_avg_pool3d.default", pooled_to_size<3>},
      {"aten.addmm.default", product_and_sum<kMat1, kMat2>},
      {"aten.avg_pool1d.default", pooled<avg_pool, 1>},
      {"aten.avg_pool2d.default", pooled<avg_pool, 2>},
      {"aten.avg_pool3d.default", pooled<avg_pool, 3>},
      {"aten.baddbmm.default", product_and_sum<kBatch1, kBatch2>},
      {"aten.batch_norm.default", one<batch_norm_of_eval>},
      {"aten.bmm.default", one<product>},
      {"aten.conv1d.default", one<convolved<false>>},
      {"aten.conv1d.padding", one<convolved<false>>},
      {"aten.conv2d.default", one<convolved<false>>},
      {"aten.conv2d.padding", one<convolved<false>>},
      {"aten.conv3d.default", one<convolved<false>>},
      {"aten.conv_transpose1d.default", one<convolved<true>>},
      {"aten.conv_transpose2d.input", one<convolved<true>>},
      {"aten.conv_transpose3d.input", one<convolved<true>>},
      {"aten.convolution.default", one<convolved<false>>},
      {"aten.einsum.default", one<product_of_indices>},
      {"aten.group_norm.default", one<normalized_groups>},
      {"aten.instance_norm.default", one<instance_norm>},
      {"aten.layer_norm.default", one<normalized_layer>},
      {"aten.linear.default", one<linear_layer>},
      {"aten.matmul.default", one<product>},
      {"aten.max_pool1d.default", pooled<max_pool, 1>},
      {"aten.max_pool2d.default", pooled<max_pool, 2>},
      {"aten.max_pool3d.default", pooled<max_pool, 3>},
      {"aten.mm.default", one<product>},
      {"aten.outer.default", one<outer_product>},
      {"aten.native_layer_norm.default", native_layer_norm},
      {"aten._native_batch_norm_legit_functional.default", batch_norm_with_running_statistics},
      {"aten._native_batch_norm_legit_no_training.default", batch_norm_without_training},
      {"aten.pixel_shuffle.default", one<pixels_from_channels>},
      {"aten.rms_norm.default", one<normalized_by_root>},
      {"aten.scaled_dot_product_attention.default", one<attended>},
      {"aten._weight_norm.default", one<weight_of_norm>},
  };
  return kOperators;
}

}  // namespace genesis::models::pt2
