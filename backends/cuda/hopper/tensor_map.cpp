#include "backends/cuda/hopper/tensor_map.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <iterator>

#include "backends/cuda/hopper/image_boxes.h"
#include "backends/cuda/runtime/libraries.h"
#include "schema/core/error.h"

namespace genesis::cuda {
namespace {

using Encode = decltype(&cuTensorMapEncodeTiled);

// Returns null if there is no driver, or one older than the chips that need this.
Encode encoder() {
  static const Encode found = []() -> Encode {
    try {
      return driver().function<Encode>("cuTensorMapEncodeTiled");
    } catch (const Error&) {
      return nullptr;
    }
  }();
  return found;
}

// `sizes` and `box` count elements, innermost first; `bytes` are the strides of all axes except the innermost.
template <size_t kRank>
bool encode(const void* data, const cuuint64_t (&sizes)[kRank], const cuuint64_t (&bytes)[kRank - 1],
            const cuuint32_t (&box)[kRank], CUtensorMap& map,
            CUtensorMapSwizzle swizzle = CU_TENSOR_MAP_SWIZZLE_128B) {
  cuuint32_t steps[kRank];
  std::fill(std::begin(steps), std::end(steps), 1);
  return encoder()(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, kRank, const_cast<void*>(data), sizes, bytes, box,
                   steps, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                   CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

}  // namespace

bool has_hopper_kernel(const void* kernel, size_t shared_bytes) {
  cudaFuncAttributes attributes{};
  const bool is_here = encoder() && cudaFuncGetAttributes(&attributes, kernel) == cudaSuccess &&
                       attributes.sharedSizeBytes > 0 &&
                       cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                            static_cast<int>(shared_bytes)) == cudaSuccess;
  cudaGetLastError();
  return is_here;
}

bool make_tensor_map(const BoxedMatrix& m, CUtensorMap& map) {
  const auto columns = static_cast<cuuint64_t>(m.columns), rows = static_cast<cuuint64_t>(m.rows);
  return encode<2>(m.data, {columns, rows}, {columns * 2}, {64, static_cast<cuuint32_t>(m.box_rows)}, map);
}

bool make_heads_map(const HeadsInBoxes& x, CUtensorMap& map) {
  const auto size = [](int64_t n) { return static_cast<cuuint64_t>(n); };
  return encode<4>(x.data, {size(x.size), size(x.rows), size(x.heads), size(x.batch)},
                   {size(x.row_step) * 2, size(x.head_step) * 2, size(x.batch_step) * 2},
                   {64, static_cast<cuuint32_t>(x.box_rows), 1, 1}, map);
}

bool make_dense_map(const DenseBoxes& m, CUtensorMap& map) {
  return encode<2>(m.data, {static_cast<cuuint64_t>(m.columns), static_cast<cuuint64_t>(m.rows)},
                   {static_cast<cuuint64_t>(m.row_step) * 2},
                   {static_cast<cuuint32_t>(m.box_columns), static_cast<cuuint32_t>(m.box_rows)}, map,
                   CU_TENSOR_MAP_SWIZZLE_NONE);
}

bool make_images_map(const ImagesInBoxes& x, CUtensorMap& map) {
  const auto size = [](int64_t n) { return static_cast<cuuint64_t>(n); };
  const auto boxed = [](int n) { return static_cast<cuuint32_t>(n); };
  return encode<4>(
      x.data, {size(x.channels), size(x.columns), size(x.rows), size(x.images)},
      {size(x.channels) * 2, size(x.columns * x.channels) * 2, size(x.rows * x.columns * x.channels) * 2},
      {boxed(x.box_channels), boxed(x.box_columns), boxed(x.box_rows), boxed(x.box_images)}, map,
      CU_TENSOR_MAP_SWIZZLE_NONE);
}

}  // namespace genesis::cuda
