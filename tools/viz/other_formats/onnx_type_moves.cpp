// Rules of operators that move elements without changing their values.
#include <algorithm>
#include <numeric>

#include "tools/viz/other_formats/onnx_type_call.h"

namespace genesis::viz {
namespace {

std::ptrdiff_t offset(size_t at) { return static_cast<std::ptrdiff_t>(at); }

// Returns the size that -1 stands for: the number of elements divided by the other sizes. Names on both sides cancel
// out.
OnnxDim remaining(const OnnxShape& from, OnnxShape to) {
  OnnxShape left;
  for (const OnnxDim& dim : from) {
    const auto same = dim == kUnknownDim || size_of(dim) ? to.end() : std::ranges::find(to, dim);
    if (same == to.end())
      left.push_back(dim);
    else
      to.erase(same);
  }
  const auto divisor = product(to);
  if (!divisor || *divisor <= 0) return kUnknownDim;
  const auto name = std::ranges::find_if(left, [](const OnnxDim& dim) { return !size_of(dim); });
  const OnnxDim symbol = name == left.end() ? "" : *name;
  if (name != left.end()) left.erase(name);
  const auto all = product(left);
  if (!all || *all % *divisor != 0) return kUnknownDim;
  if (symbol.empty()) return dim_of(*all / *divisor);
  return *all == *divisor ? symbol : kUnknownDim;
}

void reshape(OnnxCall& call) {
  call.type_like(0);
  if (const auto* elements = call.elements(0)) call.elements(*elements);
  const OnnxShape* x = call.shape(0);
  std::vector<OnnxDim> wanted;
  if (const auto* known = call.elements(1)) {
    wanted = *known;
  } else if (const auto* given = call.integers("shape")) {
    for (const int64_t size : *given) wanted.push_back(std::to_string(size));
  } else {
    const OnnxShape* list = call.shape(1);
    const auto rank = list && list->size() == 1 ? size_of((*list)[0]) : std::nullopt;
    if (rank && *rank >= 0 && *rank <= kShownElements)
      call.shape(OnnxShape(static_cast<size_t>(*rank), kUnknownDim));
    return;
  }
  const bool copies_zero = call.integer("allowzero", 0) == 0;
  OnnxShape shape;
  size_t open = wanted.size();
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i] == "-1") open = i;
    if (wanted[i] == "0" && copies_zero)
      shape.push_back(x && i < x->size() ? (*x)[i] : kUnknownDim);
    else
      shape.push_back(as_dim(wanted[i]));
  }
  if (open < shape.size() && x) {
    OnnxShape others = shape;
    others.erase(others.begin() + offset(open));
    shape[open] = remaining(*x, others);
  }
  call.shape(shape);
}

void transpose(OnnxCall& call) {
  call.type_like(0);
  const OnnxShape* x = call.shape(0);
  if (!x) return;
  std::vector<int64_t> order(x->size());
  std::iota(order.rbegin(), order.rend(), 0);
  if (const auto* given = call.integers("perm")) order = *given;
  if (order.size() != x->size()) return;
  OnnxShape shape;
  for (const int64_t from : order) {
    const auto axis = axis_of(from, x->size());
    if (!axis) return;
    shape.push_back((*x)[*axis]);
  }
  call.shape(shape);
}

void concat_elements(OnnxCall& call) {
  std::vector<OnnxDim> all;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    const auto* part = call.elements(i);
    if (!part || all.size() > static_cast<size_t>(kShownElements)) return;
    all.insert(all.end(), part->begin(), part->end());
  }
  call.elements(std::move(all));
}

void concat(OnnxCall& call) {
  call.type_like(0);
  concat_elements(call);
  const OnnxShape* first = call.shape(0);
  const auto axis = first ? axis_of(call.integer("axis", 1), first->size()) : std::nullopt;
  if (!axis) return;
  OnnxShape shape = *first;
  std::optional<int64_t> along = size_of(shape[*axis]);
  for (size_t i = 1; i < call.inputs.size(); ++i) {
    const OnnxShape* other = call.shape(i);
    along = other && other->size() == shape.size() ? plus(along, size_of((*other)[*axis])) : std::nullopt;
    for (size_t k = 0; other && other->size() == shape.size() && k < shape.size(); ++k)
      if (k != *axis && !size_of(shape[k]) && size_of((*other)[k])) shape[k] = (*other)[k];
  }
  shape[*axis] = call.inputs.size() == 1 ? (*first)[*axis] : dim_of(along);
  call.shape(shape);
}

struct SliceRange {
  int64_t start, end, step;
};

// Returns the start of the slice and its number of elements, for an axis of `size`, by numpy's rules.
std::pair<int64_t, int64_t> taken(const SliceRange& range, int64_t size) {
  if (size <= 0) return {0, 0};
  const auto place = [&](int64_t at, int64_t low, int64_t high) {
    return std::clamp(at < 0 ? at + size : at, low, high);
  };
  if (range.step > 0) {
    const int64_t start = place(range.start, 0, size), end = place(range.end, 0, size);
    return {start, end <= start ? 0 : (end - start - 1) / range.step + 1};
  }
  const int64_t start = place(range.start, 0, size - 1),
                end = range.end < -size ? -1 : place(range.end, -1, size - 1);
  // Divides by the negative step, since -2^63 has no positive counterpart.
  return {start, end >= start ? 0 : (end - start + 1) / range.step + 1};
}

OnnxDim sliced(const OnnxDim& dim, const SliceRange& range) {
  constexpr int64_t kToTheEnd = int64_t{1} << 31;
  if (const auto size = size_of(dim)) return dim_of(taken(range, *size).second);
  const bool is_all = range.start == 0 && range.step == 1 && range.end >= kToTheEnd - 1;
  return is_all ? dim : kUnknownDim;
}

void slice(OnnxCall& call) {
  call.type_like(0);
  const OnnxShape* x = call.shape(0);
  const auto starts = call.integers("starts", 1), ends = call.integers("ends", 2);
  if (!x) return;
  auto axes = call.integers("axes", 3);
  if (!starts || !ends || starts->size() != ends->size() || (call.has(3) && !axes))
    return call.shape(OnnxShape(x->size(), kUnknownDim));
  if (!axes) {
    axes.emplace(starts->size());
    std::iota(axes->begin(), axes->end(), 0);
  }
  const auto steps = call.has(4) ? call.integers(4) : std::vector<int64_t>(starts->size(), 1);
  OnnxShape shape = *x;
  for (size_t i = 0; i < axes->size(); ++i) {
    const auto axis = axis_of((*axes)[i], x->size());
    if (!axis || i >= starts->size()) return;
    const bool is_known = steps && i < steps->size() && (*steps)[i] != 0;
    shape[*axis] = is_known ? sliced(shape[*axis], {(*starts)[i], (*ends)[i], (*steps)[i]}) : kUnknownDim;
  }
  call.shape(shape);
  const auto* elements = call.elements(0);
  if (!elements || axes->size() != 1 || !steps || steps->size() != 1 || (*steps)[0] == 0) return;
  const auto [start, count] =
      taken({(*starts)[0], (*ends)[0], (*steps)[0]}, static_cast<int64_t>(elements->size()));
  std::vector<OnnxDim> kept;
  for (int64_t i = 0; i < count; ++i)
    kept.push_back((*elements)[static_cast<size_t>(start + i * (*steps)[0])]);
  call.elements(std::move(kept));
}

void split(OnnxCall& call) {
  const OnnxShape* x = call.shape(0);
  for (size_t i = 0; i < call.outputs.size(); ++i) call.type_like(0, i);
  const auto axis = x ? axis_of(call.integer("axis", 0), x->size()) : std::nullopt;
  if (!axis) return;
  const auto sizes = call.integers("split", 1);
  const auto all = size_of((*x)[*axis]);
  const auto parts = static_cast<int64_t>(call.outputs.size());
  for (size_t i = 0; i < call.outputs.size(); ++i) {
    OnnxShape shape = *x;
    shape[*axis] = kUnknownDim;
    if (sizes && sizes->size() == call.outputs.size()) {
      shape[*axis] = dim_of((*sizes)[i]);
    } else if (all && *all >= 0 && !call.has(1)) {
      const int64_t part = *all / parts + (*all % parts != 0);  // the last output gets the remaining elements
      const int64_t begin = std::min(*all, part * static_cast<int64_t>(i));
      shape[*axis] = dim_of(std::min(part, *all - begin));
    }
    call.shape(shape, i);
  }
}

void squeeze(OnnxCall& call) {
  call.type_like(0);
  if (const auto* elements = call.elements(0)) call.elements(*elements);
  const OnnxShape* x = call.shape(0);
  const auto axes = call.integers("axes", 1);
  if (!x || (call.has(1) && !axes)) return;
  std::vector<bool> goes(x->size(), false);
  for (size_t i = 0; i < x->size() && !axes; ++i) {
    if (!size_of((*x)[i])) return;
    goes[i] = (*x)[i] == "1";
  }
  for (const int64_t axis : axes.value_or(std::vector<int64_t>{})) {
    const auto at = axis_of(axis, x->size());
    if (!at) return;
    goes[*at] = true;
  }
  OnnxShape shape;
  for (size_t i = 0; i < x->size(); ++i)
    if (!goes[i]) shape.push_back((*x)[i]);
  call.shape(shape);
}

void unsqueeze(OnnxCall& call) {
  call.type_like(0);
  if (const auto* elements = call.elements(0)) call.elements(*elements);
  const OnnxShape* x = call.shape(0);
  const auto axes = call.integers("axes", 1);
  if (!x || !axes || axes->size() > static_cast<size_t>(kShownElements)) return;
  OnnxShape shape(x->size() + axes->size());
  for (const int64_t axis : *axes) {
    const auto at = axis_of(axis, shape.size());
    if (!at || !shape[*at].empty()) return;
    shape[*at] = "1";
  }
  size_t next = 0;
  for (OnnxDim& dim : shape)
    if (dim.empty()) dim = (*x)[next++];
  call.shape(shape);
}

void flatten(OnnxCall& call) {
  call.type_like(0);
  const OnnxShape* x = call.shape(0);
  if (!x) return;
  const int64_t given = call.integer("axis", 1);
  const auto axis =
      given == static_cast<int64_t>(x->size()) ? std::optional(x->size()) : axis_of(given, x->size());
  if (!axis) return;
  const auto joined = [](const OnnxShape& dims) {
    return dims.size() == 1 ? dims[0] : dim_of(product(dims));
  };
  call.shape(
      {joined({x->begin(), x->begin() + offset(*axis)}), joined({x->begin() + offset(*axis), x->end()})});
}

void expand(OnnxCall& call) {
  call.type_like(0);
  const OnnxShape* x = call.shape(0);
  const auto* wanted = call.elements(1);
  if (x && wanted) call.shape(broadcast(*x, as_shape(*wanted)));
}

void tile(OnnxCall& call) {
  call.type_like(0);
  const OnnxShape* x = call.shape(0);
  if (!x) return;
  const auto repeats = call.integers(1);
  OnnxShape shape(x->size(), kUnknownDim);
  for (size_t i = 0; repeats && repeats->size() == x->size() && i < x->size(); ++i)
    shape[i] = (*repeats)[i] == 1 ? (*x)[i] : dim_of(times(size_of((*x)[i]), (*repeats)[i]));
  call.shape(shape);
}

void gather_elements_of_shape(OnnxCall& call) {
  const auto* elements = call.elements(0);
  const auto indices = call.integers(1);
  if (!elements || !indices) return;
  std::vector<OnnxDim> kept;
  for (const int64_t index : *indices) {
    const auto at = axis_of(index, elements->size());
    if (!at) return;
    kept.push_back((*elements)[*at]);
  }
  call.elements(std::move(kept));
}

void gather(OnnxCall& call) {
  call.type_like(0);
  const OnnxShape *x = call.shape(0), *indices = call.shape(1);
  const auto axis = x ? axis_of(call.integer("axis", 0), x->size()) : std::nullopt;
  if (!axis || !indices) return;
  OnnxShape shape(x->begin(), x->begin() + offset(*axis));
  shape.insert(shape.end(), indices->begin(), indices->end());
  shape.insert(shape.end(), x->begin() + offset(*axis) + 1, x->end());
  call.shape(shape);
  if (x->size() == 1) gather_elements_of_shape(call);
}

void like_indices(OnnxCall& call) {
  call.type_like(0);
  if (const OnnxShape* indices = call.shape(1)) call.shape(*indices);
}

void gather_nd(OnnxCall& call) {
  call.type_like(0);
  const OnnxShape *x = call.shape(0), *indices = call.shape(1);
  if (!x || !indices || indices->empty()) return;
  const auto depth = size_of(indices->back());
  const int64_t batch = call.integer("batch_dims", 0);
  if (!depth || *depth < 0 || batch < 0 || *depth > static_cast<int64_t>(x->size()) - batch) return;
  OnnxShape shape(indices->begin(), indices->end() - 1);
  shape.insert(shape.end(), x->begin() + batch + *depth, x->end());
  call.shape(shape);
}

constexpr NamedOnnxRule kMoveRules[] = {
    {"Reshape", reshape},     {"Transpose", transpose}, {"Concat", concat},
    {"Slice", slice},         {"Split", split},         {"Squeeze", squeeze},
    {"Unsqueeze", unsqueeze}, {"Flatten", flatten},     {"Expand", expand},
    {"Tile", tile},           {"Gather", gather},       {"GatherElements", like_indices},
    {"GatherND", gather_nd}};

}  // namespace

std::span<const NamedOnnxRule> move_rules() { return kMoveRules; }

}  // namespace genesis::viz
