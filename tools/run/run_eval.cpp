// genesis-run eval: measures how well a language model predicts a text.
#include <chrono>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <numbers>

#include "models/corpus/documents.h"
#include "models/data/conversations.h"
#include "models/data/sources.h"
#include "models/generation/evaluate.h"
#include "models/generation/generate.h"
#include "models/generation/vocabulary.h"
#include "models/tokenizer/byte_alphabet.h"
#include "models/tokenizer/tokenizer.h"
#include "schema/file/format/utf8.h"
#include "schema/file/io/file_ending.h"
#include "schema/messages/log.h"
#include "tools/common/numbers.h"
#include "tools/common/open_model.h"
#include "tools/common/printable.h"
#include "tools/common/ranks.h"
#include "tools/run/nonfinite_page.h"
#include "tools/run/run_commands.h"
#include "tools/run/train_data.h"
#include "tools/text/load_tokenizer.h"

namespace genesis::tools {
namespace {

using Clock = std::chrono::steady_clock;

struct EvalFlags {
  std::string file, other, data, tokenizer, mesh;
  bool skip_bad = false;
  text::EvaluateOptions options;
  RunFlags run;
  Output out;
};

// Texts as tokens, with the tokens that count.
struct Texts {
  std::vector<std::vector<int64_t>> tokens;
  std::vector<std::vector<bool>> counts = {};  // by text: the tokens that count; empty: all of them
  int64_t bytes = 0;  // bytes of the predicted tokens, without the first of each text
};

struct Result {
  text::Evaluation evaluation;
  int64_t bytes = 0;
  double seconds = 0;

  double bits_per_byte() const {
    return bytes > 0 ? evaluation.nats / std::numbers::ln2 / static_cast<double>(bytes) : 0;
  }
};

// Returns the texts of a .jsonl, each line being a text of its own.
std::vector<std::string> texts_of_lines(const std::string& path, const std::string& all, bool skip_bad) {
  std::vector<std::string> texts;
  int64_t number = 0, skipped = 0;
  corpus::for_each_line(all, [&](std::string_view line) {
    ++number;
    try {
      if (std::string text = corpus::document_in(line); !text.empty()) texts.push_back(std::move(text));
    } catch (const Error& error) {
      if (!skip_bad) fail("{}:{}: {}; --skip-bad leaves such lines out", path, number, error.message());
      ++skipped;
    }
  });
  if (skipped > 0) log_warning("{} lines without a document were left out", skipped);
  return texts;
}

std::vector<std::string> read_texts(const EvalFlags& flags, bool as_bytes) {
  std::string all = data::read_text(flags.data);
  if (is_json_lines(flags.data)) return texts_of_lines(flags.data, all, flags.skip_bad);
  if (const size_t valid = utf8::valid_bytes(all); !as_bytes && valid < all.size())
    warn_of_repaired(fmt::format("byte {} of '{}'", valid, flags.data));
  return {std::move(all)};
}

// Returns the number of bytes of text in a token, which may be a part of a character; 0 for a token without text.
size_t bytes_of(const text::Tokenizer& tokenizer, int64_t id) {
  const std::string text = tokenizer.decode(std::vector<int64_t>{id});
  const std::string token = tokenizer.id_to_token(id).value_or("");
  const auto bytes = text::alphabet_bytes(token);
  return text.empty() || text == token || !bytes ? text.size() : bytes->size();
}

// Returns the tokens of each text. A text of one token has nothing to predict and is left out.
Texts tokens_of(const std::vector<std::string>& texts, const std::optional<text::Tokenizer>& tokenizer) {
  Texts result;
  for (const std::string& text : texts) {
    std::vector<int64_t> tokens = tokenizer ? tokenizer->encode(text) : text::encode_bytes(text);
    if (tokens.size() < 2) continue;
    const size_t first = tokenizer ? bytes_of(*tokenizer, tokens[0]) : 1;
    result.bytes += static_cast<int64_t>(text.size() - std::min(first, text.size()));
    result.tokens.push_back(std::move(tokens));
  }
  if (result.tokens.empty()) fail("the data has no text of two tokens or more");
  return result;
}

// Returns the tokens of conversations, where only the messages of the assistant count.
Texts conversations(const std::vector<std::string>& names, const EvalFlags& flags, const Model& model,
                    const text::Tokenizer& tokenizer) {
  const auto files = config_files(flags.tokenizer, model, flags.file);
  const chat::SampleMaker maker(chat::ChatTemplate::from(files), tokenizer);
  Texts texts;
  const data::Conversations read =
      data::read_conversations({names.begin(), names.end()}, maker, flags.skip_bad);
  warn_of_skipped(read);
  for (const chat::Sample& sample : read.samples) {
    for (size_t i = 1; i < sample.tokens.size(); ++i)
      if (sample.is_target[i]) texts.bytes += static_cast<int64_t>(bytes_of(tokenizer, sample.tokens[i]));
    texts.tokens.emplace_back(sample.tokens.begin(), sample.tokens.end());
    texts.counts.push_back(sample.is_target);
  }
  return texts;
}

Texts read_data(const EvalFlags& flags, const Model& model, const std::optional<text::Tokenizer>& tokenizer) {
  if (const auto files = conversation_files({flags.data}); tokenizer && !files.empty())
    return conversations(files, flags, model, *tokenizer);
  return tokens_of(read_texts(flags, !tokenizer), tokenizer);
}

void check_vocabulary(const Model& model, const std::string& file,
                      const std::optional<text::Tokenizer>& tokenizer) {
  const int64_t vocabulary = text::vocabulary_of(model.entry("forward"), 3);
  if (!tokenizer && vocabulary != 256)
    fail("{} has a vocabulary of {}: name its tokenizer with --tokenizer (text without one is bytes, 256)",
         file, vocabulary);
}

// Finds errors before the work begins.
void check_can_evaluate(const std::string& file, const Model& model, const Texts& texts,
                        const std::optional<text::Tokenizer>& tokenizer, const EvalFlags& flags) {
  check_vocabulary(model, file, tokenizer);
  const int64_t vocabulary = text::vocabulary_of(model.entry("forward"), 3);
  size_t longest = 1;
  int64_t highest = 0;
  for (const auto& tokens : texts.tokens) {
    longest = std::max(longest, tokens.size());
    for (const int64_t token : tokens) highest = std::max(highest, token);
  }
  if (highest >= vocabulary)
    fail("the text has the token {}, and {} has a vocabulary of {}: it goes with another tokenizer", highest,
         file, vocabulary);
  const int64_t window = std::min(flags.options.seq, static_cast<int64_t>(longest) - 1);
  text::check_positions(model, window);
  warn_of_positions(model, window);
}

// A loss that is not finite is an error instead of a result.
void check_finite(const std::string& file, const text::Evaluation& evaluation) {
  if (!std::isfinite(evaluation.nats))
    fail("the loss of {} is {}: run with --find-nonfinite to see which node made it first", file,
         std::isnan(evaluation.nats) ? "NaN" : "infinite");
}

Result evaluate(const std::string& file, const std::shared_ptr<const Model>& model, const Texts& texts,
                const EvalFlags& flags, const std::shared_ptr<World>& world) {
  Session session(model, session_options(flags.run, world));
  Result result{.bytes = texts.bytes};
  const auto start = Clock::now();
  with_nonfinite_page(flags.run, file, session, [&] {
    for (size_t i = 0; i < texts.tokens.size(); ++i) {
      result.evaluation.add(text::evaluate(session, texts.tokens[i], flags.options,
                                           texts.counts.empty() ? std::vector<bool>() : texts.counts[i]));
      check_finite(file, result.evaluation);
    }
  });
  result.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return result;
}

nlohmann::ordered_json json_of(const std::string& file, const Result& result) {
  return {{"model", file},
          {"loss", result.evaluation.loss()},
          {"perplexity", result.evaluation.perplexity()},
          {"bits_per_byte", result.bits_per_byte()},
          {"tokens", result.evaluation.tokens},
          {"bytes", result.bytes},
          {"windows", result.evaluation.windows},
          {"seconds", result.seconds}};
}

std::string line_of(const std::string& file, const Result& result) {
  const text::Evaluation& e = result.evaluation;
  return fmt::format(
      "{}: loss {:.5f} nats per token, perplexity {:.4f}, {:.5f} bits per byte; {} tokens, {:.0f} tok/s\n",
      printable(file), e.loss(), e.perplexity(), result.bits_per_byte(), e.tokens,
      static_cast<double>(e.tokens) / std::max(result.seconds, 1e-9));
}

void eval_together(EvalFlags& flags, const std::shared_ptr<World>& world) {
  const FirstRankSpeaks quiet(*world);
  for (std::string* name : {&flags.file, &flags.other})
    if (!name->empty()) *name = model_file_of_first(*world, *name);
  const std::shared_ptr<const Model> model = load_model(flags.file),
                                     compared = flags.other.empty() ? nullptr : load_model(flags.other);
  const std::optional<text::Tokenizer> tokenizer = load_tokenizer(flags.tokenizer, *model, flags.file);
  const Texts texts = read_data(flags, *model, tokenizer);
  check_can_evaluate(flags.file, *model, texts, tokenizer, flags);
  if (compared) check_can_evaluate(flags.other, *compared, texts, tokenizer, flags);
  const Result result = evaluate(flags.file, model, texts, flags, world);
  nlohmann::ordered_json json = json_of(flags.file, result);
  std::string lines = line_of(flags.file, result);
  if (compared) {
    const Result other = evaluate(flags.other, compared, texts, flags, world);
    const double more = other.evaluation.loss() - result.evaluation.loss();
    json["compare"] = json_of(flags.other, other);
    json["loss_difference"] = more;
    lines += line_of(flags.other, other);
    lines += fmt::format("the second loss is {:+.5f} nats, its perplexity {:+.3f}%\n", more,
                         100 * std::expm1(more));
  }
  flags.out.print(json, [&] { std::cout << lines; });
}

void eval_command(EvalFlags& flags) {
  const std::shared_ptr<World> world = join_ranks(flags.mesh, flags.run.device, SharedWork::kLayers);
  as_rank(*world, [&] { eval_together(flags, world); });
}

}  // namespace

void add_eval(Command& app) {
  auto flags = std::make_shared<EvalFlags>();
  Command* command = app.add_subcommand("eval", "loss and perplexity of a language model on a text");
  command->add_option("file", flags->file, kModelName)->required();
  command
      ->add_option("--data", flags->data,
                   "a text, or a .jsonl of {\"text\": ...} or of {\"messages\": [...]}, where the "
                   "assistant's tokens count")
      ->required();
  command->add_option("--tokenizer", flags->tokenizer,
                      "a tokenizer.json, a folder with one, or a model that contains one; default: the "
                      "model's own, or else bytes");
  command->add_option("--compare", flags->other,
                      "another model on the same text, such as the first one quantized");
  add_number(*command, "--seq", flags->options.seq, "tokens of a window", at_least<int64_t>(1));
  add_number(*command, "--stride", flags->options.stride, "new tokens of each window; 0: half of it",
             at_least<int64_t>(0));
  command->add_flag("--skip-bad", flags->skip_bad,
                    "leave out lines of .jsonl files that hold no text, and count them");
  add_mesh(*command, flags->mesh);
  flags->run.add_to(*command);
  flags->out.add_to(*command);
  command->footer(
      "Example:\n  genesis-run eval model.genesis --data text.txt --seq 512 --compare model.q8.genesis");
  command->callback([flags] { eval_command(*flags); });
}

}  // namespace genesis::tools
