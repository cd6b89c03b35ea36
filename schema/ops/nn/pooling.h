// Pooling over windows of 1 to 3 spatial axes of x [batch, channels, ...], with torch's formulas. Padding never wins a maximum.
// With `channels_last` x, y and their gradients are [batch, ..., channels].
#pragma once

#include "schema/graph/graph.h"
#include "schema/ops/nn/windows.h"

namespace genesis {
namespace ops {

struct MaxPool {
  static constexpr OpInfo info{
      .name = "max_pool",
      .doc = "The greatest element in each `window` of x [batch, channels, ...]; NaN is greatest.",
      .inputs = {1, 1},
      .precision = Precision::kFollow};
  Windows windows;
  std::vector<int64_t> window;
  bool ceil_mode = false;
  static void fields(auto& self, auto&& visit) {
    Windows::fields(self.windows, visit);
    visit("window", self.window);
    visit("ceil_mode", self.ceil_mode);
  }
  std::vector<TensorType> infer(Types in) const;
  void grad(GradientContext& g) const;
};

// x, dy -> dx: each element of dy is added to the first greatest element of its window.
struct MaxPoolGrad {
  static constexpr OpInfo info{.name = "max_pool_grad",
                               .doc =
                                   "The gradient of max_pool, for x and dy: dy goes to the first greatest "
                                   "element of each window.",
                               .inputs = {2, 2},
                               .precision = Precision::kFollow};
  Windows windows;
  std::vector<int64_t> window;
  bool ceil_mode = false;
  static void fields(auto& self, auto&& visit) { MaxPool::fields(self, visit); }
  std::vector<TensorType> infer(Types in) const;
  double sum_length(Types in, Types out) const;
};

// With `count_padding` the padding counts as zeros, but not what a last window with `ceil_mode` reaches beyond it.
struct AveragePool {
  static constexpr OpInfo info{
      .name = "average_pool",
      .doc =
          "The mean of each `window` of x [batch, channels, ...]; `count_padding`: padded zeros count, too.",
      .inputs = {1, 1},
      .precision = Precision::kWide};
  Windows windows;
  std::vector<int64_t> window;
  bool ceil_mode = false, count_padding = true;
  static void fields(auto& self, auto&& visit) {
    Windows::fields(self.windows, visit);
    visit("window", self.window);
    visit("ceil_mode", self.ceil_mode);
    visit("count_padding", self.count_padding);
  }
  std::vector<TensorType> infer(Types in) const;
  double sum_length(Types in, Types out) const;
  void grad(GradientContext& g) const;
};

// dy -> dx [batch, channels, sizes...].
struct AveragePoolGrad {
  static constexpr OpInfo info{
      .name = "average_pool_grad",
      .doc = "The gradient of average_pool with respect to x [.., `sizes`]: dy spread over its windows.",
      .inputs = {1, 1},
      .precision = Precision::kWide};
  Windows windows;
  std::vector<int64_t> window;
  bool ceil_mode = false, count_padding = true;
  Shape sizes;
  static void fields(auto& self, auto&& visit) {
    AveragePool::fields(self, visit);
    visit("sizes", self.sizes);
  }
  std::vector<TensorType> infer(Types in) const;
  double sum_length(Types in, Types out) const;
  void grad(GradientContext& g) const;
};

}  // namespace ops
}  // namespace genesis
