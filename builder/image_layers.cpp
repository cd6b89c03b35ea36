#include "builder/image_layers.h"

#include <cmath>

namespace genesis::nn {
namespace {

// PyTorch's default: uniform within 1 / sqrt(n), where a weight [a, b, window...] has n = b * the window's elements.
init::Init default_init(const Shape& weight) {
  double terms = 1;
  for (int axis = 1; axis < weight.rank(); ++axis) terms *= static_cast<double>(weight[axis].value());
  const double bound = terms > 0 ? 1 / std::sqrt(terms) : 0;
  return init::uniform(-bound, bound);
}

struct ConvParameters {
  Parameter weight, bias;
};

// Creates the weight [first, second / groups, kernel...] and the bias of a convolution.
ConvParameters make_parameters(const Scope& scope, int64_t first, int64_t second, int64_t out,
                               const std::vector<int64_t>& kernel, const ConvLayerOptions& options) {
  const int64_t groups = options.conv.groups;
  if (groups < 1 || first % groups != 0 || second % groups != 0)
    fail("layer '{}': {} groups do not divide {} and {} channels", scope.path(), groups, first, second);
  Shape shape = {first, second / groups};
  for (const int64_t size : kernel) shape.push_back(size);
  const init::Init standard = default_init(shape);
  ConvParameters made{scope.parameter("weight", shape, options.init.value_or(standard)), {}};
  if (options.bias) made.bias = scope.parameter("bias", {out}, options.init ? init::zeros() : standard);
  return made;
}

Value value_of(const Parameter& parameter, Value like) {
  return parameter ? parameter.in(*like.graph) : Value{};
}

// Throws Error unless x is [N, C, ...] with `axes` spatial axes.
void check_rank(const std::string& path, Value x, int axes) {
  if (x.rank() != axes + 2)
    fail("layer '{}' takes x [N, C, ...] with {} spatial axes, got {}", path, axes, x.shape().to_string());
}

}  // namespace

std::vector<int64_t> for_axes(std::vector<int64_t> numbers, int axes) {
  if (numbers.size() == 1) numbers.assign(static_cast<size_t>(axes), numbers[0]);
  return numbers;
}

ConvOptions for_axes(ConvOptions options, int axes) {
  for (auto* list : {&options.stride, &options.padding, &options.dilation, &options.padding_end})
    *list = for_axes(*list, axes);
  return options;
}

PoolOptions for_axes(PoolOptions options, int axes) {
  for (auto* list :
       {&options.window, &options.stride, &options.padding, &options.dilation, &options.padding_end})
    *list = for_axes(*list, axes);
  return options;
}

template <int axes>
ConvNd<axes>::ConvNd(const Scope& scope, int64_t in_channels, int64_t out_channels,
                     std::vector<int64_t> kernel_size, const ConvLayerOptions& options)
    : Module<ConvNd<axes>>(scope), options_(for_axes(options.conv, axes)) {
  const ConvParameters made = make_parameters(scope, out_channels, in_channels, out_channels,
                                              for_axes(std::move(kernel_size), axes), options);
  weight = made.weight, bias = made.bias;
}

template <int axes>
Value ConvNd<axes>::forward(Value x) const {
  check_rank(this->path(), x, axes);
  return conv(x, weight.in(*x.graph), value_of(bias, x), options_);
}

template <int axes>
ConvTransposeNd<axes>::ConvTransposeNd(const Scope& scope, int64_t in_channels, int64_t out_channels,
                                       std::vector<int64_t> kernel_size, const ConvLayerOptions& options)
    : Module<ConvTransposeNd<axes>>(scope),
      options_(for_axes(options.conv, axes)),
      output_padding_(for_axes(options.output_padding, axes)) {
  const ConvParameters made = make_parameters(scope, in_channels, out_channels, out_channels,
                                              for_axes(std::move(kernel_size), axes), options);
  weight = made.weight, bias = made.bias;
}

template <int axes>
Value ConvTransposeNd<axes>::forward(Value x) const {
  check_rank(this->path(), x, axes);
  return conv_transpose(x, weight.in(*x.graph), value_of(bias, x), options_, output_padding_);
}

template class ConvNd<1>;
template class ConvNd<2>;
template class ConvNd<3>;
template class ConvTransposeNd<1>;
template class ConvTransposeNd<2>;
template class ConvTransposeNd<3>;

GroupNorm::GroupNorm(const Scope& scope, int64_t num_groups, int64_t num_channels, double eps, bool affine)
    : Module(scope), num_groups_(num_groups), num_channels_(num_channels), eps_(eps) {
  if (num_groups < 1 || num_channels % num_groups != 0)
    fail("layer '{}': {} groups do not divide {} channels", path(), num_groups, num_channels);
  if (!affine) return;
  weight = scope.parameter("weight", {num_channels}, init::ones());
  bias = scope.parameter("bias", {num_channels}, init::zeros());
}

Value GroupNorm::forward(Value x) const {
  if (x.rank() < 2 || !(x.dim(1) == Dim(num_channels_)))
    fail("layer '{}' takes x [N, {}, ...], got {}", path(), num_channels_, x.shape().to_string());
  return group_norm(x, num_groups_, value_of(weight, x), value_of(bias, x), eps_);
}

}  // namespace genesis::nn
