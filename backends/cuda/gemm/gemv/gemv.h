// A GEMV: one row of x, or a few, against weights [n, k] of one layer or several. Each weight is read once, at the memory's
// bandwidth, 16 bytes at a time. How k is split among warps depends on k alone, so a result has the same bits whether it is
// computed alone or with other layers. gemv.cu has the kernel for every chip, ../gemv_prefetch one that adds in the same order.
// gemm_implementations.h has the row for single products, linear_gemv.h the one for several weights in one launch.
#pragma once

#include "backends/cuda/gemm/gemm_implementations.h"

namespace genesis::cuda {

// Most rows of x. With more than four rows in 16 bits, tensor cores are faster (6 texts of Qwen2.5-0.5B on an H100:
// 1.41 ms per token, and 0.77 ms with tensor cores).
constexpr int64_t max_gemv_rows(size_t element_bytes) { return element_bytes == 4 ? 8 : 4; }

struct Gemv {
  struct Layer {
    const void *weight = nullptr, *bias = nullptr;
    const void* addend = nullptr;  // laid out as y, and may be y; null: none
    void* y = nullptr;
    int64_t n = 0, ldc = 0;
    int64_t first_block = 0;  // set by number_blocks()
  };
  static constexpr int kMaxLayers = 8;

  int64_t m = 0, k = 0, lda = 0;
  int splits = 1;              // warps that share a group of weight rows: gemv_splits()
  int layers = 1;              // for a swiglu: gate and up
  bool independent = false;    // all weights may be read before the kernels ahead have ended
  bool wide = false;           // y and addends are f32 for any dtype of x and weights; not for a swiglu
  const void* norm = nullptr;  // weight [k] of an rms_norm of x ahead of the product; null: none
  float eps = 0;
  Activation activation = Activation::kNone;
  Layer layer[kMaxLayers];

  // Numbers the blocks of all layers consecutively. A block computes `results` results per row of x; gate and up of a
  // swiglu share their blocks. Returns the number of blocks.
  int64_t number_blocks(int64_t results, bool swiglu) {
    int64_t blocks = 0;
    for (int i = 0; i < (swiglu ? 1 : layers); ++i) {
      layer[i].first_block = blocks;
      blocks += (layer[i].n + results - 1) / results;
    }
    return blocks;
  }
#ifdef __CUDACC__
  // Returns the layer that a block belongs to; for a swiglu, gate's.
  template <bool kSwiglu>
  __device__ __forceinline__ int layer_of(int64_t block) const {
    int at = 0;
    if (!kSwiglu)
      while (at + 1 < layers && block >= layer[at + 1].first_block) ++at;
    return at;
  }
#endif
};

int gemv_splits(DType dtype, int64_t k);  // depends on k alone

// The stream and the early start of a launch, as in launch.h.
struct GemvStart {
  cudaStream_t stream = nullptr;
  bool can_use_pdl = false, early = false;
};

// Starts all layers of `gemv`. A swiglu computes y = silu(gate) * up, with gate and up first rounded to the dtype,
// which gives the same bits as two products and a swiglu. Returns false and starts nothing if the kernel does not
// support the call. x and all buffers of the layers start at multiples of 16 bytes.
using StartGemv = bool (*)(DType dtype, bool swiglu, const Gemv& gemv, const void* x, const GemvStart& start);

// Runs on every chip; does not support a norm.
bool start_gemv(DType dtype, bool swiglu, const Gemv& gemv, const void* x, const GemvStart& start);

// Creates a product that runs `start`, and start_gemv() if that returns false.
std::shared_ptr<const Gemm> create_gemv_with(const GemmProblem& problem, StartGemv start);

}  // namespace genesis::cuda
