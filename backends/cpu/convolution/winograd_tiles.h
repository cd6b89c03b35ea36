// The transforms of Winograd's convolution F(4 x 4, 3 x 3) in f32, chosen for this CPU: a tile of 6 x 6 pixels becomes 4 x 4 results
// by 36 products instead of 144 (A. Lavin, S. Gray: Fast Algorithms for Convolutional Neural Networks, 2015; points 0, 1, -1, 2, -2).
#pragma once

#include <cstdint>

#include "backends/cpu/convolution/pixel_tiles.h"

namespace genesis::cpu {

inline constexpr int64_t kWinogradOut = 4;                                // results of a tile along an axis
inline constexpr int64_t kWinogradIn = kWinogradOut + 2;                  // pixels of a tile along an axis
inline constexpr int64_t kWinogradTerms = kWinogradIn * kWinogradIn;      // products of a tile
inline constexpr int64_t kWinogradResults = kWinogradOut * kWinogradOut;  // results of a tile

// Terms lie `pitch` floats apart, which should be no power of 2: all of a tile would be in one set of a cache.
struct WinogradFunctions {
  // to[term * pitch + c], of the pixels at pixels[kWinogradTerms]; `channels` is a multiple of kPanelOut.
  void (*transform_pixels)(const float* const* pixels, int64_t channels, float* to, int64_t pitch) = nullptr;
  // to[term * pitch + (panel * in + i) * kPanelOut + o], of packed weights weights[panel][9][in][kPanelOut].
  void (*transform_weights)(const float* weights, int64_t in, int64_t panels, float* to,
                            int64_t pitch) = nullptr;
  // sums[result * kTileOut + o] for o < channels, of terms[term * pitch + o]. Returns true if all of them are finite.
  bool (*transform_sums)(const float* terms, int64_t pitch, int64_t channels, float* sums) = nullptr;
};

WinogradFunctions winograd_functions();

}  // namespace genesis::cpu
