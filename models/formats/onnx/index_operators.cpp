// Operators that read or write elements at places that are tensors, and those that sort.
#include "builder/functions.h"
#include "models/formats/bounded_sizes.h"
#include "models/formats/onnx/element_types.h"
#include "models/formats/onnx/integers.h"
#include "models/formats/onnx/operators.h"
#include "schema/core/error.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/nn/softmax.h"
#include "schema/ops/tensor/dynamic_slice.h"
#include "schema/ops/tensor/index.h"
#include "schema/ops/tensor/sort.h"

namespace genesis::models::onnx {
namespace {

int axis_of(Call& call, Value x, int64_t otherwise = 0) {
  return normalize_axis(call.attribute("axis", otherwise), x.rank());
}

Value size_as_value(Call& call, const Dim& size) { return dim_value(call.graph(), size, DType::i64); }

// Negative places count from the end. `known` are the places, if they are known.
Value counted_from_start(Call& call, Value index, const Dim& size, const std::optional<KnownSizes>& known) {
  const Value places = cast(index, DType::i64);
  bool may_be_negative = !known;
  if (known)
    for (const Dim& place : known->elements)
      may_be_negative |= place.to_string().find('-') != std::string::npos;
  return may_be_negative ? where(places < 0, places + size_as_value(call, size), places) : places;
}
Value places_in(Call& call, size_t input, const Dim& size) {
  return counted_from_start(call, call.tensor(input), size, call.try_sizes(input));
}

// The sizes of x with those of the index in place of an axis.
Shape with_index(const Shape& x, int axis, const Shape& index) {
  Shape shape;
  for (int i = 0; i < x.rank(); ++i) {
    if (i != axis) shape.push_back(x[i]);
    if (i == axis)
      for (const Dim& size : index) shape.push_back(size);
  }
  return shape;
}

Value gathered(Call& call) {
  const Value x = call.tensor(0);
  const int axis = axis_of(call, x);
  const Value places = places_in(call, 1, x.dim(axis));
  const Value taken = index_select(x, axis, reshape(places, {places.shape().numel()}));
  return reshape(taken, with_index(x.shape(), axis, places.shape()));
}
Value elements_gathered(Call& call) {
  const Value x = call.tensor(0);
  const int axis = axis_of(call, x);
  return gather(x, axis, places_in(call, 1, x.dim(axis)));
}

// --- scattering

enum class Combine : uint8_t { kNone, kAdd, kMul, kMax, kMin };
Combine combine_of(Call& call) {
  const std::string kind = call.text("reduction", "none");
  const char* names[] = {"none", "add", "mul", "max", "min"};
  for (size_t i = 0; i < std::size(names); ++i)
    if (kind == names[i]) return static_cast<Combine>(i);
  fail("its reduction is '{}': expected none, add, mul, max or min", kind);
}

// Combines x with all updates of each place. x [..., n], index and updates [..., m] with the same leading sizes.
Value combined_along_last(Value x, Value index, Value updates, Combine combine) {
  const Dim n = x.dim(-1);
  const Value places = arange(*x.graph, n);
  const Value hits = unsqueeze(index, -1) == places;  // [..., m, n]
  const Value each = expand(unsqueeze(updates, -1), hits.shape());
  const Value result = combine == Combine::kMul   ? prod(where(hits, each, Scalar(1)), {-2})
                       : combine == Combine::kMax ? max(where(hits, each, unsqueeze(x, -2)), {-2})
                                                  : min(where(hits, each, unsqueeze(x, -2)), {-2});
  if (combine == Combine::kMul) return x * cast(result, x.dtype());
  return combine == Combine::kMax ? maximum(x, result) : minimum(x, result);
}

Value elements_scattered(Call& call) {
  const Value x = call.tensor(0), updates = call.tensor(2);
  const int axis = axis_of(call, x);
  const Value index = places_in(call, 1, x.dim(axis));
  const Combine combine = combine_of(call);
  if (combine == Combine::kNone) return scatter(x, axis, index, updates);
  if (combine == Combine::kAdd) return cast(scatter_add(x, axis, index, updates), x.dtype());
  for (int i = 0; i < x.rank(); ++i)
    if (i != axis && x.dim(i) != index.dim(i)) fail("its indices are fewer than its data along axis {}", i);
  const auto last = [&](Value v) { return movedim(v, axis, -1); };
  return movedim(combined_along_last(last(x), last(index), last(updates), combine), -1, axis);
}

// Reads indices [..., k] as places in the first k axes (behind `batch` axes) taken as one axis.
struct JoinedPlaces {
  Value places;    // [...]
  int count = 0;   // k
  Dim joined = 1;  // the size of these axes together
};
JoinedPlaces joined_places(Call& call, Value x, int batch) {
  const Value indices = cast(call.tensor(1), DType::i64);
  const auto count = static_cast<int>(indices.dim(-1).value());
  if (count < 1 || batch + count > x.rank()) fail("it has {} indices for {} axes", count, x.rank() - batch);
  JoinedPlaces result{{}, count, 1};
  for (int i = 0; i < count; ++i) {
    const Dim& size = x.dim(batch + i);
    const Value own = select(indices, -1, i);
    const Value place = where(own < 0, own + size_as_value(call, size), own);
    result.places = result.places ? result.places * size_as_value(call, size) + place : place;
    result.joined = result.joined * size;
  }
  return result;
}

Value gathered_by_indices(Call& call) {
  const Value x = call.tensor(0);
  const auto batch = static_cast<int>(call.attribute("batch_dims", 0));
  JoinedPlaces at = joined_places(call, x, batch);
  Dim batches = 1;
  for (int i = 0; i < batch; ++i) batches = batches * x.dim(i);
  Shape rows = {batches * at.joined}, result = at.places.shape();
  for (int i = batch + at.count; i < x.rank(); ++i) rows.push_back(x.dim(i)), result.push_back(x.dim(i));
  if (batch > 0) {
    Shape by_batch = {batches};
    for (int i = batch; i < at.places.rank(); ++i) by_batch.push_back(at.places.dim(i));
    Shape first(std::vector<Dim>(static_cast<size_t>(by_batch.rank()), Dim(1)));
    first[0] = batches;
    const Value offsets = reshape(arange(call.graph(), batches) * size_as_value(call, at.joined), first);
    at.places = reshape(at.places, by_batch) + offsets;
  }
  return reshape(index_select(reshape(x, rows), 0, reshape(at.places, {at.places.shape().numel()})), result);
}

Value scattered_by_indices(Call& call) {
  const Value x = call.tensor(0), updates = call.tensor(2);
  const JoinedPlaces at = joined_places(call, x, 0);
  Dim length = 1;
  for (int i = at.count; i < x.rank(); ++i) length = length * x.dim(i);
  const Dim writes = at.places.shape().numel();
  const Value rows = reshape(x, {at.joined, length}), news = reshape(updates, {writes, length});
  const Value places = reshape(at.places, {writes});
  const Combine combine = combine_of(call);
  const auto each = [&] { return expand(unsqueeze(places, 1), {writes, length}); };
  if (combine == Combine::kNone) return reshape(scatter(rows, 0, each(), news), x.shape());
  if (combine == Combine::kAdd) return reshape(cast(index_add(rows, 0, places, news), x.dtype()), x.shape());
  const Value result = combined_along_last(transpose(rows), transpose(each()), transpose(news), combine);
  return reshape(transpose(result), x.shape());
}

// Writes `update` into a cache at an index per batch: [batch, ..., time, ...].
Value cache_written(Call& call) {
  const Value cache = call.tensor(0), update = call.tensor(1);
  const std::string mode = call.text("mode", "linear");
  const int axis = axis_of(call, cache, -2);
  if (mode != "linear" && mode != "circular") fail("its mode is '{}'", mode);
  Shape steps(std::vector<Dim>(static_cast<size_t>(update.rank()), Dim(1))), rows = steps;
  steps[axis] = update.dim(axis), rows[0] = update.dim(0);
  Value places = reshape(arange(call.graph(), update.dim(axis)), steps);
  if (call.has(2)) places = places + reshape(cast(call.tensor(2), DType::i64), rows);
  if (mode == "circular") places = remainder(places, size_as_value(call, cache.dim(axis)));
  return scatter(cache, axis, expand(places, update.shape()), update);
}

// --- others

Results one_hot_of(Call& call) {
  const Value indices = call.tensor(0), values = call.tensor(2);
  const int64_t depth = call.integer(1);
  const int axis = normalize_axis(call.attribute("axis", -1), indices.rank() + 1);
  const Value places = cast(indices, DType::i64);
  const Value own = where(places < 0, places + depth, places);
  Shape counts(std::vector<Dim>(static_cast<size_t>(indices.rank()) + 1, Dim(1)));
  counts[axis] = depth;
  const Value hits = unsqueeze(own, axis) == reshape(arange(call.graph(), depth), counts);
  return {item_of(where(hits, select(values, 0, 1), select(values, 0, 0)))};
}

Results greatest(Call& call) {
  const Value x = call.tensor(0);
  const int axis = axis_of(call, x, -1);
  const int64_t count = call.version() < 10 ? call.attribute("k", 1) : call.integer(1);
  const bool largest = call.attribute("largest", 1) != 0;
  call.accept_any("sorted");  // sorted is right for both
  if (count == 0) {
    const Value none = narrow(x, axis, 0, 0);
    return {item_of(none), item_of(cast(none, DType::i64))};
  }
  if (is_foreign(call.element(0)) && !is_unsigned_word(call.element(0)))
    fail("it sorts codes of small numbers");
  const bool is_u64 = call.element(0) == OnnxElement::kU64;
  const auto [values, indices] = topk(is_u64 ? ordered_u64(x) : x, count, axis, largest);
  return {item_of(is_u64 ? ordered_u64(values) : values, call.element(0)), item_of(indices)};
}

// Returns a tensor if it is known without running the model.
std::optional<Tensor> try_known(Call& call, size_t place) {
  const Item& given = *call.item(place);
  return given.tensor ? given.tensor : call.environment().known.tensor(call.tensor(place));
}

Value compressed(Call& call) {
  Value x = call.tensor(0);
  int axis = 0;
  if (call.has_attribute("axis"))
    axis = axis_of(call, x);
  else
    x = reshape(x, {x.shape().numel()});
  const auto chosen = try_known(call, 1);
  if (!chosen) {
    const Value places = with_symbol(nonzero(call.tensor(1)));
    return index_select(x, axis, reshape(places, {places.dim(0)}));
  }
  std::vector<int64_t> places;
  const std::vector<double> flags = chosen->to_doubles();
  for (size_t i = 0; i < flags.size(); ++i)
    if (flags[i] != 0) places.push_back(static_cast<int64_t>(i));
  return index_select(x, axis, call.g().constant("chosen", Tensor::of(places)));
}

Value places_of_nonzero(Call& call) {
  const auto known = try_known(call, 0);
  if (!known) return permute(with_symbol(nonzero(call.tensor(0))), {1, 0});
  const std::vector<int64_t> sizes = known->shape().sizes();
  const std::vector<double> elements = known->to_doubles();
  std::vector<int64_t> found;
  for (size_t i = 0; i < elements.size(); ++i)
    if (elements[i] != 0) found.push_back(static_cast<int64_t>(i));
  std::vector<int64_t> places;
  int64_t stride = known->numel();
  for (const int64_t size : sizes) {
    stride /= size > 0 ? size : 1;
    for (const int64_t at : found) places.push_back(at / stride % size);
  }
  const std::vector<int64_t> shape = {static_cast<int64_t>(sizes.size()), static_cast<int64_t>(found.size())};
  return call.g().constant("nonzero", Tensor::of(shape, places));
}

// The order of rows [n, elements] by their first different element, from the stable sorts by the last element to the first.
Value order_of_rows(Graph& graph, Value rows) {
  constexpr int64_t kMax = 1024;
  const int64_t elements = rows.dim(1).value();
  if (elements > kMax) fail("Unique compares slices of {} elements: expected at most {}", elements, kMax);
  Value order = arange(graph, rows.dim(0));
  for (int64_t i = elements; i-- > 0;)
    order = index_select(order, 0, argsort(index_select(select(rows, 1, i), 0, order), 0));
  return order;
}

// The different elements, or slices along an axis, sorted or in the order in which they first occur; where each occurs first; which of
// them each element is; and how often each occurs. All follow from a stable sort.
Results different_elements(Call& call) {
  const bool is_sorted = call.attribute("sorted", 1) != 0;
  const Value given = call.tensor(0);
  const bool has_axis = call.has_attribute("axis");
  const int axis = has_axis ? axis_of(call, given) : 0;
  const Value x = has_axis ? given : reshape(given, {given.shape().numel()});
  const Dim n = x.dim(axis);
  if (!n.is_constant() || n.value() < 1)
    fail("Unique of {} elements is not read: give the open sizes values", n.to_string());
  const Value first = movedim(x, axis, 0),
              rows = reshape(first, {n, first.shape().numel().divide_exact(n).value()});
  const Value from = order_of_rows(call.graph(), rows), sorted = index_select(x, axis, from);
  const Value in_order = index_select(rows, 0, from);
  const Value differs = narrow(in_order, 0, 0, n - 1) != narrow(in_order, 0, 1, n - 1);
  const Value is_new =
      concat({full(call.graph(), {1}, 1, DType::i64), cast(any(differs, {1}), DType::i64)}, 0);
  const Value none = zeros(call.graph(), {n}, DType::i64), ones = full(call.graph(), {n}, 1, DType::i64);
  const Value rank = cumsum(is_new, 0) - 1;               // by place in the sorted elements
  const Value rank_at = scatter(none, 0, from, rank);     // by place in x
  const Value counts = scatter_add(none, 0, rank, ones);  // by rank
  const Value firsts_in_x = scatter(none, 0, from, is_new);
  const Value found = with_symbol(nonzero(is_sorted ? is_new : firsts_in_x)),
              places = reshape(found, {found.dim(0)});
  const auto at = [](Value values, Value index) { return index_select(values, 0, index); };
  if (is_sorted)
    return {item_of(index_select(sorted, axis, places), call.element(0)), item_of(at(from, places)),
            item_of(rank_at), item_of(narrow(counts, 0, 0, places.dim(0)))};
  const Value number = cumsum(firsts_in_x, 0) - 1;  // numbers those that occur first, by place in x
  const Value number_of_rank = scatter_add(none, 0, rank, is_new * at(number, from));
  return {item_of(index_select(x, axis, places), call.element(0)), item_of(places),
          item_of(at(number_of_rank, rank_at)), item_of(at(counts, at(rank_at, places)))};
}

constexpr int64_t kMaxOpenBoxes = int64_t{1} << 20;  // memory has room for them, though there may be fewer

// The most boxes and the thresholds decide no size but the bound, so they must be known.
Value boxes_apart(Call& call) {
  ops::Nms op{.center = call.attribute("center_point_box", 0) != 0};
  const double most = call.has(2) ? call.number(2) : 0;
  op.max_boxes = static_cast<int64_t>(std::clamp(most, 0.0, 1e15));
  const Dim boxes = call.tensor(0).dim(1);
  if (boxes.is_constant()) op.max_boxes = std::min(op.max_boxes, boxes.value());
  if (!boxes.is_constant() && op.max_boxes > kMaxOpenBoxes)
    fail("it takes up to {} of {} boxes: expected at most {}, or a known number of boxes", op.max_boxes,
         boxes.to_string(), kMaxOpenBoxes);
  if (call.has(3)) op.iou_threshold = call.number(3);
  if (call.has(4)) op.score_threshold = call.number(4);
  return with_symbol(non_max_suppression(call.tensor(0), call.tensor(1), op));
}

// Reverses the first `lengths` elements of each row.
Value reversed(Call& call) {
  const Value x = call.tensor(0);
  const auto time = static_cast<int>(call.attribute("time_axis", 0)),
             batch = static_cast<int>(call.attribute("batch_axis", 1));
  Shape by_time(std::vector<Dim>(static_cast<size_t>(x.rank()), Dim(1))), by_batch = by_time;
  by_time[time] = x.dim(time), by_batch[batch] = x.dim(batch);
  const Value at = reshape(arange(call.graph(), x.dim(time)), by_time);
  const Value length = reshape(cast(call.tensor(1), DType::i64), by_batch);
  const Value source = where(at < length, length - 1 - at, at);
  return gather(x, time, expand(source, x.shape()));
}

Value features_extracted(Call& call) {
  const Value x = call.tensor(0), places = call.tensor(1);
  const Value rows = x.rank() == 1 ? unsqueeze(x, 0) : x;
  return index_select(rows, rows.rank() - 1, reshape(cast(places, DType::i64), {places.shape().numel()}));
}

}  // namespace

const Operators& index_operators() {
  static const Operators kOperators = {
      {"Compress", one<compressed>, 1, Takes::kAny},
      {"Gather", one<gathered>, 1, Takes::kAny},
      {"GatherElements", one<elements_gathered>, 1, Takes::kAny},
      {"GatherND", one<gathered_by_indices>, 1, Takes::kAny},
      {"NonMaxSuppression", one<boxes_apart>, 10},
      {"NonZero", one<places_of_nonzero>},
      {"OneHot", one_hot_of},
      {"ReverseSequence", one<reversed>, 1, Takes::kAny},
      {"Scatter", one<elements_scattered>},
      {"ScatterElements", one<elements_scattered>},
      {"ScatterND", one<scattered_by_indices>},
      {"TensorScatter", one<cache_written>},
      {"TopK", greatest, 1, Takes::kAnyAlone},
      {"Unique", different_elements, 11},
      {"ai.onnx.ml::ArrayFeatureExtractor", one<features_extracted>},
  };
  return kOperators;
}

}  // namespace genesis::models::onnx
