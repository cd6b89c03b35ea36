#include "schema/file/other_formats/gguf.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "schema/core/error.h"
#include "schema/core/type_limits.h"
#include "schema/file/format/format.h"
#include "schema/file/format/utf8.h"

namespace genesis {
namespace {

using Bytes = std::span<const std::byte>;

constexpr uint64_t kMaxHeader = uint64_t{256} << 20;  // 256 K tokens with their merges take 16 MiB
constexpr uint64_t kMaxName = 4096, kMaxAlignment = 1 << 16;
constexpr uint32_t kMaxSizes = 4;  // ggml's limit on the rank

// Reads one field after another. Each field is read only once, so that a concurrent writer of the mapped file cannot change a
// value after it was checked.
class Cursor {
 public:
  explicit Cursor(Bytes bytes) : bytes_(bytes.first(std::min<uint64_t>(bytes.size(), kMaxHeader))) {}

  Bytes take(uint64_t count) {
    if (count > left())
      fail("its header is cut short, or longer than {} bytes: {} bytes wanted at {}, {} are left", kMaxHeader,
           count, at_, left());
    at_ += count;
    return bytes_.subspan(at_ - count, count);
  }
  template <class T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
    return value;
  }
  std::string text(uint64_t longest = kMaxHeader) {
    const auto length = number<uint64_t>();
    if (length > longest) fail("a text of {} bytes, the limit is {}", length, longest);
    const Bytes bytes = take(length);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  // Reads the number of items that follow, each of at least `least_bytes`. Fails if they cannot fit, so that a false count
  // allocates no memory.
  uint64_t count(uint64_t least_bytes) {
    const auto count = number<uint64_t>();
    if (count > left() / least_bytes) fail("it says that {} items follow, in {} bytes", count, left());
    return count;
  }
  uint64_t at() const { return at_; }

 private:
  uint64_t left() const { return bytes_.size() - at_; }

  Bytes bytes_;
  uint64_t at_ = 0;
};

// Reads a name; it must be valid UTF-8 because it is shown and compared.
std::string name_in(Cursor& cursor) {
  std::string name = cursor.text(kMaxName);
  if (name.empty() || !utf8::is_valid(name) || name.find('\0') != std::string::npos)
    fail("a name is empty or not valid UTF-8");
  return name;
}

// --- values of the metadata

enum class Kind : uint32_t { kU8, kI8, kU16, kI16, kU32, kI32, kF32, kBool, kText, kArray, kU64, kI64, kF64 };

int64_t integer_in(Cursor& cursor, Kind kind) {
  switch (kind) {
    case Kind::kU8:
      return cursor.number<uint8_t>();
    case Kind::kI8:
      return cursor.number<int8_t>();
    case Kind::kU16:
      return cursor.number<uint16_t>();
    case Kind::kI16:
      return cursor.number<int16_t>();
    case Kind::kU32:
      return cursor.number<uint32_t>();
    case Kind::kI32:
      return cursor.number<int32_t>();
    case Kind::kBool:
      return cursor.number<uint8_t>() != 0;
    case Kind::kI64:
      return cursor.number<int64_t>();
    default:
      break;
  }
  const auto value = cursor.number<uint64_t>();
  if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) fail("{} is too large", value);
  return static_cast<int64_t>(value);
}

double real_in(Cursor& cursor, Kind kind) {
  return kind == Kind::kF32 ? static_cast<double>(cursor.number<float>()) : cursor.number<double>();
}

uint64_t bytes_of(Kind kind) {
  static constexpr uint64_t kBytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 8, 0, 8, 8, 8};
  return kBytes[static_cast<size_t>(kind)];
}

Kind kind_in(Cursor& cursor) {
  const auto number = cursor.number<uint32_t>();
  if (number > static_cast<uint32_t>(Kind::kF64)) fail("its kind {} is not known", number);
  return static_cast<Kind>(number);
}

template <class T, class Read>
std::vector<T> list_in(Cursor& cursor, Kind kind, Read read) {
  std::vector<T> items(cursor.count(bytes_of(kind)));
  for (T& item : items) item = read();
  return items;
}

GgufValue array_in(Cursor& cursor) {
  const Kind kind = kind_in(cursor);
  switch (kind) {
    case Kind::kArray:
      fail("it is a list of lists, which is not read");
    case Kind::kText:
      return list_in<std::string>(cursor, kind, [&] { return cursor.text(); });
    case Kind::kU8:
    case Kind::kI8:
    case Kind::kBool:
      return cursor.text();
    case Kind::kF32:
    case Kind::kF64:
      return list_in<double>(cursor, kind, [&] { return real_in(cursor, kind); });
    default:
      return list_in<int64_t>(cursor, kind, [&] { return integer_in(cursor, kind); });
  }
}

GgufValue value_in(Cursor& cursor) {
  const Kind kind = kind_in(cursor);
  switch (kind) {
    case Kind::kArray:
      return array_in(cursor);
    case Kind::kText:
      return cursor.text();
    case Kind::kBool:
      return integer_in(cursor, kind) != 0;
    case Kind::kF32:
    case Kind::kF64:
      return real_in(cursor, kind);
    default:
      return integer_in(cursor, kind);
  }
}

std::map<std::string, GgufValue> metadata_in(Cursor& cursor, uint64_t count) {
  std::map<std::string, GgufValue> metadata;
  for (uint64_t i = 0; i < count; ++i) {
    const std::string name = name_in(cursor);
    GgufValue value =
        with_context([&] { return value_in(cursor); }, [&] { return "in the metadata '" + name + "'"; });
    if (!metadata.emplace(name, std::move(value)).second) fail("the metadata '{}' stand twice", name);
  }
  return metadata;
}

// --- tensors

struct Row {
  std::string name;
  const GgufType* type = nullptr;
  Shape shape;
  uint64_t offset = 0, bytes = 0;  // within the data section
};

const GgufType& type_in(Cursor& cursor) {
  const auto number = cursor.number<uint32_t>();
  const GgufType* type = find_gguf_type(number);
  if (!type) fail("its type {} is not known", number);
  return *type;
}

Shape shape_in(Cursor& cursor) {
  const auto rank = cursor.number<uint32_t>();
  if (rank > kMaxSizes) fail("{} sizes, the limit is {}", rank, kMaxSizes);
  std::vector<int64_t> sizes(rank);
  for (int64_t& size : sizes) {
    size = cursor.number<int64_t>();
    if (size < 0) fail("a size of {}", size);
  }
  std::ranges::reverse(sizes);
  return Shape::of(sizes);
}

Row row_in(Cursor& cursor) {
  Row row{name_in(cursor)};
  with_context(
      [&] {
        row.shape = shape_in(cursor);
        row.type = &type_in(cursor);
        row.offset = cursor.number<uint64_t>();
        check_type({DType::f64, row.shape});  // the bytes as f64, the widest element, must not overflow
        const int64_t columns = row.shape.rank() ? row.shape[row.shape.rank() - 1].value() : 1;
        if (columns % row.type->block_elements != 0)
          fail("rows of {} elements are no whole blocks of {} ({})", columns, row.type->block_elements,
               row.type->name);
        row.bytes = static_cast<uint64_t>(row.shape.numel().value() / row.type->block_elements *
                                          row.type->block_bytes);
      },
      [&] { return "in tensor '" + row.name + "'"; });
  return row;
}

constexpr std::string_view kDamaged =
    "the file is damaged, or was not written to its end: get or convert it again";

// Checks that the tensors fill the data section. `rows` are in the order of the header, which is also the order of the data.
void check_places(const std::vector<Row>& rows, uint64_t alignment, uint64_t data_bytes) {
  uint64_t end = 0;
  for (const Row& row : rows) {
    const uint64_t expected = file::align_up(end, alignment);
    if (row.offset != expected)
      fail("tensor '{}' begins at {} of the data, expected {}, where the one before it ends: {}", row.name,
           row.offset, expected, kDamaged);
    if (row.offset > data_bytes || row.bytes > data_bytes - row.offset)
      fail("tensor '{}' ends behind the end of the file: {} bytes at {}, in data of {}: {}", row.name,
           row.bytes, row.offset, data_bytes, kDamaged);
    end = row.offset + row.bytes;
  }
  if (data_bytes - end >= alignment)
    fail("{} bytes behind its last tensor belong to none, expected less than {}: {}", data_bytes - end,
         alignment, kDamaged);
}

uint64_t alignment_of(const Gguf& gguf) {
  const auto at = gguf.metadata.find("general.alignment");
  if (at == gguf.metadata.end()) return 32;
  const int64_t* alignment = std::get_if<int64_t>(&at->second);
  if (!alignment || *alignment < 8 || *alignment > static_cast<int64_t>(kMaxAlignment) ||
      !std::has_single_bit(static_cast<uint64_t>(*alignment)))
    fail("its general.alignment is no power of two from 8 to {}", kMaxAlignment);
  return static_cast<uint64_t>(*alignment);
}

void check_start(Cursor& cursor) {
  const Bytes magic = cursor.take(4);
  if (std::memcmp(magic.data(), "GGUF", 4) != 0) fail("it is not a GGUF file");
  const auto version = cursor.number<uint32_t>();
  if (version != 2 && version != 3)
    fail("it is version {} of GGUF, or big-endian; read are versions 2 and 3, little-endian", version);
}

}  // namespace

Gguf read_gguf_from(std::shared_ptr<const void> owner, Bytes bytes) {
  constexpr uint64_t kMinRow = 24, kMinFact = 13;  // least bytes of a tensor and of a metadata entry
  Cursor cursor(bytes);
  check_start(cursor);
  const uint64_t tensors = cursor.count(kMinRow), facts = cursor.count(kMinFact);
  Gguf gguf{metadata_in(cursor, facts), {}, std::move(owner)};
  std::vector<Row> rows;
  for (uint64_t i = 0; i < tensors; ++i) rows.push_back(row_in(cursor));
  const uint64_t alignment = alignment_of(gguf);
  const uint64_t start = std::min<uint64_t>(file::align_up(cursor.at(), alignment), bytes.size());
  const Bytes data = bytes.subspan(start);
  check_places(rows, alignment, data.size());
  for (Row& row : rows)
    if (!gguf.tensors.try_emplace(row.name, row.type, row.shape, data.subspan(row.offset, row.bytes)).second)
      fail("two of its tensors are named '{}'", row.name);
  return gguf;
}

Gguf read_gguf(const std::filesystem::path& path) {
  const auto mapping = MappedFile::open(path);
  Gguf file = with_context([&] { return read_gguf_from(mapping, mapping->bytes()); },
                           [&] { return "while reading '" + path.string() + "'"; });
  file.files = {mapping};
  return file;
}

}  // namespace genesis
