#include "tools/opt/quantize.h"

#include <algorithm>
#include <cmath>
#include <iostream>
#include <memory>

#include "models/generation/evaluate.h"
#include "models/jobs/calibrate.h"
#include "passes/precision/quantize.h"
#include "schema/messages/human_bytes.h"
#include "schema/messages/log.h"
#include "tools/common/printable.h"
#include "tools/common/usage.h"
#include "tools/opt/rewrite_values.h"

namespace genesis::tools {
namespace {

constexpr int64_t kSampleTokens = 4096, kWindow = 512;
constexpr double kLargeCost = 0.05;  // relative increase of perplexity

text::Evaluation evaluate(const Model& model, const text::EvaluationTexts& texts) {
  Session session(std::make_shared<const Model>(model));
  const text::EvaluateOptions options{.seq = std::min(kWindow, texts.longest() - 1)};
  text::Evaluation all;
  for (size_t i = 0; i < texts.tokens.size(); ++i)
    all.add(text::evaluate(session, texts.tokens[i], options, texts.counts_of(i)));
  return all;
}

void say_cost(const QuantizeFlags& flags, const text::Evaluation& before_quantizing,
              const text::Evaluation& quantized) {
  const double before = before_quantizing.perplexity(), after = quantized.perplexity();
  const double cost = after / before - 1;
  std::cerr << fmt::format("perplexity on {} tokens of {}: {:.3f} before, {:.3f} as {} ({:+.1f}%)\n",
                           quantized.tokens, printable(flags.source.data), before, after, flags.format,
                           100 * cost);
  if (cost > kLargeCost)
    log_warning("{} costs {:.1f}% of perplexity{}", flags.format, 100 * cost,
                flags.format == "q4"    ? ": --quantize q4m costs less, and q8 least"
                : flags.format == "q4m" ? ": --calibrate TEXT and --quantize q8 cost less"
                                        : "");
}

void say_report(const QuantizeFlags& flags, const passes::QuantizeReport& report) {
  std::cerr << fmt::format("{}: {} weights, {} instead of {}\n", flags.format, report.quantized.size(),
                           human_bytes(report.bytes_after), human_bytes(report.bytes_before));
  for (const std::string& name : report.in_q8) std::cerr << fmt::format("kept as q8: {}\n", printable(name));
  for (const auto& kept : report.kept)
    std::cerr << fmt::format("stays as it is: {}: {}\n", printable(kept.name), kept.reason);
}

passes::QuantizeOptions options_of(const QuantizeFlags& flags) {
  passes::QuantizeOptions options{.embedding = flags.embedding, .head = flags.head};
  options.format = parse_quantize(flags.format);
  options.tables_as_q8 = has_four_bits(options.format);
  options.as_q8 = flags.as_q8;
  return options;
}

passes::QuantizeReport encode(Model& model, const std::string& file, const QuantizeFlags& flags,
                              const passes::QuantizeOptions& options) {
  if (flags.calibration.empty()) return passes::quantize(model, options);
  text::TextSource source = flags.source;
  source.data = flags.calibration;
  jobs::CalibrationOptions calibration;
  calibration.on_progress = [](std::string_view what, uint64_t done, uint64_t all) {
    constexpr uint64_t kLines = 20;
    if (done * kLines / all != (done - 1) * kLines / all || done == all)
      std::cerr << fmt::format("{}: {} of {} inputs of products\n", what, done, all);
  };
  const text::EvaluationTexts texts = text::read_evaluation_texts(source, model, file, calibration.tokens);
  return jobs::quantize_calibrated(model, options, texts, calibration);
}

}  // namespace

void QuantizeFlags::add_to(Command& app) {
  app.add_option(
      "--quantize", format,
      "store the weights of products as q8, or as q4m or q4: a half or a quarter of 16 bits. q4m is as "
      "small as q4 and loses less. With both, embedding tables and the weight of the logits are stored "
      "as q8");
  app.add_option("--quantize-as-q8", as_q8,
                 "with --quantize: weights of these names become q8 (* any text, ? any character), such as "
                 "'*.down_proj.*': those whose errors cost most")
      ->take_all();
  app.add_flag("--quantize-embedding", embedding,
               "with --quantize: store embedding tables in that format, too");
  app.add_flag("--quantize-head", head,
               "with --quantize: store the weight of the logits in that format, too");
  app.add_option("--calibrate", calibration,
                 "with --quantize q4m: a text, or a .jsonl as for --data; the model reads it, and weights "
                 "are rounded so "
                 "that their products change least on it (GPTQ)");
  app.add_option(
      "--data", source.data,
      "with --quantize: a text, or a .jsonl of {\"text\": ...} or of {\"messages\": [...]}, where the "
      "assistant's tokens count; prints the perplexity on its first 4096 tokens before and after");
  app.add_flag(
      "--skip-bad", source.skip_bad,
      "with --data or --calibrate: leave out lines of .jsonl files that hold no text, and count them");
  app.add_option("--tokenizer", source.tokenizer,
                 "with --data or --calibrate: a tokenizer.json, a folder with one, or a model that contains "
                 "one; default: "
                 "the model's own, or else bytes");
}

void QuantizeFlags::check(const Command& app) const {
  check_rules(app, {{format.empty(),
                     {"--quantize-as-q8", "--quantize-embedding", "--quantize-head", "--data", "--calibrate"},
                     "without --quantize q8, q4 or q4m"},
                    {source.data.empty() && calibration.empty(),
                     {"--tokenizer", "--skip-bad"},
                     "without --data TEXT or --calibrate TEXT"}});
  if (!calibration.empty() && parse_quantize(format) != WeightFormat::kQ4m)
    fail_usage("--calibrate {}: it goes with --quantize q4m, not with {}", calibration, format);
}

void quantize(Model& model, const std::string& file, const QuantizeFlags& flags) {
  const passes::QuantizeOptions options = options_of(flags);
  text::EvaluationTexts texts;
  text::Evaluation before;
  if (!flags.source.data.empty()) {
    texts = text::read_evaluation_texts(flags.source, model, file, kSampleTokens + 1);
    before = evaluate(model, texts);
    if (before.tokens == 0)
      fail("no token of '{}' counts: there is nothing to measure on", flags.source.data);
  }
  const passes::QuantizeReport report = encode(model, file, flags, options);
  say_report(flags, report);
  if (before.tokens > 0)
    say_cost(flags, before, evaluate(model, texts));
  else if (has_four_bits(options.format))
    std::cerr << fmt::format("the loss of quality by {} differs between models: --data TEXT measures it\n",
                             flags.format);
}

}  // namespace genesis::tools
