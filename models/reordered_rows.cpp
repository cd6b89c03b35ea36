#include "models/reordered_rows.h"

#include <cstring>

#include "schema/core/error.h"

namespace genesis::models {
namespace {

int64_t rows_in(const Tensor& tensor) {
  const Shape& shape = tensor.type().shape;
  if (shape.rank() == 0) return 1;
  const int64_t last = shape[shape.rank() - 1].value();
  if (shape.rank() == 1) return last;
  return last == 0 ? 0 : tensor.type().numel() / last;
}

// Copies elements: element i of the result is element source(i).
template <typename Source>
Tensor elements(const Tensor& from, const Shape& shape, const Source& source) {
  const auto size = static_cast<int64_t>(size_of(from.type().dtype));
  std::byte* data;
  Tensor result = Tensor::uninitialized({from.type().dtype, shape}, &data);
  for (int64_t i = 0; i < result.type().numel(); ++i)
    std::memcpy(data + i * size, from.data() + source(i) * size, static_cast<size_t>(size));
  return result;
}

}  // namespace

Tensor rows_in_order(const std::vector<Tensor>& parts, const std::vector<int64_t>& order) {
  std::vector<const std::byte*> rows;
  const int64_t first = rows_in(parts.at(0)), row_bytes = first == 0 ? 0 : parts[0].bytes() / first;
  for (const Tensor& part : parts) {
    if (parts.size() > 1 && part.type().shape.rank() < 2)
      fail("one of its parts has the shape {}, expected rows", part.type().shape.to_string());
    if (const int64_t count = rows_in(part); count > 0 && part.bytes() / count != row_bytes)
      fail("its parts have rows of {} and {} bytes", row_bytes, part.bytes() / count);
    for (int64_t row = 0; row < rows_in(part); ++row) rows.push_back(part.data() + row * row_bytes);
  }
  if (rows.size() != order.size())
    fail("there are {} rows, expected {} by the sizes in the metadata", rows.size(), order.size());
  const Shape& shape = parts[0].type().shape;
  const bool keeps_shape = parts.size() == 1;
  std::byte* data;
  Tensor result =
      Tensor::uninitialized({parts[0].type().dtype,
                             keeps_shape ? shape : Shape{std::ssize(order), shape[shape.rank() - 1].value()}},
                            &data);
  for (size_t i = 0; i < order.size(); ++i)
    std::memcpy(data + static_cast<int64_t>(i) * row_bytes, rows.at(static_cast<size_t>(order[i])),
                static_cast<size_t>(row_bytes));
  return result;
}

Tensor columns_in_order(const Tensor& matrix, const std::vector<int64_t>& order) {
  const Shape& shape = matrix.type().shape;
  const int64_t columns = std::ssize(order);
  if (shape.rank() != 2 || shape[1].value() != columns)
    fail("its shape is {}, expected {} columns by the sizes in the metadata", shape.to_string(), columns);
  return elements(matrix, shape,
                  [&](int64_t i) { return i / columns * columns + order[static_cast<size_t>(i % columns)]; });
}

Tensor transposed_matrices(const Tensor& matrices) {
  const Shape& shape = matrices.type().shape;
  if (shape.rank() != 3) fail("its shape is {}, expected three axes", shape.to_string());
  const int64_t a = shape[1].value(), b = shape[2].value();
  return elements(matrices, Shape{shape[0].value(), b, a}, [&](int64_t i) {
    const int64_t matrix = i / (a * b), at = i % (a * b);
    return matrix * a * b + at % a * b + at / a;
  });
}

}  // namespace genesis::models
