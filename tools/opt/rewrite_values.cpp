#include "tools/opt/rewrite_values.h"

#include <fmt/ranges.h>

#include "passes/pipelines.h"
#include "passes/training/parameter_groups.h"
#include "tools/common/meant_words.h"
#include "tools/common/option_values.h"

namespace genesis::tools {

DType parse_cast(const std::string& cast) {
  const auto dtype = parse_dtype(cast);
  if (!dtype || !is_low_precision(*dtype))
    fail_usage("--cast {}: expected bf16 or f16{}", cast, meant_value(cast, {"bf16", "f16"}));
  return *dtype;
}

WeightFormat parse_quantize(const std::string& format) {
  for (const WeightFormat known : {WeightFormat::kQ8, WeightFormat::kQ4, WeightFormat::kQ4m})
    if (format == EnumNames<WeightFormat>::names[static_cast<size_t>(known)]) return known;
  fail_usage("--quantize {}: expected q8, q4 or q4m{}", format, meant_value(format, {"q8", "q4", "q4m"}));
}

passes::TrainOptions parse_train(const std::string& train, const std::vector<std::string>& groups) {
  passes::TrainOptions options =
      read_value("--train " + train, [&] { return passes::parse_train_options(train); });
  for (const std::string& group : groups)
    options.groups.push_back(read_value("--group " + group, [&] { return passes::parse_group(group); }));
  read_value("--train " + train, [&] { passes::check_train_options(options); });
  return options;
}

void check_pass_option(const std::string& option, const std::vector<std::string>& names) {
  read_value(option, [&] { passes::check_pass_names({names.begin(), names.end()}); });
}

}  // namespace genesis::tools
