// The end of a row: what becomes of a finished sum, or of the sums of gate and up, in all kernels of few rows. The kernels differ
// in how they add their partial sums, so their results differ; from the sum on they are the same.
#pragma once

#include "backends/cuda/device/activate.h"
#include "backends/cuda/device/number.h"
#include "backends/cuda/device/swiglu_formula.h"
#include "backends/cuda/gemm/few_rows/row_products.h"

namespace genesis::cuda {

// Returns swiglu of two sums, both first rounded to T like the results of two products.
template <class T>
__device__ __forceinline__ float gated_sums(float gate, float up) {
  return gated<T>(widen(narrow<T>(gate)), widen(narrow<T>(up)));
}

// One element of y: its index, and the values that are added to its sum. `swiglu` is p.swiglu; kernels for one of both cases
// pass a constant.
template <class T>
struct RowResult {
  int64_t at = -1;  // index in y; -1: none
  float bias = 0, up_bias = 0, addend = 0;

  // Reads the values of row m of x and `row` of the layer. A kernel may do so before the sum is ready.
  __device__ __forceinline__ void read(const RowProducts& p, const RowProducts::Layer& layer, bool swiglu,
                                       int64_t m, int64_t row) {
    at = m * layer.ldc + row;
    if (layer.bias) bias = widen(static_cast<const T*>(layer.bias)[row]);
    if (swiglu && p.layer[1].bias) up_bias = widen(static_cast<const T*>(p.layer[1].bias)[row]);
    // Not only without a swiglu, though a swiglu has no addend: with the same condition as its use, the compiler would move the
    // load behind the sum, which then waits for it.
    if (layer.addend) addend = addend_at<T>(layer.addend, at, p.wide);
  }
  // Computes y from its sum, or from the sums of gate and up.
  __device__ __forceinline__ void finish(const RowProducts& p, const RowProducts::Layer& layer, bool swiglu,
                                         float sum, float up) const {
    if (layer.bias) sum += bias;
    if (swiglu) {
      if (p.layer[1].bias) up += up_bias;
      sum = gated_sums<T>(sum, up);
    } else {
      sum = activate(sum, p.activation);
      if (layer.addend) sum += addend;
    }
    put_result<T>(layer.y, at, !swiglu && p.wide, sum);
  }
};

}  // namespace genesis::cuda
