// Strided copies on the device, which implement reshape, expand, permute, flip, roll, slice, concat, split, pad and
// full. The geometry comes from backends/common/moves/move_rules.h. Accesses are as wide as sizes and addresses
// allow, and the copies of one step share a launch.
#pragma once

#include "backends/common/moves/move_rules.h"
#include "backends/cuda/device/divisor.h"
#include "backends/kernel.h"

namespace genesis::cuda {

void run_moves(const KernelContext& c);  // runs prepared<Moves>()

// Copies a whole tensor, unless it is in place already.
void copy_whole(const KernelContext& c, const TensorView& to, const TensorView& from);

// Runs one copy that is not in a list of moves.
void run_copy(const KernelContext& c, const StridedCopy& copy, void* to, const void* from);

// Runs a copy whose position along an axis is a number on the device: `start` moves the target or the source.
enum class Moving : uint8_t { kTarget, kSource };
void run_dynamic_copy(const KernelContext& c, const DynamicCopy& dynamic, void* to, const void* from,
                      const TensorView& start, Moving moving);

// Updates each row of axis 0 at its own start, or with a length that is data. Takes c's inputs x, update, start [,
// length]; the output holds x already.
void update_runs(const KernelContext& c, const RunUpdate& runs);

// --- arguments of the kernels; public for tests

inline constexpr int kMoveAxes = kMaxRank + 1;

struct DeviceMove {
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  int64_t items = 0;       // accesses of `width` bytes
  int32_t rank = 0;        // number of axes of the items
  int32_t width = 1;       // bytes per access: 1, 2, 4, 8 or 16
  int32_t splat = 0;       // bytes of the element that each item repeats; 0: items are copied as they are
  int32_t per_thread = 1;  // items per thread
  uint64_t pattern = 0;    // if `from` is null: the element, repeated
  Divisor dims[kMoveAxes];
  int64_t to_strides[kMoveAxes] = {}, from_strides[kMoveAxes] = {};  // bytes
};

// The addresses may later move by multiples of `shift_bytes`.
DeviceMove make_device_move(const StridedCopy& copy, void* to, const void* from, uint64_t pattern,
                            int64_t shift_bytes);

}  // namespace genesis::cuda
