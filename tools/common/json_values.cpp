#include "tools/common/json_values.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace genesis::tools {
namespace {

template <class T>
nlohmann::ordered_json element_json(T element) {
  if constexpr (std::is_integral_v<T>)
    return element;
  else if constexpr (std::is_same_v<T, double>)
    return number_json(element);
  else {  // prints the shortest digits that identify this float: 0.1, not 0.10000000149011612
    const auto single = static_cast<float>(element);
    return std::isfinite(single) ? nlohmann::ordered_json(std::stod(fmt::format("{}", single)))
                                 : number_json(single);
  }
}

}  // namespace

nlohmann::ordered_json number_json(double number) {
  if (std::isfinite(number)) return number;
  return std::isnan(number) ? "NaN" : number > 0 ? "Infinity" : "-Infinity";
}

nlohmann::ordered_json tensor_json(const Tensor& tensor, int64_t most) {
  const TensorType& type = tensor.type();
  const int64_t shown = std::min(tensor.numel(), most);
  nlohmann::ordered_json json{{"dtype", name_of(type.dtype)},
                              {"shape", nlohmann::ordered_json::array()},
                              {"values", nlohmann::ordered_json::array()},
                              {"values_left_out", tensor.numel() - shown}};
  for (int i = 0; i < type.shape.rank(); ++i) json["shape"].push_back(type.shape[i].value());
  dispatch(type.dtype, [&](auto tag) {
    for (auto element : tensor.as<typename decltype(tag)::type>().first(static_cast<size_t>(shown)))
      json["values"].push_back(element_json(element));
  });
  return json;
}

}  // namespace genesis::tools
