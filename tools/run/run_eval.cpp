// genesis-run eval: measures how well a language model predicts a text.
#include <cmath>
#include <iostream>

#include "models/jobs/evaluate_job.h"
#include "passes/core/quantized_cache.h"
#include "tools/common/numbers.h"
#include "tools/common/printable.h"
#include "tools/common/ranks.h"
#include "tools/run/nonfinite_page.h"
#include "tools/run/run_commands.h"
#include "tools/text/sampling_flags.h"

namespace genesis::tools {
namespace {

using jobs::EvaluationReport;

struct EvalFlags {
  std::string other, mesh, cache_dtype;
  jobs::EvaluateJob job;
  RunFlags run;
  Output out;
};

EvaluationReport evaluate(const std::string& file, const std::shared_ptr<const Model>& model,
                          const text::EvaluationTexts& texts, const EvalFlags& flags) {
  Session session(flags.cache_dtype.empty() ? model : passes::with_rounded_keys(*model), flags.job.session);
  EvaluationReport report;
  with_nonfinite_page(flags.run, file, session,
                      [&] { report = jobs::evaluate(session, file, texts, flags.job.options); });
  return report;
}

nlohmann::ordered_json json_of(const std::string& file, const EvaluationReport& result) {
  return {{"model", file},
          {"loss", result.evaluation.loss()},
          {"perplexity", result.evaluation.perplexity()},
          {"bits_per_byte", result.bits_per_byte()},
          {"tokens", result.evaluation.tokens},
          {"bytes", result.bytes},
          {"windows", result.evaluation.windows},
          {"seconds", result.seconds}};
}

std::string line_of(const std::string& file, const EvaluationReport& result) {
  const text::Evaluation& e = result.evaluation;
  return fmt::format(
      "{}: loss {:.5f} nats per token, perplexity {:.4f}, {:.5f} bits per byte; {} tokens, {:.0f} tok/s\n",
      printable(file), e.loss(), e.perplexity(), result.bits_per_byte(), e.tokens,
      static_cast<double>(e.tokens) / std::max(result.seconds, 1e-9));
}

void eval_together(EvalFlags& flags, const std::shared_ptr<World>& world) {
  const FirstRankSpeaks quiet(*world);
  std::string &file = flags.job.model, &other_file = flags.other;
  for (std::string* name : {&file, &other_file})
    if (!name->empty()) *name = model_file(*name, *world);
  const std::shared_ptr<const Model> model = load_model(file),
                                     compared = other_file.empty() ? nullptr : load_model(other_file);
  const text::EvaluationTexts texts = text::read_evaluation_texts(flags.job.source, *model, file);
  jobs::check_can_evaluate(*model, file, texts, flags.job.options);
  if (compared) jobs::check_can_evaluate(*compared, other_file, texts, flags.job.options);
  flags.job.session = session_options(flags.run, world);
  const EvaluationReport result = evaluate(file, model, texts, flags);
  nlohmann::ordered_json json = json_of(file, result);
  std::string lines = line_of(file, result);
  if (compared) {
    const EvaluationReport other = evaluate(other_file, compared, texts, flags);
    const double more = other.evaluation.loss() - result.evaluation.loss();
    json["compare"] = json_of(other_file, other);
    json["loss_difference"] = more;
    lines += line_of(other_file, other);
    lines += fmt::format("the second loss is {:+.5f} nats, its perplexity {:+.3f}%\n", more,
                         100 * std::expm1(more));
  }
  flags.out.print(json, [&] { std::cout << lines; });
}

void eval_command(EvalFlags& flags) {
  if (flags.job.options.stride > flags.job.options.seq)
    fail_usage("--stride {}: expected at most the tokens of a window, --seq {}", flags.job.options.stride,
               flags.job.options.seq);
  run_ranks(flags.mesh, flags.run, SharedWork::kLayers,
            [&](const auto& world) { eval_together(flags, world); });
}

}  // namespace

void add_eval(Command& app) {
  auto flags = std::make_shared<EvalFlags>();
  Command* command = app.add_subcommand("eval", "loss and perplexity of a language model on a text");
  command->add_option("file", flags->job.model, kModelName)->required();
  command
      ->add_option("--data", flags->job.source.data,
                   "a text, or a .jsonl of {\"text\": ...} or of {\"messages\": [...]}, where the "
                   "assistant's tokens count")
      ->required();
  command->add_option("--tokenizer", flags->job.source.tokenizer,
                      "a tokenizer.json, a folder with one, or a model that contains one; default: the "
                      "model's own, or else bytes");
  command->add_option("--compare", flags->other,
                      "another model on the same text, such as the first one quantized");
  add_number(*command, "--seq", flags->job.options.seq, "tokens of a window", at_least<int64_t>(1));
  add_number(*command, "--stride", flags->job.options.stride, "new tokens of each window; 0: half of it",
             at_least<int64_t>(0));
  add_cache_dtype(*command, flags->cache_dtype,
                  "keys and values are rounded as a cache in 8 bits rounds them");
  command->add_flag("--skip-bad", flags->job.source.skip_bad,
                    "leave out lines of .jsonl files that hold no text, and count them");
  add_mesh(*command, flags->mesh);
  flags->run.add_to(*command);
  flags->out.add_to(*command);
  command->footer(
      "Example:\n  genesis-run eval model.genesis --data text.txt --seq 512 --compare model.q8.genesis");
  command->callback([flags] { eval_command(*flags); });
}

}  // namespace genesis::tools
