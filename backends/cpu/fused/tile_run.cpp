#include <cstring>

#include "backends/cpu/fused/tile_program.h"
#include "backends/cpu/parallel/parallel.h"
#include "backends/cpu/reduce/reduce_row.h"

namespace genesis::cpu {
namespace {

// The range of the index space that a tile covers.
struct Tile {
  int64_t row, rows, column, columns;

  int64_t count(Extent extent) const {
    return extent == Extent::kOne ? 1 : extent == Extent::kRow ? rows : rows * columns;
  }
};

Tile tile_at(const TileProgram& p, int64_t number) {
  if (p.tile_rows > 1) {
    const int64_t row = number * p.tile_rows;
    return {row, std::min(p.tile_rows, p.rows - row), 0, p.columns};
  }
  const int64_t row = number / p.tiles_per_row, column = number % p.tiles_per_row * p.tile_columns;
  return {row, 1, column, std::min(p.tile_columns, p.columns - column)};
}

// Returns the offset, in elements, of the start of a row in an input.
int64_t row_start(const TileProgram& p, const Layout& layout, int64_t row) {
  int64_t at = 0;
  for (int axis = p.num_outer - 1; axis >= 0; --axis) {
    const auto a = static_cast<size_t>(axis);
    at += row % p.outer[a] * layout.strides[a];
    row /= p.outer[a];
  }
  return at;
}

const std::byte* input_at(const TileProgram& p, const Layout& layout, const void* data, const Tile& tile) {
  const int64_t along = layout.strides[static_cast<size_t>(p.num_outer)];
  const int64_t start = layout.dense ? tile.row * p.columns : row_start(p, layout, tile.row);
  return static_cast<const std::byte*>(data) + (start + tile.column * along) * layout.element_bytes;
}

// The state of one thread that runs a sequence of tiles.
class Machine {
 public:
  Machine(const TileProgram& program, const KernelContext& context, std::byte* scratch)
      : p_(program), c_(context) {
    for (size_t r = 0; r < p_.registers.size(); ++r) {
      const Register& reg = p_.registers[r];
      if (reg.kind == Register::Kind::kScratch) at_[r] = scratch + reg.offset;
      if (reg.kind == Register::Kind::kInput) at_[r] = static_cast<std::byte*>(c_.input(reg.port).data);
    }
    const Tile first{0, std::min(p_.tile_rows, p_.rows), 0, p_.tile_columns};
    for (const TileStep& step : p_.prologue) run(step, first);
  }

  void run(int64_t number) {
    const Tile tile = tile_at(p_, number);
    for (size_t r = 0; r < p_.registers.size(); ++r) place(r, tile);
    for (const TileStep& step : p_.body) run(step, tile);
  }

 private:
  void place(size_t r, const Tile& tile) {
    const Register& reg = p_.registers[r];
    if (reg.kind == Register::Kind::kScratch) return;
    if (reg.kind == Register::Kind::kInput) {
      const Layout& layout = p_.layouts[static_cast<size_t>(reg.port)];
      at_[r] = const_cast<std::byte*>(input_at(p_, layout, c_.input(reg.port).data, tile));
      return;
    }
    const int64_t element = reg.extent == Extent::kRow ? tile.row : tile.row * p_.columns + tile.column;
    at_[r] = static_cast<std::byte*>(c_.output(reg.port).data) + element * reg.element_bytes();
  }

  std::byte* at(int r) const { return at_[static_cast<size_t>(r)]; }

  void run(const TileStep& step, const Tile& tile) {
    switch (step.kind) {
      case TileStep::Kind::kCall:
        return call(step, tile);
      case TileStep::Kind::kF32:  // a finished program has none left
        return;
      case TileStep::Kind::kChain:
        return chain(step, tile);
      case TileStep::Kind::kGather:
        return gather(step, tile);
      case TileStep::Kind::kSpread:
        return spread(step, tile);
      case TileStep::Kind::kReduce:
        return reduce(step, tile);
      case TileStep::Kind::kStream:
        return stream(step, tile);
    }
  }

  void call(const TileStep& step, const Tile& tile) {
    TileCall call{.in = {},
                  .out = at(step.out),
                  .n = tile.count(step.extent),
                  .scalar = step.scalar,
                  .parameters = step.parameters.data(),
                  .fault = c_.fault};
    for (size_t i = 0; i < 3 && step.in[i] >= 0; ++i) call.in[i] = at(step.in[i]);
    step.run(call);
  }

  // Copies the elements of several rows next to each other. The register of the input names the port.
  void gather(const TileStep& step, const Tile& tile) {
    const int port = p_.registers[static_cast<size_t>(step.in[0])].port;
    const Layout& layout = p_.layouts[static_cast<size_t>(port)];
    const auto* data = static_cast<const std::byte*>(c_.input(port).data);
    const int64_t bytes = layout.element_bytes * (step.extent == Extent::kRow ? 1 : tile.columns);
    std::byte* out = at(step.out);
    for (int64_t i = 0; i < tile.rows; ++i, out += bytes)
      std::memcpy(out, data + row_start(p_, layout, tile.row + i) * layout.element_bytes,
                  static_cast<size_t>(bytes));
  }

  void spread(const TileStep& step, const Tile& tile) {
    const int64_t bytes = p_.registers[static_cast<size_t>(step.out)].element_bytes();
    TileCall call{.in = {},
                  .out = nullptr,
                  .n = tile.columns,
                  .scalar = {true},
                  .parameters = nullptr,
                  .fault = c_.fault};
    for (int64_t i = 0; i < tile.rows; ++i) {
      call.in[0] = at(step.in[0]) + i * bytes;
      call.out = at(step.out) + i * tile.columns * bytes;
      step.run(call);
    }
  }

  void reduce(const TileStep& step, const Tile& tile) {
    const int64_t element = p_.registers[static_cast<size_t>(step.in[0])].element_bytes();
    const int64_t result = p_.registers[static_cast<size_t>(step.out)].element_bytes();
    for (int64_t i = 0; i < tile.rows; ++i) {
      const std::byte* row = at(step.in[0]) + i * tile.columns * element;
      const uint64_t accumulator = reduce_row(step.reduce, element, row, tile.columns);
      step.reduce.finish(&accumulator, at(step.out) + i * result, 1, step.parameters[0]);
    }
  }

  void chain(const TileStep& step, const Tile& tile) {
    std::array<MicroOp, kMaxMicroOps> micro_ops;
    size_t count = 0;
    int64_t head = 0;
    for (const ChainedMicroOp& s : step.chain) {
      MicroOp& micro_op = micro_ops[count++] = s.micro_op;
      for (size_t m = 0; m < 2 && s.memory[m] >= 0; ++m) micro_op.memory[m] = at(s.memory[m]);
      if (!s.plain) continue;
      const Register& reg = p_.registers[static_cast<size_t>(s.memory[0])];
      if (head == 0) head = elements_before_line(micro_op.memory[0], reg.element_bytes());
      if (is_input(reg) ||
          reinterpret_cast<uintptr_t>(micro_op.memory[0] + head * reg.element_bytes()) % 64 != 0)
        micro_op.run = s.plain;
    }
    p_.run_chain(micro_ops.data(), count, static_cast<size_t>(tile.count(step.extent)),
                 static_cast<size_t>(head));
  }

  static int64_t elements_before_line(const std::byte* p, int64_t element_bytes) {
    return static_cast<int64_t>((64 - reinterpret_cast<uintptr_t>(p) % 64) % 64) / element_bytes;
  }

  // Returns true if the output overwrites an input (in place): its lines are in the cache already, so writing around the cache
  // does not pay.
  bool is_input(const Register& output) const {
    for (const TensorView& input : c_.inputs)
      if (input.data == c_.output(output.port).data) return true;
    return false;
  }

  void stream(const TileStep& step, const Tile& tile) {
    const Register& reg = p_.registers[static_cast<size_t>(step.out)];
    const size_t bytes = static_cast<size_t>(tile.count(Extent::kTile) * reg.element_bytes());
    if (is_input(reg))
      std::memcpy(at(step.out), at(step.in[0]), bytes);
    else
      stream_block(at(step.in[0]), at(step.out), bytes);
  }

  const TileProgram& p_;
  const KernelContext& c_;
  std::array<std::byte*, kMaxRegisters> at_;
};

// Runs tiles with registers on the stack: that memory is private to the thread and stays in its cache.
template <int64_t kBytes>
void run_tiles(const TileProgram& program, const KernelContext& context, int64_t begin, int64_t end) {
  alignas(64) std::byte scratch[kBytes];
  Machine machine(program, context, scratch);
  for (int64_t tile = begin; tile < end; ++tile) machine.run(tile);
  finish_streams();
}

void run_blocks(const TileProgram& p, const KernelContext& context, int64_t first, int64_t last) {
  const int64_t begin = first * p.tiles_per_block, end = std::min(p.num_tiles, last * p.tiles_per_block);
  if (p.scratch_bytes <= 32 * 1024)
    run_tiles<32 * 1024>(p, context, begin, end);
  else
    run_tiles<kMaxTileScratch>(p, context, begin, end);
}

}  // namespace

void run_tile_program(const TileProgram& program, const KernelContext& context) {
  if (program.num_tiles == 0) return;
  const int64_t blocks = (program.num_tiles + program.tiles_per_block - 1) / program.tiles_per_block;
  parallel_ranges(blocks, 1, [&](int64_t first, int64_t last) { run_blocks(program, context, first, last); });
}

}  // namespace genesis::cpu
