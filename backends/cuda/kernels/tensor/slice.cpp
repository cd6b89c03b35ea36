// Slices, concatenation, splitting and padding: boxes copied between dense tensors. Where a slice starts may
// be a number on the device; an update in place writes the update alone, which is how a KV cache grows.
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

constexpr KernelImpl kSlice[] = {{.name = "strided", .run = run_moves, .prepare = prepare_slice}};
constexpr KernelImpl kUnslice[] = {{.name = "strided", .run = run_moves, .prepare = prepare_unslice}};
constexpr KernelImpl kConcat[] = {{.name = "strided", .run = run_moves, .prepare = prepare_concat}};
constexpr KernelImpl kSplit[] = {{.name = "strided", .run = run_moves, .prepare = prepare_split}};
constexpr KernelImpl kPad[] = {{.name = "strided", .run = run_moves, .prepare = prepare_pad}};
constexpr KernelImpl kDynamicSlice[] = {
    {.name = "strided", .run = run_dynamic_slice, .prepare = prepare_dynamic_slice}};
constexpr KernelImpl kDynamicUpdate[] = {
    {.name = "strided", .run = run_dynamic_update, .prepare = prepare_dynamic_update}};
constexpr OpKernels kKernels[] = {{"slice", kSlice},
                                  {"unslice", kUnslice},
                                  {"concat", kConcat},
                                  {"split", kSplit},
                                  {"pad", kPad},
                                  {"dynamic_slice", kDynamicSlice},
                                  {"dynamic_update_slice", kDynamicUpdate}};

}  // namespace

std::span<const OpKernels> slice_kernels() { return kKernels; }

}  // namespace genesis::cuda
