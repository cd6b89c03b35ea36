#include "tools/common/sampling_flags.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <bit>

#include "schema/messages/log.h"
#include "tools/common/numbers.h"
#include "tools/common/usage.h"

namespace genesis::tools {
namespace {

constexpr const char* kDrawing[] = {"--top-k", "--top-p", "--min-p", "--seed"};

std::string flag_of(std::string name) {
  std::ranges::replace(name, '_', '-');
  return "--" + name;
}

}  // namespace

void add_sampling(Command& command, text::GenerateOptions& options) {
  text::visit_sampling([&](const char* name, auto field, auto, const auto& range, auto, const char* help) {
    add_number(command, flag_of(name), options.*field, help, range);
  });
}

text::GenerateSettings given_sampling(const Command& command, const text::GenerateOptions& given) {
  text::GenerateSettings settings;
  text::visit_sampling([&](const char* name, auto field, auto setting, const auto&, auto, const char*) {
    if (command.is_given(flag_of(name))) settings.*setting = given.*field;
  });
  if (command.is_given("--max-tokens")) settings.max_tokens = given.max_tokens;
  return settings;
}

void add_prefill_chunk(Command& command, int64_t& tokens) {
  const auto read = [&tokens](const std::vector<std::string>& words) {
    const std::string name = "--prefill-chunk " + words.back();
    tokens = number_or_fail<int64_t>(name, words.back(), Range<int64_t>{1, 1 << 20});
    if (!std::has_single_bit(static_cast<uint64_t>(tokens))) fail_usage("{}: expected a power of two", name);
  };
  command.add_option("--prefill-chunk", read, "tokens of a prompt that one run reads at most")
      ->type_name("INT")
      ->default_str(std::to_string(tokens));
}

void add_context(Command& command, int64_t& positions) {
  add_number(command, "--context", positions,
             "positions of the KV cache, the longest text with its answer; when not given, those of the "
             "file, and more where "
             "a text needs them, up to what the model can read",
             at_least<int64_t>(1));
}

void check_sampling(const Command& command, const text::GenerateOptions& given) {
  check_rules(command, {{given.temperature == 0,
                         {std::begin(kDrawing), std::end(kDrawing)},
                         "with --temperature 0, which always takes the likeliest token"}});
}

void warn_of_greedy_settings(const Command& command, const text::GenerateOptions& options,
                             const std::string& place) {
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
