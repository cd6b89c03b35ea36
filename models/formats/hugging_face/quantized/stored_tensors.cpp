#include "models/formats/hugging_face/quantized/stored_tensors.h"

#include <algorithm>

#include "schema/core/small_floats.h"

namespace genesis::models::hugging_face::quantized {
namespace {

std::vector<float> looked_up(const StoredTensor& tensor, std::span<const float> table) {
  std::vector<float> numbers(static_cast<size_t>(tensor.numel()));
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = table[std::to_integer<size_t>(tensor.data()[i])];
  return numbers;
}

}  // namespace

std::vector<float> StoredTensor::numbers() const {
  if (dtype == "F8_E4M3") return looked_up(*this, kE4M3);
  if (dtype == "F8_E5M2") return looked_up(*this, kE5M2);
  if (dtype == "F8_E8M0" || dtype == "U8") return looked_up(*this, kE8M0);
  if (!is_float(bytes.dtype())) fail("scales that are {} are not read", dtype);
  const Tensor wide = bytes.to(DType::f32);
  const auto numbers = wide.as<float>();
  return {numbers.begin(), numbers.end()};
}

std::optional<StoredTensor> StoredTensors::find(const std::string& name) const {
  if (const auto at = tensors_.find(name); at != tensors_.end())
    return StoredTensor{std::string(safetensors_name(at->second.dtype())), at->second.shape(), at->second};
  if (const auto at = others_.find(name); at != others_.end())
    return StoredTensor{at->second.dtype, at->second.shape, at->second.bytes};
  return std::nullopt;
}

std::optional<StoredTensor> StoredTensors::take(const std::string& name) {
  std::optional<StoredTensor> found = find(name);
  if (found && found->numel() == 0) fail("'{}' is {}, without elements", name, found->to_string());
  tensors_.erase(name);
  others_.erase(name);
  return found;
}

std::vector<std::string> StoredTensors::names_before(std::string_view end) const {
  std::vector<std::string> names;
  const auto add = [&](const auto& tensors) {
    for (const auto& [name, tensor] : tensors)
      if (name.ends_with(end)) names.push_back(name.substr(0, name.size() - end.size()));
  };
  add(tensors_);
  add(others_);
  std::ranges::sort(names);
  return names;
}

size_t StoredTensors::drop(std::string_view end) {
  const auto ends_so = [&](const auto& named) { return named.first.ends_with(end); };
  return std::erase_if(tensors_, ends_so) + std::erase_if(others_, ends_so);
}

}  // namespace genesis::models::hugging_face::quantized
