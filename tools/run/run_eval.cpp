// genesis-run eval: measures how well a language model predicts a text.
#include <chrono>
#include <cmath>
#include <iostream>
#include <numbers>

#include "models/generation/evaluate.h"
#include "models/generation/vocabulary.h"
#include "tools/common/numbers.h"
#include "tools/common/printable.h"
#include "tools/common/ranks.h"
#include "tools/run/nonfinite_page.h"
#include "tools/run/run_commands.h"
#include "models/jobs/train_data.h"
#include "models/text/evaluation_texts.h"

namespace genesis::tools {
namespace {

using Clock = std::chrono::steady_clock;

struct EvalFlags {
  std::string file, other, mesh;
  text::TextSource source;
  text::EvaluateOptions options;
  RunFlags run;
  Output out;
};

struct Result {
  text::Evaluation evaluation;
  int64_t bytes = 0;
  double seconds = 0;

  double bits_per_byte() const {
    return bytes > 0 ? evaluation.nats / std::numbers::ln2 / static_cast<double>(bytes) : 0;
  }
};

// Finds errors before the work begins.
void check_can_evaluate(const std::string& file, const Model& model, const text::EvaluationTexts& texts,
                        const EvalFlags& flags) {
  text::check_tokens_fit(texts, model, file);
  const int64_t window = std::min(flags.options.seq, texts.longest() - 1);
  text::check_positions(model, window);
  jobs::warn_of_positions(model, window);
}

// A loss that is not finite is an error instead of a result.
void check_finite(const std::string& file, const text::Evaluation& evaluation) {
  if (!std::isfinite(evaluation.nats))
    fail("the loss of {} is {}: run with --find-nonfinite to see which node made it first", file,
         std::isnan(evaluation.nats) ? "NaN" : "infinite");
}

Result evaluate(const std::string& file, const std::shared_ptr<const Model>& model,
                const text::EvaluationTexts& texts, const EvalFlags& flags, const std::shared_ptr<World>& world) {
  Session session(model, session_options(flags.run, world));
  Result result{.bytes = texts.bytes};
  const auto start = Clock::now();
  with_nonfinite_page(flags.run, file, session, [&] {
    for (size_t i = 0; i < texts.tokens.size(); ++i) {
      result.evaluation.add(text::evaluate(session, texts.tokens[i], flags.options, texts.counts_of(i)));
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
    if (!name->empty()) *name = model_file(*name, *world);
  const std::shared_ptr<const Model> model = load_model(flags.file),
                                     compared = flags.other.empty() ? nullptr : load_model(flags.other);
  const text::EvaluationTexts texts = text::read_evaluation_texts(flags.source, *model, flags.file);
  check_can_evaluate(flags.file, *model, texts, flags);
  if (compared) check_can_evaluate(flags.other, *compared, texts, flags);
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
  if (flags.options.stride > flags.options.seq)
    fail_usage("--stride {}: expected at most the tokens of a window, --seq {}", flags.options.stride,
               flags.options.seq);
  const std::shared_ptr<World> world = join_ranks(flags.mesh, flags.run.device, SharedWork::kLayers);
  as_rank(*world, [&] { eval_together(flags, world); });
}

}  // namespace

void add_eval(Command& app) {
  auto flags = std::make_shared<EvalFlags>();
  Command* command = app.add_subcommand("eval", "loss and perplexity of a language model on a text");
  command->add_option("file", flags->file, kModelName)->required();
  command
      ->add_option("--data", flags->source.data,
                   "a text, or a .jsonl of {\"text\": ...} or of {\"messages\": [...]}, where the "
                   "assistant's tokens count")
      ->required();
  command->add_option("--tokenizer", flags->source.tokenizer,
                      "a tokenizer.json, a folder with one, or a model that contains one; default: the "
                      "model's own, or else bytes");
  command->add_option("--compare", flags->other,
                      "another model on the same text, such as the first one quantized");
  add_number(*command, "--seq", flags->options.seq, "tokens of a window", at_least<int64_t>(1));
  add_number(*command, "--stride", flags->options.stride, "new tokens of each window; 0: half of it",
             at_least<int64_t>(0));
  command->add_flag("--skip-bad", flags->source.skip_bad,
                    "leave out lines of .jsonl files that hold no text, and count them");
  add_mesh(*command, flags->mesh);
  flags->run.add_to(*command);
  flags->out.add_to(*command);
  command->footer(
      "Example:\n  genesis-run eval model.genesis --data text.txt --seq 512 --compare model.q8.genesis");
  command->callback([flags] { eval_command(*flags); });
}

}  // namespace genesis::tools
