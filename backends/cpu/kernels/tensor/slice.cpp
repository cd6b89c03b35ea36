// Slices, concatenation, splitting and padding: copies of boxes between dense tensors.
#include <algorithm>
#include <cstring>

#include "backends/common/moves/move_rules.h"
#include "backends/cpu/moves/run_moves.h"
#include "backends/cpu/parallel/parallel.h"

namespace genesis::cpu {
namespace {

int64_t number_at(const TensorView& numbers, int64_t i) {
  return numbers.dtype == DType::i32 ? numbers.as<int32_t>()[i] : numbers.as<int64_t>()[i];
}

int64_t offset_of(const DynamicCopy& dynamic, const TensorView& start) {
  const int64_t at = number_at(start, 0);
  return std::clamp<int64_t>(at, 0, dynamic.last) * dynamic.step_bytes;
}

void run_dynamic_slice(const KernelContext& c) {
  const auto& dynamic = c.prepared<DynamicCopy>();
  run_strided_copy(dynamic.copy, c.output().data,
                   c.input(0).as<std::byte>() + offset_of(dynamic, c.input(1)));
}

// The steps [0, count) of a row's update are written to positions from `start` on.
struct StepRange {
  int64_t start, count;
};

// Without lengths, a start is clamped such that all steps fit; with lengths, a start out of range is reported.
StepRange range_of(const KernelContext& c, const RunUpdate& runs, int64_t row) {
  const int64_t start = number_at(c.input(2), row);
  if (c.inputs.size() < 4)
    return {std::clamp<int64_t>(start, 0, std::max<int64_t>(0, runs.positions - runs.steps)), runs.steps};
  const int64_t count = number_at(c.input(3), row);
  if (count < 0 || count > runs.steps) return c.fault->report(count, runs.steps + 1), StepRange{0, 0};
  if (start < 0 || start > runs.positions - count)
    return c.fault->report(start, runs.positions - count + 1), StepRange{0, 0};
  return {start, count};
}

void update_runs(const KernelContext& c, const RunUpdate& runs) {
  const auto update = [&](int64_t chunk) {
    const StepRange range = range_of(c, runs, chunk / runs.outer);
    if (range.count == 0 || runs.bytes == 0) return;
    std::memcpy(c.output().as<std::byte>() + (chunk * runs.positions + range.start) * runs.bytes,
                c.input(1).as<std::byte>() + chunk * runs.steps * runs.bytes,
                static_cast<size_t>(range.count * runs.bytes));
  };
  const int64_t chunks = runs.rows * runs.outer;
  if (chunks * runs.steps * runs.bytes > kInlineBytes) return parallel_chunks(chunks, update);
  for (int64_t chunk = 0; chunk < chunks; ++chunk) update(chunk);
}

void run_dynamic_update(const KernelContext& c) {
  const auto& [all, update, runs] = c.prepared<DynamicUpdate>();
  if (c.output().data != c.input(0).data) run_strided_copy(all, c.output().data, c.input(0).data);
  if (runs) return update_runs(c, *runs);
  run_strided_copy(update.copy, c.output().as<std::byte>() + offset_of(update, c.input(2)), c.input(1).data);
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

}  // namespace genesis::cpu
