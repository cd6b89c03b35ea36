// Every elementwise op on the CPU, including cast, and `fused`, as programs for the tile engine. A node of an elementwise op is a
// program of one op. A new elementwise op needs its formula (schema/ops/elementwise/formulas.h) and a row in tile_f32_*.cpp and
// tile_scalar.cpp, nothing here.
#include "backends/cpu/fused/tile_program.h"
#include "schema/core/error.h"
#include "schema/ops/elementwise/fused.h"

namespace genesis::cpu {
namespace {

std::shared_ptr<const TileProgram> compile(const KernelQuery& query) {
  const bool fused = is<ops::Fused>(query.op);
  return compile_tile_program(
      fused ? parse_fused_program(from_attributes<ops::Fused>(query.attributes), query.inputs)
            : single_op_program(query.op, query.attributes, query.inputs));
}

std::optional<std::string> can_run(const KernelQuery& query) {
  try {
    compile(query);
    return std::nullopt;
  } catch (const Error& error) {
    return error.message();
  }
}

constexpr KernelImpl kTiles = {
    .name = "tiles",
    .run = [](const KernelContext& c) { run_tile_program(c.prepared<TileProgram>(), c); },
    .can_run = can_run,
    .prepare = [](const KernelQuery& query) -> std::shared_ptr<const void> { return compile(query); }};

}  // namespace

std::span<const OpKernel> elementwise_kernels() {
  static const std::vector<OpKernel> rows = [] {
    std::vector<OpKernel> table = {{ops::Fused::info.name, kTiles}};
    for (const OpDef* op : all_ops())
      if (op->info.elementwise) table.push_back({op->name(), kTiles});
    return table;
  }();
  return rows;
}

}  // namespace genesis::cpu
