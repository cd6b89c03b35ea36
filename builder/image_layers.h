// Layers of convolutional networks with PyTorch's names, parameters and defaults (torch.nn). x is [N, C, ...] with 1, 2 or 3
// spatial axes; a list of one number stands for all of them.
//
//     const nn::Conv2d conv1(scope / "conv1", 3, 64, {7}, {.conv = {.stride = {2}, .padding = {3}}, .bias = false});
//     const nn::BatchNorm2d bn1(scope / "bn1", 64);
//     const Value y = nn::MaxPool2d{{.window = {3}, .stride = {2}, .padding = {1}}}(relu(bn1(conv1(x))));
#pragma once

#include <optional>
#include <vector>

#include "builder/batch_norm.h"
#include "builder/convolution.h"
#include "builder/module.h"
#include "schema/ops/elementwise/elementwise.h"

namespace genesis::nn {

// Returns one number for each of `axes` axes from a list of one, or of as many.
std::vector<int64_t> for_axes(std::vector<int64_t> numbers, int axes);
ConvOptions for_axes(ConvOptions options, int axes);
PoolOptions for_axes(PoolOptions options, int axes);

struct ConvLayerOptions {
  ConvOptions conv = {};
  bool bias = true;
  std::optional<init::Init> init = {};  // empty: PyTorch's default, uniform within 1 / sqrt(terms of a sum)
  std::vector<int64_t> output_padding = {};  // only transposed convolutions have it: 0
};

// weight is [out_channels, in_channels / groups, kernel_size...].
template <int axes>
class ConvNd : public Module<ConvNd<axes>> {
 public:
  ConvNd(const Scope& scope, int64_t in_channels, int64_t out_channels, std::vector<int64_t> kernel_size,
         const ConvLayerOptions& options = {});
  Value forward(Value x) const;
  Parameter weight, bias;

 private:
  ConvOptions options_;
};
using Conv1d = ConvNd<1>;
using Conv2d = ConvNd<2>;
using Conv3d = ConvNd<3>;

// weight is [in_channels, out_channels / groups, kernel_size...].
template <int axes>
class ConvTransposeNd : public Module<ConvTransposeNd<axes>> {
 public:
  ConvTransposeNd(const Scope& scope, int64_t in_channels, int64_t out_channels,
                  std::vector<int64_t> kernel_size, const ConvLayerOptions& options = {});
  Value forward(Value x) const;
  Parameter weight, bias;

 private:
  ConvOptions options_;
  std::vector<int64_t> output_padding_;
};
using ConvTranspose1d = ConvTransposeNd<1>;
using ConvTranspose2d = ConvTransposeNd<2>;
using ConvTranspose3d = ConvTransposeNd<3>;

// Normalizes x [N, C, ...] by channel. In training it adds the running statistics to the entry point as state updates. Without
// `track_running_stats` it uses the statistics of the batch in evaluation too; without `affine` it has no weight and bias.
template <int axes>
class BatchNormNd : public Module<BatchNormNd<axes>> {
 public:
  BatchNormNd(const Scope& scope, int64_t num_features, double eps = 1e-5, double momentum = 0.1,
              bool affine = true, bool track_running_stats = true)
      : Module<BatchNormNd<axes>>(scope),
        states(make_batch_norm(scope, num_features, eps, momentum, affine, track_running_stats)) {}
  Value forward(Value x) const { return run_batch_norm(states, this->path(), x, axes + 2, axes + 2); }
  BatchNormStates states;
};
using BatchNorm2d = BatchNormNd<2>;
using BatchNorm3d = BatchNormNd<3>;

// Normalizes the channels of each image in `num_groups` groups; weight and bias [num_channels].
class GroupNorm : public Module<GroupNorm> {
 public:
  GroupNorm(const Scope& scope, int64_t num_groups, int64_t num_channels, double eps = 1e-5,
            bool affine = true);
  Value forward(Value x) const;
  Parameter weight, bias;

 private:
  int64_t num_groups_, num_channels_;
  double eps_;
};

// Normalizes each channel of each image, without running statistics.
template <int axes>
class InstanceNormNd : public Module<InstanceNormNd<axes>> {
 public:
  InstanceNormNd(const Scope& scope, int64_t num_features, double eps = 1e-5, bool affine = false)
      : Module<InstanceNormNd<axes>>(scope), groups_(scope, num_features, num_features, eps, affine) {}
  Value forward(Value x) const { return groups_.forward(x); }
  const Parameter& weight() const { return groups_.weight; }
  const Parameter& bias() const { return groups_.bias; }

 private:
  GroupNorm groups_;
};
using InstanceNorm1d = InstanceNormNd<1>;
using InstanceNorm2d = InstanceNormNd<2>;
using InstanceNorm3d = InstanceNormNd<3>;

// Layers without parameters.
template <int axes>
struct MaxPoolNd {
  PoolOptions options;
  Value operator()(Value x) const { return max_pool(x, for_axes(options, axes)); }
};
template <int axes>
struct AvgPoolNd {
  PoolOptions options;
  Value operator()(Value x) const { return avg_pool(x, for_axes(options, axes)); }
};
template <int axes>
struct LPPoolNd {
  double norm_type;
  PoolOptions options;
  Value operator()(Value x) const { return lp_pool(x, norm_type, for_axes(options, axes)); }
};
template <int axes>
struct AdaptiveAvgPoolNd {
  std::vector<int64_t> output_size;
  Value operator()(Value x) const { return adaptive_avg_pool(x, for_axes(output_size, axes)); }
};
template <int axes>
struct AdaptiveMaxPoolNd {
  std::vector<int64_t> output_size;
  Value operator()(Value x) const { return adaptive_max_pool(x, for_axes(output_size, axes)); }
};
using MaxPool1d = MaxPoolNd<1>;
using MaxPool2d = MaxPoolNd<2>;
using MaxPool3d = MaxPoolNd<3>;
using AvgPool1d = AvgPoolNd<1>;
using AvgPool2d = AvgPoolNd<2>;
using AvgPool3d = AvgPoolNd<3>;
using LPPool1d = LPPoolNd<1>;
using LPPool2d = LPPoolNd<2>;
using LPPool3d = LPPoolNd<3>;
using AdaptiveAvgPool1d = AdaptiveAvgPoolNd<1>;
using AdaptiveAvgPool2d = AdaptiveAvgPoolNd<2>;
using AdaptiveAvgPool3d = AdaptiveAvgPoolNd<3>;
using AdaptiveMaxPool1d = AdaptiveMaxPoolNd<1>;
using AdaptiveMaxPool2d = AdaptiveMaxPoolNd<2>;
using AdaptiveMaxPool3d = AdaptiveMaxPoolNd<3>;

struct ReLU6 {
  Value operator()(Value x) const { return clamp(x, 0, 6); }
};

}  // namespace genesis::nn
