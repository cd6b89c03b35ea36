// Names for the tensors that an exported program returns.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace genesis::models::pt2 {

// `program` is models/model.json. Returns one name for each of `count` outputs: keys of dictionaries and places in tuples, joined by
// dots; "output" for a tensor alone.
std::vector<std::string> output_names(const nlohmann::json& program, size_t count);

}  // namespace genesis::models::pt2
