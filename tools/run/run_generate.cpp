// genesis-run generate: generates text with a language model.
#include <algorithm>
#include <chrono>
#include <iostream>
#include <optional>
#include <sstream>

#include "models/text/prompts.h"
#include "models/text/text_model.h"
#include "schema/file/io/file_ending.h"
#include "schema/file/json_text.h"
#include "schema/messages/log.h"
#include "tools/common/model_name.h"
#include "tools/common/numbers.h"
#include "tools/common/printable.h"
#include "tools/common/ranks.h"
#include "tools/run/nonfinite_page.h"
#include "tools/run/run_commands.h"
#include "tools/text/answer_lines.h"
#include "tools/text/sampling_flags.h"
#include "tools/text/text_writer.h"

namespace genesis::tools {
namespace {

using text::Sample;

struct GenerateFlags {
  std::string file, hub_name, lines, mesh;
  std::vector<std::string> prompts, prompt_files, prompt_ids, logit_bias;
  text::SampleOptions sampling;
  text::TextOptions text;
  int64_t logprobs = -1;  // -1: none
  int64_t batch = 0;      // 0: one text after another
  bool unordered = false, ignore_eos = false;
  RunFlags run;
  Output out;
};

nlohmann::ordered_json as_json(const Sample& sample, const text::GenerateResult& result,
                               const GenerateFlags& flags) {
  nlohmann::ordered_json json = answer_json(sample.prompt, result);
  if (flags.sampling.samples > 1) json["sample"] = sample.number;
  json.update({{"compile_seconds", result.compile_seconds},
               {"prefill_seconds", result.prefill_seconds},
               {"decode_seconds", result.decode_seconds},
               {"prefill_tokens_per_second", per_second(result.prefilled, result.prefill_seconds)},
               {"decode_tokens_per_second", per_second(result.decoded, result.decode_seconds)},
               {"cache_full", result.stop_reason == text::StopReason::kCacheFull}});
  return json;
}

void print_rates(const text::GenerateResult& result) {
  std::cerr << fmt::format(
      "compile {:.2f} s\nprefill {:.0f} tok/s, decode {:.1f} tok/s{}{}\n", result.compile_seconds,
      per_second(result.prefilled, result.prefill_seconds), per_second(result.decoded, result.decode_seconds),
      drafts_text(std::ssize(result.tokens), result.steps, result.drafted, result.accepted),
      result.stop_reason == text::StopReason::kCacheFull ? "; stopped: the KV cache is full" : "");
}

void check(const text::Generator& generator, const Sample& sample) {
  with_context([&] { generator.check(sample.request.prompt, sample.request.options); },
               [&] {
                 return fmt::format("prompt {}{}", shortened(sample.prompt.text),
                                    printable(sample.prompt.place));
               });
}

void write_text(text::Generator& generator, const Sample& sample, const GenerateFlags& flags) {
  if (sample.number == 0) generator.rewind(0);  // other texts of a prompt do not read it again
  check(generator, sample);
  const text::Request& request = sample.request;
  text::GenerateResult result;
  if (flags.out.json) {
    result = generator.continue_prompt(request.prompt, request.options);
  } else {
    TextWriter writer;
    writer.write(sample.prompt.text);
    result = generator.continue_prompt(request.prompt, request.options, [&](const text::Piece& piece) {
      writer.write(piece.text);
      return true;
    });
    writer.write("\n");
  }
  print_rates(result);
  if (flags.out.json) flags.out.print(as_json(sample, result, flags), [] {});
}

// Generates one text after another, with the file's cache or a larger one that is long enough for all of them.
void write_one_by_one(text::TextModel& model, text::Samples& samples, const GenerateFlags& flags) {
  model.make_room(samples.positions());
  with_nonfinite_page(flags.run, flags.file, model.session(), [&] {
    while (const std::optional<Sample> sample = samples.next()) write_text(model.generator(), *sample, flags);
  });
}

void write_batch(text::TextModel& model, text::Samples& samples, const GenerateFlags& flags) {
  with_context([&] { samples.fit_cache(model, flags.batch); },
               [&] { return fmt::format("with --batch {} for {}", flags.batch, flags.file); });
  if (samples.unfit()) check(model.generator(), *samples.unfit());
  const auto begin = std::chrono::steady_clock::now();
  AnswerLines lines(flags.sampling.samples > 1, flags.unordered);
  with_nonfinite_page(flags.run, flags.file, model.session(), [&] {
    samples.generate_each(model.generator(),
                          [&](size_t number, const Sample& sample, const text::GenerateResult& result) {
                            lines.add(number, sample, result);
                          });
  });
  lines.print_totals(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
}

void check_flags(const GenerateFlags& flags, const Command& app) {
  const text::GenerateOptions& options = flags.sampling.generate;
  check_sampling(app, options);
  check_rules(app, {{!flags.out.json && flags.batch == 0, {"--logprobs"}, "without --json or --batch"},
                    {flags.batch == 0, {"--unordered"}, "without --batch"},
                    {options.temperature == 0,
                     {"--samples"},
                     "with --temperature 0, which always takes the likeliest token"}});
}

// Returns "1,2,3" and "1 2 3" as tokens.
std::vector<int64_t> tokens_in(std::string word) {
  const std::string name = "--prompt-ids " + word;
  std::ranges::replace(word, ',', ' ');
  std::vector<int64_t> tokens;
  std::istringstream in(word);
  for (std::string each; in >> each;)
    tokens.push_back(number_or_fail<int64_t>(name, each, at_least<int64_t>(0)));
  if (tokens.empty()) fail_usage("{}: expected tokens, such as 1,2,3", name);
  return tokens;
}

// Returns the lists of tokens on the command line. A file of lists becomes the file of lines.
std::vector<std::vector<int64_t>> prompt_ids(const GenerateFlags& flags, std::string& lines) {
  std::vector<std::vector<int64_t>> lists;
  for (const std::string& word : flags.prompt_ids) {
    if (file_ending(word) != ".jsonl") {
      lists.push_back(tokens_in(word));
      continue;
    }
    if (!lines.empty()) fail_usage("--prompt-ids {}: there is a file of prompts already, {}", word, lines);
    lines = word;
  }
  return lists;
}

// Reads the prompts on rank 0, which alone has stdin, and returns them on all ranks.
text::Prompts read_prompts(const GenerateFlags& flags, World& world) {
  const auto read = [&] {
    std::string lines = flags.lines;
    const auto ids = prompt_ids(flags, lines);
    if (flags.prompts.empty() && flags.prompt_files.empty() && ids.empty() && lines.empty())
      fail_usage("there is nothing to go on from: give --prompt, --prompt-file, --prompt-ids or --prompts");
    return text::Prompts(flags.prompts, flags.prompt_files, lines, ids);
  };
  if (world.size() == 1) return read();
  const std::string mine = world.is_first() ? read().to_json().dump() : "";
  return text::Prompts(parse_json_text(world.said_by_first(mine)));
}

// Checks only the stop tokens given on the command line, and warns of end tokens that the model never writes: a
// tokenizer may end texts with tokens that a smaller model never writes. A text still ends at other tokens, or at
// --max-tokens.
void check_stop_tokens(const text::TextModel& model, const GenerateFlags& flags) {
  const int64_t vocabulary = model.vocab_size();
  for (const int64_t token : flags.sampling.generate.stop_tokens)
    if (token < 0 || token >= vocabulary)
      fail("--stop-token {} is not in the model's vocabulary: it has {} tokens, from 0 to {}", token,
           vocabulary, vocabulary - 1);
  for (const int64_t token : model.end_tokens())
    if (token >= vocabulary)
      log_warning("{}: the token {} that should end a text is none of the model's {}: no text ends there",
                  flags.file, token, vocabulary);
}

void generate_together(GenerateFlags& flags, const std::shared_ptr<World>& world) {
  const FirstRankSpeaks quiet(*world);
  text::Prompts prompts = read_prompts(flags, *world);
  const std::shared_ptr<const Model> opened = open_named(flags.file, flags.hub_name, *world);
  text::TextModel model(opened, flags.file, session_options(flags.run, world), flags.text);
  check_stop_tokens(model, flags);
  text::GenerateOptions& options = flags.sampling.generate;
  options.logprobs = flags.logprobs >= 0;
  options.top_logprobs = std::max<int64_t>(flags.logprobs, 0);
  options.logit_bias = logit_bias_of(flags.logit_bias, model);
  if (!flags.ignore_eos)
    options.stop_tokens.insert(options.stop_tokens.end(), model.end_tokens().begin(),
                               model.end_tokens().end());
  flags.sampling.on_truncated = [](int64_t tokens, int64_t read) {
    std::cerr << fmt::format("the prompt has {} tokens: its last {} are read\n", tokens, read);
  };
  text::Samples samples(model, std::move(prompts), flags.sampling);
  flags.batch > 0 ? write_batch(model, samples, flags) : write_one_by_one(model, samples, flags);
}

void generate_command(GenerateFlags& flags, const Command& app) {
  check_flags(flags, app);
  run_ranks(flags.mesh, flags.run, SharedWork::kLayers,
            [&](const auto& world) { generate_together(flags, world); });
}

void add_prompts(Command& command, GenerateFlags& flags) {
  command.add_option("--prompt", flags.prompts, "text to continue; may be given again, for more texts")
      ->allow_extra_args(false);
  command
      .add_option("--prompt-file", flags.prompt_files, "a file with a text to continue; may be given again")
      ->allow_extra_args(false);
  command
      .add_option(
          "--prompt-ids", flags.prompt_ids,
          "a text to continue as tokens, \"1,2,3\", or a file .jsonl with a list of them per line; may be "
          "given again")
      ->allow_extra_args(false);
  command.add_option(
      "--prompts", flags.lines,
      "a file of many prompts: .txt with one per line, or JSONL with a string or a list of tokens, or "
      "an object with one of these as \"prompt\", per line");
}

void add_ends(Command& command, GenerateFlags& flags) {
  add_number(command, "--max-tokens", flags.sampling.generate.max_tokens, "tokens to write at most",
             at_least<int64_t>(0));
  command
      .add_option("--stop", flags.sampling.generate.stop_strings,
                  "end the text before this string; may be given again")
      ->allow_extra_args(false);
  add_numbers(command, "--stop-token", flags.sampling.generate.stop_tokens,
              "end the text at this token, beside the model's own; may be given again", at_least<int64_t>(0));
  command.add_flag("--ignore-eos", flags.ignore_eos,
                   "the model's own end tokens end no text, only --stop and --stop-token do");
}

}  // namespace

void add_generate(Command& app) {
  auto flags = std::make_shared<GenerateFlags>();
  Command* command = app.add_subcommand("generate", "let a language model write text");
  add_model_name(*command, flags->file, flags->hub_name, kGeneratingModelName);
  add_prompts(*command, *flags);
  command->add_option("--tokenizer", flags->text.tokenizer,
                      "a tokenizer.json, a folder with one, or a model that contains one; default: the "
                      "model's own, or else bytes");
  add_ends(*command, *flags);
  add_sampling(*command, flags->sampling.generate);
  add_number(*command, "--logprobs", flags->logprobs,
             "with --json or --batch: print the tokens' log-probabilities, and those of this many of the "
             "likeliest tokens",
             Range<int64_t>{0, text::kMaxTopLogprobs});
  add_logit_bias(*command, flags->logit_bias);
  add_drafts(*command, flags->text);
  add_prefill_chunk(*command, flags->text.prefill_chunk);
  add_context(*command, flags->text.context);
  add_cache_dtype(*command, flags->text.cache_dtype,
                  "keeps keys and values in 8 bits, in about half the bytes of bf16");
  add_number(*command, "--batch", flags->batch,
             "write this many texts at a time and print a line of JSON for each; on the CPU each text equals "
             "that of its prompt alone, on a GPU up to rounding: larger products add in another order",
             Range<int64_t>{1, 4096});
  add_number(*command, "--samples", flags->sampling.samples,
             "texts of each prompt: the second is that of the next --seed, and so on",
             Range<int64_t>{1, 65536});
  command->add_flag("--unordered", flags->unordered,
                    "with --batch: print each text when it ends, not in the order of the prompts");
  command->add_flag("--truncate", flags->sampling.truncate,
                    "read only the end of a prompt that is longer than the context");
  add_mesh(*command, flags->mesh);
  flags->run.add_to(*command);
  flags->out.add_to(*command);
  command->footer(
      "Example:\n  genesis-run generate model.genesis --prompt \"In the beginning\" --max-tokens 200 "
      "--temperature 0.8 --top-k 40\n  genesis-run generate model.genesis --prompts prompts.jsonl --batch "
      "32");
  command->callback([flags, command] { generate_command(*flags, *command); });
}

}  // namespace genesis::tools
