#include "models/formats/onnx/operators.h"

#include "models/formats/operator_table.h"

namespace genesis::models::onnx {
namespace {

const OperatorTable<Operator>& table() {
  static const OperatorTable<Operator> kTable = {
      &elementwise_operators(), &integer_operators(), &shape_operators(),    &index_operators(),
      &reduction_operators(),   &product_operators(), &window_operators(),   &norm_operators(),
      &type_operators(),        &control_operators(), &sequence_operators(), &recurrent_operators(),
      &attention_operators(),   &loss_operators(),    &sampling_operators(), &signal_operators()};
  return kTable;
}

}  // namespace

const Operator* find_operator(std::string_view name) { return table().find(name); }

std::vector<std::string> operator_names() { return table().names(); }

}  // namespace genesis::models::onnx
