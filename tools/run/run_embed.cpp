// genesis-run embed: vectors of texts, as sentence-transformers makes them.
#include <iostream>
#include <sstream>

#include "models/text/embedder.h"
#include "schema/file/io/atomic_write.h"
#include "schema/file/io/file_ending.h"
#include "schema/file/other_formats/npy.h"
#include "schema/messages/log.h"
#include "tools/common/numbers.h"
#include "tools/common/printable.h"
#include "tools/run/text_commands.h"
#include "tools/text/text_lines.h"

namespace genesis::tools {
namespace {

struct EmbedFlags {
  std::string file, input, output, prompt_name, prompt;
  std::vector<std::string> texts;
  bool similarity = false;
  text::EmbedOptions options;
  RunFlags run;
  Output out;
};

std::string row_json(const Tensor& rows, int64_t row) {
  const auto width = static_cast<size_t>(rows.size(1));
  return floats_json(rows.as<float>().data() + static_cast<size_t>(row) * width, width);
}

// Returns the rows as a JSON list of lists.
nlohmann::ordered_json rows_json(const Tensor& rows) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (int64_t row = 0; row < rows.size(0); ++row)
    list.push_back(nlohmann::ordered_json::parse(row_json(rows, row)));
  return list;
}

// Returns a line of JSON for each text: {"text": "...", "vector": [...]}.
std::string lines_of(const std::vector<std::string>& texts, const Tensor& vectors) {
  std::string lines;
  for (size_t i = 0; i < texts.size(); ++i)
    lines += fmt::format("{{\"text\":{},\"vector\":{}}}\n", json_text(texts[i]),
                         row_json(vectors, static_cast<int64_t>(i)));
  return lines;
}

void print(const EmbedFlags& flags, const text::Embedder& model, const std::vector<std::string>& texts,
           const Tensor& vectors) {
  nlohmann::ordered_json json{
      {"texts", texts.size()}, {"features", vectors.size(1)}, {"output", flags.output}};
  Tensor similarity;
  if (flags.similarity) similarity = model.similarity(vectors, vectors);
  if (flags.out.json && flags.similarity) json["similarity"] = rows_json(similarity);
  if (flags.out.json && flags.output.empty()) json["vectors"] = rows_json(vectors);
  flags.out.print(json, [&] {
    if (flags.similarity)
      for (int64_t row = 0; row < similarity.size(0); ++row) std::cout << row_json(similarity, row) << "\n";
    else if (flags.output.empty())
      std::cout << lines_of(texts, vectors);
    else
      std::cout << fmt::format("{}: {} vectors of {} numbers\n", printable(flags.output), texts.size(),
                               vectors.size(1));
  });
}

void check_flags(const EmbedFlags& flags, const Command& app) {
  if (flags.texts.empty() && flags.input.empty())
    fail_usage("there is no text: give --text TEXT or --input FILE");
  check_rules(app, {{app.is_given("--prompt"), {"--prompt-name"}, "with --prompt, which replaces it"}});
  const std::string ending = file_ending(flags.output);
  if (!flags.output.empty() && ending != ".npy" && ending != ".jsonl")
    fail_usage("--output {}: expected a .npy or .jsonl file", flags.output);
  check_can_write(flags.output);
}

void embed(EmbedFlags& flags, const Command& app) {
  check_flags(flags, app);
  std::vector<std::string> texts = flags.texts;
  if (!flags.input.empty())
    for (std::string& text : read_texts(flags.input)) texts.push_back(std::move(text));
  text::Embedder model = text::Embedder::open(flags.file, flags.run.session_options());
  flags.options.prompt_name = flags.prompt_name;
  if (app.is_given("--prompt")) flags.options.prompt = flags.prompt;
  flags.options.on_truncated = [&](size_t text, int64_t tokens, int64_t read) {
    log_warning("text {} has {} tokens: its first {} are read", text + 1, tokens, read);
  };
  const Tensor vectors = model.encode(texts, flags.options);
  if (file_ending(flags.output) == ".npy")
    write_npy(flags.output, vectors);
  else if (!flags.output.empty())
    write_file_atomically(flags.output, lines_of(texts, vectors));
  print(flags, model, texts, vectors);
}

}  // namespace

void add_embed(Command& app) {
  auto flags = std::make_shared<EmbedFlags>();
  Command* command = app.add_subcommand("embed", "vectors of texts");
  command
      ->add_option("file", flags->file,
                   "a .genesis file with the entry point embed, or a folder of checkpoints")
      ->required();
  command->add_option("--text", flags->texts, "a text; may be given again")->allow_extra_args(false);
  command->add_option("--input", flags->input,
                      "a file of texts: .txt with one per line, or JSONL with a string, or an object with a "
                      "string \"text\", per line");
  command->add_option(
      "-o,--output", flags->output,
      "FILE.npy for the vectors f32[texts, features], or FILE.jsonl with a line for each text");
  command->add_option(
      "--prompt-name", flags->prompt_name,
      "the model's prompt of this name precedes every text; default: the model's default prompt");
  command->add_option("--prompt", flags->prompt, "this text precedes every text");
  command->add_flag("--normalize", flags->options.normalize, "vectors get the length 1");
  add_number(*command, "--dimensions", flags->options.dimensions,
             "keep only this many numbers of each vector; 0: all", at_least<int64_t>(0));
  add_number(*command, "--batch", flags->options.batch, "texts of a run at most", Range<int64_t>{1, 4096});
  command->add_flag("--similarity", flags->similarity,
                    "print how similar each text is to each, by the model's own measure");
  flags->run.add_to(*command);
  flags->out.add_to(*command);
  command->footer(
      "Example:\n  genesis-run embed minilm.genesis --input texts.txt -o vectors.npy\n"
      "  genesis-run embed minilm.genesis --text \"a cat\" --text \"a dog\" --similarity");
  command->callback([flags, command] { embed(*flags, *command); });
}

}  // namespace genesis::tools
