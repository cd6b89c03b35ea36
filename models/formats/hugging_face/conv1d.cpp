#include "models/formats/hugging_face/conv1d.h"

#include <algorithm>
#include <cstring>

#include "schema/core/parallel.h"

namespace genesis::models::hugging_face {
namespace {

constexpr int64_t kTile = 32;  // rows and columns of a tile that stays in cache between reading and writing

template <size_t kWidth>
void transpose(const std::byte* from, int64_t rows, int64_t columns, std::byte* to) {
  in_parallel(columns, kTile, [&](int64_t first, int64_t last) {
    for (int64_t i0 = 0; i0 < rows; i0 += kTile)
      for (int64_t j = first; j < last; ++j)
        for (int64_t i = i0; i < std::min(i0 + kTile, rows); ++i)
          std::memcpy(to + static_cast<size_t>(j * rows + i) * kWidth,
                      from + static_cast<size_t>(i * columns + j) * kWidth, kWidth);
  });
}

}  // namespace

bool is_conv1d(const Family& family, const std::string& name, const TensorType& type) {
  const auto& ends = family.hugging_face->stored_in_out;
  return type.shape.rank() == 2 &&
         std::ranges::any_of(ends, [&](const std::string& end) { return name.ends_with(end); });
}

Tensor transposed(const Tensor& matrix) {
  const int64_t rows = matrix.type().shape[0].value(), columns = matrix.type().shape[1].value();
  std::byte* data;
  Tensor result = Tensor::uninitialized({matrix.type().dtype, {columns, rows}}, &data);
  switch (size_of(matrix.type().dtype)) {
    case 1:
      transpose<1>(matrix.data(), rows, columns, data);
      break;
    case 2:
      transpose<2>(matrix.data(), rows, columns, data);
      break;
    case 4:
      transpose<4>(matrix.data(), rows, columns, data);
      break;
    default:
      transpose<8>(matrix.data(), rows, columns, data);
  }
  return result;
}

}  // namespace genesis::models::hugging_face
