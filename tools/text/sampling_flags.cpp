#include "tools/text/sampling_flags.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <limits>

#include "schema/messages/log.h"
#include "tools/common/numbers.h"
#include "tools/common/usage.h"

namespace genesis::tools {
namespace {

constexpr const char* kDrawing[] = {"--top-k", "--top-p", "--min-p", "--typical-p", "--seed"};

std::string flag_of(std::string name) {
  std::ranges::replace(name, '_', '-');
  return "--" + name;
}

// Returns the number of a token that is given as its number or its text.
int64_t token_of(const std::string& word, const std::string& token, const text::TextModel& model) {
  const std::optional<int64_t> number = parse_number<int64_t>(token);
  const auto& tokenizer = model.tokenizer();
  const std::optional<int64_t> whole = number || !tokenizer ? std::nullopt : tokenizer->token_to_id(token);
  std::vector<int64_t> tokens;
  if (!number && !whole) tokens = tokenizer ? tokenizer->encode(token, false) : model.encode(token);
  if (!number && !whole && tokens.size() != 1)
    fail_usage(
        "--logit-bias {}: the text '{}' is {} tokens, give the number of one (`genesis-run tokenize` shows "
        "them)",
        word, token, tokens.size());
  const int64_t id = number ? *number : whole ? *whole : tokens[0];
  if (id < 0 || id >= model.vocab_size())
    fail_usage("--logit-bias {}: the model has the tokens 0 to {}", word, model.vocab_size() - 1);
  return id;
}

text::TokenBias bias_in(const std::string& word, const text::TextModel& model) {
  const size_t at = word.rfind('=');
  if (at == std::string::npos || at == 0)
    fail_usage("--logit-bias {}: expected TOKEN=VALUE, such as 1234=-5", word);
  const std::string value = word.substr(at + 1);
  const double bias = value == "-inf"
                          ? -std::numeric_limits<double>::infinity()
                          : number_or_fail<double>("--logit-bias " + word, value, Range<double>{-1e6, 1e6});
  return {{token_of(word, word.substr(0, at), model)}, bias};
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

void add_logit_bias(Command& command, std::vector<std::string>& words) {
  command
      .add_option(
          "--logit-bias", words,
          "TOKEN=VALUE: added to the logit of a token, which is given by its number or its text; -inf: it is "
          "never written. May be given again")
      ->allow_extra_args(false);
}

std::vector<text::TokenBias> logit_bias_of(const std::vector<std::string>& words,
                                           const text::TextModel& model) {
  std::vector<text::TokenBias> biases;
  for (const std::string& word : words) biases.push_back(bias_in(word, model));
  return biases;
}

void add_drafts(Command& command, text::TextOptions& options) {
  command.add_option(
      "--draft", options.draft,
      "speculative decoding, which writes the same text in fewer steps: \"ngram\" drafts tokens from "
      "what the text repeats, a smaller model with the same tokens drafts them itself");
  add_number(command, "--draft-tokens", options.draft_tokens, "tokens of a draft at most",
             Range<int64_t>{1, 15});
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

void add_cache_dtype(Command& command, std::string& dtype, const std::string& help) {
  const auto read = [&dtype](const std::vector<std::string>& words) {
    if (words.back() != "q8") fail_usage("--cache-dtype {}: expected q8", words.back());
    dtype = words.back();
  };
  command.add_option("--cache-dtype", read, help)->type_name("q8");
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
