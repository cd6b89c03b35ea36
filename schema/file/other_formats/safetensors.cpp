#include "schema/file/other_formats/safetensors.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>

#include "schema/file/io/atomic_write.h"
#include "schema/file/io/mapped_file.h"
#include "schema/file/json_text.h"
#include "schema/file/tensor_from_bytes.h"

namespace genesis {
namespace {

using nlohmann::json;

// Layout: u64 length of the header, the header, the data. The header:
// {"__metadata__": {"k": "v"}, "name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}, ...}
constexpr size_t kLengthBytes = 8;
// The format's own limits. The levels are the header object, an object per tensor, a list in it.
constexpr uint64_t kMaxHeader = 100'000'000;
constexpr JsonLimits kHeaderLimits = {.depth = 3, .unique_names = true, .may_have_mark = false};
constexpr int64_t kMaxBits = int64_t{1} << 62;

// The format's names of dtypes, indexed by the number of the DType.
constexpr std::array<std::string_view, kNumDTypes> kNames = {"F32", "F64", "F16", "BF16", "I8",
                                                             "U8",  "I16", "I32", "I64",  "BOOL"};

// Dtypes of the format that this library does not support, and their bits.
struct OtherDtype {
  std::string_view name;
  int64_t bits;
};
constexpr OtherDtype kOthers[] = {{"F4", 4},          {"F6_E2M3", 6}, {"F6_E3M2", 6},     {"F8_E4M3", 8},
                                  {"F8_E4M3FNUZ", 8}, {"F8_E5M2", 8}, {"F8_E5M2FNUZ", 8}, {"F8_E8M0", 8},
                                  {"U16", 16},        {"U32", 32},    {"U64", 64},        {"C64", 64}};

DType dtype_named(const std::string& name) {
  const auto at = std::ranges::find(kNames, name);
  if (at == kNames.end())
    fail("its dtype '{}' is not supported; supported are {}", name.substr(0, 40), fmt::join(kNames, " "));
  return static_cast<DType>(at - kNames.begin());
}

const json& field(const json& object, const char* key) {
  if (!object.is_object() || !object.contains(key)) fail("'{}' is missing", key);
  return object.at(key);
}

std::vector<int64_t> sizes_in(const json& list, const char* what, size_t limit) {
  if (!list.is_array() || list.size() > limit) fail("'{}' is not a list of at most {} numbers", what, limit);
  std::vector<int64_t> numbers;
  for (const json& item : list) {
    if (!item.is_number_unsigned() || item.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX))
      fail("'{}' holds something else than sizes", what);
    numbers.push_back(item.get<int64_t>());
  }
  return numbers;
}

struct Entry {
  std::string name;
  std::string dtype;  // the file's spelling
  Shape shape;
  uint64_t begin, end;  // within the data
};

Entry parse_entry(const std::string& name, const json& row) {
  constexpr size_t kMaxName = 4096;
  if (name.size() > kMaxName) fail("a name of {} bytes, the limit is {}", name.size(), kMaxName);
  const json& dtype = field(row, "dtype");
  if (!dtype.is_string()) fail("'dtype' is not a text");
  const Shape shape = Shape::of(sizes_in(field(row, "shape"), "shape", kMaxRank));
  const std::vector<int64_t> place = sizes_in(field(row, "data_offsets"), "data_offsets", 2);
  if (place.size() != 2 || place[0] > place[1]) fail("'data_offsets' is not a begin and an end");
  return {name, dtype.get<std::string>(), shape, static_cast<uint64_t>(place[0]),
          static_cast<uint64_t>(place[1])};
}

// Returns true for a dtype that the format has and this library lacks. Throws Error if the number of bytes does not match the
// tensor's shape.
bool is_of_other_dtype(const Entry& entry) {
  const auto* const other = std::ranges::find(kOthers, entry.dtype, &OtherDtype::name);
  if (other == std::end(kOthers)) return false;
  const auto bytes = static_cast<int64_t>(entry.end - entry.begin);
  const int64_t elements = entry.shape.numel().value();
  if (elements > kMaxBits / other->bits || elements * other->bits != bytes * 8)
    fail("{} elements of {} do not take {} bytes", elements, entry.dtype, bytes);
  return true;
}

// A null object means no metadata, as in the safetensors library.
std::map<std::string, std::string> parse_metadata(const json& object) {
  if (object.is_null()) return {};
  if (!object.is_object()) fail("its '__metadata__' is not an object of texts");
  std::map<std::string, std::string> metadata;
  for (const auto& [key, value] : object.items()) {
    if (!value.is_string()) fail("its '__metadata__' is not an object of texts");
    metadata.emplace(key, value.get<std::string>());
  }
  return metadata;
}

// Checks that the tensors fill the data exactly: the format allows no gap, no overlap and nothing left over.
void check_cover(std::vector<Entry>& entries, uint64_t data_bytes) {
  const auto place = [](const Entry& e) { return std::tie(e.begin, e.end, e.name); };
  std::ranges::sort(entries, {}, place);
  uint64_t end = 0;
  for (const Entry& entry : entries) {
    if (entry.begin != end)
      fail("tensor '{}' begins at {}, the one before it ends at {}", entry.name, entry.begin, end);
    end = entry.end;
  }
  if (end != data_bytes) fail("its tensors take {} bytes, it holds {}", end, data_bytes);
}

using TensorsToWrite = std::map<std::string, TensorToWrite>;
using Metadata = std::map<std::string, std::string>;

json header_of(const TensorsToWrite& tensors, const Metadata& metadata,
               const std::vector<const std::string*>& order) {
  json header = json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  uint64_t at = 0;
  for (const std::string* name : order) {
    const TensorType& type = tensors.at(*name).type;
    const uint64_t end = at + static_cast<uint64_t>(type.bytes());
    header[*name] = {
        {"dtype", safetensors_name(type.dtype)}, {"shape", type.shape.sizes()}, {"data_offsets", {at, end}}};
    at = end;
  }
  return header;
}

// Orders the widest elements first, so that all tensors are aligned, given a header of a multiple of 8 bytes.
std::vector<const std::string*> writing_order(const TensorsToWrite& tensors) {
  std::vector<const std::string*> order;
  for (const auto& [name, tensor] : tensors) order.push_back(&name);
  std::ranges::stable_sort(order, [&](auto* a, auto* b) {
    return size_of(tensors.at(*a).type.dtype) > size_of(tensors.at(*b).type.dtype);
  });
  return order;
}

std::string header_text(const json& header) {
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  if (text.size() > kMaxHeader) fail("the header takes {} bytes, the limit is {}", text.size(), kMaxHeader);
  return text;
}

void write_contents(const std::filesystem::path& path, const TensorsToWrite& tensors,
                    const Metadata& metadata, const std::function<void(uint64_t)>& on_written) {
  const std::vector<const std::string*> order = writing_order(tensors);
  const std::string header = header_text(header_of(tensors, metadata, order));
  const uint64_t length = header.size();
  uint64_t total = kLengthBytes + length, written = 0;
  for (const auto& [name, tensor] : tensors) total += static_cast<uint64_t>(tensor.type.bytes());
  AtomicFile file(path, total);
  file.write(std::as_bytes(std::span(&length, 1)));
  file.write(std::as_bytes(std::span(header)));
  for (const std::string* name : order) {
    const Tensor tensor = tensors.at(*name).make();
    GENESIS_ASSERT(tensor.type() == tensors.at(*name).type);
    file.write({tensor.data(), static_cast<size_t>(tensor.bytes())});
    if (on_written) on_written(written += static_cast<uint64_t>(tensor.bytes()));
  }
  file.commit();
}

}  // namespace

namespace {

void take_entry(const Entry& entry, const std::shared_ptr<const void>& owner, std::span<const std::byte> data,
                SafeTensors& contents, OtherTensors* others) {
  const auto bytes = data.subspan(entry.begin, entry.end - entry.begin);
  if (others && is_of_other_dtype(entry)) {
    const TensorType type{DType::u8, {static_cast<int64_t>(bytes.size())}};
    others->emplace(entry.name, OtherTensor{entry.dtype, entry.shape, tensor_from_bytes(type, owner, bytes)});
    return;
  }
  const TensorType type{dtype_named(entry.dtype), entry.shape};
  contents.tensors.emplace(entry.name, tensor_from_bytes(type, owner, bytes));
}

}  // namespace

std::string_view safetensors_name(DType dtype) { return kNames[static_cast<size_t>(dtype)]; }

SafeTensors read_safetensors_from(const std::shared_ptr<const void>& owner, std::span<const std::byte> bytes,
                                  OtherTensors* others) {
  uint64_t length = 0;
  if (bytes.size() < kLengthBytes) fail("it is not a .safetensors file: {} bytes long", bytes.size());
  std::memcpy(&length, bytes.data(), kLengthBytes);
  bytes = bytes.subspan(kLengthBytes);
  if (length > kMaxHeader) fail("its header of {} bytes is over the limit of {}", length, kMaxHeader);
  if (length > bytes.size()) fail("it is cut short in its header of {} bytes", length);
  // Copies the header, so that a concurrent writer of the file cannot change what was checked.
  const std::string text(reinterpret_cast<const char*>(bytes.data()), length);
  const json header = parse_json_object(text, "its header", kHeaderLimits);
  const auto data = bytes.subspan(length);
  SafeTensors contents;
  std::vector<Entry> entries;
  for (const auto& item : header.items()) {
    if (item.key() == "__metadata__")
      contents.metadata = parse_metadata(item.value());
    else
      entries.push_back(with_context([&] { return parse_entry(item.key(), item.value()); },
                                     [&] { return "in tensor '" + item.key() + "'"; }));
  }
  check_cover(entries, data.size());
  for (const Entry& entry : entries)
    with_context([&] { take_entry(entry, owner, data, contents, others); },
                 [&] { return "in tensor '" + entry.name + "'"; });
  return contents;
}

SafeTensors read_safetensors(const std::filesystem::path& path, OtherTensors* others) {
  const auto mapping = MappedFile::open(path);
  SafeTensors contents =
      with_context([&] { return read_safetensors_from(mapping, mapping->bytes(), others); },
                   [&] { return "while reading '" + path.string() + "'"; });
  contents.file = mapping;
  return contents;
}

void write_safetensors(const std::filesystem::path& path, const TensorsToWrite& tensors,
                       const Metadata& metadata, const std::function<void(uint64_t)>& on_written) {
  with_context(
      [&] {
        try {
          write_contents(path, tensors, metadata, on_written);
        } catch (const json::exception&) {
          fail("a name or a metadata text is not valid UTF-8");
        }
      },
      [&] { return "while writing '" + path.string() + "'"; });
}

void write_safetensors(const std::filesystem::path& path, const SafeTensors& contents) {
  TensorsToWrite tensors;
  for (const auto& [name, tensor] : contents.tensors)
    tensors.emplace(name, TensorToWrite{tensor.type(), [tensor = tensor] { return tensor; }});
  write_safetensors(path, tensors, contents.metadata);
}

}  // namespace genesis
