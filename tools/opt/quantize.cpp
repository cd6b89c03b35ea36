#include "tools/opt/quantize.h"

#include <algorithm>
#include <cmath>
#include <iostream>
#include <memory>

#include "models/corpus/documents.h"
#include "models/data/sources.h"
#include "models/generation/evaluate.h"
#include "models/generation/generate.h"
#include "models/generation/vocabulary.h"
#include "passes/precision/quantize.h"
#include "schema/file/io/file_ending.h"
#include "schema/messages/log.h"
#include "schema/messages/human_bytes.h"
#include "tools/common/printable.h"
#include "tools/common/usage.h"
#include "tools/text/load_tokenizer.h"

namespace genesis::tools {
namespace {

constexpr int64_t kSampleTokens = 4096, kWindow = 512;
constexpr double kLargeCost = 0.05;  // relative increase of perplexity

std::string sample_text(const std::string& path) {
  const std::string all = data::read_text(path);
  if (!is_json_lines(path)) return all;
  std::string text;
  corpus::for_each_line(all, [&](std::string_view line) { text += corpus::document_in(line); });
  return text;
}

// Returns the first tokens of the text, as the model reads them.
std::vector<int64_t> sample_tokens(const Model& model, const std::string& file, const QuantizeFlags& flags) {
  const auto tokenizer = load_tokenizer(flags.tokenizer, model, file);
  const int64_t vocabulary = text::vocabulary_of(model.entry("forward"), 3);
  if (!tokenizer && vocabulary != 256)
    fail("the model has a vocabulary of {}: name its tokenizer with --tokenizer (text without one is bytes, 256)",
         vocabulary);
  std::string text = sample_text(flags.data);
  text.resize(std::min<size_t>(text.size(), 16 * kSampleTokens));  // assumes at most 16 bytes per token
  std::vector<int64_t> tokens = tokenizer ? tokenizer->encode(text) : text::encode_bytes(text);
  tokens.resize(std::min<size_t>(tokens.size(), kSampleTokens + 1));
  if (tokens.size() < 2) fail("'{}' has no text of two tokens or more", flags.data);
  return tokens;
}

double perplexity_of(const Model& model, const std::vector<int64_t>& tokens) {
  Session session(std::make_shared<const Model>(model));
  return text::evaluate(session, tokens, {.seq = std::min<int64_t>(kWindow, std::ssize(tokens) - 1)}).perplexity();
}

void say_cost(const QuantizeFlags& flags, int64_t tokens, double before, double after) {
  const double cost = after / before - 1;
  std::cerr << fmt::format("perplexity on {} tokens of {}: {:.3f} before, {:.3f} as {} ({:+.1f}%)\n", tokens,
                           printable(flags.data), before, after, flags.format, 100 * cost);
  if (cost > kLargeCost)
    log_warning("{} costs {:.1f}% of perplexity{}", flags.format, 100 * cost,
                flags.format == "q4" ? ": --quantize q8 costs less" : "");
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
  if (flags.format == "q4")
    options.format = WeightFormat::kQ4, options.tables_as_q8 = true;
  else if (flags.format != "q8")
    fail_usage("--quantize {}: expected q8 or q4", flags.format);
  return options;
}

}  // namespace

void QuantizeFlags::add_to(Command& app) {
  app.add_option("--quantize", format,
                 "store the weights of products as q8 or q4: a half or a quarter of 16 bits. With q4, "
                 "embedding tables and the weight of the logits are stored as q8");
  app.add_flag("--quantize-embedding", embedding,
               "with --quantize: store embedding tables in that format, too");
  app.add_flag("--quantize-head", head,
               "with --quantize: store the weight of the logits in that format, too");
  app.add_option(
      "--data", data,
      "with --quantize: a text or .jsonl; prints the perplexity on its first 4096 tokens before and after");
  app.add_option("--tokenizer", tokenizer,
                 "with --data: a tokenizer.json, a folder with one, or a model that contains one; default: "
                 "the model's own, or else bytes");
}

void QuantizeFlags::check(const Command& app) const {
  if (format.empty())
    for (const char* option : {"--quantize-embedding", "--quantize-head", "--data"})
      check_not_given(app, option, "without --quantize q8 or q4");
  if (data.empty()) check_not_given(app, "--tokenizer", "without --data TEXT");
}

void quantize(Model& model, const std::string& file, const QuantizeFlags& flags) {
  const passes::QuantizeOptions options = options_of(flags);
  std::vector<int64_t> tokens;
  double before = 0;
  if (!flags.data.empty()) {
    tokens = sample_tokens(model, file, flags);
    before = perplexity_of(model, tokens);
  }
  const passes::QuantizeReport report = passes::quantize(model, options);
  say_report(flags, report);
  if (!tokens.empty())
    say_cost(flags, std::ssize(tokens) - 1, before, perplexity_of(model, tokens));
  else if (flags.format == "q4")
    std::cerr << "the loss of quality by q4 differs between models: --data TEXT measures it\n";
}

}  // namespace genesis::tools
