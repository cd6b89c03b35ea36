#include "schema/file/other_formats/npy.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cstring>
#include <optional>

#include "schema/file/io/atomic_write.h"
#include "schema/file/io/mapped_file.h"
#include "schema/file/tensor_from_bytes.h"

namespace genesis {
namespace {

constexpr std::string_view kMagic("\x93NUMPY", 6);
constexpr size_t kMaxHeader = 65536;
constexpr size_t kAlignment = 64;  // alignment of the data, to which NumPy pads

struct TypeName {
  DType dtype;
  std::string_view name;
};
constexpr std::array<TypeName, 9> kTypeNames = {{{DType::f32, "<f4"},
                                                 {DType::f64, "<f8"},
                                                 {DType::f16, "<f2"},
                                                 {DType::i8, "|i1"},
                                                 {DType::u8, "|u1"},
                                                 {DType::i16, "<i2"},
                                                 {DType::i32, "<i4"},
                                                 {DType::i64, "<i8"},
                                                 {DType::boolean, "|b1"}}};

DType dtype_named(std::string_view name) {
  for (const TypeName& row : kTypeNames)
    if (row.name == name ||
        (name.size() == 3 && size_of(row.dtype) == 1 && row.name.substr(1) == name.substr(1)))
      return row.dtype;
  if (name.starts_with(">"))
    fail("its dtype '{}' is big-endian: save it with array.astype('<{}')", name, name.substr(1));
  if (name.starts_with("|O")) fail("it holds Python objects, not numbers");
  fail("its dtype '{}' is not one of <f4 <f8 <f2 |i1 |u1 <i2 <i4 <i8 |b1", name);
}

std::string_view name_for(DType dtype) {
  for (const TypeName& row : kTypeNames)
    if (row.dtype == dtype) return row.name;
  fail("NumPy has no {}: cast the tensor to f32 first", name_of(dtype));
}

// The header is a Python dict with three keys: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : rest_(text) {}

  TensorType parse() {
    std::optional<DType> dtype;
    std::optional<bool> fortran;
    std::optional<std::vector<int64_t>> sizes;
    expect('{');
    while (!accept('}')) {
      const std::string_view key = quoted();
      expect(':');
      if (key == "descr" && !dtype)
        dtype = descr();
      else if (key == "fortran_order" && !fortran)
        fortran = boolean();
      else if (key == "shape" && !sizes)
        sizes = tuple();
      else
        fail("its header has an unexpected key '{}'", key.substr(0, 40));
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip_space();
    if (!rest_.empty() || !dtype || !fortran || !sizes) malformed();
    if (*fortran && sizes->size() > 1)
      fail("it is in Fortran order: save it with numpy.ascontiguousarray(array)");
    return {*dtype, Shape::of(*sizes)};
  }

 private:
  [[noreturn]] void malformed() const {
    fail("its header is malformed: expected 'descr', 'fortran_order' and 'shape'");
  }
  void skip_space() {
    while (!rest_.empty() && (rest_[0] == ' ' || rest_[0] == '\n')) rest_.remove_prefix(1);
  }
  bool accept(char c) {
    skip_space();
    if (rest_.empty() || rest_[0] != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void expect(char c) {
    if (!accept(c)) malformed();
  }
  std::string_view quoted() {
    skip_space();
    if (rest_.empty() || (rest_[0] != '\'' && rest_[0] != '"')) malformed();
    const size_t end = rest_.find(rest_[0], 1);
    if (end == std::string_view::npos) malformed();
    const std::string_view text = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    return text;
  }
  DType descr() {
    skip_space();
    if (rest_.starts_with("[")) fail("it is a structured array; save each field as an array of its own");
    return dtype_named(quoted());
  }
  bool boolean() {
    skip_space();
    for (const auto& [word, value] : {std::pair(std::string_view("False"), false), {"True", true}}) {
      if (!rest_.starts_with(word)) continue;
      rest_.remove_prefix(word.size());
      return value;
    }
    malformed();
  }
  int64_t integer() {
    skip_space();
    int64_t value = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error != std::errc() || value < 0) malformed();
    rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
    return value;
  }
  std::vector<int64_t> tuple() {
    std::vector<int64_t> sizes;
    expect('(');
    while (!accept(')')) {
      if (sizes.size() == static_cast<size_t>(kMaxRank)) fail("it has more than {} dimensions", kMaxRank);
      sizes.push_back(integer());
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    return sizes;
  }

  std::string_view rest_;
};

uint64_t little_endian(std::span<const std::byte> bytes) {
  uint64_t value = 0;
  for (size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<uint64_t>(bytes[i]);
  return value;
}

std::string header_text(const Tensor& tensor) {
  std::string shape;
  for (int64_t size : tensor.type().shape.sizes()) shape += std::to_string(size) + ", ";
  if (tensor.type().shape.rank() > 1) shape.resize(shape.size() - 2);
  if (tensor.type().shape.rank() == 1) shape.pop_back();
  std::string text = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}",
                                 name_for(tensor.type().dtype), shape);
  constexpr size_t kBefore = 10;  // bytes of magic, version and length
  while ((kBefore + text.size() + 1) % kAlignment != 0) text += ' ';
  return text + '\n';
}

}  // namespace

Tensor read_npy_from(std::shared_ptr<const void> owner, std::span<const std::byte> bytes) {
  constexpr size_t kVersionAt = 6, kLengthAt = 8;
  if (bytes.size() < kLengthAt || std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) != 0)
    fail("it is not an .npy file: the magic bytes are missing");
  const int major = static_cast<int>(bytes[kVersionAt]);
  if (major < 1 || major > 3) fail("its .npy version {} is unknown: 1 to 3 are read", major);
  const size_t length_bytes = major == 1 ? 2 : 4, header_at = kLengthAt + length_bytes;
  if (bytes.size() < header_at) fail("it is cut short in its header");
  const uint64_t length = little_endian(bytes.subspan(kLengthAt, length_bytes));
  if (length > kMaxHeader) fail("its header of {} bytes is over the limit of {}", length, kMaxHeader);
  if (length > bytes.size() - header_at) fail("it is cut short in its header");
  // Copies the header, so that a concurrent writer of the file cannot change what was checked.
  const std::string header(reinterpret_cast<const char*>(bytes.data()) + header_at, length);
  return tensor_from_bytes(HeaderParser(header).parse(), std::move(owner), bytes.subspan(header_at + length));
}

Tensor read_npy(const std::filesystem::path& path) {
  const auto mapping = MappedFile::open(path);
  return with_context([&] { return read_npy_from(mapping, mapping->bytes()); },
                      [&] { return "while reading '" + path.string() + "'"; });
}

void write_npy(const std::filesystem::path& path, const Tensor& tensor) {
  with_context(
      [&] {
        const std::string header = header_text(tensor);
        const auto data = std::span(tensor.data(), static_cast<size_t>(tensor.bytes()));
        std::string start(kMagic);
        start += '\1';
        start += '\0';
        start += static_cast<char>(header.size() & 0xff);
        start += static_cast<char>(header.size() >> 8);
        start += header;
        AtomicFile file(path, start.size() + data.size());
        file.write(std::as_bytes(std::span(start)));
        file.write(data);
        file.commit();
      },
      [&] { return "while writing '" + path.string() + "'"; });
}

}  // namespace genesis
