#include "backends/cuda/tensor_map.h"

#include "backends/cuda/libraries.h"
#include "schema/error.h"

namespace genesis::cuda {
namespace {

using Encode = decltype(&cuTensorMapEncodeTiled);

// Null where there is no driver, or one older than the chips that need it.
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

}  // namespace

bool has_tensor_maps() { return encoder() != nullptr; }

bool make_tensor_map(const BoxedMatrix& m, CUtensorMap& map) {
  const cuuint64_t sizes[] = {static_cast<cuuint64_t>(m.columns), static_cast<cuuint64_t>(m.rows)};
  const cuuint64_t row_bytes[] = {sizes[0] * 2};
  const cuuint32_t box[] = {64, static_cast<cuuint32_t>(m.box_rows)};
  const cuuint32_t steps[] = {1, 1};
  return encoder()(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, const_cast<void*>(m.data), sizes, row_bytes,
                   box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                   CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

}  // namespace genesis::cuda
