#include "models/formats/onnx/operators.h"

#include <map>

namespace genesis::models::onnx {
namespace {

using Table = std::map<std::string_view, const Operator*>;

const Table& table() {
  static const Table kTable = [] {
    Table all;
    for (const auto* operators :
         {&elementwise_operators(), &integer_operators(), &shape_operators(), &index_operators(),
          &reduction_operators(), &product_operators(), &window_operators(), &norm_operators(),
          &type_operators(), &control_operators(), &sequence_operators(), &recurrent_operators(),
          &attention_operators(), &resize_operators(), &loss_operators(), &sampling_operators(),
          &signal_operators(), &feature_operators()})
      for (const Operator& one : *operators) all.emplace(one.name, &one);
    return all;
  }();
  return kTable;
}

}  // namespace

const Operator* find_operator(std::string_view name) {
  const auto found = table().find(name);
  return found == table().end() ? nullptr : found->second;
}

std::vector<std::string> operator_names() {
  std::vector<std::string> names;
  for (const auto& [name, one] : table()) names.emplace_back(name);
  return names;
}

}  // namespace genesis::models::onnx
