#include "models/images/read_picture.h"

#include "models/images/decoders.h"
#include "schema/core/error.h"
#include "schema/file/io/file_ending.h"
#include "schema/file/io/read_file.h"

namespace genesis::images {
namespace {

constexpr uint64_t kMaxBytes = uint64_t{1} << 30;  // the largest file

// Reads numbers of a TIFF file in its byte order. Positions outside of the data give 0.
class TiffReader {
 public:
  explicit TiffReader(std::string_view data) : data_(data), is_big_endian_(data.starts_with("MM")) {}
  uint32_t number(size_t at, size_t bytes) const {
    if (at > data_.size() || data_.size() - at < bytes) return 0;
    uint32_t value = 0;
    for (size_t i = 0; i < bytes; ++i)
      value = value << 8 | static_cast<uint8_t>(data_[at + (is_big_endian_ ? i : bytes - 1 - i)]);
    return value;
  }

 private:
  std::string_view data_;
  bool is_big_endian_;
};

}  // namespace

int exif_orientation(std::string_view tiff) {
  constexpr uint32_t kTag = 0x112;
  if (!tiff.starts_with("MM") && !tiff.starts_with("II")) return 1;
  const TiffReader reader(tiff);
  const size_t directory = reader.number(4, 4), entries = reader.number(directory, 2);
  for (size_t i = 0; i < entries; ++i) {
    const size_t entry = directory + 2 + 12 * i;
    if (entry + 12 > tiff.size()) break;
    if (reader.number(entry, 2) != kTag) continue;
    const uint32_t value = reader.number(entry + 8, 2);
    return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

void check_picture_size(uint64_t width, uint64_t height) {
  if (width == 0 || height == 0)
    fail("the picture is empty: it is {} pixels wide and {} high", width, height);
  if (width > static_cast<uint64_t>(kMaxPixels) / height)
    fail("the picture is {} pixels wide and {} high; pictures of {} pixels at most are read", width, height,
         kMaxPixels);
}

bool has_picture_name(const std::filesystem::path& path) {
  const std::string ending = file_ending(path);
  return ending == ".jpg" || ending == ".jpeg" || ending == ".png";
}

Picture decode_picture(std::string_view bytes) {
  if (const std::string why = why_no_pictures(); !why.empty()) fail("{}", why);
  Decoded decoded;
  if (bytes.starts_with("\xff\xd8\xff"))
    decoded = decode_jpeg(bytes);
  else if (bytes.starts_with("\x89PNG\r\n\x1a\n"))
    decoded = decode_png(bytes);
  else
    fail("this is no JPEG and no PNG file by its first bytes: convert it to one of them");
  return oriented(std::move(decoded.picture), decoded.orientation);
}

Picture read_picture(const std::filesystem::path& path) {
  return with_context([&] { return decode_picture(read_regular_file(path, kMaxBytes)); },
                      [&] { return "in the picture " + path.string(); });
}

}  // namespace genesis::images
