#include "models/formats/pt2/operators.h"

#include <algorithm>
#include <map>

namespace genesis::models::pt2 {
namespace {

using Table = std::map<std::string_view, const Operator*>;

const Table& table() {
  static const Table kTable = [] {
    Table all;
    for (const auto* operators :
         {&elementwise_operators(), &shape_operators(), &reduction_operators(), &index_operators(),
          &creation_operators(), &layer_operators(), &size_operators()})
      for (const Operator& one : *operators) all.emplace(one.name, &one);
    return all;
  }();
  return kTable;
}

}  // namespace

const Operator* find_operator(std::string_view target) {
  constexpr std::string_view kPrefix = "torch.ops.";
  if (target.starts_with(kPrefix)) target.remove_prefix(kPrefix.size());
  const auto found = table().find(target);
  return found == table().end() ? nullptr : found->second;
}

std::vector<std::string> operator_names() {
  std::vector<std::string> names;
  for (const auto& [name, one] : table()) names.emplace_back(name);
  return names;
}

}  // namespace genesis::models::pt2
