#include "backends/common/moves/move_rules.h"

#include <algorithm>
#include <utility>

#include "schema/ops/tensor/dynamic_slice.h"
#include "schema/ops/tensor/layout.h"
#include "schema/ops/tensor/slice.h"

namespace genesis {
namespace {

int64_t element_of(const KernelQuery& query) { return static_cast<int64_t>(size_of(query.outputs[0].dtype)); }

size_t axis_of(int64_t axis, const TensorType& type) {
  return static_cast<size_t>(normalize_axis(axis, type.shape.rank()));
}

std::shared_ptr<const void> one_copy(StridedCopy copy) {
  auto moves = std::make_shared<Moves>();
  moves->moves.push_back({0, 0, std::move(copy)});
  return moves;
}

// Returns one copy that fills the output in order and reads the input with `strides`, from element `offset` on.
std::shared_ptr<const void> read_with(const KernelQuery& query, const std::vector<int64_t>& strides,
                                      int64_t offset = 0) {
  const std::vector<int64_t> dims = query.outputs[0].shape.sizes();
  return one_copy(make_strided_copy(dims, dense_strides(dims), strides, element_of(query), 0, offset));
}

// Copies slices of a tensor along an axis, one after the other, into the tensor (`joins`) or out of it.
std::shared_ptr<const void> copy_parts(std::span<const TensorType> parts, const TensorType& whole,
                                       int64_t along, bool joins) {
  const size_t axis = axis_of(along, whole);
  const auto element = static_cast<int64_t>(size_of(whole.dtype));
  const std::vector<int64_t> all = whole.shape.sizes();
  auto moves = std::make_shared<Moves>();
  int64_t start = 0;
  for (int i = 0; i < std::ssize(parts); ++i) {
    const std::vector<int64_t> sizes = parts[static_cast<size_t>(i)].shape.sizes();
    Box box = whole_box(sizes);
    box.start[axis] = start;
    start += sizes[axis];
    if (joins)
      moves->moves.push_back({i, 0, copy_box(all, box, sizes, whole_box(sizes), element)});
    else
      moves->moves.push_back({0, i, copy_box(sizes, whole_box(sizes), all, box, element)});
  }
  return moves;
}

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

}  // namespace

std::shared_ptr<const void> prepare_expand(const KernelQuery& query) {
  const std::vector<int64_t> from = query.inputs[0].shape.sizes(), dense = dense_strides(from);
  std::vector<int64_t> strides(query.outputs[0].shape.dims().size(), 0);
  const size_t extra = strides.size() - from.size();
  for (size_t i = 0; i < from.size(); ++i)
    if (from[i] != 1) strides[extra + i] = dense[i];
  return read_with(query, strides);
}

std::shared_ptr<const void> prepare_permute(const KernelQuery& query) {
  const std::vector<int64_t> from = query.inputs[0].shape.sizes(), dense = dense_strides(from);
  std::vector<int64_t> strides;
  for (int64_t axis : from_attributes<ops::Permute>(query.attributes).axes)
    strides.push_back(dense[axis_of(axis, query.inputs[0])]);
  return read_with(query, strides);
}

std::shared_ptr<const void> prepare_flip(const KernelQuery& query) {
  const std::vector<int64_t> from = query.inputs[0].shape.sizes();
  std::vector<int64_t> strides = dense_strides(from);
  int64_t offset = 0;
  for (int64_t axis : from_attributes<ops::Flip>(query.attributes).axes) {
    const size_t at = axis_of(axis, query.inputs[0]);
    if (from[at] > 0) offset += (from[at] - 1) * strides[at];
    strides[at] = -strides[at];
  }
  return read_with(query, strides, offset);
}

// Each rolled axis cuts the boxes in two; each box is moved as a whole.
std::shared_ptr<const void> prepare_roll(const KernelQuery& query) {
  const auto op = from_attributes<ops::Roll>(query.attributes);
  const std::vector<int64_t> dims = query.inputs[0].shape.sizes();
  std::vector<std::pair<Box, Box>> pieces{{whole_box(dims), whole_box(dims)}};  // target, source
  for (size_t i = 0; i < op.axes.size(); ++i) {
    const size_t at = axis_of(op.axes[i], query.inputs[0]);
    if (dims[at] == 0) continue;
    const int64_t shift = (op.shifts[i] % dims[at] + dims[at]) % dims[at];
    std::vector<std::pair<Box, Box>> cut;
    for (auto& [to, from] : pieces) {
      to.start[at] = shift, from.start[at] = 0;
      to.length[at] = from.length[at] = dims[at] - shift;
      cut.emplace_back(to, from);
      to.start[at] = 0, from.start[at] = dims[at] - shift;
      to.length[at] = from.length[at] = shift;
      if (shift > 0) cut.emplace_back(to, from);
    }
    pieces = std::move(cut);
  }
  auto moves = std::make_shared<Moves>();
  for (const auto& [to, from] : pieces)
    moves->moves.push_back({0, 0, copy_box(dims, to, dims, from, element_of(query))});
  return moves;
}

std::shared_ptr<const void> prepare_reshape(const KernelQuery& query) {
  const std::vector<int64_t> dims{query.inputs[0].numel()};
  return one_copy(copy_box(dims, whole_box(dims), dims, whole_box(dims), element_of(query)));
}

std::shared_ptr<const void> prepare_slice(const KernelQuery& query) {
  const auto op = from_attributes<ops::Slice>(query.attributes);
  const std::vector<int64_t> to = query.outputs[0].shape.sizes(), from = query.inputs[0].shape.sizes();
  const size_t axis = axis_of(op.axis, query.inputs[0]);
  Box box = whole_box(to);
  box.start[axis] = op.start[0].value();
  box.step[axis] = op.step;
  return one_copy(copy_box(to, whole_box(to), from, box, element_of(query)));
}

std::shared_ptr<const void> prepare_unslice(const KernelQuery& query) {
  const auto op = from_attributes<ops::Unslice>(query.attributes);
  const std::vector<int64_t> to = query.outputs[0].shape.sizes(), from = query.inputs[0].shape.sizes();
  const size_t axis = axis_of(op.axis, query.inputs[0]);
  const int64_t start = op.start[0].value(), element = element_of(query);
  const bool dense = op.step == 1 || from[axis] <= 1;
  Box box = whole_box(from);
  box.start[axis] = start;
  // Fills the surroundings of the box with zeros; if the box has gaps or runs backwards, fills everything with zeros first.
  auto moves = std::make_shared<Moves>();
  moves->ordered = !dense;
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
  return copy_parts(query.inputs, query.outputs[0], from_attributes<ops::Concat>(query.attributes).axis,
                    true);
}

std::shared_ptr<const void> prepare_split(const KernelQuery& query) {
  return copy_parts(query.outputs, query.inputs[0], from_attributes<ops::Split>(query.attributes).axis,
                    false);
}

std::shared_ptr<const void> prepare_pad(const KernelQuery& query) {
  const auto op = from_attributes<ops::Pad>(query.attributes);
  const std::vector<int64_t> to = query.outputs[0].shape.sizes(), from = query.inputs[0].shape.sizes();
  Box source = whole_box(from), target = whole_box(to);  // the regions of x and of the result that are copied
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

std::shared_ptr<const void> prepare_dynamic_slice(const KernelQuery& query) {
  const size_t axis = axis_of(from_attributes<ops::DynamicSlice>(query.attributes).axis, query.inputs[0]);
  return std::make_shared<const DynamicCopy>(dynamic_copy(
      query.inputs[0].shape.sizes(), query.outputs[0].shape.sizes(), axis, false, element_of(query)));
}

namespace {

RunUpdate runs_of_update(const KernelQuery& query, size_t axis) {
  const std::vector<int64_t> x = query.inputs[0].shape.sizes(), update = query.inputs[1].shape.sizes();
  RunUpdate runs;
  runs.rows = query.inputs[2].numel();
  for (size_t i = 0; i < axis; ++i) runs.outer *= x[i];
  if (runs.rows > 1) runs.outer /= runs.rows;
  runs.steps = update[axis];
  runs.positions = x[axis];
  runs.bytes = element_of(query);
  for (size_t i = axis + 1; i < x.size(); ++i) runs.bytes *= x[i];
  return runs;
}

}  // namespace

std::shared_ptr<const void> prepare_dynamic_update(const KernelQuery& query) {
  const size_t axis =
      axis_of(from_attributes<ops::DynamicUpdateSlice>(query.attributes).axis, query.inputs[0]);
  const std::vector<int64_t> whole = query.inputs[0].shape.sizes();
  auto prepared = std::make_shared<DynamicUpdate>();
  prepared->all = copy_box(whole, whole_box(whole), whole, whole_box(whole), element_of(query));
  prepared->update = dynamic_copy(whole, query.inputs[1].shape.sizes(), axis, true, element_of(query));
  if (query.inputs.size() > 3 || query.inputs[2].numel() != 1) prepared->runs = runs_of_update(query, axis);
  return prepared;
}

}  // namespace genesis
