#include "models/formats/pt2/archive.h"

#include <cstring>

#include "models/formats/pt2/call.h"
#include "schema/core/checked_size.h"
#include "schema/core/error.h"
#include "schema/file/json_text.h"
#include "schema/file/tensor_from_bytes.h"

namespace genesis::models::pt2 {
namespace {

using nlohmann::json;

constexpr std::string_view kProgram = "models/model.json";
constexpr size_t kMaxJson = size_t{512} << 20;
constexpr int64_t kSchema = 8;

int64_t constant(const json& size) {
  if (!size.contains("as_int")) fail("a size of a stored tensor is {}: expected a number", size.dump());
  const auto value = size.at("as_int").get<int64_t>();
  if (value < 0) fail("a size of a stored tensor is {}", value);
  return value;
}
std::vector<int64_t> constants(const json& sizes) {
  std::vector<int64_t> values;
  for (const json& size : sizes) values.push_back(constant(size));
  return values;
}

bool is_dense(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides) {
  int64_t expected = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    if (sizes[i] != 1 && strides[i] != expected) return false;
    expected = checked_mul(expected, sizes[i]);
  }
  return true;
}

// Copies a tensor whose elements are not stored in the order of its axes.
Tensor gathered(const TensorType& type, const std::vector<int64_t>& strides,
                std::span<const std::byte> bytes) {
  const size_t each = size_of(type.dtype);
  const std::vector<int64_t> sizes = type.shape.sizes();
  int64_t last = 0;
  for (size_t i = 0; i < sizes.size(); ++i) last = checked_add(last, checked_mul(sizes[i] - 1, strides[i]));
  if (checked_mul(checked_add(last, 1), static_cast<int64_t>(each)) > static_cast<int64_t>(bytes.size()))
    fail("its strides reach beyond its {} bytes", bytes.size());
  std::byte* data;
  Tensor result = Tensor::uninitialized(type, &data);
  std::vector<int64_t> at(sizes.size());
  for (int64_t i = 0; i < type.numel(); ++i) {
    int64_t from = 0;
    for (size_t axis = 0; axis < sizes.size(); ++axis) from += at[axis] * strides[axis];
    std::memcpy(data + static_cast<size_t>(i) * each, bytes.data() + static_cast<size_t>(from) * each, each);
    for (size_t axis = sizes.size(); axis-- > 0 && ++at[axis] == sizes[axis];) at[axis] = 0;
  }
  check_bools(type.dtype, {data, static_cast<size_t>(type.bytes())});
  return result;
}

}  // namespace

TensorType constant_type(const json& meta) {
  return {dtype_of(meta.at("dtype").get<int64_t>()), Shape::of(constants(meta.at("sizes")))};
}

Archive::Archive(const std::filesystem::path& path) : zip_(read_zip(path)) {
  for (const auto& [name, bytes] : zip_.entries)
    if (name == kProgram || name.ends_with("/" + std::string(kProgram)))
      root_ = name.substr(0, name.size() - kProgram.size());
  if (root_.empty() && !zip_.entries.contains(std::string(kProgram)))
    fail("the archive has no '{}': it is no program of torch.export.save() of PyTorch 2.10 or later",
         kProgram);
  if (const auto order = zip_.entries.find(root_ + "byteorder"); order != zip_.entries.end())
    if (std::string(reinterpret_cast<const char*>(order->second.data()), order->second.size()) != "little")
      fail("its numbers are big-endian, which is not read");
  program_ = json_of(std::string(kProgram));
  const json& version = program_.at("schema_version");
  if (version.at("major") != kSchema)
    fail(
        "its schema is {}.{}, expected {}: PyTorch {} wrote it; export the model again with a version that "
        "writes schema {}",
        version.at("major").dump(), version.at("minor").dump(), kSchema, program_.value("torch_version", "?"),
        kSchema);
  read_config("data/weights/", "model_weights_config.json");
  read_config("data/constants/", "model_constants_config.json");
}

std::span<const std::byte> Archive::entry(const std::string& name) const {
  const auto found = zip_.entries.find(root_ + name);
  if (found == zip_.entries.end()) fail("the archive has no entry '{}{}'", root_, name);
  return found->second;
}

json Archive::json_of(const std::string& name) const {
  const std::span<const std::byte> bytes = entry(name);
  if (bytes.size() > kMaxJson)
    fail("its entry '{}' has {} bytes, the limit is {}", name, bytes.size(), kMaxJson);
  const auto offset = static_cast<size_t>(bytes.data() - zip_.file->bytes().data());
  const std::vector<std::byte> copy = zip_.file->copy(offset, bytes.size());
  const std::string_view text(reinterpret_cast<const char*>(copy.data()), copy.size());
  return parse_json_object(text, "its entry '" + name + "'");
}

void Archive::read_config(const std::string& folder, const std::string& name) {
  if (!zip_.entries.contains(root_ + folder + name)) return;
  const json config = json_of(folder + name);
  for (const auto& [tensor, about] : config.at("config").items()) {
    if (about.at("use_pickle").get<bool>())
      fail("the tensor '{}' is stored as a pickle, which is not read", tensor);
    tensors_[tensor] = {folder + about.at("path_name").get<std::string>(), about.at("tensor_meta")};
  }
}

const Archive::Stored& Archive::stored(const std::string& name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) fail("the archive has no tensor '{}'", name);
  return found->second;
}

std::string Archive::key_of(const std::string& name) const {
  const Stored& at = stored(name);
  json layout = {at.meta.at("dtype"), at.meta.at("sizes"), at.meta.at("strides"),
                 at.meta.at("storage_offset")};
  return at.entry + layout.dump();
}

Tensor Archive::tensor(const std::string& name) const {
  return with_context(
      [&] {
        const Stored& at = stored(name);
        const TensorType type = constant_type(at.meta);
        std::span<const std::byte> bytes = entry(at.entry);
        const CheckedSize begin =
            CheckedSize(constant(at.meta.at("storage_offset"))) * static_cast<int64_t>(size_of(type.dtype));
        if (begin.value() > static_cast<int64_t>(bytes.size()))
          fail("it begins beyond its {} bytes", bytes.size());
        bytes = bytes.subspan(static_cast<size_t>(begin.value()));
        const std::vector<int64_t> strides = constants(at.meta.at("strides"));
        if (strides.size() != static_cast<size_t>(type.shape.rank()))
          fail("it has {} strides", strides.size());
        if (type.numel() == 0) return tensor_from_bytes(type, zip_.file, {});
        if (!is_dense(type.shape.sizes(), strides)) return gathered(type, strides, bytes);
        if (type.bytes() > static_cast<int64_t>(bytes.size()))
          fail("{} has only {} bytes", type.to_string(), bytes.size());
        return tensor_from_bytes(type, zip_.file, bytes.first(static_cast<size_t>(type.bytes())));
      },
      [&] { return fmt::format("in the tensor '{}'", name); });
}

}  // namespace genesis::models::pt2
