// The CPU's form of a fused program: registers and steps, resolved once when a plan is made. A single elementwise node is a
// program of one op. A tile is a few whole rows of the index space, or a chunk of one row. A register holds one element per
// element of the tile, one per row of it, or one in total (Extent).
//
// Elements never interact except in row reductions, which have one fixed order, so results do not depend on how tiles are
// distributed over threads.
#pragma once

#include "backends/cpu/fused/tile_functions.h"
#include "backends/cpu/reduce/reduce_functions.h"
#include "schema/ops/elementwise/fused_program.h"

namespace genesis::cpu {

enum class Extent : uint8_t { kOne, kRow, kTile };

struct Register {
  enum class Kind : uint8_t { kScratch, kInput, kOutput } kind = Kind::kScratch;
  Extent extent = Extent::kTile;
  DType dtype = DType::f32;
  bool far = false;     // true for an input too large for the L2 cache
  bool pinned = false;  // true for a value computed once, before the first tile: its buffer is not shared
  int port = 0;         // index of the input or output
  int64_t offset = 0;   // byte offset of the register's buffer in the scratch memory

  int64_t element_bytes() const { return static_cast<int64_t>(size_of(dtype)); }
};

// A micro-op of a chain and the registers behind its memory operands.
struct ChainedMicroOp {
  MicroOp micro_op{};
  std::array<int, 2> memory{-1, -1};
  MicroOpFunction plain = nullptr;  // replaces a micro-op that writes around the cache if that cannot be done
};

struct TileStep {
  // kF32 is a step that is not yet joined with others into a kChain.
  enum class Kind : uint8_t { kCall, kF32, kChain, kGather, kSpread, kReduce, kStream } kind = Kind::kCall;
  Extent extent = Extent::kTile;  // extent of the result
  TileFunction run = nullptr;
  ReduceFunctions reduce;
  std::array<int, 3> in{-1, -1, -1};
  std::array<bool, 3> scalar{};
  int out = -1;
  std::array<double, 2> parameters{};  // for a reduction, parameters[0] is the divisor of its result

  // For an f32 step: computes a formula, reads memory or writes memory. `micro_ops` is indexed by the operand that is in
  // registers.
  enum class Role : uint8_t { kFormula, kLoad, kStore } role = Role::kFormula;
  std::array<MicroOpFunction, 3> micro_ops{};
  MicroOpFunction around = nullptr;  // the store that writes around the cache
  std::vector<ChainedMicroOp> chain;
};

// The layout of an input over the index space: the stride in elements along each axis, 0 if broadcast.
struct Layout {
  std::array<int64_t, kMaxRank> strides{};
  bool dense = false;         // the input has every element of the index space, in order
  bool only_columns = false;  // the input is the same for every row
  int element_bytes = 4;
};

struct TileProgram {
  std::array<int64_t, kMaxRank> outer{};  // all axes but the last, merged where all inputs allow it
  int num_outer = 0;
  int64_t rows = 1, columns = 1;
  int64_t tile_rows = 1, tile_columns = 1;  // a tile is a chunk of one row, or whole rows
  int64_t tiles_per_row = 1, num_tiles = 1, tiles_per_block = 1;
  std::vector<Layout> layouts;  // indexed by input
  std::vector<Register> registers;
  std::vector<TileStep> prologue, body;  // `prologue` runs once per run of tiles, `body` once per tile
  ChainFunction run_chain = nullptr;
  int64_t scratch_bytes = 0;
};

inline constexpr int kMaxRegisters = 256;
inline constexpr int64_t kMaxTileScratch = 256 * 1024;

// All types must have known sizes. Throws Error if the tile engine does not support an op or a size.
std::shared_ptr<const TileProgram> compile_tile_program(const FusedProgram& program);
void run_tile_program(const TileProgram& program, const KernelContext& context);

// Sets the axes (as few as the shapes of the inputs allow), the layout of each input over them, and an initial tile size.
void set_index_space(TileProgram& tiles, const FusedProgram& program);
// Joins runs of f32 steps into chains: a value that only the next step reads stays in vector registers. `uses` counts how often
// each register is an operand of these steps or later ones; the uses in these steps are subtracted from it.
std::vector<TileStep> join_chains(std::vector<TileStep> steps, const std::vector<Register>& registers,
                                  std::vector<int>& uses);
// Calls f(registers read, register written or -1) for each access of a step, in order.
template <class F>
void for_each_access(const TileStep& step, const F& f) {
  if (step.kind != TileStep::Kind::kChain) return f(step.in, step.out);
  for (const ChainedMicroOp& s : step.chain)
    if (s.micro_op.writes)
      f(std::array<int, 3>{-1, -1, -1}, s.memory[0]);
    else
      f(std::array<int, 3>{s.memory[0], s.memory[1], -1}, -1);
}

}  // namespace genesis::cpu
