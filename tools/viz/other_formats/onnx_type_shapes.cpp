// Rules of operators that return sizes, make tensors of given sizes, or reduce along axes.
#include <algorithm>
#include <cmath>

#include "tools/viz/other_formats/onnx_type_call.h"

namespace genesis::viz {
namespace {

// The result holds the dimensions from `start` to `end`.
void shape_of(OnnxCall& call) {
  call.type(i64_type());
  call.shape({kUnknownDim});
  const OnnxShape* x = call.shape(0);
  if (!x) return;
  const auto rank = static_cast<int64_t>(x->size());
  const auto place = [&](int64_t at) { return std::clamp(at < 0 ? at + rank : at, int64_t{0}, rank); };
  const int64_t start = place(call.integer("start", 0)),
                end = std::max(start, place(call.integer("end", rank)));
  call.shape({std::to_string(end - start)});
  call.elements({x->begin() + start, x->begin() + end});
}

void size(OnnxCall& call) {
  call.type(i64_type());
  call.shape(OnnxShape{});
  const OnnxShape* x = call.shape(0);
  if (const auto elements = x ? product(*x) : std::nullopt) call.elements({std::to_string(*elements)});
}

// Sets the shape to the values of the first input. If only their number is known, the shape has that many unknown
// dimensions.
void shape_from_input(OnnxCall& call) {
  if (const auto* sizes = call.elements(0)) return call.shape(as_shape(*sizes));
  const OnnxShape* list = call.shape(0);
  if (!list || list->size() != 1) return;
  const auto rank = size_of((*list)[0]);
  if (rank && *rank >= 0 && *rank <= kShownElements)
    call.shape(OnnxShape(static_cast<size_t>(*rank), kUnknownDim));
}

void constant_of_shape(OnnxCall& call) {
  const OnnxAttribute* value = call.node.attribute("value");
  call.type(value && value->tensor ? value->tensor->type : onnx_element_type(1));
  shape_from_input(call);
  if (!value || !value->tensor || value->tensor->integers.size() != 1 || call.outputs.empty()) return;
  const OnnxShape& shape = call.outputs[0].type.shape;
  const auto count = product(shape);
  if (call.outputs[0].type.has_shape && shape.size() <= 1 && count && *count <= kShownElements && *count >= 0)
    call.elements(
        std::vector<OnnxDim>(static_cast<size_t>(*count), std::to_string(value->tensor->integers[0])));
}

void range(OnnxCall& call) {
  call.type_like(0);
  call.shape({kUnknownDim});
  const auto start = call.integers(0), limit = call.integers(1), step = call.integers(2);
  if (!start || !limit || !step || start->size() != 1 || limit->size() != 1 || step->size() != 1) return;
  const auto distance = plus((*limit)[0], times((*start)[0], -1));
  if (!distance || (*step)[0] == 0) return;
  const double count = std::ceil(static_cast<double>(*distance) / static_cast<double>((*step)[0]));
  if (std::abs(count) < 1e15) call.shape({std::to_string(std::max<int64_t>(0, static_cast<int64_t>(count)))});
}

// Without axes, all axes are reduced, or none if the node says so.
void reduce(OnnxCall& call) {
  call.type_like(0);
  const OnnxShape* x = call.shape(0);
  if (!x) return;
  const bool keeps = call.integer("keepdims", 1) != 0;
  const auto given = call.integers("axes", 1);
  if (!given && call.has(1)) {
    if (keeps) call.shape(OnnxShape(x->size(), kUnknownDim));
    return;
  }
  const bool is_all = !given || given->empty();
  if (is_all && call.integer("noop_with_empty_axes", 0) != 0) return call.shape(*x);
  std::vector<bool> goes(x->size(), is_all);
  for (const int64_t axis : given.value_or(std::vector<int64_t>{})) {
    const auto at = axis_of(axis, x->size());
    if (!at) return;
    goes[*at] = true;
  }
  OnnxShape shape;
  for (size_t i = 0; i < x->size(); ++i) {
    if (!goes[i]) shape.push_back((*x)[i]);
    if (goes[i] && keeps) shape.emplace_back("1");
  }
  call.shape(shape);
}

void arg_of(OnnxCall& call) {
  call.type(i64_type());
  const OnnxShape* x = call.shape(0);
  const auto axis = x ? axis_of(call.integer("axis", 0), x->size()) : std::nullopt;
  if (!axis) return;
  OnnxShape shape = *x;
  if (call.integer("keepdims", 1) != 0)
    shape[*axis] = "1";
  else
    shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(*axis));
  call.shape(shape);
}

void top_k(OnnxCall& call) {
  call.type_like(0);
  call.type(i64_type(), 1);
  const OnnxShape* x = call.shape(0);
  const auto axis = x ? axis_of(call.integer("axis", -1), x->size()) : std::nullopt;
  if (!axis) return;
  const auto k = call.integers(1);
  OnnxShape shape = *x;
  shape[*axis] = k && k->size() == 1 ? dim_of((*k)[0]) : kUnknownDim;
  call.shape(shape);
  call.shape(shape, 1);
}

void non_zero(OnnxCall& call) {
  call.type(i64_type());
  if (const OnnxShape* x = call.shape(0)) call.shape({std::to_string(x->size()), kUnknownDim});
}

void one_hot(OnnxCall& call) {
  call.type_like(2);
  const OnnxShape* x = call.shape(0);
  const auto axis = x ? axis_of(call.integer("axis", -1), x->size() + 1) : std::nullopt;
  if (!axis) return;
  const auto depth = call.integers(1);
  OnnxShape shape = *x;
  shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(*axis),
               depth && depth->size() == 1 ? dim_of((*depth)[0]) : kUnknownDim);
  call.shape(shape);
}

void random_like(OnnxCall& call) {
  call.type_like(0);
  if (const int64_t wanted = call.integer("dtype", 0); wanted != 0) call.type(onnx_element_type(wanted));
  if (const OnnxShape* x = call.shape(0)) call.shape(*x);
}

constexpr NamedOnnxRule kShapeRules[] = {{"Shape", shape_of},
                                         {"Size", size},
                                         {"ConstantOfShape", constant_of_shape},
                                         {"Range", range},
                                         {"ReduceL1", reduce},
                                         {"ReduceL2", reduce},
                                         {"ReduceLogSum", reduce},
                                         {"ReduceLogSumExp", reduce},
                                         {"ReduceMax", reduce},
                                         {"ReduceMean", reduce},
                                         {"ReduceMin", reduce},
                                         {"ReduceProd", reduce},
                                         {"ReduceSum", reduce},
                                         {"ReduceSumSquare", reduce},
                                         {"ArgMax", arg_of},
                                         {"ArgMin", arg_of},
                                         {"TopK", top_k},
                                         {"NonZero", non_zero},
                                         {"OneHot", one_hot},
                                         {"RandomNormalLike", random_like},
                                         {"RandomUniformLike", random_like},
                                         {"Bernoulli", random_like},
                                         {"EyeLike", random_like}};

}  // namespace

std::span<const NamedOnnxRule> shape_rules() { return kShapeRules; }

}  // namespace genesis::viz
