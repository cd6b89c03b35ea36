// The inner loops of convolutions and pooling in f32 over images with their channels last, chosen for this CPU: a pixel is a row of
// channels in memory, and output channels are the lanes of vectors.
#pragma once

#include <cstdint>

#include "backends/cpu/convolution/tiles.h"

namespace genesis::cpu {

inline constexpr int64_t kPanelOut = kPackedOut;    // output channels of a panel of packed weights
inline constexpr int64_t kTileOut = 4 * kPanelOut;  // sums of a pixel that a tile has room for

// Results of pixels, `columns` each, whose rows and those of the addend lie `pitch` apart.
struct Results {
  Epilogue epilogue = {};
  float* y = nullptr;
  int64_t pitch = 0, columns = 0;
};

// sums[i][o] = sum over taps and p < depth of rows[tap][i][p] * weights[o / 16 * panel + (tap * depth + p) * 16 + o % 16].
struct PixelTile {
  const float* const* rows = nullptr;  // [taps][PixelFunctions::pixels], all of them readable
  int64_t taps = 1, depth = 0;
  int pixels = 0;  // number of sums that are read: at most PixelFunctions::pixels
  const float* weights = nullptr;
  int64_t panel = 0;
  int panels = 0;         // at most PixelFunctions::panels
  float* sums = nullptr;  // [PixelFunctions::pixels][kTileOut], all may be written; null: results are written
  Results results = {};
};

enum class ChannelSum : uint8_t { kWeighted, kPlain, kGreatest };

// Combines each channel by itself over the taps of `outputs` neighboring pixels: tap t of output i is at x + offsets[t] + i * step.
// Weights are packed: those of channel c and tap t at c / 16 * panel + places[t] * 16 + c % 16.
struct ChannelWindow {
  const float* x = nullptr;
  const int64_t *offsets = nullptr, *places = nullptr;
  int64_t taps = 0, step = 0, outputs = 0, channels = 0;
  const float* weights = nullptr;
  int64_t panel = 0;
  ChannelSum sum = ChannelSum::kWeighted;
  float factor = 1;  // multiplies plain sums
  Epilogue epilogue = {};
  float* y = nullptr;  // [outputs][channels]
};

struct PixelFunctions {
  int pixels = 0, panels = 0;
  void (*multiply)(const PixelTile&) = nullptr;
  // Returns true if results can be written from the registers that hold the sums.
  bool (*finishes)(ConvolutionActivation activation) = nullptr;
  // Writes pixels x columns results to y, whose rows and those of the addend lie `pitch` apart, from sums [pixels][kTileOut].
  void (*finish)(const float* sums, int64_t pixels, int64_t columns, const Epilogue& epilogue, float* y,
                 int64_t pitch) = nullptr;
  void (*combine)(const ChannelWindow&) = nullptr;
};

PixelFunctions pixel_functions();

inline constexpr int64_t kMaxPixelTaps = 256;  // elements of a window

// Returns why the kernels of packed weights cannot run a node: another form or dtype, a large window, or no elements.
std::optional<std::string> packed_declines(const KernelQuery& query);
// The epilogue of a node whose vectors and addend are f32.
Epilogue epilogue_in(const ConvolutionShape& shape, const KernelContext& c);

}  // namespace genesis::cpu
