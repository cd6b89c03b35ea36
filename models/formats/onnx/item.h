// An Item is what a name in an ONNX graph stands for: a value of our graph, a constant that nothing has read as a value yet, or a
// sequence of items. Sequences exist only while a model is imported, so their lengths must be known.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "schema/core/tensor.h"
#include "schema/file/other_formats/onnx/tensor_data.h"
#include "schema/graph/graph.h"

namespace genesis::models::onnx {

struct Item;
using ItemPtr = std::shared_ptr<Item>;

struct Item {
  enum class Kind : uint8_t { kTensor, kSequence, kNone };
  Kind kind = Kind::kTensor;
  Value value;                   // a tensor; empty until something reads it
  std::optional<Tensor> tensor;  // the value of a constant or an initializer
  OnnxElement element = OnnxElement::kUnknown;
  std::string name;            // an initializer becomes a state of this name
  bool is_parameter = false;   // an initializer of reals
  std::vector<ItemPtr> items;  // the elements of a sequence
};

// Makes the item of a value. An element type is needed only where `value` holds one that is no DType.
inline ItemPtr item_of(Value value, OnnxElement element = OnnxElement::kUnknown) {
  auto item = std::make_shared<Item>();
  item->value = value;
  item->element = element == OnnxElement::kUnknown ? onnx_element_of(value.dtype()) : element;
  return item;
}

inline ItemPtr sequence_of(std::vector<ItemPtr> items) {
  auto item = std::make_shared<Item>();
  item->kind = Item::Kind::kSequence;
  item->items = std::move(items);
  return item;
}

}  // namespace genesis::models::onnx
