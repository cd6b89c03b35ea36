#include "models/images/picture.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace genesis::images {
namespace {

// Fills a picture whose pixel (x, y) is `source(x, y)`, a pointer to three bytes.
template <class Source>
Picture drawn(int64_t width, int64_t height, const Source& source) {
  Picture result{width, height, std::vector<uint8_t>(static_cast<size_t>(width * height * 3))};
  uint8_t* to = result.rgb.data();
  for (int64_t y = 0; y < height; ++y)
    for (int64_t x = 0; x < width; ++x, to += 3) std::memcpy(to, source(x, y), 3);
  return result;
}

}  // namespace

Picture oriented(Picture picture, int orientation) {
  if (orientation < 2 || orientation > 8) return picture;
  const int64_t last_x = picture.width - 1, last_y = picture.height - 1;
  const bool turns = orientation >= 5;
  const bool flips_x = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  const bool flips_y = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  return drawn(turns ? picture.height : picture.width, turns ? picture.width : picture.height,
               [&](int64_t x, int64_t y) {
                 if (turns) std::swap(x, y);
                 if (flips_x) x = last_x - x;
                 if (flips_y) y = last_y - y;
                 return &picture.rgb[static_cast<size_t>((y * picture.width + x) * 3)];
               });
}

Picture cropped(const Picture& picture, const Box& box, uint8_t fill) {
  const std::array<uint8_t, 3> outside = {fill, fill, fill};
  return drawn(box.width, box.height, [&](int64_t x, int64_t y) {
    x += box.left, y += box.top;
    const bool is_inside = x >= 0 && y >= 0 && x < picture.width && y < picture.height;
    return is_inside ? &picture.rgb[static_cast<size_t>((y * picture.width + x) * 3)] : outside.data();
  });
}

Picture mirrored(const Picture& picture) {
  return drawn(picture.width, picture.height, [&](int64_t x, int64_t y) {
    return &picture.rgb[static_cast<size_t>((y * picture.width + picture.width - 1 - x) * 3)];
  });
}

}  // namespace genesis::images
