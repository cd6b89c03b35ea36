// Values of genesis-opt's options, which mean nothing or something whatever the file holds. All throw UsageError that names the
// option, what was expected and, for words of other programs, what may have been meant.
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
