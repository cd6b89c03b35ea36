// The decoders of single formats, or the stubs of a build without libjpeg and libpng. read_picture.cpp chooses one.
#pragma once

#include <string>
#include <string_view>

#include "models/images/picture.h"

namespace genesis::images {

struct Decoded {
  Picture picture;
  int orientation = 1;  // the number in Exif data
};

// All throw Error that says what is wrong with the bytes.
Decoded decode_jpeg(std::string_view bytes);
Decoded decode_png(std::string_view bytes);

// Throws Error if a picture of this size is not read.
void check_picture_size(uint64_t width, uint64_t height);

// Returns the orientation in Exif data, which begin with a TIFF header; 1 if they have none or are malformed.
int exif_orientation(std::string_view tiff);

}  // namespace genesis::images
