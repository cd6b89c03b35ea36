// Slices, concatenation, splitting and padding: boxes copied between dense tensors.
#include <algorithm>

#include "backends/common/moves/move_rules.h"
#include "backends/cpu/moves/run_moves.h"

namespace genesis::cpu {
namespace {

int64_t offset_of(const DynamicCopy& dynamic, const TensorView& start) {
  const int64_t at = start.dtype == DType::i32 ? *start.as<int32_t>() : *start.as<int64_t>();
  return std::clamp<int64_t>(at, 0, dynamic.last) * dynamic.step_bytes;
}

void run_dynamic_slice(const KernelContext& c) {
  const auto& dynamic = c.prepared<DynamicCopy>();
  run_strided_copy(dynamic.copy, c.output().data,
                   c.input(0).as<std::byte>() + offset_of(dynamic, c.input(1)));
}

void run_dynamic_update(const KernelContext& c) {
  const auto& [all, update] = c.prepared<DynamicUpdate>();
  if (c.output().data != c.input(0).data) run_strided_copy(all, c.output().data, c.input(0).data);
  run_strided_copy(update.copy, c.output().as<std::byte>() + offset_of(update, c.input(2)), c.input(1).data);
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

}  // namespace genesis::cpu
