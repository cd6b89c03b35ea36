// Reads JPEG and PNG files as pixels, by libjpeg and libpng. Pixels are those of Pillow's Image.convert("RGB"): alpha is dropped,
// gray is repeated, palettes are looked up, CMYK is taken as Adobe stores it, 16 bits become their upper 8 (in gray pictures, too,
// where Pillow cuts off at 255). Then the orientation that Exif data ask for is applied.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "models/images/picture.h"

namespace genesis::images {

// Pictures with more pixels are refused, as Pillow warns of them.
inline constexpr int64_t kMaxPixels = 89478485;

// Returns true for a name that ends in .jpg, .jpeg or .png, in any case.
bool has_picture_name(const std::filesystem::path& path);

// Returns why this build reads no pictures, and how to get one that does; empty: it reads them.
std::string why_no_pictures();

// Throws Error that names the file: it is no JPEG or PNG, is damaged or cut off, or has more than kMaxPixels.
Picture read_picture(const std::filesystem::path& path);
Picture decode_picture(std::string_view bytes);  // the same, of a file's content

}  // namespace genesis::images
