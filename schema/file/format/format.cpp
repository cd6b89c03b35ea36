#include "schema/file/format/format.h"

#include <bit>
#include <cstring>

#include "schema/core/error.h"
#include "schema/file/format/magic.h"

namespace genesis::file {
namespace {

static_assert(std::endian::native == std::endian::little, "files are little-endian and mapped as they are");

// Offsets of the header's fields; bytes 12 to 15 are zero.
enum HeaderField : size_t {
  kMajorAt = 8,
  kMinorAt = 10,
  kGraphOffsetAt = 16,
  kGraphBytesAt = 24,
  kDataOffsetAt = 32,
  kFileBytesAt = 40,
  kHashAt = 48
};

template <class T>
void put(std::array<std::byte, kHeaderBytes>& bytes, size_t at, T value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

template <class T>
T get(std::span<const std::byte> bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

Hash128 hash_with_graph(std::span<const std::byte> header, std::span<const std::byte> graph) {
  Hasher hasher;
  hasher.update(header.first(kHashAt));
  hasher.update(graph);
  return hasher.digest();
}

void check_start(std::span<const std::byte> file) {
  if (!has_magic(file)) fail("this is not a .genesis file: it does not begin with the format's magic bytes");
  if (file.size() < kHeaderBytes)
    fail("the file is cut short: {} bytes, less than its header of {}", file.size(), kHeaderBytes);
  const auto major = get<uint16_t>(file, kMajorAt);
  if (major > kMajor)
    fail("the file has format version {}.{}, this version of Genesis reads up to {}.x: use a newer Genesis",
         major, get<uint16_t>(file, kMinorAt), kMajor);
  if (major == 0) fail("the header is damaged: format version 0");
}

void check_sizes(const Header& header, uint64_t graph_offset, uint64_t real_bytes) {
  if (header.file_bytes != real_bytes)
    fail("the file is {}: its header says {} bytes, it has {}",
         real_bytes < header.file_bytes ? "cut short" : "longer than it should be", header.file_bytes,
         real_bytes);
  if (header.graph_bytes > kMaxGraphBytes)
    fail("the header is damaged: a graph section of {} bytes, the limit is {}", header.graph_bytes,
         kMaxGraphBytes);
  const bool has_data = header.data_offset != header.file_bytes;
  const bool fits = header.data_offset <= header.file_bytes &&
                    header.data_offset == data_offset_for(header.graph_bytes, has_data);
  if (graph_offset != kHeaderBytes || !fits)
    fail("the header is damaged: graph section of {} bytes at {}, data at {}, in a file of {} bytes",
         header.graph_bytes, graph_offset, header.data_offset, real_bytes);
}

}  // namespace

std::array<std::byte, kHeaderBytes> encode_header(const Header& header, std::span<const std::byte> graph) {
  std::array<std::byte, kHeaderBytes> bytes{};
  std::memcpy(bytes.data(), kMagic.data(), kMagic.size());
  put(bytes, kMajorAt, header.major);
  put(bytes, kMinorAt, header.minor);
  put(bytes, kGraphOffsetAt, kHeaderBytes);
  put(bytes, kGraphBytesAt, header.graph_bytes);
  put(bytes, kDataOffsetAt, header.data_offset);
  put(bytes, kFileBytesAt, header.file_bytes);
  const Hash128 hash = hash_with_graph(bytes, graph);
  put(bytes, kHashAt, hash.low);
  put(bytes, kHashAt + 8, hash.high);
  return bytes;
}

Header decode_header(std::span<const std::byte> file, uint64_t file_bytes) {
  check_start(file);
  Header header;
  header.major = get<uint16_t>(file, kMajorAt);
  header.minor = get<uint16_t>(file, kMinorAt);
  header.graph_bytes = get<uint64_t>(file, kGraphBytesAt);
  header.data_offset = get<uint64_t>(file, kDataOffsetAt);
  header.file_bytes = get<uint64_t>(file, kFileBytesAt);
  header.hash = {get<uint64_t>(file, kHashAt), get<uint64_t>(file, kHashAt + 8)};
  check_sizes(header, get<uint64_t>(file, kGraphOffsetAt), file_bytes);
  return header;
}

void check_hash(const Header& header, std::span<const std::byte> start, std::span<const std::byte> graph) {
  const Hash128 real = hash_with_graph(start, graph);
  if (real != header.hash)
    fail("the header or graph is damaged: its hash is {}, the file says {}", real.to_string(),
         header.hash.to_string());
}

}  // namespace genesis::file
