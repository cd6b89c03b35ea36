// Strided copies on the device: what reshape, expand, permute, flip, roll, slice, concat, split, pad and full
// are. The geometry comes from backends/common/moves/move_rules.h; accesses are as wide as sizes and addresses allow,
// and the copies of one step share a launch.
#pragma once

#include "backends/common/moves/move_rules.h"
#include "backends/cuda/device/divisor.h"
#include "backends/kernel.h"

namespace genesis::cuda {

void run_moves(const KernelContext& c);  // prepared<Moves>()

// All of a tensor, where it is not there already.
void copy_whole(const KernelContext& c, const TensorView& to, const TensorView& from);

// Outside a list: one copy.
void run_copy(const KernelContext& c, const StridedCopy& copy, void* to, const void* from);

// One copy whose place along an axis is a number on the device: `start` moves the target, or the source.
enum class Moving : uint8_t { kTarget, kSource };
void run_dynamic_copy(const KernelContext& c, const DynamicCopy& dynamic, void* to, const void* from,
                      const TensorView& start, Moving moving);

// An update of each row of axis 0 at a start of its own, or of a length that is data: of c's inputs x, update, start
// [, length] into its output, which holds x already.
void update_runs(const KernelContext& c, const RunUpdate& runs);

// --- what the kernels are given; tests look at it

inline constexpr int kMoveAxes = kMaxRank + 1;

struct DeviceMove {
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  int64_t items = 0;       // accesses of `width` bytes
  int32_t rank = 0;        // of the items
  int32_t width = 1;       // 1, 2, 4, 8 or 16
  int32_t splat = 0;       // bytes of the element each item repeats; 0: items are copied as they are
  int32_t per_thread = 1;  // items
  uint64_t pattern = 0;    // the element, repeated, where `from` is null
  Divisor dims[kMoveAxes];
  int64_t to_strides[kMoveAxes] = {}, from_strides[kMoveAxes] = {};  // bytes
};

// `shift_bytes`: what the addresses may later move by a multiple of.
DeviceMove make_device_move(const StridedCopy& copy, void* to, const void* from, uint64_t pattern,
                            int64_t shift_bytes);

}  // namespace genesis::cuda
