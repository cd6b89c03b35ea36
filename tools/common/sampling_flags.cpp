#include "tools/common/sampling_flags.h"

#include <bit>

#include "tools/common/numbers.h"

namespace genesis::tools {

void add_sampling(Command& command, text::GenerateOptions& options) {
  add_number(command, "--temperature", options.temperature, "0: always the likeliest token",
             Range<double>{0, 1e6});
  add_number(command, "--top-k", options.top_k, "choose among the k likeliest; 0: off", at_least<int64_t>(0));
  add_number(command, "--top-p", options.top_p, "choose among the likeliest that make up p; 1: off",
             Range<double>{0, 1, true});
  add_number(command, "--min-p", options.min_p,
             "choose among those whose probability is p times the likeliest's or more; 0: off",
             Range<double>{0, 1});
  add_number(command, "--repetition-penalty", options.repetition_penalty,
             "logits of tokens of the text so far are divided by it, or multiplied below 0; 1: off",
             Range<double>{0, 1e6, true});
  add_number(command, "--presence-penalty", options.presence_penalty,
             "taken from the logits of tokens that were written already; 0: off", Range<double>{-100, 100});
  add_number(command, "--frequency-penalty", options.frequency_penalty,
             "the same for every time that a token was written; 0: off", Range<double>{-100, 100});
  add_number(command, "--seed", options.seed, "of the choices");
}

void take_given_sampling(const Command& command, const text::GenerateOptions& given,
                         text::GenerateOptions& options) {
  const auto take = [&](const char* option, auto field) {
    if (command.is_given(option)) options.*field = given.*field;
  };
  using Options = text::GenerateOptions;
  take("--temperature", &Options::temperature);
  take("--top-k", &Options::top_k);
  take("--top-p", &Options::top_p);
  take("--min-p", &Options::min_p);
  take("--repetition-penalty", &Options::repetition_penalty);
  take("--presence-penalty", &Options::presence_penalty);
  take("--frequency-penalty", &Options::frequency_penalty);
  take("--seed", &Options::seed);
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

void check_sampling(const Command& command, const text::GenerateOptions& options) {
  if (options.temperature != 0) return;
  for (const char* option : {"--top-k", "--top-p", "--min-p", "--seed"})
    check_not_given(command, option, "with --temperature 0, which always takes the likeliest token");
}

}  // namespace genesis::tools
