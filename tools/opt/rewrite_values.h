// Parses values of genesis-opt's options that can be checked without reading the file. All functions throw UsageError
// with the option, the expected values and, for words that other programs use, a suggestion.
#pragma once

#include <string>
#include <vector>

#include "passes/training/train_options.h"
#include "schema/core/dtype.h"
#include "schema/encoding/weight_format.h"

namespace genesis::tools {

DType parse_cast(const std::string& cast);
WeightFormat parse_quantize(const std::string& format);
passes::TrainOptions parse_train(const std::string& train, const std::vector<std::string>& groups);
void check_pass_option(const std::string& option, const std::vector<std::string>& names);

}  // namespace genesis::tools
