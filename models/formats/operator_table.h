// Operators of a foreign format by name. A format lists them in tables, one for each kind of operator.
#pragma once

#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace genesis::models {

// `Operator` has a member `name`, a view of text that stays. If two operators have one name, the first counts.
template <class Operator>
class OperatorTable {
 public:
  // The tables must outlive this object.
  OperatorTable(std::initializer_list<const std::vector<Operator>*> tables) {
    for (const std::vector<Operator>* table : tables)
      for (const Operator& one : *table) by_name_.emplace(one.name, &one);
  }

  // Returns null for a name that no table has.
  const Operator* find(std::string_view name) const {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? nullptr : found->second;
  }
  std::vector<std::string> names() const {  // sorted
    std::vector<std::string> names;
    for (const auto& [name, one] : by_name_) names.emplace_back(name);
    return names;
  }

 private:
  std::map<std::string_view, const Operator*> by_name_;
};

}  // namespace genesis::models
