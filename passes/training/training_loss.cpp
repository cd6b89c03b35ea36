#include "passes/training/training_loss.h"

#include <utility>

#include "passes/pipelines.h"
#include "passes/precision/cast_precision.h"

namespace genesis::passes {

Graph training_loss(Model& model, const TrainOptions& options) {
  const Graph& authored = std::as_const(model).entry(options.entry);
  if (options.precision == TrainPrecision::kF32) return copy_graph(authored, model);
  check_keep_f32(authored, options.keep_f32);
  const DType low = options.precision == TrainPrecision::kBf16 ? DType::bf16 : DType::f16;
  Graph mixed = mixed_precision(authored, low, options.keep_f32);
  return options.merge_projections ? run_passes(mixed, low_precision_pipeline(), {}) : std::move(mixed);
}

}  // namespace genesis::passes
