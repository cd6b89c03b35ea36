// The implementation `quantized_panels` of linear, for many rows of x and quantized weights.
#include <fmt/format.h>

#include "backends/common/matmul_problem.h"
#include "backends/cpu/product_implementations.h"
#include "backends/cpu/quantized/quantized_panels.h"

namespace genesis::cpu {
namespace {

// With fewer than 24 rows of x, making panels costs more than it gains. Up to 32 rows belong to quantized_gemv as well, whose
// bits do not depend on the number of rows: a short prompt is read in one chunk of up to 32 rows, padded only if the cache has
// room (executor/generation/prompt_reader.cpp), and a text must not depend on the size of the cache.
constexpr int64_t kFewestRows = 33;

struct Prepared {
  QuantizedPanels panels;
  bool has_bias, has_addend;
};

std::shared_ptr<const Prepared> made(const KernelQuery& query) {
  const auto op = from_attributes<ops::Linear>(query.attributes);
  const TensorType& x = query.inputs[0];
  const PanelProblem problem{.dtype = x.dtype,
                             .out = query.outputs[0].dtype,
                             .format = op.weight_format,
                             .m = rows_of_x(x.shape),
                             .n = query.inputs[1].shape[0].value(),
                             .k = x.shape[x.shape.rank() - 1].value(),
                             .activation = op.activation};
  return std::make_shared<const Prepared>(
      Prepared{QuantizedPanels(problem), op.has_bias(query.inputs.size()), op.has_addend});
}

std::optional<std::string> decline(const KernelQuery& query) {
  if (auto why = decline_all_but_quantized(query)) return why;
  if (!has_quantized_panels()) return "a CPU without AVX512-VNNI";
  if (query.inputs[0].numel() == 0 || query.outputs[0].numel() == 0) return "no elements";
  if (rows_are_alone(query.inputs[0].shape)) return "rows that are alone";
  if (rows_of_x(query.inputs[0].shape) < kFewestRows) return fmt::format("fewer than {} rows", kFewestRows);
  return std::nullopt;
}

int64_t quantized_panels_scratch(const KernelQuery& query) { return made(query)->panels.scratch_bytes(); }
std::shared_ptr<const void> prepare_quantized_panels(const KernelQuery& query) { return made(query); }

void run_quantized_panels(const KernelContext& c) {
  const auto& p = c.prepared<Prepared>();
  p.panels.run({.x = c.input(0).data,
                .quants = c.input(1).data,
                .scales = c.input(2).data,
                .bias = p.has_bias ? c.input(3).data : nullptr,
                .addend = p.has_addend ? c.inputs.back().data : nullptr,
                .c = c.output().data},
               c.scratch);
}

}  // namespace

KernelImpl linear_quantized_panels_implementation() {
  return {.name = "quantized_panels",
          .run = run_quantized_panels,
          .can_run = decline,
          .scratch_bytes = quantized_panels_scratch,
          .prepare = prepare_quantized_panels};
}

}  // namespace genesis::cpu
