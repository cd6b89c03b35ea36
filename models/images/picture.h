// A decoded picture, and the operations on whole pictures that need no model.
#pragma once

#include <cstdint>
#include <vector>

namespace genesis::images {

// Rows from top to bottom, pixels from left to right, three bytes (red, green, blue) a pixel.
struct Picture {
  int64_t width = 0, height = 0;
  std::vector<uint8_t> rgb = {};
};

// Returns the picture as a viewer shows it, by the orientation of Exif, 1 to 8: 6 means that the stored picture must be turned a
// quarter clockwise. Other numbers change nothing.
Picture oriented(Picture picture, int orientation);

// A part of a picture, in whole pixels. cropped() may reach over the edges, where all bytes are `fill`.
struct Box {
  int64_t left = 0, top = 0, width = 0, height = 0;
};
Picture cropped(const Picture& picture, const Box& box, uint8_t fill = 0);

enum class Filter : uint8_t { kBilinear, kBicubic };

// Returns the part `box`, which lies inside the picture, in another size. The filter is widened where the picture shrinks
// (antialiasing). Computes the bytes of Pillow's Image.resize: 22 bits of weights, the horizontal axis first.
Picture resized(const Picture& picture, const Box& box, int64_t width, int64_t height,
                Filter filter = Filter::kBilinear);

Picture mirrored(const Picture& picture);  // left and right change places

}  // namespace genesis::images
