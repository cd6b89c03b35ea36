// Ops that move elements, and those that make tensors from nothing.
#include <limits>

#include "models/formats/onnx/export/rules.h"
#include "schema/core/error.h"
#include "schema/ops/create.h"
#include "schema/ops/tensor/layout.h"
#include "schema/ops/tensor/reshape.h"
#include "schema/ops/tensor/slice.h"

namespace genesis::models::onnx {
namespace {

constexpr int64_t kBeforeFirst = std::numeric_limits<int64_t>::min(),
                  kPastLast = std::numeric_limits<int64_t>::max();

std::string axis_attribute(int64_t axis) { return onnx_attribute("axis", axis); }

Out reshaped(Translation& t) { return t.e.reshape(t.in(), t.shape(), t.result().shape); }

// ONNX's Expand keeps a size of x where 1 is asked for, so that sizes which stay need not be known.
Out expanded(Translation& t) {
  const Shape &from = t.shape(), &to = t.result().shape;
  if (from == to) return t.in();
  std::vector<Dim> dims(to.begin(), to.end());
  for (int axis = 0; axis < from.rank(); ++axis)
    if (from[axis] == to[axis + to.rank() - from.rank()])
      dims[static_cast<size_t>(axis + to.rank() - from.rank())] = 1;
  return t.e.add("Expand", {t.in(), t.e.shape(dims)});
}
Out permuted(Translation& t) { return t.e.transpose(t.in(), t.as<ops::Permute>().axes); }
Out joined(Translation& t) {
  return t.e.add("Concat", t.inputs(), axis_attribute(t.axis(t.as<ops::Concat>().axis)));
}
std::vector<Out> cut(Translation& t) {
  const auto op = t.as<ops::Split>();
  return t.e.add_several("Split", {t.in(), t.e.integers(op.sizes)}, axis_attribute(t.axis(op.axis)),
                         std::vector<DType>(t.results(), t.in().dtype));
}
Out sliced(Translation& t) {
  const auto op = t.as<ops::Slice>();
  const Dim end = op.start[0] + op.length[0] * op.step;
  const bool is_before_first = op.step < 0 && end.is_constant() && end.value() < 0;
  // A negative end counts from the back, and one before the first element is negative.
  const Dim& size = t.type(0).shape[static_cast<int>(t.axis(op.axis))];
  return t.e.slice(t.in(), t.axis(op.axis), t.e.dim(op.start[0]),
                   is_before_first ? t.e.integers({kBeforeFirst}) : t.e.dim(op.step < 0 ? end - size : end),
                   op.step);
}
Out padded(Translation& t) {
  const auto op = t.as<ops::Pad>();
  std::vector<int64_t> amounts = op.before;
  amounts.insert(amounts.end(), op.after.begin(), op.after.end());
  return t.e.add("Pad", {t.in(), t.e.integers(amounts), t.e.number(op.value, t.in().dtype)});
}
Out flipped(Translation& t) {
  Out x = t.in();
  for (const int64_t axis : t.as<ops::Flip>().axes)
    x = t.e.slice(x, t.axis(axis), t.e.integers({-1}), t.e.integers({kBeforeFirst}), -1);
  return x;
}
Out rolled(Translation& t) {
  const auto op = t.as<ops::Roll>();
  Out x = t.in();
  for (size_t i = 0; i < op.axes.size(); ++i) {
    const int64_t axis = t.axis(op.axes[i]);
    const Dim& size = t.shape()[static_cast<int>(axis)];
    if (!size.is_constant()) fail("it rolls axis {}, whose size {} is not known", axis, size.to_string());
    const int64_t shift = size.value() == 0 ? 0 : (op.shifts[i] % size.value() + size.value()) % size.value();
    if (shift == 0) continue;
    const Out behind = t.e.slice(x, axis, t.e.integers({-shift}), t.e.integers({kPastLast}));
    const Out before = t.e.slice(x, axis, t.e.integers({0}), t.e.integers({-shift}));
    x = t.e.add("Concat", {behind, before}, axis_attribute(axis));
  }
  return x;
}
Out triangle(Translation& t) {
  const int64_t diagonal = t.as<ops::Tril>().diagonal;
  const Out k = t.e.number(static_cast<double>(diagonal), DType::i64);
  return t.e.add("Trilu", {t.in(), k}, onnx_attribute("upper", int64_t{t.op() == "triu"}));
}

// --- creation

Out filled(Translation& t) {
  const auto op = t.as<ops::Full>();
  const Shape& shape = t.result().shape;
  const bool is_exact = op.value.is_integer() && op.dtype == DType::i64;  // beyond the integers of f64
  const Out value = is_exact ? t.e.constant("number", Tensor::scalar(op.value.as_integer()))
                             : t.e.number(op.value.as_double(), op.dtype);
  if (shape.rank() == 0) return value;
  return t.e.add("Expand", {value, t.e.shape({shape.begin(), shape.end()})});
}
Out counted(Translation& t) {
  const auto op = t.as<ops::Arange>();
  const bool is_integer = !is_float(op.dtype);
  Out counts = t.e.counted(op.length[0]);
  counts = t.e.cast(counts, is_integer ? DType::i64 : op.dtype);
  counts = scaled_by(t.e, counts, op.step.as_double());
  if (op.start.as_double() != 0)
    counts = t.e.add("Add", {counts, t.e.number(op.start.as_double(), counts.dtype)});
  return t.e.cast(counts, op.dtype);
}
Out size_value(Translation& t) {
  const auto op = t.as<ops::DimValue>();
  return t.e.cast(t.e.scalar(op.dim[0]), op.dtype);
}
Out one_hot_rule(Translation& t) {
  const auto op = t.as<ops::OneHot>();
  const Out values = t.e.cast(t.e.integers({0, 1}), op.dtype);
  return t.e.add("OneHot", {t.in(), t.e.integers({op.num_classes}), values}, axis_attribute(-1), op.dtype);
}

}  // namespace

const OpRules& tensor_rules() {
  static const OpRules kRules = {
      {"arange", single<counted>},
      {"concat", single<joined>},
      {"dim_value", single<size_value>},
      {"expand", single<expanded>},
      {"flip", single<flipped>},
      {"full", single<filled>},
      {"one_hot", single<one_hot_rule>},
      {"pad", single<padded>},
      {"permute", single<permuted>},
      {"reshape", single<reshaped>},
      {"roll", single<rolled>},
      {"slice", single<sliced>},
      {"split", cut},
      {"tril", single<triangle>},
      {"triu", single<triangle>},
  };
  return kRules;
}

}  // namespace genesis::models::onnx
