// The `fused` op on the CPU: its program, run by the tile engine.
#include "backends/cpu/tile_program.h"
#include "schema/error.h"

namespace genesis::cpu {
namespace {

std::shared_ptr<const TileProgram> compile(const KernelQuery& query) {
  return compile_tile_program(
      parse_fused_program(from_attributes<ops::Fused>(query.attributes), query.inputs));
}

std::optional<std::string> can_run(const KernelQuery& query) {
  try {
    compile(query);
    return std::nullopt;
  } catch (const Error& error) {
    return error.message();
  }
}

constexpr KernelImpl kTiles[] = {
    {.name = "tiles",
     .run = [](const KernelContext& c) { run_tile_program(c.prepared<TileProgram>(), c); },
     .can_run = can_run,
     .prepare = [](const KernelQuery& query) -> std::shared_ptr<const void> { return compile(query); }}};

constexpr OpKernels kRows[] = {{"fused", kTiles}};

}  // namespace

std::span<const OpKernels> fused_kernels() { return kRows; }

}  // namespace genesis::cpu
