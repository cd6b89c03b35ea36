#include <algorithm>
#include <bit>
#include <map>

#include "backends/cpu/fused/tile_program.h"
#include "schema/core/checked_size.h"
#include "schema/core/error.h"
#include "schema/ops/create.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/elementwise/formula_call.h"
#include "schema/ops/tensor/layout.h"
#include "schema/ops/tensor/reduce.h"

namespace genesis::cpu {
namespace {

constexpr int64_t kTileBytes = 24 * 1024;
constexpr int64_t kBlockElements = 16 * 1024;
constexpr int64_t kFarBytes = 512 * 1024;
constexpr int64_t kUncachedBytes = 16 * 1024 * 1024;  // larger results are written around the cache

size_t index(int i) { return static_cast<size_t>(i); }

Reduce reduction(const OpDef& op) {
  return is<ops::Max>(op) ? Reduce::kMax : is<ops::Min>(op) ? Reduce::kMin : Reduce::kSum;
}

class Compiler {
 public:
  explicit Compiler(const FusedProgram& program)
      : program_(program), tiles_(std::make_shared<TileProgram>()) {
    set_index_space(*tiles_, program);
    one_row_ = tiles_->tile_rows == 1;
  }

  std::shared_ptr<const TileProgram> compile() {
    for (int v = 0; v < static_cast<int>(program_.inputs.size()); ++v) values_.push_back(load_input(v));
    for (const FusedOp& line : program_.ops) values_.push_back(emit(line));
    for (size_t o = 0; o < program_.outputs.size(); ++o) write_output(static_cast<int>(o));
    split_prologue();
    join_f32_steps();
    place_registers();
    set_tiles();
    return tiles_;
  }

 private:
  // A value in the lane type of its dtype.
  struct Held {
    int reg;
    LaneType lane;
  };

  Register& reg(int r) { return tiles_->registers[index(r)]; }

  int new_register(Extent extent, DType dtype, Register::Kind kind = Register::Kind::kScratch, int port = 0) {
    if (tiles_->registers.size() == kMaxRegisters)
      fail("a fused region needs more than {} registers", kMaxRegisters);
    tiles_->registers.push_back({.kind = kind, .extent = extent, .dtype = dtype, .port = port});
    return static_cast<int>(tiles_->registers.size()) - 1;
  }
  int new_register(Extent extent, LaneType lane) { return new_register(extent, dtype_of_lane(lane)); }

  // Emits out = run(in...). Operands of smaller extent are broadcast to the extent of the result.
  int call(const Formula& f, const std::vector<int>& in, const std::vector<LaneType>& lanes,
           const FormulaCall& formula = {}) {
    const int out = new_register(widest(in), f.result);
    TileStep step{.run = f.run, .out = out, .parameters = formula.parameters, .micro_ops = f.micro_ops};
    if (!f.run) step.kind = TileStep::Kind::kF32;
    add(std::move(step), in, lanes);
    return out;
  }
  int call(TileFunction run, LaneType result, int in, LaneType lane) {
    return call(Formula{.run = run, .result = result}, {in}, {lane});
  }

  Extent widest(const std::vector<int>& registers) {
    Extent extent = Extent::kOne;
    for (int r : registers) extent = std::max(extent, reg(r).extent);
    return extent;
  }

  void add(TileStep step, const std::vector<int>& in, const std::vector<LaneType>& lanes) {
    step.extent = reg(step.out).extent;
    for (size_t i = 0; i < in.size(); ++i) {
      const Extent have = reg(in[i]).extent;
      const bool scalar = have < step.extent && (have == Extent::kOne || one_row_);
      step.in[i] = have == step.extent || scalar ? in[i] : spread(in[i], lanes[i]);
      step.scalar[i] = scalar;
    }
    tiles_->body.push_back(std::move(step));
  }
  void copy_into(int out, int in, LaneType lane) { add({.run = find_copy(lane), .out = out}, {in}, {lane}); }

  // Emits a step that broadcasts one element per row along its row; returns the register of the result.
  int spread(int source, LaneType lane) {
    const auto [at, fresh] = spread_.try_emplace(source, -1);
    if (!fresh) return at->second;
    const int out = at->second = new_register(Extent::kTile, lane);
    TileStep step{
        .kind = TileStep::Kind::kSpread, .extent = Extent::kTile, .run = find_copy(lane), .out = out};
    step.in[0] = source;
    tiles_->body.push_back(step);
    return out;
  }

  Held load_input(int v) {
    const Layout& layout = tiles_->layouts[index(v)];
    const DType dtype = program_.inputs[index(v)].dtype;
    const LaneType lane = lane_of(dtype);
    const bool along_row = layout.strides[index(tiles_->num_outer)] != 0;
    const Extent extent = along_row ? Extent::kTile : layout.only_columns ? Extent::kOne : Extent::kRow;
    int r = new_register(extent, dtype, Register::Kind::kInput, v);
    reg(r).far = program_.inputs[index(v)].bytes() >= kFarBytes;
    const bool contiguous = one_row_ || extent == Extent::kOne || row_dense(v, extent);
    if (!contiguous) r = gather(r, layout, extent);
    if (is_low_precision(dtype)) return {load_half(r), lane};
    return {find_load(dtype) ? call(find_load(dtype), lane, r, lane) : r, lane};
  }

  int load_half(int r) {
    const int out = new_register(reg(r).extent, LaneType::kF32);
    TileStep step{.kind = TileStep::Kind::kF32, .out = out, .role = TileStep::Role::kLoad};
    step.micro_ops[0] = find_load_micro_op(reg(r).dtype);
    add(std::move(step), {r}, {LaneType::kF32});
    return out;
  }

  // Returns true if the elements of several rows lie one after the other in memory.
  bool row_dense(int v, Extent extent) const {
    const int64_t wanted = extent == Extent::kTile ? tiles_->rows * tiles_->columns : tiles_->rows;
    return program_.inputs[index(v)].numel() == wanted;
  }

  int gather(int source, const Layout& layout, Extent extent) {
    const int out = new_register(extent, reg(source).dtype);
    reg(out).pinned = layout.only_columns;
    TileStep step{.kind = TileStep::Kind::kGather, .extent = extent, .out = out};
    step.in[0] = source;
    (layout.only_columns ? tiles_->prologue : tiles_->body).push_back(step);
    return out;
  }

  int convert(Held value, LaneType lane) {
    if (value.lane == lane) return value.reg;
    const auto [at, fresh] = converted_.try_emplace({value.reg, lane}, -1);
    if (fresh) at->second = call(find_convert(value.lane, lane), lane, value.reg, value.lane);
    return at->second;
  }

  Held emit(const FusedOp& line) {
    if (is<ops::Full>(*line.op)) return constant(line);
    if (is<ops::Expand>(*line.op)) return values_[index(line.operands[0])];
    if (is<ops::Cast>(*line.op))
      return cut(convert(values_[index(line.operands[0])], lane_of(line.type.dtype)), line.type.dtype);
    if (program_.has_rows && is_row_reduction(*line.op, line.attributes, program_.space.rank()))
      return reduce(line);
    return elementwise(line);
  }

  // Emits the wrap-around to an integer `dtype`, if the lane type is wider.
  Held cut(int r, DType dtype) {
    const LaneType lane = lane_of(dtype);
    return {find_wrap(dtype) ? call(find_wrap(dtype), lane, r, lane) : r, lane};
  }

  Held elementwise(const FusedOp& line) {
    std::vector<TensorType> types;
    for (int operand : line.operands) types.push_back(program_.type(operand));
    const FormulaCall formula = formula_of(*line.op, line.attributes);
    LaneType lane = lane_of(formula_dtype(*line.op, types, line.type));
    if (lane == LaneType::kBool && !find_formula(formula.name, lane)) lane = LaneType::kI64;
    const Formula found = find_formula(formula.name, lane);
    if (!found) fail("the CPU has no formula for op '{}' on {}", line.op->name(), line.type.to_string());
    std::vector<int> in;
    std::vector<LaneType> lanes;
    for (size_t i = 0; i < line.operands.size(); ++i) {
      lanes.push_back(formula.name == "where" && i == 0 ? LaneType::kBool : lane);
      in.push_back(convert(values_[index(line.operands[i])], lanes.back()));
    }
    const Held result{call(found, in, lanes, formula), found.result};
    return cut(convert(result, lane_of(line.type.dtype)), line.type.dtype);
  }

  Held constant(const FusedOp& line) {
    const Scalar value = from_attributes<ops::Full>(line.attributes).value;
    const LaneType lane = lane_of(line.type.dtype);
    const int out = new_register(Extent::kOne, lane);
    TileStep step{.extent = Extent::kOne, .run = find_constant(lane), .out = out};
    step.parameters[0] = value.is_integer() ? std::bit_cast<double>(value.as_integer()) : value.as_double();
    step.parameters[1] = value.is_integer() ? 1 : 0;
    tiles_->body.push_back(step);
    return cut(out, line.type.dtype);
  }

  Held reduce(const FusedOp& line) {
    const Held value = values_[index(line.operands[0])];
    const bool mean = is<ops::Mean>(*line.op), sums = mean || is<ops::Sum>(*line.op);
    const LaneType lane = sums ? lane_of(line.type.dtype) : value.lane;
    int source = convert(value, lane);
    if (reg(source).extent != Extent::kTile) {
      const int whole = new_register(Extent::kTile, lane);
      copy_into(whole, source, lane);
      source = whole;
    }
    TileStep step{.kind = TileStep::Kind::kReduce, .extent = Extent::kRow};
    step.reduce = reduce_functions(reduction(*line.op), dtype_of_lane(lane));
    step.parameters[0] = mean ? static_cast<double>(tiles_->columns) : 1;
    if (tiles_->columns == 0) fail("rows of no elements are not reduced inside a fused region");
    step.in[0] = source;
    step.out = new_register(Extent::kRow, lane);
    tiles_->body.push_back(step);
    return {step.out, lane};
  }

  // Turns the register that holds a result into its output memory if possible; otherwise emits a copy of the result.
  void write_output(int o) {
    const int v = program_.outputs[index(o)];
    const TensorType& type = program_.type(v);
    const bool whole = type.numel() == program_.space.numel().value() && type.shape == program_.space;
    const Extent extent = whole ? Extent::kTile : Extent::kRow;
    const Held value = values_[index(v)];
    const bool around_cache = extent == Extent::kTile && type.bytes() >= kUncachedBytes;
    Register& held = reg(value.reg);
    const bool own = held.kind == Register::Kind::kScratch && held.extent == extent && !held.pinned;
    const TileFunction to_memory = find_store(type.dtype);
    if (own && !around_cache && !to_memory && !is_low_precision(type.dtype)) {
      held.kind = Register::Kind::kOutput;
      held.port = o;
      return;
    }
    const int memory = new_register(extent, type.dtype, Register::Kind::kOutput, o);
    if (value.lane == LaneType::kF32 || value.lane == LaneType::kBool)
      return store(value, memory, around_cache);
    int source = value.reg;
    if (!to_memory && own) return stream(source, memory);
    const int target = around_cache ? new_register(extent, type.dtype) : memory;
    if (to_memory && reg(source).extent != extent) {
      const int whole_source = new_register(extent, value.lane);
      copy_into(whole_source, source, value.lane);
      source = whole_source;
    }
    if (to_memory)
      add({.run = to_memory, .out = target}, {source}, {value.lane});
    else
      copy_into(target, source, value.lane);
    if (around_cache) stream(target, memory);
  }

  void store(Held value, int memory, bool around_cache) {
    TileStep step{.kind = TileStep::Kind::kF32, .out = memory, .role = TileStep::Role::kStore};
    step.micro_ops[0] = find_store_micro_op(reg(memory).dtype, false);
    if (around_cache) step.around = find_store_micro_op(reg(memory).dtype, true);
    add(std::move(step), {value.reg}, {value.lane});
  }

  void stream(int source, int memory) {
    TileStep step{.kind = TileStep::Kind::kStream, .extent = Extent::kTile, .out = memory};
    step.in[0] = source;
    tiles_->body.push_back(step);
  }

  // Moves the steps whose result is the same for every tile to the prologue, which runs before the first tile.
  void split_prologue() {
    std::vector<TileStep> body;
    for (const TileStep& step : tiles_->body) {
      const bool once = step.extent == Extent::kOne && reg(step.out).kind == Register::Kind::kScratch;
      if (once) reg(step.out).pinned = true;
      (once ? tiles_->prologue : body).push_back(step);
    }
    tiles_->body = std::move(body);
  }

  void join_f32_steps() {
    std::vector<int> uses(tiles_->registers.size(), 0);
    for (const auto* steps : {&tiles_->prologue, &tiles_->body})
      for (const TileStep& step : *steps)
        for (int r : step.in)
          if (r >= 0) ++uses[index(r)];
    tiles_->prologue = join_chains(std::move(tiles_->prologue), tiles_->registers, uses);
    tiles_->body = join_chains(std::move(tiles_->body), tiles_->registers, uses);
    tiles_->run_chain = find_chain_runner();
  }

  // Assigns buffers to registers. Buffers are sized per element here and reused after the last access that reads them. A value
  // that a chain keeps in vector registers has no buffer. Within a chain, one buffer may hold one value in the current block and
  // the next value in the block before.
  void place_registers() {
    struct Access {
      std::array<int, 3> in;
      int out;
    };
    std::vector<Access> accesses;
    std::vector<int> last_use(tiles_->registers.size(), -1);
    for (const TileStep& step : tiles_->body)
      for_each_access(step, [&](std::array<int, 3> in, int out) {
        for (int r : in)
          if (r >= 0) last_use[index(r)] = static_cast<int>(accesses.size());
        accesses.push_back({in, out});
      });
    std::map<std::pair<Extent, int>, std::vector<int>> free;  // by the extent and element size of a buffer
    const auto give = [&](int r) {
      if (r < 0) return;
      Register& me = reg(r);
      if (me.kind != Register::Kind::kScratch || buffer_of_.contains(r)) return;
      const std::pair<Extent, int> kind{me.extent, static_cast<int>(me.element_bytes())};
      auto& list = free[kind];
      if (me.pinned || list.empty()) {
        buffer_of_[r] = static_cast<int>(buffers_.size());
        buffers_.push_back(kind);
      } else {
        buffer_of_[r] = list.back();
        list.pop_back();
      }
    };
    for (const TileStep& step : tiles_->prologue)
      for_each_access(step, [&](const std::array<int, 3>&, int out) { give(out); });
    for (size_t a = 0; a < accesses.size(); ++a) {
      give(accesses[a].out);
      for (int r : accesses[a].in)
        if (r >= 0 && last_use[index(r)] == static_cast<int>(a) && buffer_of_.contains(r) && !reg(r).pinned) {
          free[{reg(r).extent, static_cast<int>(reg(r).element_bytes())}].push_back(buffer_of_[r]);
          last_use[index(r)] = -2;
        }
    }
  }

  CheckedSize buffer_bytes(const std::pair<Extent, int>& buffer) const {
    const CheckedSize count = buffer.first == Extent::kOne ? 1
                              : buffer.first == Extent::kRow
                                  ? tiles_->tile_rows
                                  : CheckedSize(tiles_->tile_rows) * tiles_->tile_columns;
    return (count * buffer.second).rounded_up(64);
  }

  // Sets the tile size: narrower tiles if many registers are live, so that together they stay in the L1 cache.
  void set_tiles() {
    TileProgram& t = *tiles_;
    int64_t per_element = 0;
    for (const auto& buffer : buffers_)
      if (buffer.first == Extent::kTile) per_element += buffer.second;
    if (!program_.has_rows && t.tile_rows == 1 && per_element > 0)
      t.tile_columns = std::min(t.tile_columns, std::max<int64_t>(128, kTileBytes / per_element / 64 * 64));
    std::vector<int64_t> offsets;
    for (const auto& buffer : buffers_) {
      offsets.push_back(t.scratch_bytes);
      t.scratch_bytes = (buffer_bytes(buffer) + t.scratch_bytes).value();
    }
    for (const auto& [r, buffer] : buffer_of_) reg(r).offset = offsets[index(buffer)];
    if (t.scratch_bytes > kMaxTileScratch)
      fail("rows of {} elements need {} bytes at once, the limit is {}", t.columns, t.scratch_bytes,
           kMaxTileScratch);
    const int64_t width = std::max<int64_t>(1, t.tile_columns);
    t.tiles_per_row = (t.columns + width - 1) / width;
    t.num_tiles = t.tile_rows > 1 ? (t.rows + t.tile_rows - 1) / t.tile_rows : t.rows * t.tiles_per_row;
    if (t.columns == 0) t.num_tiles = 0;
    t.tiles_per_block = std::max<int64_t>(1, kBlockElements / (width * t.tile_rows));
  }

  const FusedProgram& program_;
  std::shared_ptr<TileProgram> tiles_;
  bool one_row_ = true;
  std::vector<Held> values_;
  std::map<int, int> spread_;
  std::map<std::pair<int, LaneType>, int> converted_;
  std::vector<std::pair<Extent, int>> buffers_;
  std::map<int, int> buffer_of_;
};

}  // namespace

std::shared_ptr<const TileProgram> compile_tile_program(const FusedProgram& program) {
  return Compiler(program).compile();
}

}  // namespace genesis::cpu
