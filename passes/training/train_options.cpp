#include "passes/training/train_options.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <set>
#include <type_traits>

#include "schema/core/parse_number.h"
#include "schema/graph/near_names.h"

namespace genesis::passes {
namespace {

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const size_t at = text.find(separator);
    parts.emplace_back(text.substr(0, at));
    text.remove_prefix(at == std::string_view::npos ? text.size() : at + 1);
  }
  return parts;
}

template <class T>
T number_of(const std::string& key, const std::string& text) {
  const std::optional<T> number = parse_number<T>(text);
  if (!number)
    fail("training option '{}' is '{}', expected {}", key, text,
         std::is_integral_v<T> ? "an integer" : "a number");
  return *number;
}

template <class T>
void parse_field(const std::string& key, const std::string& text, T& field) {
  if constexpr (std::is_enum_v<T>) {
    with_context([&] { detail::enum_from_attr(key, text, field); }, [] { return "in the training options"; });
  } else if constexpr (std::is_same_v<T, bool>) {
    if (text != "true" && text != "false")
      fail("training option '{}' is '{}', expected true or false", key, text);
    field = text == "true";
  } else if constexpr (std::is_same_v<T, std::string>) {
    field = text;
  } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
    field = split(text, ';');
  } else {
    field = number_of<T>(key, text);
  }
}

template <class T>
std::string field_text(const T& field) {
  if constexpr (std::is_enum_v<T>)
    return std::string(EnumNames<T>::names[static_cast<size_t>(field)]);
  else if constexpr (std::is_same_v<T, std::vector<std::string>>)
    return fmt::format("{}", fmt::join(field, ";"));
  else
    return fmt::format("{}", field);
}

void set_field(TrainOptions& options, const std::string& key, const std::string& text) {
  bool found = false;
  std::vector<std::string> known;
  TrainOptions::fields(options, [&](std::string_view name, auto& field) {
    known.emplace_back(name);
    if (name != key) return;
    parse_field(key, text, field);
    found = true;
  });
  if (!found)
    fail("there is no training option '{}'{}; the options are: {}", key, did_you_mean(key, known),
         fmt::join(known, ", "));
}

void check_range(bool good, std::string_view key, double value, std::string_view expected) {
  if (!good) fail("training option '{}' is {}, expected {}", key, value, expected);
}

void check_options(const TrainOptions& o) {
  check_range(o.lr >= 0, "lr", o.lr, "0 or more");
  check_range(o.weight_decay >= 0, "weight_decay", o.weight_decay, "0 or more");
  check_range(o.beta1 >= 0 && o.beta1 < 1, "beta1", o.beta1, "at least 0 and less than 1");
  check_range(o.beta2 >= 0 && o.beta2 < 1, "beta2", o.beta2, "at least 0 and less than 1");
  check_range(o.eps >= 0, "eps", o.eps, "0 or more");
  check_range(o.clip >= 0, "clip", o.clip, "0 or more");
  check_range(o.clip_value >= 0, "clip_value", o.clip_value, "0 or more");
  check_range(o.accumulate >= 1, "accumulate", double(o.accumulate), "1 or more");
  check_range(o.loss_scale > 0 && o.loss_scale <= 0x1p100, "loss_scale", o.loss_scale,
              "more than 0, at most 2^100");
  check_range(o.scale_interval >= 1, "scale_interval", double(o.scale_interval), "1 or more");
  if (o.nesterov && (o.momentum <= 0 || o.dampening != 0))
    fail("training option 'nesterov' needs a momentum above 0 and no dampening");
  check_schedule(o.schedule);
}

// What reads a key, where not every run does; null: it is read.
const char* unread_without(const std::string& key, const TrainOptions& o) {
  const auto one_of = [&](std::initializer_list<const char*> keys) {
    return std::find(keys.begin(), keys.end(), key) != keys.end();
  };
  using enum ScheduleKind;
  const bool sgd = o.optimizer == OptimizerKind::kSgd, lion = o.optimizer == OptimizerKind::kLion;
  const ScheduleKind kind = o.schedule.kind;
  const bool cosine = kind == kCosine || kind == kWarmupCosine;
  if (one_of({"momentum", "dampening", "nesterov"}) && !sgd) return "sgd";
  if (one_of({"beta1", "beta2"}) && sgd) return "adam, adamw or lion";
  if (key == "eps" && (sgd || lion)) return "adam or adamw";
  if (key == "total" && !cosine && kind != kLinear && kind != kOneCycle)
    return "schedule=linear, cosine, warmup_cosine or one_cycle";
  if (key == "warmup" && kind != kWarmupCosine) return "schedule=warmup_cosine";
  if (key == "step_size" && kind != kStep) return "schedule=step";
  if (key == "gamma" && kind != kStep && kind != kExponential) return "schedule=step or exponential";
  if (one_of({"start_factor", "end_factor"}) && kind != kLinear) return "schedule=linear";
  if (key == "min_lr" && !cosine) return "schedule=cosine or warmup_cosine";
  if (one_of({"pct_start", "div_factor", "final_div_factor"}) && kind != kOneCycle)
    return "schedule=one_cycle";
  return nullptr;
}

}  // namespace

TrainOptions default_options(OptimizerKind optimizer) {
  TrainOptions options;
  options.optimizer = optimizer;
  if (optimizer != OptimizerKind::kAdamw) options.weight_decay = 0;
  if (optimizer == OptimizerKind::kLion) {
    options.lr = 1e-4;
    options.beta2 = 0.99;
  }
  return options;
}

TrainOptions parse_train_options(const std::string& text) {
  std::vector<std::string> items = split(text, ',');
  OptimizerKind optimizer = OptimizerKind::kAdamw;
  if (!items.empty() && items[0].find('=') == std::string::npos) items[0] = "optimizer=" + items[0];
  for (const std::string& item : items)  // first, since it decides the defaults of the others
    if (item.starts_with("optimizer=")) parse_field("optimizer", item.substr(10), optimizer);
  TrainOptions options = default_options(optimizer);
  std::set<std::string> given;
  for (const std::string& item : items) {
    const size_t equals = item.find('=');
    if (equals == std::string::npos) fail("training option '{}' has no value: expected {}=VALUE", item, item);
    const std::string key = item.substr(0, equals);
    set_field(options, key, item.substr(equals + 1));
    if (!given.insert(key).second) fail("training option '{}' is given twice", key);
  }
  check_options(options);
  for (const std::string& key : given)
    if (const char* reader = unread_without(key, options))
      fail("training option '{}' would do nothing: it goes with {}", key, reader);
  return options;
}

std::string to_string(const TrainOptions& options) {
  const TrainOptions standard = default_options(options.optimizer);
  std::vector<std::string> standard_texts;
  TrainOptions::fields(standard,
                       [&](std::string_view, const auto& f) { standard_texts.push_back(field_text(f)); });
  std::string text = field_text(options.optimizer);
  size_t i = 0;
  TrainOptions::fields(options, [&](std::string_view name, const auto& field) {
    const std::string value = field_text(field);
    if (value != standard_texts[i++]) text += "," + std::string(name) + "=" + value;
  });
  return text;
}

}  // namespace genesis::passes
