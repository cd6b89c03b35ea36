// Ops that read and write by index, and those that order elements.
#include "models/formats/onnx/export/rules.h"
#include "schema/core/error.h"
#include "schema/ops/tensor/bounded.h"
#include "schema/ops/tensor/dynamic_slice.h"
#include "schema/ops/tensor/index.h"
#include "schema/ops/tensor/sort.h"

namespace genesis::models::onnx {
namespace {

std::string axis_attribute(int64_t axis) { return onnx_attribute("axis", axis); }

Out gathered(Translation& t) {
  return t.e.add("GatherElements", {t.in(0), t.in(1)}, axis_attribute(t.axis(t.as<ops::Gather>().axis)));
}
Out scattered(Translation& t) {
  if (!(t.shape(1) == t.shape(2)))
    fail("its index {} and its source {} differ in shape: ONNX wants them equal", t.type(1).to_string(),
         t.type(2).to_string());
  const std::string adds =
      t.op() == "scatter_add" ? onnx_attribute("reduction", std::string("add")) : std::string();
  return t.e.add("ScatterElements", {t.in(0), t.in(1), t.in(2)},
                 axis_attribute(t.axis(t.as<ops::Scatter>().axis)) + adds);
}
Out selected(Translation& t) {
  return t.e.add("Gather", {t.in(0), t.in(1)}, axis_attribute(t.axis(t.as<ops::IndexSelect>().axis)));
}

// A 1-d value as a tensor of `rank` axes whose only size is at `axis`.
Out along(Translation& t, const Out& x, int64_t axis, int64_t rank) {
  std::vector<int64_t> others;
  for (int64_t i = 0; i < rank; ++i)
    if (i != axis) others.push_back(i);
  return others.empty() ? x : t.e.unsqueeze(x, others);
}

Out added_at(Translation& t) {
  const auto op = t.as<ops::IndexAdd>();
  if (op.part.is_part()) fail("it has a part of a shared tensor, of which ONNX knows nothing");
  const int64_t axis = t.axis(op.axis);
  const Out index = along(t, t.in(1), axis, t.rank());
  const Out places = t.e.add("Expand", {index, t.e.add("Shape", {t.in(2)}, "", DType::i64)});
  return t.e.add("ScatterElements", {t.in(0), places, t.in(2)},
                 axis_attribute(axis) + onnx_attribute("reduction", std::string("add")));
}
Out embedded(Translation& t) {
  if (t.as<ops::Embedding>().part.is_part())
    fail("it has a part of a shared table, of which ONNX knows nothing");
  return t.e.add("Gather", {t.in(1), t.in(0)}, axis_attribute(0));
}

// Returns the start of a slice of `length` elements, limited to where the slice fits.
Out clamped_start(Translation& t, const Out& start, const Dim& size, const Dim& length) {
  const Out at = t.e.cast(start, DType::i64);
  return t.e.add("Max", {t.e.add("Min", {at, t.e.dim(size - length)}), t.e.integers({0})});
}
Out sliced_at(Translation& t) {
  const auto op = t.as<ops::DynamicSlice>();
  const int64_t axis = t.axis(op.axis);
  const Out start = clamped_start(t, t.in(1), t.shape()[static_cast<int>(axis)], op.length[0]);
  return t.e.slice(t.in(), axis, start, t.e.add("Add", {start, t.e.dim(op.length[0])}));
}

// Each element of the result is read from the update, if its place lies in the part that is written, and else from x.
Out written_at(Translation& t) {
  const int64_t axis = t.axis(t.as<ops::DynamicUpdateSlice>().axis), rank = t.rank();
  const Dim &size = t.shape()[static_cast<int>(axis)], &length = t.shape(1)[static_cast<int>(axis)];
  const bool has_rows = t.rank(2) > 0, has_length = t.count() > 3;
  const auto of_rows = [&](const Out& x) { return has_rows ? along(t, x, 0, rank) : x; };
  const Out start =
      of_rows(has_length ? t.e.cast(t.in(2), DType::i64) : clamped_start(t, t.in(2), size, length));
  const Out places = t.e.counted(size);
  const Out source = t.e.add("Sub", {along(t, places, axis, rank), start});
  const Out written = has_length ? of_rows(t.e.cast(t.in(3), DType::i64)) : t.e.dim(length);
  const Out is_inside =
      t.e.add("And", {t.e.add("GreaterOrEqual", {source, t.e.integers({0})}, "", DType::boolean),
                      t.e.add("Less", {source, written}, "", DType::boolean)});
  const Out last = t.e.add("Sub", {t.e.dim(length), t.e.integers({1})});
  const Out index = t.e.add("Max", {t.e.add("Min", {source, last}), t.e.integers({0})});
  const Out all = t.e.add("Expand", {index, t.e.add("Shape", {t.in(0)}, "", DType::i64)});
  const Out update = t.e.add("GatherElements", {t.in(1), all}, axis_attribute(axis));
  return t.e.add("Where", {is_inside, update, t.in(0)}, "", t.in(0).dtype);
}

std::vector<Out> greatest(Translation& t, const Out& count, int64_t axis, bool largest) {
  return t.e.add_several("TopK", {t.in(), count},
                         axis_attribute(axis) + onnx_attribute("largest", int64_t{largest}),
                         {t.in().dtype, DType::i64});
}
std::vector<Out> top(Translation& t) {
  const auto op = t.as<ops::TopK>();
  return greatest(t, t.e.integers({op.k}), t.axis(op.axis), op.largest);
}
std::vector<Out> sorted(Translation& t) {
  const auto op = t.as<ops::Sort>();
  const int64_t axis = t.axis(op.axis);
  return greatest(t, t.e.dim(t.shape()[static_cast<int>(axis)]), axis, op.descending);
}

// Rows that the data says how many there are, i64 [found, columns], filled up with zeros to `most`; and their number, i64[].
std::vector<Out> counted_rows(Translation& t, const Out& found, const Dim& most) {
  const Out count = t.e.add("Shape", {found}, onnx_attribute("end", int64_t{1}), DType::i64);
  const Out missing = t.e.add("Sub", {t.e.dim(most), count});
  const Out amounts =
      t.e.add("Concat", {t.e.integers({0, 0}), missing, t.e.integers({0})}, axis_attribute(0));
  return {t.e.add("Pad", {found, amounts, t.e.number(0, DType::i64)}),
          t.e.add("Squeeze", {count, t.e.integers({0})})};
}
std::vector<Out> nonzero_places(Translation& t) {
  const Out places = t.e.add("NonZero", {t.in()}, "", DType::i64);
  return counted_rows(t, t.e.transpose(places, {1, 0}), t.shape().numel());
}
std::vector<Out> suppressed(Translation& t) {
  const auto op = t.as<ops::Nms>();
  const Out boxes =
      t.e.add("NonMaxSuppression",
              {t.e.cast(t.in(0), DType::f32), t.e.cast(t.in(1), DType::f32), t.e.integers({op.max_boxes}),
               t.e.number(op.iou_threshold, DType::f32), t.e.number(op.score_threshold, DType::f32)},
              onnx_attribute("center_point_box", int64_t{op.center}), DType::i64);
  return counted_rows(t, boxes, t.result().shape[0]);
}

}  // namespace

const OpRules& index_rules() {
  static const OpRules kRules = {
      {"dynamic_slice", single<sliced_at>},
      {"dynamic_update_slice", single<written_at>},
      {"embedding", single<embedded>},
      {"gather", single<gathered>},
      {"index_add", single<added_at>},
      {"index_select", single<selected>},
      {"nms", suppressed},
      {"nonzero", nonzero_places},
      {"scatter", single<scattered>},
      {"scatter_add", single<scattered>},
      {"sort", sorted},
      {"topk", top},
  };
  return kRules;
}

}  // namespace genesis::models::onnx
