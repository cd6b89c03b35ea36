// Slices, concatenation, splitting and padding: boxes copied between dense tensors.
#include "schema/ops/slice.h"

#include <algorithm>

#include "backends/cpu/moves.h"

namespace genesis::cpu {
namespace {

int64_t element_of(const KernelQuery& query) { return static_cast<int64_t>(size_of(query.outputs[0].dtype)); }

size_t axis_of(int64_t axis, const TensorType& type) {
  return static_cast<size_t>(normalize_axis(axis, type.shape.rank()));
}

std::shared_ptr<const void> prepare_slice(const KernelQuery& query) {
  const auto op = from_attributes<ops::Slice>(query.attributes);
  const std::vector<int64_t> to = query.outputs[0].shape.sizes(), from = query.inputs[0].shape.sizes();
  const size_t axis = axis_of(op.axis, query.inputs[0]);
  Box box = whole_box(to);
  box.start[axis] = op.start[0].value();
  box.step[axis] = op.step;
  auto moves = std::make_shared<Moves>();
  moves->moves.push_back({0, 0, copy_box(to, whole_box(to), from, box, element_of(query))});
  return moves;
}

std::shared_ptr<const void> prepare_unslice(const KernelQuery& query) {
  const auto op = from_attributes<ops::Unslice>(query.attributes);
  const std::vector<int64_t> to = query.outputs[0].shape.sizes(), from = query.inputs[0].shape.sizes();
  const size_t axis = axis_of(op.axis, query.inputs[0]);
  const int64_t start = op.start[0].value(), element = element_of(query);
  const bool dense = op.step == 1 || from[axis] <= 1;
  Box box = whole_box(from);
  box.start[axis] = start;
  // Zeros around the box; where it has gaps or runs backwards, zeros everywhere first.
  auto moves = std::make_shared<Moves>();
  Box kept = box;
  if (!dense) kept.start[axis] = kept.length[axis] = 0;
  surround_with_pattern(*moves, to, kept, element);
  StridedCopy copy;
  if (op.step > 0) {
    box.step[axis] = op.step;
    copy = copy_box(to, box, from, whole_box(from), element);
  } else {  // written forwards, read backwards
    Box source = whole_box(from);
    box.start[axis] = start + (from[axis] - 1) * op.step;
    box.step[axis] = -op.step;
    source.start[axis] = from[axis] - 1;
    source.step[axis] = -1;
    copy = copy_box(to, box, from, source, element);
  }
  moves->moves.push_back({0, 0, copy});
  return moves;
}

std::shared_ptr<const void> prepare_concat(const KernelQuery& query) {
  const size_t axis = axis_of(from_attributes<ops::Concat>(query.attributes).axis, query.inputs[0]);
  const std::vector<int64_t> to = query.outputs[0].shape.sizes();
  auto moves = std::make_shared<Moves>();
  int64_t start = 0;
  for (size_t i = 0; i < query.inputs.size(); ++i) {
    const std::vector<int64_t> from = query.inputs[i].shape.sizes();
    Box box = whole_box(from);
    box.start[axis] = start;
    start += from[axis];
    moves->moves.push_back(
        {static_cast<int>(i), 0, copy_box(to, box, from, whole_box(from), element_of(query))});
  }
  return moves;
}

std::shared_ptr<const void> prepare_split(const KernelQuery& query) {
  const size_t axis = axis_of(from_attributes<ops::Split>(query.attributes).axis, query.inputs[0]);
  const std::vector<int64_t> from = query.inputs[0].shape.sizes();
  auto moves = std::make_shared<Moves>();
  int64_t start = 0;
  for (size_t i = 0; i < query.outputs.size(); ++i) {
    const std::vector<int64_t> to = query.outputs[i].shape.sizes();
    Box box = whole_box(to);
    box.start[axis] = start;
    start += to[axis];
    moves->moves.push_back(
        {0, static_cast<int>(i), copy_box(to, whole_box(to), from, box, element_of(query))});
  }
  return moves;
}

std::shared_ptr<const void> prepare_pad(const KernelQuery& query) {
  const auto op = from_attributes<ops::Pad>(query.attributes);
  const std::vector<int64_t> to = query.outputs[0].shape.sizes(), from = query.inputs[0].shape.sizes();
  Box source = whole_box(from), target = whole_box(to);  // what x and the result share
  for (size_t i = 0; i < to.size(); ++i) {
    source.start[i] = std::clamp<int64_t>(-op.before[i], 0, from[i]);
    target.start[i] = std::clamp<int64_t>(op.before[i], 0, to[i]);
    const int64_t end = from[i] - std::clamp<int64_t>(-op.after[i], 0, from[i]);
    source.length[i] = target.length[i] =
        std::clamp<int64_t>(end - source.start[i], 0, to[i] - target.start[i]);
  }
  auto moves = std::make_shared<Moves>();
  moves->pattern = pattern_of(query.outputs[0].dtype, op.value);
  surround_with_pattern(*moves, to, target, element_of(query));
  moves->moves.push_back({0, 0, copy_box(to, target, from, source, element_of(query))});
  return moves;
}

// A slice whose start is data: the copy is prepared as if it were 0.
struct DynamicCopy {
  StridedCopy copy;
  int64_t step_bytes = 0;  // from one position to the next along the axis
  int64_t last = 0;        // greatest start that fits
};

DynamicCopy dynamic_copy(const std::vector<int64_t>& whole, const std::vector<int64_t>& part, size_t axis,
                         bool write, int64_t element) {
  const std::vector<int64_t> outer = dense_strides(whole), inner = dense_strides(part);
  DynamicCopy result;
  result.copy = write ? make_strided_copy(part, outer, inner, element, 0, 0, false)
                      : make_strided_copy(part, inner, outer, element, 0, 0, false);
  result.step_bytes = outer[axis] * element;
  result.last = whole[axis] - part[axis];
  return result;
}

int64_t offset_of(const DynamicCopy& dynamic, const TensorView& start) {
  const int64_t at = start.dtype == DType::i32 ? *start.as<int32_t>() : *start.as<int64_t>();
  return std::clamp<int64_t>(at, 0, dynamic.last) * dynamic.step_bytes;
}

std::shared_ptr<const void> prepare_dynamic_slice(const KernelQuery& query) {
  const size_t axis = axis_of(from_attributes<ops::DynamicSlice>(query.attributes).axis, query.inputs[0]);
  return std::make_shared<const DynamicCopy>(dynamic_copy(
      query.inputs[0].shape.sizes(), query.outputs[0].shape.sizes(), axis, false, element_of(query)));
}

void run_dynamic_slice(const KernelContext& c) {
  const auto& dynamic = c.prepared<DynamicCopy>();
  run_strided_copy(dynamic.copy, c.output().data,
                   c.input(0).as<std::byte>() + offset_of(dynamic, c.input(1)));
}

struct DynamicUpdate {
  StridedCopy all;  // of x, where the result is not in place
  DynamicCopy update;
};

std::shared_ptr<const void> prepare_dynamic_update(const KernelQuery& query) {
  const size_t axis =
      axis_of(from_attributes<ops::DynamicUpdateSlice>(query.attributes).axis, query.inputs[0]);
  const std::vector<int64_t> whole = query.inputs[0].shape.sizes();
  auto prepared = std::make_shared<DynamicUpdate>();
  prepared->all = copy_box(whole, whole_box(whole), whole, whole_box(whole), element_of(query));
  prepared->update = dynamic_copy(whole, query.inputs[1].shape.sizes(), axis, true, element_of(query));
  return prepared;
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
