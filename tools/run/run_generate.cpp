// genesis-run generate: generates text with a language model.
#include <algorithm>
#include <chrono>
#include <iostream>
#include <map>
#include <optional>

#include "models/generation/generator.h"
#include "models/generation/sampling_entries.h"
#include "models/generation/vocabulary.h"
#include "models/zoo.h"
#include "schema/file/json_text.h"
#include "schema/messages/log.h"
#include "tools/checks/cache_room.h"
#include "tools/common/numbers.h"
#include "tools/common/printable.h"
#include "tools/common/ranks.h"
#include "tools/common/sampling_flags.h"
#include "tools/run/nonfinite_page.h"
#include "tools/run/run_commands.h"
#include "tools/text/answer_json.h"
#include "tools/text/prompts.h"
#include "models/text/text_codec.h"
#include "tools/text/text_writer.h"

namespace genesis::tools {
namespace {

struct GenerateFlags {
  std::string file, tokenizer, mesh;
  PromptFlags prompts;
  text::GenerateOptions options;
  int64_t logprobs = -1;  // -1: none
  int64_t prefill_chunk = 512, context = 0;
  int64_t batch = 0;    // 0: one text after another
  int64_t samples = 1;  // texts per prompt
  bool truncate = false, unordered = false;
  RunFlags run;
  Output out;
};

// Returns the length of the longest text: prompt and answer.
int64_t longest_context(const Model& model, const GenerateFlags& flags) {
  return flags.context > 0 ? flags.context
                           : std::max(text::positions_of_cache(model), models::longest_text(model));
}

// Cuts a prompt longer than the context to its last tokens, leaving room for the answer, or half of the context if
// the answer may be longer.
std::vector<int64_t> truncated(std::vector<int64_t> prompt, int64_t context, const GenerateFlags& flags) {
  const int64_t room = std::min(flags.options.max_tokens, context / 2),
                most = std::max<int64_t>(1, context - std::max<int64_t>(room - 1, 0)),
                size = static_cast<int64_t>(prompt.size());
  if (flags.truncate && size > context) prompt.erase(prompt.begin(), prompt.end() - most);
  return prompt;
}

// A text to generate. The n-th sample of a prompt draws with the flags' seed + n, so the same text can be generated
// alone with that seed.
struct Sample {
  Prompt prompt;
  size_t index;  // number of the prompt
  int64_t number;
  text::Request request;
};

// Iterates over the texts to generate; all samples of a prompt come together. A prompt is encoded when its turn
// comes.
class Samples {
 public:
  Samples(const Model& model, const text::TextCodec& codec, Prompts prompts, const GenerateFlags& flags)
      : context_(longest_context(model, flags)),
        vocabulary_(text::vocabulary_of(model.entry("decode"), 2)),
        codec_(codec),
        prompts_(std::move(prompts)),
        flags_(flags) {
    survey();
  }

  std::optional<Sample> next() {
    if (number_ == flags_.samples && !next_prompt()) return std::nullopt;
    Sample sample{prompt_, index_, number_++, {tokens_, flags_.options}};
    sample.request.options.seed += static_cast<uint64_t>(sample.number);
    return sample;
  }

  int64_t count() const { return count_; }
  int64_t longest() const { return longest_; }  // tokens of the longest prompt, at least 1
  // Returns the first sample for which no text can be generated; empty if there is none.
  const std::optional<Sample>& unfit() const { return unfit_; }

 private:
  bool next_prompt() {
    std::optional<Prompt> prompt = prompts_.next();
    if (!prompt) return false;
    prompt_ = std::move(*prompt);
    const std::vector<int64_t> whole = codec_.encode(prompt_.text);
    read_ = std::ssize(whole);
    tokens_ = truncated(whole, context_, flags_);
    ++index_;
    number_ = 0;
    return true;
  }

  // Goes through all prompts once, to find the cache size and to report mistakes before the work.
  void survey() {
    while (next_prompt()) {
      const int64_t size = std::ssize(tokens_);
      if (size < read_)
        std::cerr << fmt::format("the prompt has {} tokens: its last {} are read\n", read_, size);
      longest_ = std::max(longest_, size);
      const auto is_unknown = [&](int64_t token) { return token < 0 || token >= vocabulary_; };
      if (!unfit_ && (size == 0 || size > context_ || std::ranges::any_of(tokens_, is_unknown)))
        unfit_ = Sample{prompt_, index_, 0, {tokens_, flags_.options}};
    }
    count_ = static_cast<int64_t>(index_ + 1) * flags_.samples;
    if (count_ == 0) fail("{} has no prompts", flags_.prompts.lines);
    prompts_.rewind();
    index_ = kNone, number_ = flags_.samples;
  }

  static constexpr size_t kNone = -1;
  const int64_t context_, vocabulary_;
  const text::TextCodec& codec_;
  Prompts prompts_;
  const GenerateFlags& flags_;
  // The current prompt.
  Prompt prompt_;
  std::vector<int64_t> tokens_;
  int64_t read_ = 0;  // tokens before the prompt was truncated
  size_t index_ = kNone;
  int64_t number_ = flags_.samples;  // number of the next sample of this prompt
  int64_t count_ = 0, longest_ = 1;
  std::optional<Sample> unfit_;
};

nlohmann::ordered_json sample_json(const Sample& sample, const text::GenerateResult& result,
                                   const GenerateFlags& flags) {
  nlohmann::ordered_json json = answer_json(sample.prompt.text, result);
  if (flags.samples > 1) json["sample"] = sample.number;
  return json;
}

nlohmann::ordered_json as_json(const Sample& sample, const text::GenerateResult& result,
                               const GenerateFlags& flags) {
  nlohmann::ordered_json json = sample_json(sample, result, flags);
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
      "compile {:.2f} s\nprefill {:.0f} tok/s, decode {:.1f} tok/s{}\n", result.compile_seconds,
      per_second(result.prefilled, result.prefill_seconds), per_second(result.decoded, result.decode_seconds),
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
  generator.rewind(0);
  check(generator, sample);
  const text::Request& request = sample.request;
  text::GenerateResult result;
  if (flags.out.json) {
    result = generator.continue_with(request.prompt, request.options);
  } else {
    TextWriter writer;
    writer.write(sample.prompt.text);
    result = generator.continue_with(request.prompt, request.options, [&](const text::Piece& piece) {
      writer.write(piece.text);
      return true;
    });
    writer.write("\n");
  }
  print_rates(result);
  if (flags.out.json) flags.out.print(as_json(sample, result, flags), [] {});
}

// Returns the number of cache positions that the longest of these prompts takes with its answer.
int64_t wanted_positions(const Model& model, const Samples& samples, const GenerateFlags& flags) {
  const int64_t context = longest_context(model, flags), prompt = std::min(samples.longest(), context);
  return prompt + std::min(flags.options.max_tokens, context - prompt);
}

// Returns the model with a cache of as many rows as texts run together, no longer than the prompts and their answers
// need.
std::shared_ptr<const Model> with_rows(const Model& model, const Samples& samples,
                                       const GenerateFlags& flags) {
  constexpr int64_t kStep = 64;
  const int64_t context = longest_context(model, flags), wanted = wanted_positions(model, samples, flags),
                whole_steps = (wanted - 1) / kStep,
                positions = whole_steps < (context - 1) / kStep ? (whole_steps + 1) * kStep : context;
  return with_context(
      [&] {
        std::shared_ptr<const Model> made =
            models::with_cache(model, std::min(flags.batch, samples.count()), positions);
        check_cache_fits(*made, flags.run.device, "the batch");
        return made;
      },
      [&] { return fmt::format("--batch {}", flags.batch); });
}

// Prints answers as lines of JSON, as they end or in the order of the prompts. An answer is freed once written.
// Answers that still wait for an earlier one are written in the destructor, also after an error.
class AnswerLines {
 public:
  explicit AnswerLines(const GenerateFlags& flags) : flags_(flags) {}
  AnswerLines(const AnswerLines&) = delete;
  AnswerLines& operator=(const AnswerLines&) = delete;
  ~AnswerLines() {
    for (const auto& [number, line] : waiting_) std::cout << line << std::flush;
  }

  void add(size_t number, const Sample& sample, const text::GenerateResult& result) {
    nlohmann::ordered_json json = sample_json(sample, result, flags_);
    if (flags_.unordered) json["index"] = sample.index;
    waiting_[number] = json_text(json) + "\n";
    if (flags_.unordered) next_ = number;
    for (auto line = waiting_.begin(); line != waiting_.end() && line->first == next_; ++next_) {
      std::cout << line->second << std::flush;
      line = waiting_.erase(line);
    }
  }

 private:
  const GenerateFlags& flags_;
  std::map<size_t, std::string> waiting_;  // by number of the text
  size_t next_ = 0;                        // number of the next text to write
};

struct Totals {
  int64_t texts = 0, read = 0, written = 0;
  double compile_seconds = 0;

  void add(const text::GenerateResult& result) {
    ++texts, read += result.prefilled, written += std::ssize(result.tokens);
    compile_seconds += result.compile_seconds;
  }
  void print(double seconds) const {
    seconds -= compile_seconds;
    std::cerr << fmt::format(
        "compile {:.2f} s\n{} texts: {} tokens read and {} written in {:.3f} s, {:.1f} tok/s\n",
        compile_seconds, texts, read, written, seconds, per_second(written, seconds));
  }
};

// Generates one text after another, with the file's cache or a larger one that is long enough for all of them.
void write_one_by_one(const std::shared_ptr<const Model>& model, const text::TextCodec& codec, Samples samples,
                      const GenerateFlags& flags, const SessionOptions& options) {
  const std::shared_ptr<const Model> with_cache = with_context(
      [&]() -> std::shared_ptr<const Model> {
        if (flags.context > 0) return models::with_cache(*model, text::rows_of_cache(*model), flags.context);
        return models::with_room(model, wanted_positions(*model, samples, flags));
      },
      [&] {
        return flags.context > 0 ? fmt::format("with --context {} for {}", flags.context, flags.file)
                                 : flags.file;
      });
  if (flags.context > 0)
    check_cache_fits(*with_cache, flags.run.device, fmt::format("--context {}", flags.context));
  Session session = text::open_for_generation(with_cache, options);
  text::Generator generator(session, {.text = codec.token_text(), .prefill_chunk = flags.prefill_chunk});
  with_nonfinite_page(flags.run, flags.file, session, [&] {
    while (const std::optional<Sample> sample = samples.next()) write_text(generator, *sample, flags);
  });
}

void write_batch(const Model& model, const text::TextCodec& codec, Samples samples, const GenerateFlags& flags,
                 const SessionOptions& options) {
  const std::shared_ptr<const Model> made =
      with_context([&] { return with_rows(model, samples, flags); }, [&] { return flags.file; });
  Session session = text::open_for_generation(made, options);
  text::Generator generator(session, {.text = codec.token_text(), .prefill_chunk = flags.prefill_chunk});
  if (samples.unfit()) check(generator, *samples.unfit());
  const auto begin = std::chrono::steady_clock::now();
  std::map<size_t, Sample> under_way;  // by number of the text
  size_t taken = 0;
  const auto next = [&]() -> std::optional<text::Request> {
    std::optional<Sample> sample = samples.next();
    if (!sample) return std::nullopt;
    text::Request request = std::move(sample->request);
    under_way.emplace(taken++, std::move(*sample));
    return request;
  };
  AnswerLines lines(flags);
  Totals totals;
  with_nonfinite_page(flags.run, flags.file, session, [&] {
    generator.generate_each(next, [&](size_t number, const text::GenerateResult& result) {
      lines.add(number, under_way.at(number), result);
      under_way.erase(number);
      totals.add(result);
    });
  });
  totals.print(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
}

void check_flags(const GenerateFlags& flags, const Command& app) {
  check_sampling(app, flags.options);
  check_prefill_chunk(flags.prefill_chunk);
  check_rules(app, {{!flags.out.json && flags.batch == 0, {"--logprobs"}, "without --json or --batch"},
                    {flags.batch == 0, {"--unordered"}, "without --batch"},
                    {flags.options.temperature == 0,
                     {"--samples"},
                     "with --temperature 0, which always takes the likeliest token"}});
}

// Reads the prompts on rank 0, which alone has stdin, and returns them on all ranks.
Prompts read_prompts(const PromptFlags& flags, World& world) {
  if (world.size() == 1) return flags.read();
  const std::string mine = world.is_first() ? flags.read().to_json().dump() : "";
  return Prompts::from_json(parse_json_text(world.said_by_first(mine)));
}

// Checks only the stop tokens given on the command line: a tokenizer may end texts with tokens that a smaller model
// never writes.
void check_stop_tokens(const Model& model, const GenerateFlags& flags) {
  const int64_t vocabulary = text::vocabulary_of(model.entry("decode"), 2);
  for (const int64_t token : flags.options.stop_tokens)
    if (token < 0 || token >= vocabulary)
      fail("--stop-token {} is not in the model's vocabulary: it has {} tokens, from 0 to {}", token,
           vocabulary, vocabulary - 1);
}

// Warns of end tokens that the model never writes. A text still ends at other tokens, or at --max-tokens.
void warn_of_ends(const Model& model, const std::string& file, const std::vector<int64_t>& ends) {
  const int64_t vocabulary = text::vocabulary_of(model.entry("decode"), 2);
  for (const int64_t token : ends)
    if (token >= vocabulary)
      log_warning("{}: the token {} that should end a text is none of the model's {}: no text ends there",
                  file, token, vocabulary);
}

void generate_together(GenerateFlags& flags, const std::shared_ptr<World>& world) {
  const FirstRankSpeaks quiet(*world);
  flags.options.logprobs = flags.logprobs >= 0;
  flags.options.top_logprobs = std::max<int64_t>(flags.logprobs, 0);
  Prompts prompts = read_prompts(flags.prompts, *world);
  flags.file = model_file(flags.file, *world);
  const std::shared_ptr<const Model> model = load_model(flags.file);
  const text::TextCodec codec(*model, flags.file, flags.tokenizer);
  check_stop_tokens(*model, flags);
  const auto& ends = codec.end_tokens();
  warn_of_ends(*model, flags.file, ends);
  flags.options.stop_tokens.insert(flags.options.stop_tokens.end(), ends.begin(), ends.end());
  const SessionOptions options = session_options(flags.run, world);
  Samples samples(*model, codec, std::move(prompts), flags);
  if (flags.batch > 0) return write_batch(*model, codec, std::move(samples), flags, options);
  write_one_by_one(model, codec, std::move(samples), flags, options);
}

void generate_command(GenerateFlags& flags, const Command& app) {
  check_flags(flags, app);
  const std::shared_ptr<World> world = join_ranks(flags.mesh, flags.run.device, SharedWork::kLayers);
  as_rank(*world, [&] { generate_together(flags, world); });
}

}  // namespace

void add_generate(Command& app) {
  auto flags = std::make_shared<GenerateFlags>();
  Command* command = app.add_subcommand("generate", "let a language model write text");
  command->add_option("file", flags->file, kGeneratingModelName)->required();
  flags->prompts.add_to(*command);
  command->add_option("--tokenizer", flags->tokenizer,
                      "a tokenizer.json, a folder with one, or a model that contains one; default: the "
                      "model's own, or else bytes");
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
             "with --json or --batch: print the tokens' log-probabilities, and those of this many of the "
             "likeliest tokens",
             Range<int64_t>{0, text::kMaxTopLogprobs});
  add_prefill_chunk(*command, flags->prefill_chunk);
  add_context(*command, flags->context);
  add_number(*command, "--batch", flags->batch,
             "write this many texts at a time and print a line of JSON for each; on the CPU each text equals "
             "that of its prompt alone, on a GPU up to rounding: larger products add in another order",
             Range<int64_t>{1, 4096});
  add_number(*command, "--samples", flags->samples,
             "texts of each prompt: the second is that of the next --seed, and so on",
             Range<int64_t>{1, 65536});
  command->add_flag("--unordered", flags->unordered,
                    "with --batch: print each text when it ends, not in the order of the prompts");
  command->add_flag("--truncate", flags->truncate,
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
