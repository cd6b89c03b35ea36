// Operators that read or write elements at places that are tensors.
#include "builder/functions.h"
#include "models/formats/pt2/operators.h"
#include "schema/core/error.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/tensor/index.h"

namespace genesis::models::pt2 {
namespace {

Value size_as_value(Call& call, const Dim& size) { return dim_value(call.g(), size, DType::i64); }

// Negative places count from the end.
Value counted_from_start(Call& call, Value index, const Dim& size) {
  const Value places = cast(index, DType::i64);
  return where(places < 0, places + size_as_value(call, size), places);
}

struct Indexed {
  int first = 0;  // the first axis that an index replaces
  std::vector<Value> indices;
};

// Reads the list of indices of x[:, i, j]: those given must be of consecutive axes.
Indexed indexed_axes(Call& call, Value x) {
  Indexed result;
  const std::vector<Value> given = call.tensors("indices");
  if (given.size() > static_cast<size_t>(x.rank()))
    fail("it has {} indices for {} axes", given.size(), x.rank());
  for (size_t axis = 0; axis < given.size(); ++axis) {
    if (!given[axis]) continue;
    if (given[axis].dtype() == DType::boolean)
      fail("an index of bools is not read, since the size of its result depends on the data");
    if (result.indices.empty()) result.first = static_cast<int>(axis);
    if (result.first + result.indices.size() != axis)
      fail("indices of axes that are not consecutive are not read");
    result.indices.push_back(given[axis]);
  }
  if (result.indices.empty()) fail("it has no index");
  return result;
}

// The places of the broadcast indices in the indexed axes, as if these were one axis.
Value places_in_joined_axes(Call& call, Value x, const Indexed& indexed) {
  Shape common;
  for (const Value& index : indexed.indices) common = broadcast(common, index.shape());
  Value places;
  for (size_t i = 0; i < indexed.indices.size(); ++i) {
    const Dim& size = x.dim(indexed.first + static_cast<int64_t>(i));
    const Value own = expand(counted_from_start(call, indexed.indices[i], size), common);
    places = places ? places * size_as_value(call, size) + own : own;
  }
  return places;
}

// x with its indexed axes as one, and the shape of x[:, i, j].
struct JoinedAxes {
  Shape joined, result;
};
JoinedAxes joined_axes(Value x, const Indexed& indexed, Value places) {
  const auto count = static_cast<int>(indexed.indices.size());
  Shape joined, result;
  Dim size = 1;
  for (int axis = 0; axis < x.rank(); ++axis) {
    const bool is_indexed = axis >= indexed.first && axis < indexed.first + count;
    if (is_indexed) size = size * x.dim(axis);
    if (axis == indexed.first + count - 1) {
      joined.push_back(size);
      for (const Dim& dim : places.shape()) result.push_back(dim);
    } else if (!is_indexed) {
      joined.push_back(x.dim(axis));
      result.push_back(x.dim(axis));
    }
  }
  return {joined, result};
}
Value at_indices(Call& call) {
  const Value x = call.tensor("self");
  const Indexed indexed = indexed_axes(call, x);
  const Value places = places_in_joined_axes(call, x, indexed);
  const auto [joined, result] = joined_axes(x, indexed, places);
  return reshape(index_select(reshape(x, joined), indexed.first, flatten(places)), result);
}

Value selected_at(Call& call) {
  return index_select(call.tensor("self"), call.integer("dim"), cast(call.tensor("index"), DType::i64));
}
Value gathered(Call& call) {
  call.must_be("sparse_grad", false);
  return gather(call.tensor("self"), call.integer("dim"), call.tensor("index"));
}
Value scattered(Call& call) {
  const Value x = call.tensor("self"), index = call.tensor("index");
  const Value source =
      call.has("src") ? call.tensor("src") : expand(scalar_like(x, call.scalar("value")), index.shape());
  return scatter(x, call.integer("dim"), index, source);
}
Value scattered_sum(Call& call) {
  return scatter_add(call.tensor("self"), call.integer("dim"), call.tensor("index"), call.tensor("src"));
}
Value added_at(Call& call) {
  call.must_be("alpha", 1);
  return index_add(call.tensor("self"), call.integer("dim"), call.tensor("index"), call.tensor("source"));
}
Value rows_of_table(Call& call) {
  call.must_be("scale_grad_by_freq", false);
  call.must_be("sparse", false);
  return embedding(call.tensor("indices"), call.tensor("weight"), call.integer_or("padding_idx", -1));
}
Value places_of_one(Call& call) {
  return one_hot(call.tensor("self"), call.integer("num_classes"), DType::i64);
}

}  // namespace

Value write_at_indices(Call& call, Value x, Value values, bool adds) {
  const Indexed indexed = indexed_axes(call, x);
  const Value places = places_in_joined_axes(call, x, indexed);
  const auto [joined, result] = joined_axes(x, indexed, places);
  const Value at = flatten(places);
  Shape rows = joined;
  rows[indexed.first] = at.dim(0);
  const Value source = reshape(expand(values, result), rows), flat = reshape(x, joined);
  if (adds) return reshape(index_add(flat, indexed.first, at, source), x.shape());
  Shape column(std::vector<Dim>(static_cast<size_t>(rows.rank()), Dim(1)));
  column[indexed.first] = at.dim(0);
  return reshape(scatter(flat, indexed.first, expand(reshape(at, column), rows), source), x.shape());
}

const Operators& index_operators() {
  static const Operators kOperators = {
      {"aten.embedding.default", one<rows_of_table>},
      {"aten.gather.default", one<gathered>},
      {"aten.index.Tensor", one<at_indices>},
      {"aten.index_add.default", one<added_at>},
      {"aten.index_select.default", one<selected_at>},
      {"aten.one_hot.default", one<places_of_one>},
      {"aten.scatter.src", one<scattered>},
      {"aten.scatter.value", one<scattered>},
      {"aten.scatter_add.default", one<scattered_sum>},
  };
  return kOperators;
}

}  // namespace genesis::models::pt2
