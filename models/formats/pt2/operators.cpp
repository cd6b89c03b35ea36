#include "models/formats/pt2/operators.h"

#include "models/formats/operator_table.h"

namespace genesis::models::pt2 {
namespace {

const OperatorTable<Operator>& table() {
  static const OperatorTable<Operator> kTable = {
      &elementwise_operators(), &shape_operators(),  &reduction_operators(), &index_operators(),
      &creation_operators(),    &image_operators(),  &layer_operators(),     &recurrent_operators(),
      &size_operators(),        &writing_operators()};
  return kTable;
}

}  // namespace

const Operator* find_operator(std::string_view target) {
  constexpr std::string_view kPrefix = "torch.ops.";
  if (target.starts_with(kPrefix)) target.remove_prefix(kPrefix.size());
  return table().find(target);
}

std::vector<std::string> operator_names() { return table().names(); }

}  // namespace genesis::models::pt2
