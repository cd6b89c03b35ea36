#include "builder/layers.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "builder/batch_norm.h"
#include "schema/graph/inactive_layers.h"
#include "schema/ops/nn/matmul.h"
#include "schema/ops/nn/norm.h"
#include "schema/ops/nn/softmax.h"
#include "schema/ops/tensor/index.h"
#include "schema/ops/tensor/random.h"

namespace genesis::nn {
namespace {

Value optional(Parameter parameter, Value like) { return parameter ? parameter.in(*like.graph) : Value{}; }

// Checks that the layer at `scope` can share a weight that another layer created, and returns it.
Parameter shared(const Scope& scope, Parameter weight, const Shape& expected) {
  if (weight.model != &scope.model())
    fail("layer '{}' shares the weight '{}' of another model", scope.path(), weight.name());
  if (!(weight.type().shape == expected))
    fail("layer '{}' shares the weight '{}' of shape {}, expected {}", scope.path(), weight.name(),
         weight.type().shape.to_string(), expected.to_string());
  return weight;
}

// Returns a copy with zeros in one row.
Tensor without_row(const Tensor& matrix, int64_t row) {
  std::byte* data;
  Tensor copy = Tensor::uninitialized(matrix.type(), &data);
  const auto row_bytes = static_cast<size_t>(matrix.bytes() / matrix.type().shape[0].value());
  std::memcpy(data, matrix.data(), static_cast<size_t>(matrix.bytes()));
  std::memset(data + static_cast<size_t>(row) * row_bytes, 0, row_bytes);
  return copy;
}

std::vector<int64_t> checked_shape(const Scope& scope, std::vector<int64_t> normalized_shape) {
  if (normalized_shape.empty())
    fail("layer '{}': normalized_shape is empty, it names the sizes of the last axes", scope.path());
  return normalized_shape;
}

// Throws Error unless the shape of x ends in `sizes`. A layer without parameters would not notice otherwise.
void check_trailing(const std::string& layer, Value x, const std::vector<int64_t>& sizes) {
  const int first = x.rank() - static_cast<int>(sizes.size());
  bool fits = first >= 0;
  for (size_t i = 0; fits && i < sizes.size(); ++i)
    fits = x.shape()[first + static_cast<int>(i)] == Dim(sizes[i]);
  if (!fits)
    fail("layer '{}' normalizes over the last axes {}, got x {}", layer, Shape::of(sizes).to_string(),
         x.shape().to_string());
}

}  // namespace

Linear::Linear(const Scope& scope, int64_t in_features, int64_t out_features, const Options& options)
    : Module(scope) {
  const double bound = in_features > 0 ? 1 / std::sqrt(static_cast<double>(in_features)) : 0;
  const init::Init standard = init::uniform(-bound, bound);
  const Shape shape{out_features, in_features};
  weight = options.weight ? shared(scope, options.weight, shape)
                          : scope.parameter("weight", shape, options.init.value_or(standard));
  if (options.bias) bias = scope.parameter("bias", {out_features}, options.init ? init::zeros() : standard);
}

Value Linear::forward(Value x, bool wide) const {
  LinearOperands operands{.x = x, .weights = {weight.in(*x.graph)}};
  if (bias) operands.biases.push_back(bias.in(*x.graph));
  return linear({.wide = wide}, operands)[0];
}

Embedding::Embedding(const Scope& scope, int64_t num_embeddings, int64_t embedding_dim,
                     const Options& options)
    : Module(scope), padding_idx_(options.padding_idx) {
  if (padding_idx_ < -1 || padding_idx_ >= num_embeddings)
    fail("layer '{}': padding_idx {} is not one of its {} rows, nor -1 (none)", path(), padding_idx_,
         num_embeddings);
  const Shape shape{num_embeddings, embedding_dim};
  if (options.weight) {
    weight = shared(scope, options.weight, shape);
    return;
  }
  weight = scope.parameter("weight", shape, options.init);
  if (padding_idx_ >= 0)
    scope.model().set_initial(weight.index, without_row(weight.state().initial, padding_idx_));
}

Value Embedding::forward(Value indices) const {
  return embedding(indices, weight.in(*indices.graph), padding_idx_);
}

LayerNorm::LayerNorm(const Scope& scope, std::vector<int64_t> normalized_shape, double eps,
                     bool elementwise_affine, bool with_bias)
    : Module(scope), normalized_shape_(checked_shape(scope, std::move(normalized_shape))), eps_(eps) {
  if (!elementwise_affine) return;
  weight = scope.parameter("weight", Shape::of(normalized_shape_), init::ones());
  if (with_bias) bias = scope.parameter("bias", Shape::of(normalized_shape_), init::zeros());
}

Value LayerNorm::forward(Value x) const {
  check_trailing(path(), x, normalized_shape_);
  return layer_norm(x, optional(weight, x), optional(bias, x), eps_,
                    static_cast<int64_t>(normalized_shape_.size()));
}

RMSNorm::RMSNorm(const Scope& scope, std::vector<int64_t> normalized_shape, std::optional<double> eps,
                 bool elementwise_affine)
    : Module(scope), normalized_shape_(checked_shape(scope, std::move(normalized_shape))), eps_(eps) {
  if (elementwise_affine) weight = scope.parameter("weight", Shape::of(normalized_shape_), init::ones());
}

Value RMSNorm::forward(Value x) const {
  check_trailing(path(), x, normalized_shape_);
  const double smallest = x.dtype() == DType::f64 ? std::numeric_limits<double>::epsilon()
                                                  : std::numeric_limits<float>::epsilon();
  return rms_norm(x, optional(weight, x), eps_.value_or(smallest),
                  static_cast<int64_t>(normalized_shape_.size()));
}

BatchNorm1d::BatchNorm1d(const Scope& scope, int64_t num_features, double eps, double momentum, bool affine,
                         bool track_running_stats)
    : Module(scope), num_features_(num_features), eps_(eps), momentum_(momentum) {
  const BatchNormStates made =
      make_batch_norm(scope, num_features, eps, momentum, affine, track_running_stats);
  weight = made.weight, bias = made.bias;
  running_mean = made.running_mean, running_var = made.running_var;
}

Value BatchNorm1d::forward(Value x) const {
  return run_batch_norm({weight, bias, running_mean, running_var, num_features_, eps_, momentum_}, path(), x,
                        2, 3);
}

Dropout::Dropout(const Scope& scope, double p)
    : Module(scope), p_(p), rng_(p > 0 ? scope.rng() : Parameter{}) {
  if (!(p >= 0 && p <= 1)) fail("layer '{}': dropout probability {} is not between 0 and 1", path(), p);
}

Value Dropout::forward(Value x) const {
  if (p_ == 0) return x;
  if (!x.graph->training()) {
    note_inactive_layer(*x.graph, "dropout '" + path() + "'");
    return x;
  }
  return dropout(rng_.in(*x.graph), x, p_);
}

Value Softmax::operator()(Value x) const { return softmax(x, dim); }

Value LogSoftmax::operator()(Value x) const { return log_softmax(x, dim); }

}  // namespace genesis::nn
