// genesis-run generate: text from a language model.
#include <bit>
#include <iostream>

#include "models/text/generator.h"
#include "schema/file/reader.h"
#include "tools/common/numbers.h"
#include "tools/common/printable.h"
#include "tools/common/sampling_flags.h"
#include "tools/run/run_commands.h"
#include "tools/text/prompts.h"
#include "tools/text/text_codec.h"
#include "tools/text/text_writer.h"

namespace genesis::tools {
namespace {

struct Flags {
  std::string file, tokenizer;
  PromptFlags prompts;
  text::GenerateOptions options;
  int64_t logprobs = -1;  // -1: none
  int64_t prefill_chunk = 512;
  bool truncate = false;
  RunFlags run;
  Output out;
};

double per_second(int64_t tokens, double seconds) {
  return tokens > 0 && seconds > 0 ? static_cast<double>(tokens) / seconds : 0;
}

// The last tokens of a prompt that is too long, with room for the answer, or half of the context.
std::vector<int64_t> truncated(std::vector<int64_t> prompt, const text::Generator& generator,
                               const Flags& flags) {
  const int64_t room = std::min(flags.options.max_tokens, generator.capacity() / 2),
                most = std::max<int64_t>(1, generator.capacity() - std::max<int64_t>(room - 1, 0)),
                size = static_cast<int64_t>(prompt.size());
  if (!flags.truncate || size <= generator.capacity()) return prompt;
  std::cerr << fmt::format("the prompt has {} tokens: its last {} are read\n", size, most);
  prompt.erase(prompt.begin(), prompt.end() - most);
  return prompt;
}

nlohmann::ordered_json logprobs_json(const std::vector<text::TokenLogprob>& logprobs) {
  auto list = nlohmann::ordered_json::array();
  for (const text::TokenLogprob& logprob : logprobs) {
    nlohmann::ordered_json object = {{"token", logprob.token}, {"logprob", logprob.logprob}};
    if (!logprob.top.empty()) object["top"] = logprobs_json(logprob.top);
    list.push_back(std::move(object));
  }
  return list;
}

nlohmann::ordered_json as_json(const std::string& prompt, const text::GenerateResult& result,
                               const Flags& flags) {
  nlohmann::ordered_json json = {
      {"prompt", prompt},
      {"text", result.text},
      {"tokens", result.tokens},
      {"stop", name_of(result.stop)},
      {"compile_seconds", result.compile_seconds},
      {"prefill_seconds", result.prefill_seconds},
      {"decode_seconds", result.decode_seconds},
      {"prefill_tokens_per_second", per_second(result.prefilled, result.prefill_seconds)},
      {"decode_tokens_per_second", per_second(result.decoded, result.decode_seconds)},
      {"cache_full", result.stop == text::StopReason::kCacheFull}};
  if (!result.stop_string.empty()) json["stop_string"] = result.stop_string;
  if (flags.options.logprobs) json["logprobs"] = logprobs_json(result.logprobs);
  return json;
}

void print_rates(const text::GenerateResult& result) {
  std::cerr << fmt::format(
      "compile {:.2f} s\nprefill {:.0f} tok/s, decode {:.1f} tok/s{}\n", result.compile_seconds,
      per_second(result.prefilled, result.prefill_seconds), per_second(result.decoded, result.decode_seconds),
      result.stop == text::StopReason::kCacheFull ? "; stopped: the KV cache is full" : "");
}

void write_text(text::Generator& generator, const TextCodec& codec, const std::string& prompt,
                const Flags& flags) {
  generator.rewind(0);
  const std::vector<int64_t> tokens = truncated(codec.encode(prompt), generator, flags);
  with_context([&] { generator.check(tokens, flags.options); },
               [&] { return "prompt " + shortened(prompt); });
  text::GenerateResult result;
  if (flags.out.json) {
    result = generator.continue_with(tokens, flags.options);
  } else {
    TextWriter writer;
    writer.write(prompt);
    result = generator.continue_with(tokens, flags.options, [&](const text::Piece& piece) {
      writer.write(piece.text);
      return true;
    });
    writer.write("\n");
  }
  print_rates(result);
  if (flags.out.json) flags.out.print(as_json(prompt, result, flags), [] {});
}

void generate_command(Flags& flags, const CLI::App& app) {
  check_sampling(app, flags.options);
  if (!flags.out.json) check_not_given(app, "--logprobs", "without --json");
  flags.options.logprobs = flags.logprobs >= 0;
  flags.options.top_logprobs = std::max<int64_t>(flags.logprobs, 0);
  if (!std::has_single_bit(static_cast<uint64_t>(flags.prefill_chunk)))
    fail_usage("--prefill-chunk {}: expected a power of two", flags.prefill_chunk);
  const std::vector<std::string> prompts = flags.prompts.read();
  const std::shared_ptr<const Model> model = load_model(flags.file);
  const TextCodec codec(*model, flags.file, flags.tokenizer);
  const auto& ends = codec.end_tokens();
  flags.options.stop_tokens.insert(flags.options.stop_tokens.end(), ends.begin(), ends.end());
  Session session = text::open_for_generation(model, flags.run.session_options());
  text::Generator generator(session, {.text = codec.token_text(), .prefill_chunk = flags.prefill_chunk});
  for (const std::string& prompt : prompts) write_text(generator, codec, prompt, flags);
}

}  // namespace

void add_generate(CLI::App& app) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand("generate", "let a language model write text");
  command->add_option("file", flags->file, "a .genesis file with entry points prefill and decode")
      ->required();
  flags->prompts.add_to(*command);
  command->add_option(
      "--tokenizer", flags->tokenizer,
      "a tokenizer.json, a folder with one, or a .genesis file that brings one; when not given, the one that "
      "the model brings, or else bytes");
  add_number(*command, "--max-tokens", flags->options.max_tokens, "tokens to write at most",
             at_least<int64_t>(0));
  add_sampling(*command, flags->options);
  command
      ->add_option("--stop", flags->options.stop_strings,
                   "end the text before this string; may be given again")
      ->allow_extra_args(false);
  add_numbers(*command, "--stop-token", flags->options.stop_tokens,
              "end the text at this token, beside the model's own; may be given again", at_least<int64_t>(0));
  add_number(*command, "--logprobs", flags->logprobs,
             "with --json: the tokens' log-probabilities, and those of so many of the likeliest",
             Range<int64_t>{0, text::kMaxTopLogprobs});
  add_number(*command, "--prefill-chunk", flags->prefill_chunk,
             "tokens of a prompt that one run reads at most", Range<int64_t>{1, 1 << 20});
  command->add_flag("--truncate", flags->truncate,
                    "of a prompt that is longer than the context, read the end");
  flags->run.add_to(*command);
  flags->out.add_to(*command);
  command->footer(
      "Example:\n  genesis-run generate model.genesis --prompt \"In the beginning\" --max-tokens 200 "
      "--temperature 0.8 --top-k 40");
  command->callback([flags, command] { generate_command(*flags, *command); });
}

}  // namespace genesis::tools
