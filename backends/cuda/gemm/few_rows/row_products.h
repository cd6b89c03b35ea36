// The problem that the kernels of this folder and of hopper/skinny solve: a few rows of x against the weights [n, k] of one
// layer or of several, as in decoding. The weights are by far the most bytes, and each is read once. row_kernels.h lists the
// kernels, row_implementations.h describes nodes of linear and products of gemm.h as this problem.
#pragma once

#include <cstdint>

#include "schema/core/dtype.h"
#include "schema/encoding/weight_format.h"
#include "schema/ops/nn/matmul.h"

namespace genesis::cuda {

struct RowProducts {
  // y = activation(x weight^T + bias) + addend. All but quants and scales have x's dtype.
  struct Layer {
    const void *weight = nullptr,
               *scales = nullptr;  // [n, k]; of quantized weights the quants, and scales [n, k / 32]
    const void *bias = nullptr, *addend = nullptr;  // [n]; [m, n], laid out as y, and may be y; null: none
    void* y = nullptr;                              // [m, n]
    int64_t n = 0, ldc = 0;                         // rows of the weight; elements between rows of y
  };
  static constexpr int kMaxLayers = 8;

  DType dtype = DType::f32;  // f32, bf16 or f16
  WeightFormat format = WeightFormat::kPlain;
  int64_t m = 0, k = 0, lda = 0;  // x is [m, k], with `lda` elements between rows
  int layers = 1;                 // for a swiglu: gate and up
  // y = silu(gate) * up, with gate and up first rounded to the dtype, which gives the same bits as two products and a swiglu. It
  // goes with no activation, no addend and not with `wide`.
  bool swiglu = false;
  bool wide = false;         // y and addends are f32 for any dtype of x and weights
  bool independent = false;  // all weights may be read before the kernels ahead have ended
  bool has_norm = false;     // an rms_norm of x comes ahead of the products
  float eps = 0;
  Activation activation = Activation::kNone;
  const void* x = nullptr;
  const void* norm = nullptr;  // weight [k] of the norm; null: none
  Layer layer[kMaxLayers];

  // Layers with results of their own, and rows of all weights.
  int results() const { return swiglu ? 1 : layers; }
  int64_t rows_of_weights() const {
    int64_t n = 0;
    for (int i = 0; i < layers; ++i) n += layer[i].n;
    return n;
  }
};

// The split of the work, which a kernel chooses when it starts.
struct RowSplit {
  // Blocks (or other units of work) of all layers are numbered consecutively: the first of each layer, and their number.
  int64_t first[RowProducts::kMaxLayers] = {};
  int64_t blocks = 0;
  int splits = 1;        // warps that share a group of weight rows
  bool aligned = false;  // x and the norm are read eight elements at once

  // A block computes `results` results per row of x; gate and up of a swiglu share their blocks.
  RowSplit(const RowProducts& p, int64_t results) {
    for (int i = 0; i < p.results(); ++i) {
      first[i] = blocks;
      blocks += (p.layer[i].n + results - 1) / results;
    }
  }
#ifdef __CUDACC__
  // Returns the layer that a block belongs to; for a swiglu, gate's.
  __device__ __forceinline__ int layer_of(const RowProducts& p, bool swiglu, int64_t block) const {
    int at = 0;
    if (!swiglu)
      while (at + 1 < p.layers && block >= first[at + 1]) ++at;
    return at;
  }
#endif
};

}  // namespace genesis::cuda
