// Layers with PyTorch's names, parameters and defaults (torch.nn). A layer creates its parameters under a Scope and is called
// like a function:
//
//     const nn::Linear fc(scope / "fc", 784, 128);
//     const Value y = fc(x);
#pragma once

#include <optional>

#include "builder/module.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/nn/attention.h"
#include "schema/ops/tensor/reshape.h"

namespace genesis::nn {

// y = x weight^T + bias; weight is [out_features, in_features].
class Linear : public Module<Linear> {
 public:
  struct Options {
    bool bias = true;
    Parameter weight = {};                // if given, shared instead of created (tied embeddings)
    std::optional<init::Init> init = {};  // empty: PyTorch's default, uniform within 1 / sqrt(in_features)
  };
  Linear(const Scope& scope, int64_t in_features, int64_t out_features, const Options& options);
  Linear(const Scope& scope, int64_t in_features, int64_t out_features)
      : Linear(scope, in_features, out_features, Options{}) {}
  // Maps [..., in_features] to [..., out_features]. With `wide` the result is f32 even if weight and x have 16 bits; the head of
  // a language model uses this, because tokens are chosen from its logits.
  Value forward(Value x, bool wide = false) const;
  Parameter weight, bias;
};

// Looks up rows of weight [num_embeddings, embedding_dim], which is initialized from the standard normal distribution. Row
// `padding_idx` (-1: none) starts as zeros and gets no gradient.
class Embedding : public Module<Embedding> {
 public:
  struct Options {
    int64_t padding_idx = -1;
    Parameter weight = {};  // if given, shared instead of created; keeps the values it has
    init::Init init = init::normal();
  };
  Embedding(const Scope& scope, int64_t num_embeddings, int64_t embedding_dim, const Options& options);
  Embedding(const Scope& scope, int64_t num_embeddings, int64_t embedding_dim, int64_t padding_idx = -1)
      : Embedding(scope, num_embeddings, embedding_dim, Options{.padding_idx = padding_idx}) {}
  Value forward(Value indices) const;  // i32/i64 [...] -> [..., embedding_dim]
  Parameter weight;

 private:
  int64_t padding_idx_;
};

// Normalizes over the trailing axes `normalized_shape`.
class LayerNorm : public Module<LayerNorm> {
 public:
  LayerNorm(const Scope& scope, std::vector<int64_t> normalized_shape, double eps = 1e-5,
            bool elementwise_affine = true, bool bias = true);
  LayerNorm(const Scope& scope, int64_t normalized_size, double eps = 1e-5, bool elementwise_affine = true,
            bool bias = true)
      : LayerNorm(scope, std::vector{normalized_size}, eps, elementwise_affine, bias) {}
  Value forward(Value x) const;
  Parameter weight, bias;

 private:
  std::vector<int64_t> normalized_shape_;
  double eps_;
};

// Normalizes over the trailing axes `normalized_shape`. The default `eps` is the machine epsilon of the dtype that it computes
// in: 2^-52 for f64, 2^-23 otherwise.
class RMSNorm : public Module<RMSNorm> {
 public:
  RMSNorm(const Scope& scope, std::vector<int64_t> normalized_shape, std::optional<double> eps = {},
          bool elementwise_affine = true);
  RMSNorm(const Scope& scope, int64_t normalized_size, std::optional<double> eps = {},
          bool elementwise_affine = true)
      : RMSNorm(scope, std::vector{normalized_size}, eps, elementwise_affine) {}
  Value forward(Value x) const;

  Parameter weight;

 private:
  std::vector<int64_t> normalized_shape_;
  std::optional<double> eps_;
};

// Normalizes x [N, C] or [N, C, L]. In training it adds the running statistics to the entry point as state updates. Without
// `track_running_stats` it uses the statistics of the batch in evaluation too; without `affine` it has no weight and bias.
class BatchNorm1d : public Module<BatchNorm1d> {
 public:
  BatchNorm1d(const Scope& scope, int64_t num_features, double eps = 1e-5, double momentum = 0.1,
              bool affine = true, bool track_running_stats = true);
  Value forward(Value x) const;

  Parameter weight, bias, running_mean, running_var;

 private:
  int64_t num_features_;
  double eps_, momentum_;
};

// Zeroes elements with probability p in training; returns x unchanged otherwise.
class Dropout : public Module<Dropout> {
 public:
  explicit Dropout(const Scope& scope, double p = 0.5);
  Value forward(Value x) const;

 private:
  double p_;
  Parameter rng_;
};

// Layers without parameters, for use in Sequential.
struct Flatten {
  int64_t start_dim = 1, end_dim = -1;
  Value operator()(Value x) const { return flatten(x, start_dim, end_dim); }
};
struct ReLU {
  Value operator()(Value x) const { return relu(x); }
};
struct LeakyReLU {
  double negative_slope = 0.01;
  Value operator()(Value x) const { return leaky_relu(x, negative_slope); }
};
struct ELU {
  double alpha = 1;
  Value operator()(Value x) const { return elu(x, alpha); }
};
struct GELU {
  GeluKind approximate = GeluKind::kErf;
  Value operator()(Value x) const { return gelu(x, approximate); }
};
struct SiLU {
  Value operator()(Value x) const { return silu(x); }
};
struct Tanh {
  Value operator()(Value x) const { return tanh(x); }
};
struct Sigmoid {
  Value operator()(Value x) const { return sigmoid(x); }
};
struct Softplus {
  double beta = 1, threshold = 20;
  Value operator()(Value x) const { return softplus(x, beta, threshold); }
};
struct Hardswish {
  Value operator()(Value x) const { return hardswish(x); }
};
struct Mish {
  Value operator()(Value x) const { return mish(x); }
};
struct Softmax {
  int64_t dim = -1;
  Value operator()(Value x) const;
};
struct LogSoftmax {
  int64_t dim = -1;
  Value operator()(Value x) const;
};
struct Identity {
  Value operator()(Value x) const { return x; }
};

}  // namespace genesis::nn
