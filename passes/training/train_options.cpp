#include "passes/training/train_options.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <type_traits>

#include "schema/core/parse_number.h"
#include "schema/core/type_limits.h"
#include "schema/graph/near_names.h"

namespace genesis::passes {
namespace {

using Names = std::vector<std::string>;

// True for the variants of optimizers and of schedules.
template <class T>
constexpr bool kIsChoice = false;
template <class... Alternatives>
constexpr bool kIsChoice<std::variant<Alternatives...>> = true;

// Calls visit(alternative) with a default-constructed value of each alternative.
template <class Visit, class... Alternatives>
void for_each_alternative(const std::variant<Alternatives...>&, Visit&& visit) {
  (visit(Alternatives{}), ...);
}

template <class T>
Names keys_of(const T& settings) {
  Names keys;
  T::fields(settings, [&](std::string_view name, const auto&) { keys.emplace_back(name); });
  return keys;
}

template <class... Alternatives>
std::string name_of(const std::variant<Alternatives...>& choice) {
  return std::visit([](const auto& chosen) { return std::string(chosen.kName); }, choice);
}

// Calls visit(name, field) for every option; the options of the chosen optimizer and schedule follow theirs.
template <class Options, class Visit>
void for_each_option(Options& options, Visit&& visit) {
  TrainOptions::fields(options, [&](std::string_view name, auto& field) {
    visit(name, field);
    if constexpr (kIsChoice<std::remove_cvref_t<decltype(field)>>)
      std::visit([&](auto& chosen) { chosen.fields(chosen, visit); }, field);
  });
}

template <class T>
T number_of(const std::string& key, const std::string& text) {
  const std::optional<T> number = parse_number<T>(text);
  if (!number)
    fail("training option '{}' is '{}', expected {}", key, text,
         std::is_integral_v<T> ? "an integer" : "a number");
  if constexpr (std::is_floating_point_v<T>)
    if (!fits_f32(*number))
      fail("training option '{}' is '{}', expected a number that f32 can hold", key, text);
  return *number;
}

template <class Choice>
void choose(const std::string& key, const std::string& text, Choice& field) {
  Names known;
  for_each_alternative(field, [&](auto alternative) {
    known.emplace_back(alternative.kName);
    if (alternative.kName == text) field = alternative;
  });
  if (std::ranges::find(known, text) == known.end())
    fail("training option '{}' is '{}', expected one of: {}", key, text, fmt::join(known, ", "));
}

std::string_view without_braces(std::string_view group) {
  if (group.size() < 2 || group.front() != '{' || group.back() != '}')
    fail("training option 'group' is '{}', expected {{PATTERN,...:SETTING,...}}", group);
  return group.substr(1, group.size() - 2);
}

template <class T>
void parse_field(const std::string& key, const std::string& text, T& field) {
  if constexpr (kIsChoice<T>) {
    choose(key, text, field);
  } else if constexpr (std::is_enum_v<T>) {
    with_context([&] { detail::enum_from_attr(key, text, field); }, [] { return "in the training options"; });
  } else if constexpr (std::is_same_v<T, bool>) {
    if (text != "true" && text != "false")
      fail("training option '{}' is '{}', expected true or false", key, text);
    field = text == "true";
  } else if constexpr (std::is_same_v<T, std::string>) {
    field = text;
  } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
    field = split_list(text, ';');
  } else if constexpr (std::is_same_v<T, std::vector<int64_t>>) {
    field.clear();
    for (const std::string& item : split_list(text, ';')) field.push_back(number_of<int64_t>(key, item));
  } else if constexpr (std::is_same_v<T, std::vector<ParameterGroup>>) {
    field.push_back(parse_group(without_braces(text)));
  } else {
    field = number_of<T>(key, text);
  }
}

// Returns the text behind the first "group=".
std::string groups_text(const std::vector<ParameterGroup>& groups) {
  Names texts;
  for (const ParameterGroup& group : groups) texts.push_back("{" + to_string(group) + "}");
  return fmt::format("{}", fmt::join(texts, ",group="));
}

template <class T>
std::string field_text(const T& field) {
  if constexpr (kIsChoice<T>)
    return name_of(field);
  else if constexpr (std::is_enum_v<T>)
    return std::string(EnumNames<T>::names[static_cast<size_t>(field)]);
  else if constexpr (std::is_same_v<T, std::vector<std::string>> || std::is_same_v<T, std::vector<int64_t>>)
    return fmt::format("{}", fmt::join(field, ";"));
  else if constexpr (std::is_same_v<T, std::vector<ParameterGroup>>)
    return groups_text(field);
  else
    return fmt::format("{}", field);
}

// Returns the alternatives of a choice that have the option `key`: "adam, adamw or lion", "schedule=step or exponential"; empty
// if there are none.
std::string readers_of(const std::string& key) {
  const TrainOptions standard;
  std::string text;
  TrainOptions::fields(standard, [&](std::string_view name, const auto& field) {
    if constexpr (kIsChoice<std::remove_cvref_t<decltype(field)>>) {
      Names readers;
      for_each_alternative(field, [&](const auto& alternative) {
        const Names keys = keys_of(alternative);
        if (std::ranges::find(keys, key) != keys.end()) readers.emplace_back(alternative.kName);
      });
      if (readers.empty()) return;
      const std::string last = readers.back();
      readers.pop_back();
      text = fmt::format("{}{}{}{}", name == "optimizer" ? "" : std::string(name) + "=",
                         fmt::join(readers, ", "), readers.empty() ? "" : " or ", last);
    }
  });
  return text;
}

// Returns all known keys, each once.
Names known_keys() {
  Names known;
  const auto add = [&](const std::string& key) {
    if (std::ranges::find(known, key) == known.end()) known.push_back(key);
  };
  const TrainOptions standard;
  TrainOptions::fields(standard, [&](std::string_view name, const auto& field) {
    add(std::string(name));
    if constexpr (kIsChoice<std::remove_cvref_t<decltype(field)>>)
      for_each_alternative(field, [&](const auto& alternative) {
        for (const std::string& key : keys_of(alternative)) add(key);
      });
  });
  return known;
}

// Returns our name of a setting that other programs call `key`; empty if none is known.
std::string name_here(const std::string& key) {
  static constexpr std::pair<std::string_view, std::string_view> kOtherNames[] = {
      {"learning_rate", "lr"},
      {"lr_max", "lr"},
      {"max_lr", "lr"},
      {"wd", "weight_decay"},
      {"decay", "weight_decay"},
      {"grad_clip", "clip"},
      {"clip_norm", "clip"},
      {"max_grad_norm", "clip"},
      {"clip_grad_norm", "clip"},
      {"gradient_clipping", "clip"},
      {"warmup_steps", "warmup"},
      {"num_warmup_steps", "warmup"},
      {"warmup_ratio", "warmup"},
      {"scheduler", "schedule"},
      {"lr_scheduler", "schedule"},
      {"lr_scheduler_type", "schedule"},
      {"steps", "total"},
      {"total_steps", "total"},
      {"max_steps", "total"},
      {"grad_accum", "accumulate"},
      {"epsilon", "eps"},
      {"gradient_accumulation_steps", "accumulate"},
      {"adam_beta1", "beta1"},
      {"adam_beta2", "beta2"},
      {"ema_decay", "ema"}};
  for (const auto& [other, name] : kOtherNames)
    if (key == other) return std::string(name);
  return "";
}

void set_option(TrainOptions& options, const std::string& key, const std::string& text) {
  bool found = false;
  for_each_option(options, [&](std::string_view name, auto& field) {
    if (name != key) return;
    parse_field(key, text, field);
    found = true;
  });
  if (found) return;
  if (const std::string readers = readers_of(key); !readers.empty())
    fail("training option '{}' would do nothing: it goes with {}", key, readers);
  const std::string meant = name_here(key);
  fail("there is no training option '{}'{}; the options are: {}", key,
       meant.empty() ? did_you_mean(key, known_keys()) : fmt::format(" (did you mean '{}'?)", meant),
       fmt::join(known_keys(), ", "));
}

// Checks the range of a number; the range depends only on its key.
void check_number(std::string_view key, double value) {
  const auto expect = [&](bool good, std::string_view expected) {
    if (!good) fail("training option '{}' is {}, expected {}", key, value, expected);
  };
  for (const char* name : {"lr", "weight_decay", "eps", "clip", "clip_value", "adamw_lr", "adamw_eps",
                           "ema_warmup", "min_lr", "gamma", "start_factor", "end_factor"})
    if (key == name) expect(value >= 0, "0 or more");
  for (const char* name : {"beta1", "beta2", "ema", "adamw_beta1", "adamw_beta2", "momentum"})
    if (key == name) expect(value >= 0 && value < 1, "at least 0 and less than 1");
  if (key == "dampening") expect(value >= 0 && value <= 1, "between 0 and 1");
  if (key == "scale_interval") expect(value >= 1, "1 or more");
  if (key == "accumulate") expect(value >= 1 && value <= 4096, "between 1 and 4096");
  if (key == "ns_steps") expect(value >= 1 && value <= 100, "between 1 and 100");
  if (key == "loss_scale") expect(value > 0 && value <= 0x1p100, "more than 0, at most 2^100");
}

// Returns ",key=value" for every field that differs from `standard`.
template <class T>
std::string changes(const T& settings, const T& standard) {
  Names standard_texts;
  T::fields(standard,
            [&](std::string_view, const auto& field) { standard_texts.push_back(field_text(field)); });
  std::string text;
  size_t i = 0;
  T::fields(settings, [&](std::string_view name, const auto& field) {
    const std::string value = field_text(field);
    const bool changed = value != standard_texts[i++];
    using Field = std::remove_cvref_t<decltype(field)>;
    if (name == "optimizer")
      text += value;  // always, without a key: it decides which other options exist
    else if (changed)
      text += fmt::format(",{}={}", name, value);
    if constexpr (kIsChoice<Field>)
      std::visit(
          [&](const auto& chosen) { text += changes(chosen, std::remove_cvref_t<decltype(chosen)>{}); },
          field);
  });
  return text;
}

}  // namespace

void check_train_options(const TrainOptions& options) {
  for_each_option(options, [](std::string_view name, const auto& field) {
    if constexpr (std::is_arithmetic_v<std::remove_cvref_t<decltype(field)>>)
      check_number(name, static_cast<double>(field));
  });
  const auto* sgd = std::get_if<optim::SGD>(&options.optimizer);
  if (sgd && sgd->nesterov && (sgd->momentum <= 0 || sgd->dampening != 0))
    fail("training option 'nesterov' needs a momentum above 0 and no dampening");
  optim::check_schedule(options.schedule);
  for (const ParameterGroup& group : options.groups) {
    check_group(group);
    if (group.optimizer != GroupOptimizer::kDefault &&
        !std::holds_alternative<optim::Muon>(options.optimizer))
      fail("the parameter group '{}' chooses its optimizer: only the optimizer muon lets groups do so",
           to_string(group));
  }
}

TrainOptions parse_train_options(const std::string& text, const TrainOptions& standard) {
  std::vector<std::string> items = split_list(text, ',');
  if (!items.empty() && items[0].find('=') == std::string::npos) items[0] = "optimizer=" + items[0];
  std::vector<std::pair<std::string, std::string>> given;
  for (const std::string& item : items) {
    const size_t equals = item.find('=');
    if (equals == std::string::npos) fail("training option '{}' has no value: expected {}=VALUE", item, item);
    const std::string key = item.substr(0, equals);
    const bool again = std::ranges::any_of(given, [&](const auto& pair) { return pair.first == key; });
    if (again && key != "group") fail("training option '{}' is given twice", key);
    given.emplace_back(key, item.substr(equals + 1));
  }
  // Sets the choices first: they decide which other options exist.
  std::ranges::stable_partition(
      given, [](const auto& pair) { return pair.first == "optimizer" || pair.first == "schedule"; });
  TrainOptions options = standard;
  for (const auto& [key, value] : given) set_option(options, key, value);
  check_train_options(options);
  return options;
}

std::string to_string(const TrainOptions& options) { return changes(options, TrainOptions{}); }

}  // namespace genesis::passes
