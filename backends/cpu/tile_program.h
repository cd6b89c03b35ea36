// The CPU's form of a fused program: registers and steps, resolved once when a plan is made. One elementwise
// node alone is a program of one instruction. A tile is a few whole rows of the index space, or a part of one
// row; registers hold as many elements as the tile, one per row of it, or one for all.
//
// Used by kernels/elementwise.cpp. Elements never meet, and a row is reduced in one
// order, so results do not depend on how tiles are spread over threads.
#pragma once

#include "backends/cpu/reduce_functions.h"
#include "backends/cpu/tile_functions.h"
#include "schema/fused_program.h"

namespace genesis::cpu {

enum class Extent : uint8_t { kOne, kRow, kTile };

struct Register {
  enum class Place : uint8_t { kSlot, kInput, kOutput } place = Place::kSlot;
  Extent extent = Extent::kTile;
  uint8_t element_bytes = 4;
  bool pinned = false;  // made once, before the first tile: its slot is its own
  int port = 0;         // number of the input or output
  int64_t offset = 0;   // of the slot in the scratch memory
};

struct TileStep {
  enum class Kind : uint8_t { kCall, kGather, kSpread, kReduce, kStream } kind = Kind::kCall;
  Extent extent = Extent::kTile;  // of the result
  TileFunction run = nullptr;
  ReduceFunctions reduce;
  std::array<int, 3> in{-1, -1, -1};
  std::array<bool, 3> scalar{};
  int out = -1;
  std::array<double, 2> parameters{};  // of a reduction: what its result is divided by
};

// How an input is laid over the index space: elements from one index to the next along each axis, 0 where it
// is broadcast.
struct Layout {
  std::array<int64_t, kMaxRank> strides{};
  bool dense = false;         // every element of the space, in order
  bool only_columns = false;  // the same for every row
  int element_bytes = 4;
};

struct TileProgram {
  std::array<int64_t, kMaxRank> outer{};  // the axes but the last, merged where all inputs allow
  int num_outer = 0;
  int64_t rows = 1, columns = 1;
  int64_t tile_rows = 1, tile_columns = 1;  // one of them covers whole rows
  int64_t tiles_per_row = 1, num_tiles = 1, tiles_per_block = 1;
  std::vector<Layout> layouts;  // by input
  std::vector<Register> registers;
  std::vector<TileStep> prologue, body;  // once per run of tiles; once per tile
  int64_t scratch_bytes = 0;
};

inline constexpr int kMaxRegisters = 256;
inline constexpr int64_t kMaxTileScratch = 256 * 1024;

// Types must have known sizes. Throws Error when an op or a size is beyond the engine.
std::shared_ptr<const TileProgram> compile_tile_program(const FusedProgram& program);
void run_tile_program(const TileProgram& program, const KernelContext& context);

}  // namespace genesis::cpu
