// genesis-run generate: text from a language model.
#include <unistd.h>

#include <iostream>

#include "models/text/generate.h"
#include "schema/file/reader.h"
#include "schema/file/utf8.h"
#include "tools/common/numbers.h"
#include "tools/common/printable.h"
#include "tools/run/run_commands.h"

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

// What a model writes may be anything, a terminal's commands too; a file or a pipe gets every byte as it is.
class Writer {
 public:
  void write(std::string_view bytes) {
    if (!terminal_) {
      std::cout << bytes << std::flush;
      return;
    }
    waiting_ += bytes;
    const size_t whole = utf8::whole_characters(waiting_);
    std::cout << printable_lines(std::string_view(waiting_).substr(0, whole)) << std::flush;
    waiting_.erase(0, whole);
  }
  ~Writer() { std::cout << printable_lines(waiting_); }

 private:
  const bool terminal_ = isatty(STDOUT_FILENO);
  std::string waiting_;
};

double per_second(int64_t tokens, double seconds) {
  return tokens > 0 && seconds > 0 ? static_cast<double>(tokens) / seconds : 0;
}

text::GenerateResult write_text(Session& session, const Flags& flags, const std::vector<int64_t>& prompt) {
  if (flags.out.json) return text::generate(session, prompt, flags.options);
  Writer writer;
  writer.write(flags.prompt);
  auto result = text::generate(session, prompt, flags.options, [&](int64_t token) {
    writer.write(std::string(1, static_cast<char>(token)));
    return true;
  });
  writer.write("\n");
  return result;
}

void generate_command(const Flags& flags, const CLI::App& app) {
  if (flags.options.temperature == 0)
    for (const char* option : {"--top-k", "--top-p", "--seed"})
      check_not_given(app, option, "with --temperature 0, which always takes the likeliest token");
  const std::shared_ptr<const Model> model = load_model(flags.file);
  check_bytes(*model, flags.file);
  Session session(model, flags.run.session_options());
  const std::vector<int64_t> prompt = text::encode_bytes(flags.prompt);
  with_context([&] { text::check_generate(session, prompt, flags.options); },
               [&] { return "prompt " + shortened(flags.prompt); });
  const auto result = write_text(session, flags, prompt);
  const double decode_rate = per_second(result.decoded, result.decode_seconds),
               prefill_rate = per_second(static_cast<int64_t>(prompt.size()), result.prefill_seconds);
  std::cerr << fmt::format("compile {:.2f} s\nprefill {:.0f} tok/s, decode {:.1f} tok/s{}\n",
                           result.compile_seconds, prefill_rate, decode_rate,
                           result.cache_full ? "; stopped: the KV cache is full" : "");
  if (!flags.out.json) return;
  flags.out.print({{"prompt", flags.prompt},
                   {"text", text::decode_bytes(result.tokens)},
                   {"tokens", result.tokens},
                   {"compile_seconds", result.compile_seconds},
                   {"prefill_seconds", result.prefill_seconds},
                   {"decode_seconds", result.decode_seconds},
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
  add_number(*command, "--max-tokens", flags->options.max_tokens, "tokens to write at most",
             at_least<int64_t>(0));
  add_number(*command, "--temperature", flags->options.temperature, "0: always the likeliest token",
             at_least<double>(0));
  add_number(*command, "--top-k", flags->options.top_k, "choose among the k likeliest; 0: off",
             at_least<int64_t>(0));
  add_number(*command, "--top-p", flags->options.top_p, "choose among the likeliest that make up p; 1: off",
             Range<double>{0, 1, true});
  add_number(*command, "--seed", flags->options.seed, "of the choices");
  flags->run.add_to(*command);
  flags->out.add_to(*command);
  command->footer(
      "Example:\n  genesis-run generate model.genesis --prompt \"In the beginning\" --max-tokens 200 "
      "--temperature 0.8 --top-k 40");
  command->callback([flags, command] { generate_command(*flags, *command); });
}

}  // namespace genesis::tools
