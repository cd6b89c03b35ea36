// A matrix product of decoding with its memory on a GPU, with weights in some format, and reference sums in double precision.
// Timed by bench_gemv_times.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backends/common/decomposed_products.h"
#include "backends/cuda/gemm/few_rows/row_kernels.h"
#include "backends/cuda/gemm_list.h"
#include "backends/cuda/runtime/runtime.h"
#include "bench/gpu/byte_tile.h"

namespace genesis::bench {

// Layers whose weights are stored one after the other: `n` rows each, with `k` columns.
struct Shape {
  std::string name;
  std::vector<int64_t> n;
  int64_t k;
  bool has_norm = false, has_bias = false, has_addend = false, swiglu = false;

  int64_t rows() const {
    int64_t sum = 0;
    for (const int64_t each : n) sum += each;
    return sum;
  }
};

constexpr int kMaxRows = 32;  // maximum rows of x

enum class Format { kBf16, kQ8, kQ4 };

// The memory of one product: `copies` copies of its weights, and one of everything else.
class Product {
 public:
  Product(Shape shape, Format format);

  const Shape& shape() const { return shape_; }
  int64_t copies() const { return copies_; }
  int64_t bytes() const;

  // Describes the whole product in one launch, with the norm if it has one.
  cuda::RowProducts products(int m, int64_t copy) const;
  // Runs the product of the first weight as a library GEMM, without norm and swiglu.
  void run_library(int m, int64_t copy, const cuda::Launch& launch) const;
  // Runs the product as a model does without skinny_gemm: one library GEMM per weight, then swiglu. Returns false if there is
  // only one weight.
  bool run_decomposed(int m, const cuda::Launch& launch, int64_t copy) const;
  const void* x() const { return x_.get(); }

  void poison() const;
  // Returns the greatest error, relative to the allowed error.
  double error(int m);

 private:
  struct Sum {
    double value = 0, size = 0;  // `size`: root of the sum of squared terms
  };
  struct Expected {
    size_t at;  // index in y
    double value, allowed;
  };

  // The product as a linear node: op, inputs and outputs.
  struct Forms {
    ops::Linear op;
    std::vector<TensorType> inputs, outputs;
  };
  Forms forms_of(int m) const;
  static std::unique_ptr<DecomposedLinear> parts_of(const Forms& forms);
  void workspace_for(int64_t bytes) const;

  static int64_t round_up(int64_t bytes) { return (bytes + 255) / 256 * 256; }
  // Only a kernel with one row of x can include the norm.
  bool normalizes(int m) const { return shape_.has_norm && m == 1; }

  ByteTile tile_of_quants() const;
  ByteTile tile_of_scales() const;
  static std::shared_ptr<std::byte> upload(int64_t count, double low, double high,
                                           std::vector<float>& values);

  const void* quants_at(int64_t copy, int64_t row) const;
  const void* scales_at(int64_t copy, int64_t row) const;
  const void* bias_at(int64_t row) const { return shape_.has_bias ? bias_.get() + 2 * row : nullptr; }
  const void* addend() const { return shape_.has_addend ? addend_.get() : nullptr; }
  void* y_at(int64_t row) const { return y_.get() + 2 * kMaxRows * row; }

  double weight(int64_t row, int64_t k) const;
  Sum sum_of(int m, int row_of_x, int64_t row) const;
  Expected expect(int m, int row_of_x, int64_t row) const;

  Shape shape_;
  Format format_;
  ByteTile quants_, scales_;
  int64_t copies_ = 0, quants_each_ = 0, scales_each_ = 0;
  std::shared_ptr<std::byte> quants_memory_, scales_memory_, x_, gains_, bias_, addend_, y_;
  std::map<int, std::vector<Expected>> expected_;  // by rows of x
  mutable std::map<int, std::shared_ptr<const cuda::Gemm>> libraries_;
  mutable std::map<int, std::unique_ptr<DecomposedLinear>> parts_;
  mutable std::shared_ptr<std::byte> workspace_;
  mutable int64_t workspace_bytes_ = 0;
  std::vector<float> x_values_, gain_values_, bias_values_, addend_values_;
};

}  // namespace genesis::bench
