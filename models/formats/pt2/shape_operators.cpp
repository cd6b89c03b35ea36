// Operators that give a tensor another shape or take a part of it.
#include <algorithm>

#include "builder/functions.h"
#include "models/formats/pt2/operators.h"
#include "models/formats/repetitions.h"
#include "schema/core/error.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/tensor/index.h"

namespace genesis::models::pt2 {
namespace {

int axis_of(Call& call, Value x, const char* name = "dim", int64_t otherwise = 0) {
  return normalize_axis(call.integer_or(name, otherwise), x.rank(), name);
}

Value reshaped(Call& call) {
  return reshape(call.tensor("self"), Shape(call.sizes(call.has("shape") ? "shape" : "size")));
}

// A size of -1 keeps the axis.
Value expanded(Call& call) {
  const Value x = call.tensor("self");
  std::vector<Dim> sizes = call.sizes("size");
  const size_t added = sizes.size() - std::min(sizes.size(), static_cast<size_t>(x.rank()));
  for (size_t i = added; i < sizes.size(); ++i)
    if (sizes[i] == Dim(-1)) sizes[i] = x.dim(static_cast<int64_t>(i - added));
  call.must_be("implicit", false);
  return expand(x, Shape(sizes));
}
Value reshaped_as(Call& call) { return reshape(call.tensor("self"), call.tensor("other").shape()); }
// Windows of `size` elements along an axis, `step` apart; the elements of a window become the last axis.
Value windows_of(Call& call) {
  const Value x = call.tensor("self");
  const int axis = axis_of(call, x, "dimension");
  const int64_t length = x.dim(axis).value(), size = call.integer("size"), step = call.integer("step");
  if (size < 0 || size > length || step < 1)
    fail("windows of {} elements, {} apart, of {}", size, step, length);
  constexpr int64_t kMaxPlaces = int64_t{1} << 26;
  const int64_t windows = (length - size) / step + 1;
  if (windows > kMaxPlaces / std::max<int64_t>(size, 1))
    fail("it has {} windows of {} elements: expected at most {} elements in all", windows, size, kMaxPlaces);
  std::vector<int64_t> places;
  for (int64_t window = 0; window < windows; ++window)
    for (int64_t i = 0; i < size; ++i) places.push_back(window * step + i);
  const Value taken =
      index_select(x, axis, call.g().constant("places", Tensor::of({windows * size}, places)));
  return movedim(unflatten(taken, axis, {windows, size}), axis + 1, -1);
}
Value expanded_as(Call& call) { return expand(call.tensor("self"), call.tensor("other").shape()); }

Value permuted(Call& call) {
  const Value x = call.tensor("self");
  std::vector<int64_t> axes = call.integers("dims");
  for (int64_t& axis : axes) axis = normalize_axis(axis, x.rank(), "dims");
  return permute(x, axes);
}
Value transposed(Call& call) {
  const Value x = call.tensor("self");
  return x.rank() == 0 ? x : transpose(x, call.integer("dim0"), call.integer("dim1"));
}
Value axes_swapped(Call& call) {
  return transpose(call.tensor("self"), call.integer("axis0"), call.integer("axis1"));
}
Value matrix_transposed(Call& call) {
  const Value x = call.tensor("self");
  return x.rank() < 2 ? x : transpose(x, 0, 1);
}
Value axis_moved(Call& call) {
  const std::vector<int64_t> from = call.integers("source"), to = call.integers("destination");
  if (from.size() != 1 || to.size() != 1) fail("a movedim of several axes is not read");
  return movedim(call.tensor("self"), from[0], to[0]);
}

Value with_axis(Call& call) {
  const Value x = call.tensor("self");
  return unsqueeze(x, normalize_axis(call.integer("dim"), x.rank() + 1, "dim"));
}
// Axes that do not have size 1 stay, as in torch.
Value without_axes(Call& call) {
  Value x = call.tensor("self");
  std::vector<int64_t> axes;
  if (!call.has("dim"))
    for (int i = 0; i < x.rank(); ++i) axes.push_back(i);
  else if (call.is_list("dim"))
    axes = call.integers("dim");
  else
    axes = {call.integer("dim")};
  for (int64_t& axis : axes) axis = normalize_axis(axis, x.rank(), "dim");
  std::ranges::sort(axes, std::greater());
  for (const int64_t axis : axes)
    if (x.dim(axis) == Dim(1)) x = squeeze(x, axis);
  return x;
}
Value flattened(Call& call) {
  return flatten(call.tensor("self"), call.integer_or("start_dim", 0), call.integer_or("end_dim", -1));
}
Value unflattened(Call& call) {
  return unflatten(call.tensor("self"), call.integer("dim"), Shape(call.sizes("sizes")));
}

// Returns true for a size such as -length, which is negative for small and for large symbols.
bool counts_from_end(const Dim& at) {
  std::vector<std::string> symbols;
  at.collect_symbols(symbols);
  for (const int64_t size : {1, 1000}) {
    Bindings bindings;
    for (const std::string& symbol : symbols) bindings[symbol] = size;
    if (at.evaluate(bindings) >= 0) return false;
  }
  return true;
}

// A place along an axis as torch reads it: negative numbers count from the end, and a known axis limits it.
Dim place_along(const Dim& given, const Dim& size) {
  if (!given.is_constant()) return counts_from_end(given) ? size + given : given;
  const int64_t at = given.value();
  if (!size.is_constant()) return at < 0 ? size + at : at;
  return std::clamp(at < 0 ? at + size.value() : at, int64_t{0}, size.value());
}

// A bound of a slice.
Dim bound(Call& call, const char* name, const Dim& size, const Dim& otherwise) {
  if (!call.has(name)) return otherwise;
  const Dim given = call.size(name);
  return given == Dim(kToEnd) ? size : place_along(given, size);
}
Value sliced(Call& call) {
  const Value x = call.tensor("self");
  const int axis = axis_of(call, x);
  const auto [begin, end, step] = slice_bounds(call, x.dim(axis));
  if (step == 1) {
    const Dim length = end - begin;
    return narrow(x, axis, begin, length.is_constant() ? std::max<int64_t>(length.value(), 0) : length);
  }
  if (!begin.is_constant() || !(end.is_constant() || end == x.dim(axis)))
    fail("a slice in steps of {} from {} to {} is not read: expected known bounds", step, begin.to_string(),
         end.to_string());
  return slice(x, axis, begin.value(), end.is_constant() ? end.value() : kToEnd, step);
}
Value selected(Call& call) {
  const Value x = call.tensor("self");
  const int axis = axis_of(call, x);
  const Dim index = call.size("index");
  if (index.is_constant() && (index.value() >= 0 || x.dim(axis).is_constant()))
    return select(x, axis, index.value());
  const Dim at = index.is_constant() ? x.dim(axis) + index : index;
  return squeeze(narrow(x, axis, at, 1), axis);
}
Value narrowed(Call& call) {
  const Value x = call.tensor("self");
  return narrow(x, axis_of(call, x), call.size("start"), call.size("length"));
}

Value joined(Call& call) {
  std::vector<Value> xs = call.tensors("tensors");
  if (xs.empty()) fail("it joins no tensors");
  // torch leaves out tensors of the shape [0], whatever the others are.
  const auto is_none = [](Value x) { return x.rank() == 1 && x.dim(0) == Dim(0); };
  if (!std::ranges::all_of(xs, is_none)) std::erase_if(xs, is_none);
  DType widest = xs[0].dtype();
  for (const Value& x : xs) widest = promote(widest, x.dtype());
  std::vector<Value> same;
  for (const Value& x : xs) same.push_back(cast(x, widest));
  return concat(same, normalize_axis(call.integer_or("dim", 0), xs[0].rank(), "dim"));
}
Value stacked(Call& call) {
  const std::vector<Value> xs = call.tensors("tensors");
  if (xs.empty()) fail("it stacks no tensors");
  return stack(xs, normalize_axis(call.integer_or("dim", 0), xs[0].rank() + 1, "dim"));
}

Results split_evenly(Call& call) {
  const Value x = call.tensor("self");
  return split_every(x, call.integer("split_size"), axis_of(call, x));
}
Results split_by_sizes(Call& call) {
  const Value x = call.tensor("self");
  const int axis = axis_of(call, x);
  std::vector<Value> pieces;
  Dim at = 0;
  for (const Dim& size : call.sizes("split_sizes")) {
    pieces.push_back(narrow(x, axis, at, size));
    at = at + size;
  }
  return pieces;
}
// Pieces of ceil(size / chunks) elements; the last may be smaller, and there may be fewer than asked for.
Results chunked(Call& call) {
  const Value x = call.tensor("self");
  const int axis = axis_of(call, x);
  const int64_t size = x.dim(axis).value(), chunks = call.integer("chunks");
  if (chunks < 1) fail("it cuts into {} chunks", chunks);
  return split_every(x, std::max<int64_t>((size + chunks - 1) / chunks, 1), axis);
}
// Pieces between indices along an axis; one that ends before it begins is empty.
Results split_at_indices(Call& call) {
  const Value x = call.tensor("self");
  const int axis = axis_of(call, x);
  std::vector<Value> pieces;
  Dim at = 0;
  std::vector<Dim> ends = call.sizes("indices");
  ends.push_back(x.dim(axis));
  for (const Dim& given : ends) {
    const Dim end = place_along(given, x.dim(axis)), length = end - at;
    pieces.push_back(
        narrow(x, axis, at, length.is_constant() ? std::max<int64_t>(length.value(), 0) : length));
    at = end;
  }
  return pieces;
}
// Grids of the coordinates in 1-D tensors. With "xy" the first two axes are exchanged.
Results grids(Call& call) {
  std::vector<Value> xs = call.tensors("tensors");
  const std::string order = call.text_or("indexing", "ij");
  if (order != "ij" && order != "xy") fail("its indexing is '{}': expected 'ij' or 'xy'", order);
  Shape whole;
  for (Value& x : xs) {
    x = flatten(x);
    whole.push_back(x.dim(0));
  }
  const bool swaps = order == "xy" && xs.size() > 1;
  std::vector<Value> results;
  for (size_t i = 0; i < xs.size(); ++i) {
    Shape own(std::vector<Dim>(xs.size(), Dim(1)));
    own[static_cast<int>(i)] = xs[i].dim(0);
    const Value grid = expand(reshape(xs[i], own), whole);
    results.push_back(swaps ? transpose(grid, 0, 1) : grid);
  }
  return results;
}
Results unbound(Call& call) {
  const Value x = call.tensor("self");
  return unbind(x, axis_of(call, x));
}

// aten.repeat, and aten.tile, whose numbers are meant for the last axes if they are fewer than those of x.
Value repeated(Call& call) {
  Value x = call.tensor("self");
  std::vector<Dim> repeats = call.sizes(call.has("dims") ? "dims" : "repeats");
  while (x.rank() < static_cast<int>(repeats.size())) x = unsqueeze(x, 0);
  while (x.rank() > static_cast<int>(repeats.size())) repeats.insert(repeats.begin(), 1);
  return repeat_by_sizes(x, repeats);
}
Value elements_repeated(Call& call) {
  Value x = call.tensor("self");
  call.accept_any("output_size");  // follows from the others
  if (!call.has("dim")) return repeat_interleave(flatten(x), call.integer("repeats"), 0);
  return repeat_interleave(x, call.integer("repeats"), axis_of(call, x));
}
Value flipped(Call& call) { return flip(call.tensor("self"), call.integers("dims")); }
Value rolled(Call& call) {
  const Value x = call.tensor("self");
  const std::vector<int64_t> axes = call.integers_or("dims", {});
  if (!axes.empty()) return roll(x, call.integers("shifts"), axes);
  return reshape(roll(flatten(x), call.integers("shifts"), {0}), x.shape());
}
Value lower_triangle(Call& call) { return tril(call.tensor("self"), call.integer_or("diagonal", 0)); }
Value upper_triangle(Call& call) { return triu(call.tensor("self"), call.integer_or("diagonal", 0)); }

PadMode pad_mode(const std::string& mode) {
  if (mode == "constant") return PadMode::kConstant;
  if (mode == "reflect") return PadMode::kReflect;
  if (mode == "replicate") return PadMode::kReplicate;
  if (mode == "circular") return PadMode::kCircular;
  fail("its mode is '{}': read are constant, reflect, replicate and circular", mode);
}
// Amounts are given from the last axis to the first: before, after, before, after.
Value padded(Call& call) {
  const Value x = call.tensor("self");
  const std::vector<int64_t> amounts = call.integers("pad");
  const auto rank = static_cast<size_t>(x.rank());
  if (amounts.size() % 2 != 0 || amounts.size() > 2 * rank)
    fail("it pads by {} amounts a tensor of {} axes", amounts.size(), rank);
  std::vector<int64_t> before(rank), after(rank);
  for (size_t i = 0; i < amounts.size() / 2; ++i) {
    before[rank - 1 - i] = amounts[2 * i];
    after[rank - 1 - i] = amounts[2 * i + 1];
  }
  return pad(x, before, after, call.number_or("value", 0), pad_mode(call.text_or("mode", "constant")));
}

// x[i + 1] - x[i] along an axis.
Value difference(Call& call) {
  Value x = call.tensor("self");
  call.must_be("n", 1);
  const int axis = axis_of(call, x, "dim", -1);
  std::vector<Value> all;
  if (call.has("prepend")) all.push_back(call.tensor("prepend"));
  all.push_back(x);
  if (call.has("append")) all.push_back(call.tensor("append"));
  if (all.size() > 1) x = concat(all, axis);
  const Dim length = x.dim(axis) - 1;
  const Value high = narrow(x, axis, 1, length), low = narrow(x, axis, 0, length);
  return x.dtype() == DType::boolean ? logical_xor(high, low) : high - low;
}

const Operators kShapeOperators = {
    {"aten.broadcast_to.default", one<expanded>},
    {"aten.cat.default", one<joined>},
    {"aten.chunk.default", chunked},
    {"aten.concat.default", one<joined>},
    {"aten.constant_pad_nd.default", one<padded>},
    {"aten.diff.default", one<difference>},
    {"aten.expand.default", one<expanded>},
    {"aten.expand_as.default", one<expanded_as>},
    {"aten.flatten.using_ints", one<flattened>},
    {"aten.flip.default", one<flipped>},
    {"aten.meshgrid.default", grids},
    {"aten.meshgrid.indexing", grids},
    {"aten.movedim.int", one<axis_moved>},
    {"aten.narrow.default", one<narrowed>},
    {"aten.numpy_T.default", one<matrix_transposed>},
    {"aten.pad.default", one<padded>},
    {"aten.permute.default", one<permuted>},
    {"aten.repeat.default", one<repeated>},
    {"aten.repeat_interleave.self_int", one<elements_repeated>},
    {"aten.reshape.default", one<reshaped>},
    {"aten.reshape_as.default", one<reshaped_as>},
    {"aten.roll.default", one<rolled>},
    {"aten.select.int", one<selected>},
    {"aten.slice.Tensor", one<sliced>},
    {"aten.split.Tensor", split_evenly},
    {"aten.split.sizes", split_by_sizes},
    {"aten.split_with_sizes.default", split_by_sizes},
    {"aten.squeeze.default", one<without_axes>},
    {"aten.squeeze.dim", one<without_axes>},
    {"aten.squeeze.dims", one<without_axes>},
    {"aten.stack.default", one<stacked>},
    {"aten.swapaxes.default", one<axes_swapped>},
    {"aten.swapdims.default", one<transposed>},
    {"aten.t.default", one<matrix_transposed>},
    {"aten.tensor_split.indices", split_at_indices},
    {"aten.tile.default", one<repeated>},
    {"aten.transpose.int", one<transposed>},
    {"aten.tril.default", one<lower_triangle>},
    {"aten.triu.default", one<upper_triangle>},
    {"aten.unbind.int", unbound},
    {"aten.unflatten.int", one<unflattened>},
    {"aten.unfold.default", one<windows_of>},
    {"aten.unsqueeze.default", one<with_axis>},
    {"aten._unsafe_view.default", one<reshaped>},
    {"aten.view.default", one<reshaped>},
    {"aten.view_as.default", one<reshaped_as>},
};

}  // namespace

SliceBounds slice_bounds(Call& call, const Dim& size) {
  return {bound(call, "start", size, 0), bound(call, "end", size, size), call.integer_or("step", 1)};
}

const Operators& shape_operators() { return kShapeOperators; }

}  // namespace genesis::models::pt2
