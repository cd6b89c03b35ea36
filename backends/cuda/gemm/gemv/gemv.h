// A GEMV: one row of x, or a few, against weights [n, k] of one layer or several. Each weight is read once, at the memory's
// speed, 16 bytes at a time; how k is split among warps depends on k alone, so that a result has the same bits whatever it is
// computed beside. gemv.cu has the kernel for every chip, ../gemv_prefetch one that adds up in the same order. Single products are
// rows of gemm_ways.h, several weights in one start those of linear_gemv.h.
#pragma once

#include "backends/cuda/gemm/gemm_ways.h"

namespace genesis::cuda {

// Rows of x. In 16 bits more than four are faster by tensor cores (6 texts of Qwen2.5-0.5B on an H100: 1.41 ms a token, and 0.77).
constexpr int64_t max_gemv_rows(size_t element_bytes) { return element_bytes == 4 ? 8 : 4; }

struct Gemv {
  struct Layer {
    const void *weight = nullptr, *bias = nullptr;
    const void* addend = nullptr;  // as y lies, which it may be; null: none
    void* y = nullptr;
    int64_t n = 0, ldc = 0;
    int64_t first_block = 0;  // number_blocks()
  };
  static constexpr int kMaxLayers = 8;

  int64_t m = 0, k = 0, lda = 0;
  int splits = 1;              // warps that share a group of weight rows: gemv_splits()
  int layers = 1;              // of a swiglu: gate and up
  bool independent = false;    // all weights are there before the kernels ahead have ended
  bool wide = false;           // y and addends are f32, whatever x and the weights are; not of a swiglu
  const void* norm = nullptr;  // x is normalised first (rms_norm) with this weight [k]; null: as it is
  float eps = 0;
  Activation activation = Activation::kNone;
  Layer layer[kMaxLayers];

  // One layer's blocks stand behind the other's, each with so many results of a row of x; a swiglu's gate and up share theirs. Returns
  // how many blocks there are.
  int64_t number_blocks(int64_t results, bool swiglu) {
    int64_t blocks = 0;
    for (int i = 0; i < (swiglu ? 1 : layers); ++i) {
      layer[i].first_block = blocks;
      blocks += (layer[i].n + results - 1) / results;
    }
    return blocks;
  }
#ifdef __CUDACC__
  // Whose block that is; of a swiglu gate's.
  template <bool kSwiglu>
  __device__ __forceinline__ int layer_of(int64_t block) const {
    int at = 0;
    if (!kSwiglu)
      while (at + 1 < layers && block >= layer[at + 1].first_block) ++at;
    return at;
  }
#endif
};

// Depends on k alone.
int gemv_splits(DType dtype, int64_t k);

// Where they start, as launch.h has it.
struct GemvStart {
  cudaStream_t stream = nullptr;
  bool can_use_pdl = false, early = false;
};

// Starts all layers of `gemv`, of a swiglu y = silu(gate) * up with gate and up rounded to the dtype first: the bits of two
// products and a swiglu. False, and nothing started, where the kernel does not do that. x starts at a multiple of 16 bytes, as
// all of the layers does.
using StartGemv = bool (*)(DType dtype, bool swiglu, const Gemv& gemv, const void* x, const GemvStart& start);

// On every chip; not with a norm.
bool start_gemv(DType dtype, bool swiglu, const Gemv& gemv, const void* x, const GemvStart& start);

// A product that another kernel starts, which this one stands in for.
std::shared_ptr<const Gemm> create_gemv_with(const GemmProblem& problem, StartGemv start);

}  // namespace genesis::cuda
