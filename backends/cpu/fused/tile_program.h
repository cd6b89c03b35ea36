// The CPU's form of a fused program: registers and steps, resolved once when a plan is made. One elementwise
// node alone is a program of one op. A tile is a few whole rows of the index space, or a part of one
// row; registers hold as many elements as the tile, one per row of it, or one for all.
//
// Used by kernels/tensor/elementwise.cpp. Elements never meet, and a row is reduced in one
// order, so results do not depend on how tiles are spread over threads.
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
  bool far = false;     // an input too large for the second cache
  bool pinned = false;  // made once, before the first tile: its buffer is its own
  int port = 0;         // number of the input or output
  int64_t offset = 0;   // of the buffer in the scratch memory

  int64_t element_bytes() const { return static_cast<int64_t>(size_of(dtype)); }
};

// A micro-op of a chain with registers for its memory.
struct ChainedMicroOp {
  MicroOp micro_op{};
  std::array<int, 2> memory{-1, -1};
  MicroOpFunction plain = nullptr;  // takes the place of a micro-op that writes around the cache
};

struct TileStep {
  // kF32 is a step that is not yet joined with others into a kChain.
  enum class Kind : uint8_t { kCall, kF32, kChain, kGather, kSpread, kReduce, kStream } kind = Kind::kCall;
  Extent extent = Extent::kTile;  // of the result
  TileFunction run = nullptr;
  ReduceFunctions reduce;
  std::array<int, 3> in{-1, -1, -1};
  std::array<bool, 3> scalar{};
  int out = -1;
  std::array<double, 2> parameters{};  // of a reduction: what its result is divided by

  // Of a step in f32: what it does, by the operand in registers; or it reads memory, or writes it.
  enum class Role : uint8_t { kFormula, kLoad, kStore } role = Role::kFormula;
  std::array<MicroOpFunction, 3> micro_ops{};
  MicroOpFunction around = nullptr;  // writes around the cache
  std::vector<ChainedMicroOp> chain;
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
  ChainFunction run_chain = nullptr;
  int64_t scratch_bytes = 0;
};

inline constexpr int kMaxRegisters = 256;
inline constexpr int64_t kMaxTileScratch = 256 * 1024;

// Types must have known sizes. Throws Error when an op or a size is beyond the engine.
std::shared_ptr<const TileProgram> compile_tile_program(const FusedProgram& program);
void run_tile_program(const TileProgram& program, const KernelContext& context);

// The axes, as few as inputs of these shapes allow, how each input lies over them, and the first size of a
// tile.
void set_index_space(TileProgram& tiles, const FusedProgram& program);
// Joins runs of f32 steps into chains: what only the next step reads stays in vector registers. `uses` counts the
// operands that are each register, in these steps and later ones, and loses those of these steps.
std::vector<TileStep> join_chains(std::vector<TileStep> steps, const std::vector<Register>& registers,
                                  std::vector<int>& uses);
// f(registers read, register written or -1) for each thing a step does, in order.
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
