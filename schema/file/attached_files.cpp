#include "schema/file/attached_files.h"

namespace genesis {

void attach_file(Model& model, const std::string& name, std::string_view bytes) {
  const TensorType type{DType::u8, {static_cast<int64_t>(bytes.size())}};
  model.files.insert_or_assign(name, Tensor::copy_of(type, bytes.data()));
}

std::optional<std::string_view> attached_file(const Model& model, std::string_view name) {
  const auto found = model.files.find(name);
  if (found == model.files.end()) return std::nullopt;
  const Tensor& bytes = found->second;
  return std::string_view(reinterpret_cast<const char*>(bytes.data()), static_cast<size_t>(bytes.bytes()));
}

}  // namespace genesis
