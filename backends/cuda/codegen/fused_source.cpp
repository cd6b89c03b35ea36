#include "backends/cuda/codegen/fused_source.h"

#include "backends/cuda/codegen/fused_prelude.h"
#include "backends/cuda/codegen/fused_writer.h"

namespace genesis::cuda {

std::string fused_source(const FusedProgram& program, const FusedPlan& plan) {
  std::string text = std::string(kFusedPrelude) + "\nnamespace genesis_device {\n\n";
  text += fmt::format("using index = {};\n", plan.wide_index ? "int64" : "unsigned");
  text += fmt::format("struct Pointers {{ const void* in[{}]; void* out[{}]; }};\n\n",
                      std::max<size_t>(1, program.inputs.size()), program.outputs.size());
  text += program.has_rows ? write_rows(program, plan) : write_elements(program, plan);
  return text + "\n}  // namespace genesis_device\n";
}

}  // namespace genesis::cuda
