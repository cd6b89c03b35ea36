// Sequences and optional values, which exist only while the model is imported.
#include "builder/functions.h"
#include "models/formats/onnx/operators.h"
#include "schema/core/error.h"
#include "schema/ops/elementwise/cast.h"

namespace genesis::models::onnx {
namespace {

ItemPtr known_item(const Tensor& tensor) {
  auto item = std::make_shared<Item>();
  item->tensor = tensor;
  item->element = onnx_element_of(tensor.dtype());
  return item;
}

size_t place_in(Call& call, size_t input, size_t count, size_t otherwise) {
  if (!call.has(input)) return otherwise;
  int64_t place = call.integer(input);
  if (place < 0) place += static_cast<int64_t>(count);
  if (place < 0 || place > static_cast<int64_t>(count))
    fail("it reads place {} of a sequence of {}", place, count);
  return static_cast<size_t>(place);
}

Results empty_sequence(Call& call) {
  call.accept_any("dtype");
  return {sequence_of({})};
}
Results sequence_of_inputs(Call& call) {
  std::vector<ItemPtr> items;
  for (size_t i = 0; i < call.count(); ++i) items.push_back(call.item(i));
  return {sequence_of(items)};
}
Results item_at(Call& call) {
  const auto& items = call.sequence(0);
  const size_t place = place_in(call, 1, items.size(), 0);
  if (place >= items.size()) fail("it reads place {} of a sequence of {}", place, items.size());
  return {items[place]};
}
Results length_of(Call& call) {
  return {known_item(Tensor::scalar(static_cast<int64_t>(call.sequence(0).size())))};
}
Results inserted(Call& call) {
  std::vector<ItemPtr> items = call.sequence(0);
  const size_t place = place_in(call, 2, items.size(), items.size());
  items.insert(items.begin() + static_cast<int64_t>(place), call.item(1));
  return {sequence_of(items)};
}
Results erased(Call& call) {
  std::vector<ItemPtr> items = call.sequence(0);
  if (items.empty()) fail("it takes an element out of an empty sequence");
  const size_t place = place_in(call, 1, items.size(), items.size() - 1);
  if (place >= items.size()) fail("it takes place {} out of a sequence of {}", place, items.size());
  items.erase(items.begin() + static_cast<int64_t>(place));
  return {sequence_of(items)};
}
Results joined(Call& call) {
  std::vector<Value> values;
  const auto& items = call.sequence(0);
  if (items.empty()) fail("it joins an empty sequence");
  for (const ItemPtr& item : items) values.push_back(value_of(call.environment(), *item));
  const bool is_new = call.attribute("new_axis", 0) != 0;
  const int axis = normalize_axis(call.attribute("axis", 0), values[0].rank() + (is_new ? 1 : 0));
  return {item_of(is_new ? stack(values, axis) : concat(values, axis), items[0]->element)};
}
Results split_to_sequence(Call& call) {
  const Value x = call.tensor(0);
  const int axis = normalize_axis(call.attribute("axis", 0), x.rank());
  const bool keeps = call.attribute("keepdims", 1) != 0;
  std::vector<Value> pieces;
  if (!call.has(1)) {
    pieces = split_every(x, 1, axis);
    if (!keeps)
      for (Value& piece : pieces) piece = squeeze(piece, axis);
  } else if (const KnownSizes sizes = call.known_sizes(1); sizes.shape.empty()) {
    pieces = split_every(x, call.integer(1), axis);
  } else {
    Dim at = 0;
    for (const Dim& size : sizes.elements) {
      pieces.push_back(narrow(x, axis, at, size));
      at = at + size;
    }
  }
  std::vector<ItemPtr> items;
  for (const Value& piece : pieces) items.push_back(item_of(piece, call.element(0)));
  return {sequence_of(items)};
}
// Runs a body for the elements of one or more sequences.
Results mapped(Call& call) {
  const OnnxGraph& body = call.body("body");
  const size_t count = call.sequence(0).size();
  std::vector<std::vector<ItemPtr>> collected(body.outputs.size());
  for (size_t i = 0; i < count; ++i) {
    std::vector<ItemPtr> inputs;
    for (size_t k = 0; k < call.count(); ++k) {
      const ItemPtr& given = call.item(k);
      if (given->kind == Item::Kind::kSequence && given->items.size() != count)
        fail("its sequences have {} and {} elements", count, given->items.size());
      inputs.push_back(given->kind == Item::Kind::kSequence ? given->items[i] : given);
    }
    const Results results = call.environment().run_body(body, inputs);
    for (size_t k = 0; k < results.size(); ++k) collected[k].push_back(results[k]);
  }
  Results results;
  for (auto& items : collected) results.push_back(sequence_of(items));
  return results;
}

Results optional_of(Call& call) {
  call.accept_any("type");
  if (call.has(0)) return {call.item(0)};
  auto none = std::make_shared<Item>();
  none->kind = Item::Kind::kNone;
  return {none};
}
Results has_element(Call& call) { return {known_item(Tensor::scalar(call.has(0)))}; }
Results element_of(Call& call) { return {call.item(0)}; }

}  // namespace

const Operators& sequence_operators() {
  static const Operators kOperators = {
      {"ConcatFromSequence", joined, 1, Takes::kAnyAlone},
      {"Optional", optional_of, 1, Takes::kAnyAlone},
      {"OptionalGetElement", element_of, 1, Takes::kAnyAlone},
      {"OptionalHasElement", has_element, 1, Takes::kAnyAlone},
      {"SequenceAt", item_at, 1, Takes::kAnyAlone},
      {"SequenceConstruct", sequence_of_inputs, 1, Takes::kAnyAlone},
      {"SequenceEmpty", empty_sequence, 1, Takes::kAnyAlone},
      {"SequenceErase", erased, 1, Takes::kAnyAlone},
      {"SequenceInsert", inserted, 1, Takes::kAnyAlone},
      {"SequenceLength", length_of, 1, Takes::kAnyAlone},
      {"SequenceMap", mapped, 1, Takes::kAnyAlone},
      {"SplitToSequence", split_to_sequence, 1, Takes::kAnyAlone},
  };
  return kOperators;
}

}  // namespace genesis::models::onnx
