#include "executor/named_tensors.h"

#include <fmt/ranges.h>

#include <vector>

#include "schema/graph/near_names.h"

namespace genesis {
namespace {

constexpr size_t kMaxListed = 20;

// Returns e.g. "; there are: grad_norm, loss, lr; did you mean 'loss'?".
std::string what_there_is(const std::string& name, const std::vector<std::string>& names) {
  const std::string near = near_names(name, names, 1);
  const std::string list = names.empty() ? "there are none"
                           : names.size() > kMaxListed
                               ? fmt::format("there are {} others", names.size())
                               : fmt::format("there are: {}", fmt::join(names, ", "));
  return "; " + list + (near.empty() ? "" : "; did you mean '" + near + "'?");
}

}  // namespace

Tensor& NamedTensors::operator[](const std::string& name) {
  return missing_.empty() ? Map::operator[](name) : at(name);
}

Tensor& NamedTensors::at(const std::string& name) {
  const auto found = find(name);
  if (found == end()) fail_missing(name);
  return found->second;
}

const Tensor& NamedTensors::at(const std::string& name) const {
  const auto found = find(name);
  if (found == end()) fail_missing(name);
  return found->second;
}

void NamedTensors::fail_missing(const std::string& name) const {
  std::vector<std::string> names;
  for (const auto& [known, tensor] : *this) names.push_back(known);
  fail("{} '{}'{}", missing_.empty() ? "there is no tensor" : missing_, name, what_there_is(name, names));
}

}  // namespace genesis
