// Decodes JPEG files by libjpeg(-turbo). The library reports errors by longjmp, so what lives across its calls is plain memory of
// the caller: JpegReader has no destructor that a jump would skip.
#include <cstdio>

#include <jpeglib.h>

#include <jerror.h>

#include <csetjmp>

#include "models/images/decoders.h"
#include "models/images/read_picture.h"
#include "schema/core/error.h"

namespace genesis::images {
namespace {

struct JpegReader {
  jpeg_decompress_struct info;
  jpeg_error_mgr errors;
  std::jmp_buf on_error;
  char message[JMSG_LENGTH_MAX];
};

[[noreturn]] void leave(j_common_ptr info) {
  auto* reader = static_cast<JpegReader*>(info->client_data);
  info->err->format_message(info, reader->message);
  std::longjmp(reader->on_error, 1);
}

// A file that ends early is an error, as it is for Pillow. Other warnings are ignored: many cameras write such files.
void on_message(j_common_ptr info, int level) {
  if (level < 0 && info->err->msg_code == JWRN_JPEG_EOF) leave(info);
}

// Pillow's conversion. Adobe stores the complements of the four colors.
void cmyk_to_rgb(const uint8_t* cmyk, uint8_t* rgb, int64_t width) {
  for (int64_t x = 0; x < width; ++x, cmyk += 4, rgb += 3) {
    const int key = cmyk[3];
    for (int i = 0; i < 3; ++i) {
      const int product = (255 - cmyk[i]) * key + 128;
      const int value = key - (((product >> 8) + product) >> 8);
      rgb[i] = static_cast<uint8_t>(value < 0 ? 0 : value);
    }
  }
}

int orientation_of(const jpeg_decompress_struct& info) {
  for (const jpeg_marker_struct* marker = info.marker_list; marker; marker = marker->next) {
    const std::string_view data(reinterpret_cast<const char*>(marker->data), marker->data_length);
    constexpr std::string_view kExif("Exif\0\0", 6);
    if (data.starts_with(kExif)) return exif_orientation(data.substr(kExif.size()));
  }
  return 1;
}

// Runs `body`, which calls the library and leaves nothing to destroy; throws the library's error.
template <class Body>
void guarded(JpegReader& reader, const Body& body) {
  if (setjmp(reader.on_error) != 0) fail("the JPEG file is damaged: {}", reader.message);
  body();
}

void read_header(JpegReader& reader, std::string_view bytes) {
  guarded(reader, [&] {
    jpeg_create_decompress(&reader.info);
    jpeg_save_markers(&reader.info, JPEG_APP0 + 1, 0xffff);
    jpeg_mem_src(&reader.info, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
    jpeg_read_header(&reader.info, TRUE);
    const bool has_four = reader.info.num_components == 4;
    reader.info.out_color_space = has_four ? JCS_CMYK : JCS_RGB;
  });
}

void read_rows(JpegReader& reader, Picture& picture, std::vector<uint8_t>& row) {
  const bool is_cmyk = reader.info.out_color_space == JCS_CMYK;
  guarded(reader, [&] {
    jpeg_start_decompress(&reader.info);
    while (reader.info.output_scanline < reader.info.output_height) {
      uint8_t* to =
          &picture.rgb[size_t{reader.info.output_scanline} * static_cast<size_t>(picture.width) * 3];
      JSAMPROW into = is_cmyk ? row.data() : to;
      jpeg_read_scanlines(&reader.info, &into, 1);
      if (is_cmyk) cmyk_to_rgb(row.data(), to, picture.width);
    }
    jpeg_finish_decompress(&reader.info);
  });
}

}  // namespace

std::string why_no_pictures() { return ""; }

Decoded decode_jpeg(std::string_view bytes) {
  JpegReader reader = {};
  reader.info.err = jpeg_std_error(&reader.errors);
  reader.info.client_data = &reader;
  reader.errors.error_exit = leave;
  reader.errors.emit_message = on_message;
  struct Destroyer {
    jpeg_decompress_struct* info;
    ~Destroyer() { jpeg_destroy_decompress(info); }
  } const destroyer{&reader.info};
  read_header(reader, bytes);
  check_picture_size(reader.info.image_width, reader.info.image_height);
  Decoded result{.picture = {reader.info.image_width, reader.info.image_height, {}},
                 .orientation = orientation_of(reader.info)};
  const auto pixels = static_cast<size_t>(result.picture.width * result.picture.height);
  result.picture.rgb.resize(pixels * 3);
  std::vector<uint8_t> row(static_cast<size_t>(result.picture.width) * 4);
  read_rows(reader, result.picture, row);
  return result;
}

}  // namespace genesis::images
