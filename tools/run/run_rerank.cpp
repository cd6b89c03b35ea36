// genesis-run rerank: scores of pairs of texts by a cross-encoder.
#include <iostream>

#include "models/text/cross_encoder.h"
#include "schema/messages/log.h"
#include "tools/common/numbers.h"
#include "tools/common/printable.h"
#include "tools/run/text_commands.h"
#include "tools/text/text_lines.h"

namespace genesis::tools {
namespace {

struct RerankFlags {
  std::string file, query, input, pairs;
  std::vector<std::string> texts;
  int64_t top = 0;  // 0: all
  text::PairOptions options;
  RunFlags run;
  Output out;
};

void check_flags(const RerankFlags& flags, const Command& app) {
  const bool has_pairs = !flags.pairs.empty();
  check_rules(app, {{has_pairs, {"--query", "--text", "--input", "--top"}, "with --pairs"}});
  if (has_pairs) return;
  if (flags.query.empty())
    fail_usage("there is nothing to compare texts with: give --query TEXT or --pairs FILE");
  if (flags.texts.empty() && flags.input.empty())
    fail_usage("there is no text to rank: give --text TEXT or --input FILE");
}

// Prints the scores of each pair, in their order.
void score_pairs(text::CrossEncoder& model, const RerankFlags& flags) {
  const Tensor scores = model.scores(read_text_pairs(flags.pairs), flags.options);
  const auto labels = static_cast<size_t>(scores.size(1));
  const float* values = scores.as<float>().data();
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (int64_t i = 0; flags.out.json && i < scores.size(0); ++i)
    json.push_back(
        nlohmann::ordered_json::parse(floats_json(values + static_cast<size_t>(i) * labels, labels)));
  flags.out.print({{"scores", json}}, [&] {
    for (int64_t i = 0; i < scores.size(0); ++i) {
      const std::string row = floats_json(values + static_cast<size_t>(i) * labels, labels);
      std::cout << (labels == 1 ? row.substr(1, row.size() - 2) : row) << "\n";
    }
  });
}

// Prints the documents, those with the highest scores first.
void rank(text::CrossEncoder& model, const RerankFlags& flags) {
  std::vector<std::string> texts = flags.texts;
  if (!flags.input.empty())
    for (std::string& text : read_texts(flags.input)) texts.push_back(std::move(text));
  std::vector<text::Ranked> ranked = model.rank(flags.query, texts, flags.options);
  if (flags.top > 0 && std::ssize(ranked) > flags.top) ranked.resize(static_cast<size_t>(flags.top));
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const auto& [index, score] : ranked)
    json.push_back({{"index", index}, {"score", score}, {"text", texts[index]}});
  flags.out.print({{"query", flags.query}, {"ranked", json}}, [&] {
    for (const auto& [index, score] : ranked)
      std::cout << fmt::format("{:.6f}  {}\n", score, printable(texts[index]));
  });
}

void rerank(RerankFlags& flags, const Command& app) {
  check_flags(flags, app);
  text::CrossEncoder model = text::CrossEncoder::open(flags.file, flags.run.session_options());
  flags.options.on_truncated = [&](size_t pair, int64_t tokens, int64_t read) {
    log_warning("pair {} has {} tokens: {} are read", pair + 1, tokens, read);
  };
  flags.pairs.empty() ? rank(model, flags) : score_pairs(model, flags);
}

}  // namespace

void add_rerank(Command& app) {
  auto flags = std::make_shared<RerankFlags>();
  Command* command = app.add_subcommand("rerank", "order texts by how well they answer a query");
  command
      ->add_option("file", flags->file,
                   "a .genesis file of an encoder with a classifier of texts, or a folder of checkpoints")
      ->required();
  command->add_option("--query", flags->query, "the text that all others are compared with");
  command->add_option("--text", flags->texts, "a text to rank; may be given again")->allow_extra_args(false);
  command->add_option("--input", flags->input,
                      "a file of texts to rank: .txt with one per line, or JSONL with a string, or an object "
                      "with a string \"text\", per line");
  command->add_option(
      "--pairs", flags->pairs,
      "print the scores of pairs in their order: JSONL with a list of two strings, or an object "
      "with \"query\" and \"text\", per line");
  add_number(*command, "--top", flags->top, "print only this many texts; 0: all", at_least<int64_t>(0));
  add_number(*command, "--batch", flags->options.batch, "pairs of a run at most", Range<int64_t>{1, 4096});
  flags->run.add_to(*command);
  flags->out.add_to(*command);
  command->footer(
      "Example:\n  genesis-run rerank reranker.genesis --query \"what do cats eat\" --input texts.txt --top "
      "3");
  command->callback([flags, command] { rerank(*flags, *command); });
}

}  // namespace genesis::tools
