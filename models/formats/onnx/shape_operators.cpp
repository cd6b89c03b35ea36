// Operators that change shapes or move elements as a whole, and those that make tensors from nothing.
#include <algorithm>
#include <cmath>
#include <limits>

#include "builder/functions.h"
#include "models/formats/bounded_sizes.h"
#include "models/formats/onnx/operators.h"
#include "models/formats/repetitions.h"
#include "schema/core/error.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/tensor/index.h"

namespace genesis::models::onnx {
namespace {

int axis_of(Call& call, Value x, const char* name, int64_t otherwise) {
  return normalize_axis(call.attribute(name, otherwise), x.rank(), name);
}

// --- sizes as values

Results shape_of(Call& call) {
  const Value x = call.tensor(0);
  const auto bound = [&](const char* name, int64_t otherwise) {
    const int64_t given = call.attribute(name, otherwise);
    return std::clamp<int64_t>(given < 0 ? given + x.rank() : given, 0, x.rank());
  };
  const int64_t start = bound("start", 0), end = std::max(bound("end", x.rank()), start);
  KnownSizes sizes{{end - start}, {}};
  for (int64_t axis = start; axis < end; ++axis) sizes.elements.push_back(x.dim(axis));
  return {item_of(value_of_sizes(call.graph(), sizes, DType::i64))};
}
Value size_of_all(Call& call) {
  return value_of_sizes(call.graph(), {{}, {call.tensor(0).shape().numel()}}, DType::i64);
}

// --- shapes

Value reshaped(Call& call) {
  const Value x = call.tensor(0);
  std::vector<Dim> sizes;
  if (call.version() < 5)
    for (const int64_t size : call.list("shape")) sizes.emplace_back(size);
  else
    sizes = call.sizes(1);
  const bool keeps_zeros = call.attribute("allowzero", 0) != 0;
  call.accept_any("consumed_inputs");
  for (size_t axis = 0; axis < sizes.size(); ++axis)
    if (!keeps_zeros && sizes[axis] == Dim(0)) sizes[axis] = x.dim(static_cast<int64_t>(axis));
  return reshape(x, Shape(sizes));
}
Value flattened(Call& call) {
  const Value x = call.tensor(0);
  int64_t axis = call.attribute("axis", 1);
  if (axis < 0) axis += x.rank();
  if (axis < 0 || axis > x.rank()) fail("its axis {} is none of {}", axis, x.rank());
  Dim before = 1, behind = 1;
  for (int64_t i = 0; i < x.rank(); ++i)
    (i < axis ? before : behind) = (i < axis ? before : behind) * x.dim(i);
  return reshape(x, {before, behind});
}
Value transposed(Call& call) {
  const Value x = call.tensor(0);
  std::vector<int64_t> axes = call.list("perm");
  if (axes.empty())
    for (int axis = x.rank() - 1; axis >= 0; --axis) axes.push_back(axis);
  return axes.size() < 2 ? x : permute(x, axes);
}
Value squeezed(Call& call) {
  const Value x = call.tensor(0);
  std::vector<int64_t> axes = call.list_or_input("axes", 1);
  std::vector<bool> goes(static_cast<size_t>(x.rank()));
  for (const int64_t axis : axes) goes[static_cast<size_t>(normalize_axis(axis, x.rank()))] = true;
  Shape shape;
  for (int axis = 0; axis < x.rank(); ++axis) {
    const bool is_one = x.dim(axis) == Dim(1), is_named = goes[static_cast<size_t>(axis)];
    if (is_named && !is_one) fail("it removes axis {} of {}", axis, x.type().to_string());
    if (!(is_named || (axes.empty() && is_one))) shape.push_back(x.dim(axis));
  }
  return reshape(x, shape);
}
Value unsqueezed(Call& call) {
  const Value x = call.tensor(0);
  const std::vector<int64_t> axes = call.list_or_input("axes", 1);
  const int rank = x.rank() + static_cast<int>(axes.size());
  std::vector<bool> is_new(static_cast<size_t>(rank));
  for (const int64_t axis : axes) is_new[static_cast<size_t>(normalize_axis(axis, rank))] = true;
  Shape shape;
  for (int axis = 0, own = 0; axis < rank; ++axis)
    shape.push_back(is_new[static_cast<size_t>(axis)] || own >= x.rank() ? Dim(1) : x.dim(own++));
  return reshape(x, shape);
}
Value expanded(Call& call) {
  const Value x = call.tensor(0);
  return expand(x, broadcast(x.shape(), Shape(call.sizes(1))));
}
Value tiled(Call& call) {
  Value x = call.tensor(0);
  if (call.version() < 6) {
    std::vector<int64_t> repeats(static_cast<size_t>(x.rank()), 1);
    repeats[static_cast<size_t>(normalize_axis(call.integer(2), x.rank()))] = call.integer(1);
    return tile(x, repeats);
  }
  return repeat_by_sizes(x, call.sizes(1));
}

// --- pieces

Value joined(Call& call) {
  const std::vector<Value> xs = call.tensors();
  if (xs.empty()) fail("it joins no tensors");
  return xs.size() == 1 ? xs[0] : concat(xs, normalize_axis(call.attribute("axis", 1), xs[0].rank()));
}

std::vector<Dim> piece_sizes(Call& call, const Dim& size, size_t count) {
  if (call.has_attribute("split")) {
    const auto given = call.list("split");
    return {given.begin(), given.end()};
  }
  if (call.has(1)) return call.sizes(1);
  const auto pieces = call.attribute("num_outputs", static_cast<int64_t>(count));
  if (const auto exact = size.divide_exact(pieces))
    return std::vector<Dim>(static_cast<size_t>(pieces), *exact);
  const int64_t each = (size.value() + pieces - 1) / pieces;
  std::vector<Dim> sizes;
  for (int64_t rest = size.value(); static_cast<int64_t>(sizes.size()) < pieces; rest -= each)
    sizes.emplace_back(std::clamp<int64_t>(rest, 0, each));
  return sizes;
}
Results split_in_pieces(Call& call) {
  const Value x = call.tensor(0);
  const int axis = axis_of(call, x, "axis", 0);
  std::vector<Value> pieces;
  Dim at = 0;
  for (const Dim& size : piece_sizes(call, x.dim(axis), call.node().outputs.size())) {
    pieces.push_back(narrow(x, axis, at, size));
    at = at + size;
  }
  return results_of(pieces);
}

// A bound beyond 31 bits means the end, since exporters write the greatest number of their own type.
constexpr int64_t kFar = std::numeric_limits<int32_t>::max();

Dim slice_bound(const Dim& given, const Dim& size) {
  if (!given.is_constant()) return given;
  const int64_t at = given.value();
  if (at >= kFar) return size;
  if (!size.is_constant()) return at < 0 ? (at <= -kFar ? Dim(0) : size + at) : Dim(at);
  return std::clamp(at < 0 ? at + size.value() : at, int64_t{0}, size.value());
}

Value sliced_once(Value x, int axis, const Dim& start, const Dim& end, int64_t step) {
  const Dim size = x.dim(axis);
  if (step == 0) fail("a slice in steps of 0");
  if (step != 1 && start.is_constant() && end.is_constant()) {
    int64_t first = start.value(), last = end.value();
    if (step < 0 && (last <= -kFar || (size.is_constant() && last < -size.value()))) last = kToEnd;
    if (step > 0 && last >= kFar) last = kToEnd;
    if (step < 0 && first >= kFar) first = size.is_constant() ? size.value() - 1 : -1;
    return slice(x, axis, first, last, step);
  }
  const Dim begin = slice_bound(start, size), stop = slice_bound(end, size), length = stop - begin;
  if (step != 1)
    fail("a slice in steps of {} from {} to {}: expected known bounds", step, begin.to_string(),
         stop.to_string());
  if (begin == Dim(0) && stop == size) return x;
  return narrow(x, axis, begin, length.is_constant() ? std::max<int64_t>(length.value(), 0) : length);
}

// Bounds that depend on a loop's data: a run of the body has others in each step, so that no value of an input settles them.
bool follows_loop(Call& call, size_t place) {
  if (!call.has(place) || call.try_sizes(place)) return false;
  return call.environment().in_body || call.environment().known.follows_loop(call.tensor(place));
}

Value number_of_data(Call& call, size_t place) {
  const Value value = call.tensor(place);
  if (!value.shape().is_constant() || value.type().numel() != 1)
    fail("its input {} is {} and depends on data: expected one number", place, value.type().to_string());
  return reshape(cast(value, DType::i64), {});
}

// The positions start, start + 1, ... of a length that is known though the start depends on data: [i, i + n) or [i, min(size, i + n)).
// Nothing if the bounds are no such ones. A run in which the end would be cut off at `size` is refused, since a position is out of range.
std::optional<Value> positions_from(Call& call, size_t first, size_t end, std::optional<int64_t> size) {
  KnownValues& known = call.environment().known;
  const Shifted a = known.shifted(call.tensor(first)), b = known.shifted(call.tensor(end));
  const int64_t length = b.offset - a.offset;
  if (a.base != b.base || a.limit || length < 1 || (size && b.limit && *b.limit < *size)) return std::nullopt;
  const Value positions = arange(call.graph(), length) + number_of_data(call, first);
  const auto limit = size ? size : b.limit;
  return limit ? index_select(arange(call.graph(), *limit), 0, positions) : positions;
}

Value sliced_by_data(Call& call) {
  const Value x = call.tensor(0);
  const int axis = normalize_axis(call.has(3) ? call.integer(3) : 0, x.rank());
  if (call.has(4) && call.integer(4) != 1) fail("a slice whose bounds depend on data has steps");
  if (!x.dim(axis).is_constant())
    fail("a slice of {} has bounds that depend on data: expected a known size", x.type().to_string());
  const int64_t size = x.dim(axis).value();
  if (const auto positions = positions_from(call, 1, 2, size)) return index_select(x, axis, *positions);
  const Value all = arange(call.graph(), size);
  const auto bound = [&](size_t place) {
    const Value given = number_of_data(call, place);
    return where(given < 0, given + size, given);
  };
  const Value places = with_symbol(nonzero(logical_and(all >= bound(1), all < bound(2))));
  return index_select(x, axis, reshape(places, {places.dim(0)}));
}

Value sliced(Call& call) {
  if (call.version() >= 10 && (follows_loop(call, 1) || follows_loop(call, 2))) return sliced_by_data(call);
  Value x = call.tensor(0);
  std::vector<Dim> starts, ends;
  std::vector<int64_t> axes, steps;
  if (call.version() < 10) {
    for (const int64_t start : call.list("starts")) starts.emplace_back(start);
    for (const int64_t end : call.list("ends")) ends.emplace_back(end);
    axes = call.list("axes");
  } else {
    starts = call.sizes(1), ends = call.sizes(2);
    if (call.has(3)) axes = call.integers(3);
    if (call.has(4)) steps = call.integers(4);
  }
  if (starts.size() != ends.size() || (!axes.empty() && axes.size() != starts.size()) ||
      (!steps.empty() && steps.size() != starts.size()))
    fail("its starts, ends, axes and steps differ in number");
  for (size_t i = 0; i < starts.size(); ++i) {
    const int axis = normalize_axis(axes.empty() ? static_cast<int64_t>(i) : axes[i], x.rank());
    x = sliced_once(x, axis, starts[i], ends[i], steps.empty() ? 1 : steps[i]);
  }
  return x;
}

// --- padding

PadMode pad_mode(const std::string& mode) {
  if (mode == "constant") return PadMode::kConstant;
  if (mode == "reflect") return PadMode::kReflect;
  if (mode == "edge") return PadMode::kReplicate;
  if (mode == "wrap") return PadMode::kCircular;
  fail("its mode is '{}': read are constant, reflect, edge and wrap", mode);
}

Value padded(Call& call) {
  Value x = call.tensor(0);
  const auto rank = static_cast<size_t>(x.rank());
  const std::vector<int64_t> amounts = call.version() < 2    ? call.list("paddings")
                                       : call.version() < 11 ? call.list("pads")
                                                             : call.integers(1);
  std::vector<int64_t> axes(rank);
  for (size_t i = 0; i < rank; ++i) axes[i] = static_cast<int64_t>(i);
  if (call.has(3)) axes = call.integers(3);
  if (amounts.size() != 2 * axes.size()) fail("it has {} amounts for {} axes", amounts.size(), axes.size());
  std::vector<int64_t> before(rank), after(rank), less_before(rank), less_after(rank);
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<size_t>(normalize_axis(axes[i], x.rank()));
    before[axis] = std::max<int64_t>(amounts[i], 0), less_before[axis] = std::min<int64_t>(amounts[i], 0);
    const int64_t behind = amounts[i + axes.size()];
    after[axis] = std::max<int64_t>(behind, 0), less_after[axis] = std::min<int64_t>(behind, 0);
  }
  x = pad(x, less_before, less_after);
  const PadMode mode = pad_mode(call.text("mode", "constant"));
  if (mode != PadMode::kConstant) return pad(x, before, after, 0, mode);
  if (!call.has(2)) return pad(x, before, after, call.real("value", 0));
  const auto value =
      call.item(2)->tensor ? call.item(2)->tensor : call.environment().known.tensor(call.tensor(2));
  if (value && value->numel() == 1) return pad(x, before, after, value->to_doubles()[0]);
  const Value inside = pad(call.g().ones(x.shape(), DType::i32), before, after);
  return where(inside == 1, pad(x, before, after), reshape(call.tensor(2), {}));
}

Value cropped_or_padded(Call& call) {
  Value x = call.tensor(0);
  std::vector<int64_t> axes = call.list("axes");
  if (axes.empty())
    for (int axis = 0; axis < x.rank(); ++axis) axes.push_back(axis);
  const std::vector<int64_t> sizes = call.integers(1);
  if (sizes.size() != axes.size()) fail("it has {} sizes for {} axes", sizes.size(), axes.size());
  for (size_t i = 0; i < axes.size(); ++i) {
    const int axis = normalize_axis(axes[i], x.rank());
    const int64_t size = x.dim(axis).value(), wanted = sizes[i];
    if (wanted < size) x = narrow(x, axis, (size - wanted) / 2, wanted);
    std::vector<int64_t> before(static_cast<size_t>(x.rank())), after = before;
    before[static_cast<size_t>(axis)] = std::max<int64_t>(wanted - size, 0) / 2;
    after[static_cast<size_t>(axis)] =
        std::max<int64_t>(wanted - size, 0) - before[static_cast<size_t>(axis)];
    if (wanted > size) x = pad(x, before, after);
  }
  return x;
}

// --- blocks

Value space_from_depth(Call& call) {
  const Value x = call.tensor(0);
  const int64_t block = call.attribute("blocksize", 1);
  const auto channels = x.dim(1).divide_exact(block * block);
  if (block < 1 || !channels) fail("{} channels are not made of blocks of {}", x.dim(1).to_string(), block);
  const std::string mode = call.text("mode", "DCR");
  const Shape whole = {x.dim(0), *channels, x.dim(2) * block, x.dim(3) * block};
  if (mode == "CRD")
    return reshape(
        permute(reshape(x, {x.dim(0), *channels, block, block, x.dim(2), x.dim(3)}), {0, 1, 4, 2, 5, 3}),
        whole);
  if (mode != "DCR") fail("its mode is '{}': expected DCR or CRD", mode);
  return reshape(
      permute(reshape(x, {x.dim(0), block, block, *channels, x.dim(2), x.dim(3)}), {0, 3, 4, 1, 5, 2}),
      whole);
}
Value depth_from_space(Call& call) {
  const Value x = call.tensor(0);
  const int64_t block = call.attribute("blocksize", 1);
  const auto height = x.dim(2).divide_exact(block), width = x.dim(3).divide_exact(block);
  if (block < 1 || !height || !width) fail("{} is not made of blocks of {}", x.type().to_string(), block);
  const std::string mode = call.text("mode", "DCR");
  if (mode != "DCR" && mode != "CRD") fail("its mode is '{}': expected DCR or CRD", mode);
  const Value blocks = reshape(x, {x.dim(0), x.dim(1), *height, block, *width, block});
  const std::vector<int64_t> axes =
      mode == "DCR" ? std::vector<int64_t>{0, 3, 5, 1, 2, 4} : std::vector<int64_t>{0, 1, 3, 5, 2, 4};
  return reshape(permute(blocks, axes), {x.dim(0), x.dim(1) * (block * block), *height, *width});
}

Value triangle(Call& call) {
  const Value x = call.tensor(0);
  const int64_t diagonal = call.has(1) ? call.integer(1) : 0;
  return call.attribute("upper", 1) != 0 ? triu(x, diagonal) : tril(x, diagonal);
}

// --- creation

ItemPtr item_of_tensor(Tensor tensor, OnnxElement element) {
  auto item = std::make_shared<Item>();
  item->tensor = std::move(tensor);
  item->element = element;
  return item;
}
Results constant(Call& call) {
  const OnnxAttribute* value = call.node().attribute("value");
  if (auto tensor = call.tensor_attribute("value"))
    return {item_of_tensor(*tensor, static_cast<OnnxElement>(value->tensor->type.element))};
  if (call.has_attribute("value_float"))
    return {
        item_of_tensor(Tensor::scalar(static_cast<float>(call.real("value_float", 0))), OnnxElement::kF32)};
  if (call.has_attribute("value_int"))
    return {item_of_tensor(Tensor::scalar(call.attribute("value_int", 0)), OnnxElement::kI64)};
  if (call.has_attribute("value_ints"))
    return {item_of_tensor(Tensor::of(call.list("value_ints")), OnnxElement::kI64)};
  if (!call.has_attribute("value_floats")) fail("it has no value that is read: numbers, or a dense tensor");
  const std::vector<double> reals = call.reals("value_floats");
  return {item_of_tensor(Tensor::of(std::vector<float>(reals.begin(), reals.end())), OnnxElement::kF32)};
}
Results filled(Call& call) {
  const auto value = call.tensor_attribute("value");
  const Shape shape(call.sizes(0));
  if (!value) return {item_of(call.g().zeros(shape))};
  const auto element = static_cast<OnnxElement>(call.node().attribute("value")->tensor->type.element);
  if (value->numel() != 1) fail("its value has {} elements: expected one", value->numel());
  if (value->dtype() == DType::i64)
    return {item_of(call.g().full(shape, value->as<int64_t>()[0], DType::i64), element)};
  return {item_of(call.g().full(shape, value->to_doubles()[0], value->dtype()), element)};
}
Value counted(Call& call) {
  const DType dtype = call.tensor(0).dtype();
  if (is_float(dtype)) {
    const double start = call.number(0), limit = call.number(1), step = call.number(2);
    if (step == 0) fail("a range in steps of 0");
    const auto length = static_cast<int64_t>(std::max(std::ceil((limit - start) / step), 0.0));
    return arange(call.graph(), length, start, step, dtype);
  }
  const int64_t step = call.integer(2);
  if (step == 1 && (follows_loop(call, 0) || follows_loop(call, 1)))
    if (const auto positions = positions_from(call, 0, 1, std::nullopt)) return cast(*positions, dtype);
  const Dim start = call.sizes(0).at(0), limit = call.sizes(1).at(0);
  if (step == 0) fail("a range in steps of 0");
  const Dim distance = limit - start;
  const int64_t first = call.number_of(0, start);
  if (step == 1 && !distance.is_constant()) return arange(call.graph(), distance, first, 1, dtype);
  const int64_t all = call.number_of(1, distance),
                length = step > 0 ? (all + step - 1) / step : (all + step + 1) / step;
  return arange(call.graph(), std::max<int64_t>(length, 0), first, step, dtype);
}
Value identity_like(Call& call) {
  const Value x = call.tensor(0);
  const int64_t diagonal = call.attribute("k", 0);
  const auto dtype = onnx_storage(
      static_cast<OnnxElement>(call.attribute("dtype", static_cast<int64_t>(onnx_element_of(x.dtype())))));
  if (!dtype || x.rank() != 2) fail("an identity like {} is not read", x.type().to_string());
  const Value rows = unsqueeze(arange(call.graph(), x.dim(0), diagonal), 1),
              columns = arange(call.graph(), x.dim(1));
  return cast(rows == columns, *dtype);
}

}  // namespace

const Operators& shape_operators() {
  static const Operators kOperators = {
      {"CenterCropPad", one<cropped_or_padded>},
      {"Concat", one<joined>, 1, Takes::kAny},
      {"Constant", constant, 1, Takes::kAnyAlone},
      {"ConstantOfShape", filled},
      {"DepthToSpace", one<space_from_depth>, 1, Takes::kAny},
      {"Expand", one<expanded>, 1, Takes::kAny},
      {"EyeLike", one<identity_like>},
      {"Flatten", one<flattened>, 1, Takes::kAny},
      {"Pad", one<padded>, 1, Takes::kUnsigned},
      {"Range", one<counted>},
      {"Reshape", one<reshaped>, 1, Takes::kAny},
      {"Shape", shape_of, 1, Takes::kAnyAlone},
      {"Size", one<size_of_all>, 1, Takes::kAnyAlone},
      {"Slice", one<sliced>, 1, Takes::kAny},
      {"SpaceToDepth", one<depth_from_space>, 1, Takes::kAny},
      {"Split", split_in_pieces, 1, Takes::kAny},
      {"Squeeze", one<squeezed>, 1, Takes::kAny},
      {"Tile", one<tiled>, 1, Takes::kAny},
      {"Transpose", one<transposed>, 1, Takes::kAny},
      {"Trilu", one<triangle>},
      {"Unsqueeze", one<unsqueezed>, 1, Takes::kAny},
  };
  return kOperators;
}

}  // namespace genesis::models::onnx
