// genesis-run generate: text from a language model.
#include <unistd.h>

#include <iostream>

#include "models/text/generate.h"
#include "models/tokenizer/tokenizer.h"
#include "schema/file/reader.h"
#include "schema/file/utf8.h"
#include "tools/common/numbers.h"
#include "tools/common/printable.h"
#include "tools/run/run_commands.h"

namespace genesis::tools {
namespace {

struct Flags {
  std::string file, prompt, tokenizer;
  text::GenerateOptions options;
  RunFlags run;
  Output out;
};

int64_t vocabulary_of(const Model& model) {
  const Graph& decode = model.entry("decode");
  for (const NamedValue& output : decode.outputs())
    if (output.name == "logits") return decode.type(output.value).shape[1].value();
  fail("the entry point decode has no output logits");
}

// Tokens that end a text, as the configuration names them that an imported model came with.
std::vector<int64_t> end_tokens(const Model& model) {
  const auto config = model.metadata.find("config.json");
  if (config == model.metadata.end()) return {};
  const auto json = nlohmann::json::parse(config->second, nullptr, false);
  const auto ends = json.is_object() ? json.value("eos_token_id", nlohmann::json()) : nlohmann::json();
  std::vector<int64_t> tokens;
  for (const auto& id : ends.is_array() ? ends : nlohmann::json::array({ends}))
    if (id.is_number_integer()) tokens.push_back(id.get<int64_t>());
  return tokens;
}

// Text as tokens and back: by a tokenizer, or byte by byte.
class Codec {
 public:
  Codec(const Model& model, const Flags& flags) {
    const int64_t vocabulary = vocabulary_of(model);
    if (flags.tokenizer.empty()) {
      if (vocabulary != 256)
        fail(
            "{} has a vocabulary of {}: name its tokenizer with --tokenizer (text without one is bytes, 256)",
            flags.file, vocabulary);
      return;
    }
    tokenizer_ = text::Tokenizer::load(flags.tokenizer);
    if (tokenizer_->vocab_size() > vocabulary)
      fail("{} has {} tokens, more than {} has: {}", flags.tokenizer, tokenizer_->vocab_size(), flags.file,
           vocabulary);
    stream_.emplace(*tokenizer_);
  }
  std::vector<int64_t> encode(const std::string& text) const {
    return tokenizer_ ? tokenizer_->encode(text) : text::encode_bytes(text);
  }
  std::string decode(const std::vector<int64_t>& tokens) const {
    return tokenizer_ ? tokenizer_->decode(tokens) : text::decode_bytes(tokens);
  }
  // Of tokens as they come: what is whole by now.
  std::string next(int64_t token) {
    return stream_ ? stream_->add(token) : std::string(1, static_cast<char>(token));
  }
  std::string rest() { return stream_ ? stream_->finish() : ""; }

 private:
  std::optional<text::Tokenizer> tokenizer_;
  std::optional<text::StreamDecoder> stream_;
};

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

text::GenerateResult write_text(Session& session, Codec& codec, const Flags& flags,
                                const std::vector<int64_t>& prompt) {
  const std::vector<int64_t> ends =
      flags.tokenizer.empty() ? std::vector<int64_t>() : end_tokens(session.model());
  const auto goes_on = [&](int64_t token) {
    return std::find(ends.begin(), ends.end(), token) == ends.end();
  };
  if (flags.out.json) return text::generate(session, prompt, flags.options, goes_on);
  Writer writer;
  writer.write(flags.prompt);
  auto result = text::generate(session, prompt, flags.options, [&](int64_t token) {
    writer.write(codec.next(token));
    return goes_on(token);
  });
  writer.write(codec.rest() + "\n");
  return result;
}

void generate_command(const Flags& flags, const CLI::App& app) {
  if (flags.options.temperature == 0)
    for (const char* option : {"--top-k", "--top-p", "--seed"})
      check_not_given(app, option, "with --temperature 0, which always takes the likeliest token");
  const std::shared_ptr<const Model> model = load_model(flags.file);
  Codec codec(*model, flags);
  Session session(model, flags.run.session_options());
  const std::vector<int64_t> prompt = codec.encode(flags.prompt);
  with_context([&] { text::check_generate(session, prompt, flags.options); },
               [&] { return "prompt " + shortened(flags.prompt); });
  const auto result = write_text(session, codec, flags, prompt);
  const double decode_rate = per_second(result.decoded, result.decode_seconds),
               prefill_rate = per_second(static_cast<int64_t>(prompt.size()), result.prefill_seconds);
  std::cerr << fmt::format("compile {:.2f} s\nprefill {:.0f} tok/s, decode {:.1f} tok/s{}\n",
                           result.compile_seconds, prefill_rate, decode_rate,
                           result.cache_full ? "; stopped: the KV cache is full" : "");
  if (!flags.out.json) return;
  flags.out.print({{"prompt", flags.prompt},
                   {"text", codec.decode(result.tokens)},
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
  command->add_option("--tokenizer", flags->tokenizer,
                      "a tokenizer.json, or a folder with one; without, tokens are bytes");
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
