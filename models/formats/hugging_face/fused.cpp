#include "models/formats/hugging_face/fused.h"

#include <cstring>

namespace genesis::models::hugging_face {
namespace {

// Returns the number of rows of each part in the model; empty if the model lacks one of them.
std::vector<int64_t> rows_of(const Model& model, const std::vector<std::string>& parts) {
  std::vector<int64_t> rows;
  for (const std::string& part : parts) {
    const int32_t state = model.find_state(part);
    if (state < 0) return {};
    const Shape& shape = model.state(state).type.shape;
    rows.push_back(shape[rows_axis(shape)].value());
  }
  return rows;
}

void check_rows(const std::string& name, const Tensor& whole, int64_t rows) {
  const Shape& shape = whole.type().shape;
  if ((shape.rank() != 2 && shape.rank() != 3) || shape[rows_axis(shape)].value() != rows)
    fail("tensor '{}' is {}, expected a matrix of {} rows, which the sizes of the model give", name,
         whole.type().to_string(), rows);
}

// Returns the rows of each matrix of a stack [matrices, rows, columns], as a copy.
Tensor rows_of_matrices(const Tensor& whole, int64_t first, int64_t count) {
  const TensorType& type = whole.type();
  const int64_t matrices = type.shape[0].value(), rows = type.shape[1].value();
  const int64_t row_bytes = type.numel() == 0 ? 0 : type.bytes() / (matrices * rows);
  std::byte* data;
  Tensor part = Tensor::uninitialized({type.dtype, {matrices, count, type.shape[2]}}, &data);
  for (int64_t i = 0; i < matrices; ++i)
    std::memcpy(data + i * count * row_bytes, whole.data() + (i * rows + first) * row_bytes,
                static_cast<size_t>(count * row_bytes));
  return part;
}

}  // namespace

std::vector<std::string> parts_of(const std::vector<FusedWeights>& all, const std::string& name) {
  std::vector<std::string> names;
  for (const FusedWeights& fused : all)
    if (name.ends_with(fused.whole))
      for (const std::string& part : fused.parts)
        names.push_back(name.substr(0, name.size() - fused.whole.size()) + part);
  return names;
}

int rows_axis(const Shape& shape) { return shape.rank() == 3 ? 1 : 0; }

Tensor rows_between(const Tensor& whole, int64_t first, int64_t count) {
  const TensorType& type = whole.type();
  if (type.shape.rank() == 3) return rows_of_matrices(whole, first, count);
  const int64_t rows = type.shape[0].value(), row_bytes = rows == 0 ? 0 : type.bytes() / rows;
  return {{type.dtype, {count, type.shape[1]}},
          std::make_shared<const Tensor>(whole),
          whole.data() + first * row_bytes};
}

void split_fused(const Model& model, const std::vector<FusedWeights>& fused, NamedTensors& tensors) {
  NamedTensors parts;
  std::erase_if(tensors, [&](const auto& named) {
    const auto& [name, whole] = named;
    const std::vector<std::string> names = parts_of(fused, name);
    const std::vector<int64_t> rows = rows_of(model, names);
    if (rows.empty()) return false;
    if (rows.size() == 1) {  // another name for the same tensor
      parts.emplace(names.front(), whole);
      return true;
    }
    int64_t all = 0;
    for (const int64_t count : rows) all += count;
    check_rows(name, whole, all);
    for (int64_t i = 0, first = 0; i < std::ssize(rows); first += rows[static_cast<size_t>(i++)])
      parts.emplace(names[static_cast<size_t>(i)], rows_between(whole, first, rows[static_cast<size_t>(i)]));
    return true;
  });
  tensors.merge(parts);
}

void split_fused(const Model& model, const Family& family, NamedTensors& tensors) {
  split_fused(model, family.hugging_face->fused, tensors);
}

PartOfFused fused_of(const Family& family, const std::string& name) {
  for (const FusedWeights& fused : family.hugging_face->fused)
    for (const std::string& part : fused.parts)
      if (name.ends_with(part)) {
        const std::string whole = name.substr(0, name.size() - part.size()) + fused.whole;
        return {whole, parts_of(family.hugging_face->fused, whole)};
      }
  return {};
}

Tensor joined_rows(const std::vector<Tensor>& parts) {
  if (parts.size() == 1) return parts.front();
  const TensorType& type = parts.front().type();
  const int axis = rows_axis(type.shape);
  const int64_t matrices = axis == 0 ? 1 : type.shape[0].value();
  Shape shape = type.shape;
  shape[axis] = 0;
  for (const Tensor& part : parts) shape[axis] = shape[axis] + part.type().shape[axis];
  std::byte* data;
  Tensor whole = Tensor::uninitialized({type.dtype, shape}, &data);
  for (int64_t i = 0; i < matrices; ++i)
    for (const Tensor& part : parts) {
      const int64_t bytes = part.bytes() / matrices;
      std::memcpy(data, part.data() + i * bytes, static_cast<size_t>(bytes));
      data += bytes;
    }
  return whole;
}

}  // namespace genesis::models::hugging_face
