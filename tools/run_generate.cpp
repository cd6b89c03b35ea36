// genesis-run generate: text from a language model.
#include <iostream>

#include "models/text/generate.h"
#include "schema/file/reader.h"
#include "tools/run_commands.h"

namespace genesis::tools {
namespace {

struct Flags {
  std::string file, prompt;
  text::GenerateOptions options;
  RunFlags run;
  Output out;
};

void check_bytes(const Model& model, const std::string& file) {
  const Graph& decode = model.entry("decode");
  for (const NamedValue& output : decode.outputs()) {
    const Dim& vocabulary = decode.type(output.value).shape[1];
    if (output.name == "logits" && !(vocabulary == Dim(256)))
      fail("{} has a vocabulary of {}, text is read and written as bytes (256)", file,
           vocabulary.to_string());
  }
}

// JSON strings are UTF-8; a byte model may write anything. Bytes that are not UTF-8 become U+FFFD.
std::string printable(const std::string& bytes) {
  const nlohmann::json text = bytes;
  return nlohmann::json::parse(text.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace))
      .get<std::string>();
}

void generate_command(const Flags& flags) {
  const std::shared_ptr<const Model> model = load_model(flags.file);
  check_bytes(*model, flags.file);
  Session session(model, flags.run.session_options());
  if (!flags.out.json) std::cout << flags.prompt << std::flush;
  const auto result =
      text::generate(session, text::encode_bytes(flags.prompt), flags.options, [&](int64_t token) {
        if (!flags.out.json) std::cout << static_cast<char>(token) << std::flush;
        return true;
      });
  if (!flags.out.json) std::cout << "\n";
  const auto count = static_cast<double>(result.tokens.size());
  const double decode_rate = count > 1 && result.decode_seconds > 0 ? (count - 1) / result.decode_seconds : 0;
  const double prefill_rate = static_cast<double>(flags.prompt.size()) / result.prefill_seconds;
  std::cerr << fmt::format("prefill {:.0f} tok/s, decode {:.1f} tok/s{}\n", prefill_rate, decode_rate,
                           result.cache_full ? "; stopped: the KV cache is full" : "");
  if (!flags.out.json) return;
  flags.out.print({{"prompt", printable(flags.prompt)},
                   {"text", printable(text::decode_bytes(result.tokens))},
                   {"tokens", result.tokens},
                   {"prefill_tokens_per_second", prefill_rate},
                   {"decode_tokens_per_second", decode_rate},
                   {"cache_full", result.cache_full}},
                  [] {});
}

}  // namespace

void add_generate(CLI::App& app) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand("generate", "let a language model write text");
  command->add_option("file", flags->file, "a .genesis file with entry points prefill and decode")
      ->required();
  command->add_option("--prompt", flags->prompt, "text to go on from")->required();
  command->add_option("--max-tokens", flags->options.max_tokens, "tokens to write at most")
      ->capture_default_str();
  command->add_option("--temperature", flags->options.temperature, "0: always the likeliest token")
      ->capture_default_str();
  command->add_option("--top-k", flags->options.top_k, "choose among the k likeliest; 0: off")
      ->capture_default_str();
  command->add_option("--top-p", flags->options.top_p, "choose among the likeliest that make up p; 1: off")
      ->capture_default_str();
  command->add_option("--seed", flags->options.seed, "of the choices")->capture_default_str();
  flags->run.add_to(*command);
  flags->out.add_to(*command);
  command->footer(
      "Example:\n  genesis-run generate model.genesis --prompt \"In the beginning\" --max-tokens 200 "
      "--temperature 0.8 --top-k 40");
  command->callback([flags] { generate_command(*flags); });
}

}  // namespace genesis::tools
