// Decodes PNG files by libpng. The library reports errors by longjmp, so its calls stand in functions that leave nothing to
// destroy.
#include <png.h>

#include <csetjmp>
#include <cstring>

#include "models/images/decoders.h"
#include "models/images/read_picture.h"
#include "schema/core/error.h"

namespace genesis::images {
namespace {

struct PngReader {
  png_structp png = nullptr;
  png_infop info = nullptr;
  std::string_view rest;  // bytes that are not read yet
  std::jmp_buf on_error;
  char message[256] = {};
};

[[noreturn]] void leave(png_structp png, png_const_charp message) {
  auto* reader = static_cast<PngReader*>(png_get_error_ptr(png));
  std::strncpy(reader->message, message, sizeof(reader->message) - 1);
  std::longjmp(reader->on_error, 1);
}

void ignore(png_structp, png_const_charp) {}

void read_bytes(png_structp png, png_bytep to, size_t count) {
  auto* reader = static_cast<PngReader*>(png_get_io_ptr(png));
  if (reader->rest.size() < count) png_error(png, "the file is cut off");
  std::memcpy(to, reader->rest.data(), count);
  reader->rest.remove_prefix(count);
}

template <class Body>
void guarded(PngReader& reader, const Body& body) {
  if (setjmp(reader.on_error) != 0) fail("the PNG file is damaged: {}", reader.message);
  body();
}

// Asks for three bytes a pixel, whatever the file has.
void read_header(PngReader& reader) {
  guarded(reader, [&] {
    png_set_read_fn(reader.png, &reader, read_bytes);
    png_set_chunk_malloc_max(reader.png, 64 << 20);
    png_set_chunk_cache_max(reader.png,
                            1);  // keeps no texts and palettes, which could be 1000 times as large
    png_read_info(reader.png, reader.info);
    png_set_strip_16(reader.png);
    png_set_expand(reader.png);
    png_set_gray_to_rgb(reader.png);
    png_set_strip_alpha(reader.png);
    png_set_interlace_handling(reader.png);
  });
}

void read_rows(PngReader& reader, png_bytepp rows) {
  guarded(reader, [&] {
    png_read_update_info(reader.png, reader.info);
    png_read_image(reader.png, rows);
    png_read_end(reader.png, reader.info);
  });
}

int orientation_of(PngReader& reader) {
#ifdef PNG_eXIf_SUPPORTED
  png_uint_32 size = 0;
  png_bytep data = nullptr;
  if (png_get_eXIf_1(reader.png, reader.info, &size, &data) != 0)
    return exif_orientation({reinterpret_cast<const char*>(data), size});
#endif
  return 1;
}

}  // namespace

Decoded decode_png(std::string_view bytes) {
  PngReader reader;
  reader.rest = bytes;
  reader.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &reader, leave, ignore);
  if (reader.png) reader.info = png_create_info_struct(reader.png);
  struct Destroyer {
    PngReader* reader;
    ~Destroyer() { png_destroy_read_struct(&reader->png, &reader->info, nullptr); }
  } const destroyer{&reader};
  if (!reader.info) fail("libpng cannot start: too little memory");
  read_header(reader);
  const png_uint_32 width = png_get_image_width(reader.png, reader.info),
                    height = png_get_image_height(reader.png, reader.info);
  check_picture_size(width, height);
  Decoded result{.picture = {width, height, std::vector<uint8_t>(size_t{width} * height * 3)}};
  std::vector<png_bytep> rows(height);
  for (size_t y = 0; y < rows.size(); ++y) rows[y] = &result.picture.rgb[y * width * 3];
  read_rows(reader, rows.data());
  result.orientation = orientation_of(reader);
  return result;
}

}  // namespace genesis::images
