// Slices, concatenation, splitting and padding: boxes copied between dense tensors. The start of a slice may be a
// number on the device. An update in place writes only the update, which is how a KV cache grows.
#include "backends/cuda/moves/moves.h"

namespace genesis::cuda {
namespace {

void run_dynamic_slice(const KernelContext& c) {
  run_dynamic_copy(c, c.prepared<DynamicCopy>(), c.output().data, c.input(0).data, c.input(1),
                   Moving::kSource);
}

void run_dynamic_update(const KernelContext& c) {
  const auto& prepared = c.prepared<DynamicUpdate>();
  copy_whole(c, c.output(), c.input(0));
  if (prepared.runs) return update_runs(c, *prepared.runs);
  run_dynamic_copy(c, prepared.update, c.output().data, c.input(1).data, c.input(2), Moving::kTarget);
}

constexpr OpKernel kKernels[] = {
    {"slice", {.name = "strided", .run = run_moves, .prepare = prepare_slice}},
    {"unslice", {.name = "strided", .run = run_moves, .prepare = prepare_unslice}},
    {"concat", {.name = "strided", .run = run_moves, .prepare = prepare_concat}},
    {"split", {.name = "strided", .run = run_moves, .prepare = prepare_split}},
    {"pad", {.name = "strided", .run = run_moves, .prepare = prepare_pad}},
    {"dynamic_slice", {.name = "strided", .run = run_dynamic_slice, .prepare = prepare_dynamic_slice}},
    {"dynamic_update_slice",
     {.name = "strided", .run = run_dynamic_update, .prepare = prepare_dynamic_update}}};

}  // namespace

std::span<const OpKernel> slice_kernels() { return kKernels; }

}  // namespace genesis::cuda
