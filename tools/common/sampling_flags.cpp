#include "tools/common/sampling_flags.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <bit>

#include "schema/graph/near_names.h"
#include "schema/messages/log.h"
#include "tools/common/numbers.h"
#include "tools/common/printable.h"

namespace genesis::tools {
namespace {

using Options = text::GenerateOptions;

// Calls visit(flag, field, range, value that changes nothing, help) for each setting. For the seed there is no such
// value, so -1 stands there.
template <class Visit>
void visit_sampling(Visit&& visit) {
  visit("--temperature", &Options::temperature, Range<double>{0, 1e6}, 1.0, "0: always the likeliest token");
  visit("--top-k", &Options::top_k, at_least<int64_t>(0), 0, "choose among the k likeliest; 0: off");
  visit("--top-p", &Options::top_p, Range<double>{0, 1, true}, 1.0,
        "choose among the likeliest that make up p; 1: off");
  visit("--min-p", &Options::min_p, Range<double>{0, 1}, 0.0,
        "choose among those whose probability is p times the likeliest's or more; 0: off");
  visit("--repetition-penalty", &Options::repetition_penalty, Range<double>{0, 1e6, true}, 1.0,
        "logits of tokens of the text so far are divided by it, or multiplied below 0; 1: off");
  visit("--presence-penalty", &Options::presence_penalty, Range<double>{-100, 100}, 0.0,
        "subtracted from the logits of tokens that were written already; 0: off");
  visit("--frequency-penalty", &Options::frequency_penalty, Range<double>{-100, 100}, 0.0,
        "the same for every time that a token was written; 0: off");
  visit("--seed", &Options::seed, Range<uint64_t>{}, -1, "seed of the choices");
}

constexpr const char* kDrawing[] = {"--top-k", "--top-p", "--min-p", "--seed"};

}  // namespace

std::string setting_name(const std::string& flag) {
  std::string name = flag.substr(std::min(flag.find_first_not_of('-'), flag.size()));
  std::ranges::replace(name, '-', '_');
  return name;
}

std::vector<SamplingSetting> sampling_settings(const Options& options) {
  std::vector<SamplingSetting> settings;
  visit_sampling([&](const char* flag, auto field, const auto&, auto off, const char*) {
    const auto value = options.*field;
    settings.push_back(
        {setting_name(flag), fmt::format("{}", value), value == static_cast<decltype(value)>(off)});
  });
  return settings;
}

void set_sampling(Options& options, const std::string& name, const std::string& value) {
  const std::string wanted = setting_name(name);
  bool is_set = false;
  std::vector<std::string> known;
  const auto try_setting = [&](const char* flag, auto field, const auto& range, auto, const char*) {
    known.push_back(setting_name(flag));
    if (known.back() != wanted) return;
    using Value = std::decay_t<decltype(options.*field)>;
    options.*field = number_or_fail<Value>(wanted + " " + value, value, range);
    is_set = true;
  };
  visit_sampling(try_setting);
  try_setting("--max-tokens", &Options::max_tokens, at_least<int64_t>(1), 0, "");
  if (!is_set)
    fail("there is no setting {}{}; there are: {}", shortened(name), did_you_mean(wanted, known),
         fmt::join(known, ", "));
}

void add_sampling(Command& command, Options& options) {
  visit_sampling([&](const char* flag, auto field, const auto& range, auto, const char* help) {
    add_number(command, flag, options.*field, help, range);
  });
}

void take_given_sampling(const Command& command, const Options& given, Options& options) {
  visit_sampling([&](const char* flag, auto field, const auto&, auto, const char*) {
    if (command.is_given(flag)) options.*field = given.*field;
  });
}

void add_prefill_chunk(Command& command, int64_t& tokens) {
  add_number(command, "--prefill-chunk", tokens, "tokens of a prompt that one run reads at most",
             Range<int64_t>{1, 1 << 20});
}

void add_context(Command& command, int64_t& positions) {
  add_number(command, "--context", positions,
             "positions of the KV cache, the longest text with its answer; when not given, those of the "
             "file, and more where "
             "a text needs them, up to what the model can read",
             at_least<int64_t>(1));
}

void check_prefill_chunk(int64_t tokens) {
  if (!std::has_single_bit(static_cast<uint64_t>(tokens)))
    fail_usage("--prefill-chunk {}: expected a power of two", tokens);
}

void check_sampling(const Command& command, const Options& given) {
  check_rules(command, {{given.temperature == 0,
                         {std::begin(kDrawing), std::end(kDrawing)},
                         "with --temperature 0, which always takes the likeliest token"}});
}

void warn_of_greedy_settings(const Command& command, const Options& options, const std::string& place) {
  if (options.temperature != 0 || command.is_given("--temperature")) return;
  std::vector<std::string> idle;
  for (const char* option : kDrawing)
    if (command.is_given(option)) idle.emplace_back(option);
  if (!idle.empty())
    log_warning(
        "{} {} nothing: {} says that the likeliest token is always taken; --temperature 0.7 draws one",
        fmt::join(idle, ", "), idle.size() == 1 ? "does" : "do", place);
}

}  // namespace genesis::tools
