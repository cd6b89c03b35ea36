#include "schema/file/other_formats/zip.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <optional>
#include <vector>

#include "schema/core/error.h"
#include "schema/file/format/utf8.h"

namespace genesis {
namespace {

constexpr uint32_t kLocalHeader = 0x04034b50, kCentralHeader = 0x02014b50, kEnd = 0x06054b50,
                   kEnd64 = 0x06064b50, kLocator64 = 0x07064b50;
constexpr size_t kLocalBytes = 30, kCentralBytes = 46, kEndBytes = 22, kEnd64Bytes = 56, kLocator64Bytes = 20;
constexpr uint64_t kMaxDirectory = uint64_t{256} << 20;
constexpr uint32_t kIn64 = 0xffffffff;  // the value stands in a ZIP64 field

// Reads fields of a copy of a part of the file, so that a concurrent writer cannot change what was checked.
class Fields {
 public:
  explicit Fields(std::vector<std::byte> bytes) : bytes_(std::move(bytes)) {}

  template <class T>
  T at(size_t offset) const {
    if (offset + sizeof(T) > bytes_.size()) fail("a header is cut short");
    T value;
    std::memcpy(&value, bytes_.data() + offset, sizeof(T));
    return value;
  }
  std::string text(size_t offset, size_t length) const {
    if (offset + length > bytes_.size()) fail("a name is cut short");
    return {reinterpret_cast<const char*>(bytes_.data()) + offset, length};
  }
  size_t size() const { return bytes_.size(); }

 private:
  std::vector<std::byte> bytes_;
};

Fields fields_at(const MappedFile& file, uint64_t offset, uint64_t count) {
  const uint64_t size = file.bytes().size();
  if (offset > size || count > size - offset)
    fail("its directory points to byte {}, the file has {}", offset + count, size);
  return Fields(file.copy(offset, count));
}

struct Directory {
  uint64_t offset, bytes, entries;
};

Directory directory_of_64(const MappedFile& file, uint64_t end_at) {
  if (end_at < kLocator64Bytes) fail("its ZIP64 directory is missing");
  const Fields locator = fields_at(file, end_at - kLocator64Bytes, kLocator64Bytes);
  if (locator.at<uint32_t>(0) != kLocator64) fail("its ZIP64 directory is missing");
  const Fields end = fields_at(file, locator.at<uint64_t>(8), kEnd64Bytes);
  if (end.at<uint32_t>(0) != kEnd64) fail("its ZIP64 directory is damaged");
  return {end.at<uint64_t>(48), end.at<uint64_t>(40), end.at<uint64_t>(32)};
}

Directory directory_of(const MappedFile& file) {
  const uint64_t size = file.bytes().size();
  const uint64_t searched = std::min<uint64_t>(size, kEndBytes + 0xffff);  // a comment may follow
  const Fields tail = fields_at(file, size - searched, searched);
  for (uint64_t at = searched - std::min<uint64_t>(searched, kEndBytes) + 1; at-- > 0;) {
    // An entry may be an archive itself, whose end record is followed by more than its comment.
    if (searched - at < kEndBytes || tail.at<uint32_t>(at) != kEnd ||
        at + kEndBytes + tail.at<uint16_t>(at + 20) != searched)
      continue;
    const auto entries = tail.at<uint16_t>(at + 10);
    const auto bytes = tail.at<uint32_t>(at + 12), offset = tail.at<uint32_t>(at + 16);
    if (entries == 0xffff || bytes == kIn64 || offset == kIn64)
      return directory_of_64(file, size - searched + at);
    if (tail.at<uint16_t>(at + 4) != 0) fail("it is one of several parts of an archive");
    return {offset, bytes, entries};
  }
  fail("it has no directory at its end: it is cut short, or no ZIP archive");
}

struct Entry {
  std::string name;
  uint64_t bytes, stored, header_at;
  uint16_t method, flags;
};

// Replaces values that are kIn64 by those of the entry's ZIP64 field, which has them in this order.
void read_zip64_field(const Fields& directory, size_t at, size_t count, std::array<uint64_t*, 3> values) {
  for (const size_t end = at + count; at + 4 <= end;) {
    const size_t bytes = directory.at<uint16_t>(at + 2);
    if (directory.at<uint16_t>(at) == 1) {
      size_t field = at + 4;
      for (uint64_t* value : values) {
        if (*value != kIn64) continue;
        if (field + 8 > at + 4 + bytes) fail("a ZIP64 field is cut short");
        *value = directory.at<uint64_t>(field);
        field += 8;
      }
      return;
    }
    at += 4 + bytes;
  }
}

Entry next_entry(const Fields& directory, size_t& at) {
  if (directory.at<uint32_t>(at) != kCentralHeader) fail("its directory is damaged at byte {}", at);
  Entry entry{.name = {},
              .bytes = directory.at<uint32_t>(at + 24),
              .stored = directory.at<uint32_t>(at + 20),
              .header_at = directory.at<uint32_t>(at + 42),
              .method = directory.at<uint16_t>(at + 10),
              .flags = directory.at<uint16_t>(at + 8)};
  const size_t name = directory.at<uint16_t>(at + 28), extra = directory.at<uint16_t>(at + 30),
               comment = directory.at<uint16_t>(at + 32);
  entry.name = directory.text(at + kCentralBytes, name);
  read_zip64_field(directory, at + kCentralBytes + name, extra,
                   {&entry.bytes, &entry.stored, &entry.header_at});
  at += kCentralBytes + name + extra + comment;
  if (!utf8::is_valid(entry.name)) fail("the name of an entry is not valid UTF-8");
  return entry;
}

std::span<const std::byte> bytes_of(const MappedFile& file, const Entry& entry) {
  if (entry.flags & 1) fail("it is encrypted");
  if (entry.method != 0 || entry.bytes != entry.stored) fail("it is compressed; expected stored entries");
  const Fields local = fields_at(file, entry.header_at, kLocalBytes);
  if (local.at<uint32_t>(0) != kLocalHeader) fail("its header is damaged");
  const uint64_t begin = entry.header_at + kLocalBytes + local.at<uint16_t>(26) + local.at<uint16_t>(28);
  const std::span<const std::byte> all = file.bytes();
  if (begin > all.size() || entry.bytes > all.size() - begin) fail("it reaches beyond the end of the file");
  return all.subspan(begin, entry.bytes);
}

ZipArchive read_entries(std::shared_ptr<const MappedFile> file) {
  ZipArchive archive;
  const Directory at = directory_of(*file);
  if (at.bytes > kMaxDirectory) fail("its directory has {} bytes, the limit is {}", at.bytes, kMaxDirectory);
  const Fields directory = fields_at(*file, at.offset, at.bytes);
  size_t offset = 0;
  for (uint64_t i = 0; i < at.entries; ++i) {
    const Entry entry = next_entry(directory, offset);
    const auto bytes = with_context([&] { return bytes_of(*file, entry); },
                                    [&] { return fmt::format("in its entry '{}'", entry.name); });
    if (!archive.entries.emplace(entry.name, bytes).second) fail("it has the entry '{}' twice", entry.name);
  }
  archive.file = std::move(file);
  return archive;
}

}  // namespace

bool is_zip_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  uint32_t magic = 0;
  in.read(reinterpret_cast<char*>(&magic), sizeof magic);
  return in.gcount() == sizeof magic && magic == kLocalHeader;
}

ZipArchive read_zip(const std::filesystem::path& path) {
  return with_context([&] { return read_entries(MappedFile::open(path)); },
                      [&] { return fmt::format("in the archive '{}'", path.string()); });
}

}  // namespace genesis
