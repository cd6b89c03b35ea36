// genesis-build tokenizer: learns a byte-level BPE tokenizer from text.
#include <chrono>
#include <iostream>
#include <set>

#include "models/corpus/text_files.h"
#include "models/tokenizer/patterns.h"
#include "models/tokenizer/pre_tokenizer.h"
#include "models/tokenizer/training/tokenizer_config.h"
#include "models/tokenizer/training/train_tokenizer.h"
#include "schema/file/io/atomic_folder.h"
#include "schema/file/io/atomic_write.h"
#include "schema/messages/log.h"
#include "tools/build/build_commands.h"
#include "tools/common/file_progress.h"
#include "tools/common/numbers.h"
#include "tools/common/option_values.h"
#include "tools/common/printable.h"
#include "tools/common/progress.h"
#include "tools/common/tool.h"

namespace genesis::tools {
namespace {

namespace fs = std::filesystem;

struct Flags {
  std::vector<std::string> texts;
  std::string output;
  text::TokenizerOptions options;
  bool chat = false, force = false, quiet = false;
  Output out;
};

// Returns the special tokens of the new tokenizer. Unless they were named, one of them ends a text.
std::vector<std::string> special_tokens(const Flags& flags) {
  std::vector<std::string> tokens = flags.options.bpe.special_tokens;
  if (flags.chat) tokens.insert(tokens.begin(), {text::kEndOfText, text::kTurnStart, text::kTurnEnd});
  if (tokens.empty()) tokens.push_back(text::kEndOfText);
  return tokens;
}

text::TrainedTokenizer train(const Flags& flags) {
  FileProgress counting(flags.quiet);
  std::optional<Progress> merging;
  text::TokenizerOptions options = flags.options;
  options.bpe.special_tokens = special_tokens(flags);
  return text::train_tokenizer(corpus::text_files(flags.texts), options,
                               {.counting = counting.hook(), .merging = [&](int64_t done, int64_t total) {
                                  if (!merging) merging.emplace(done, total, flags.quiet);
                                  if (done % 64 == 0 || done == total) merging->update(done, "tokens");
                                }});
}

// Returns true for the names of tokenizer files, which --force may delete from an existing folder.
bool is_of_tokenizer(const fs::path& name) {
  static const std::set<std::string> names = {"tokenizer.json",      "tokenizer_config.json",
                                              "chat_template.jinja", "special_tokens_map.json",
                                              "added_tokens.json",   "vocab.json",
                                              "merges.txt"};
  return names.contains(name.string());
}

// Writes the tokenizer to a folder, with its settings beside it, or to a .json file alone.
void write(const Flags& flags, const std::string& json) {
  const fs::path output = flags.output;
  if (output.extension() == ".json") return write_file_atomically(output, json);
  make_folders_around(output);
  AtomicFolder folder(output, flags.force, is_of_tokenizer);
  write_file_atomically(folder.files() / "tokenizer_config.json",
                        text::tokenizer_config_json(special_tokens(flags)));
  write_file_atomically(folder.files() / "tokenizer.json", json);
  folder.commit();
}

// Refuses to write over a folder that is not empty without --force: models may have been trained with the tokenizer
// in it. A file is replaced, as -o does in every command.
void check_output(const Flags& flags) {
  std::error_code error;
  if (fs::path(flags.output).extension() == ".json") {
    if (flags.chat) fail_usage("--chat writes a template beside the tokenizer: give a folder with -o");
    if (flags.force) fail_usage("--force does nothing with -o FILE.json, which is replaced without it");
    return check_can_write(flags.output);
  }
  if (!flags.force && fs::is_directory(flags.output, error) && !fs::is_empty(flags.output, error))
    fail("the folder '{}' is there already: name another one, or give --force to replace the tokenizer in it",
         flags.output);
  jobs::check_can_make_folder(flags.output);
}

void build_tokenizer(const Flags& flags) {
  const std::string& pattern = flags.options.pattern;
  read_value("--pattern " + pattern, [&] { text::PreTokenizer(text::pattern_named(pattern).steps); });
  check_output(flags);
  const auto start = std::chrono::steady_clock::now();
  const text::TrainedTokenizer made = train(flags);
  write(flags, made.json);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (made.tokens < flags.options.bpe.vocab_size)
    log_warning("the text gives {} tokens, fewer than --vocab-size {}", made.tokens,
                flags.options.bpe.vocab_size);
  flags.out.print({{"output", flags.output},
                   {"tokens", made.tokens},
                   {"merges", made.merges},
                   {"words", made.words},
                   {"bytes", made.bytes},
                   {"seconds", seconds}},
                  [&] {
                    std::cout << fmt::format("{}: {} tokens learnt from {} of text in {}\n",
                                             printable(flags.output), made.tokens, human_bytes(made.bytes),
                                             human_seconds(seconds));
                  });
}

}  // namespace

void add_tokenizer(Command& app) {
  auto flags = std::make_shared<Flags>();
  Command* command = app.add_subcommand("tokenizer", "learn a byte-level BPE tokenizer from text");
  command->add_option("text", flags->texts, "text files, or folders of .txt, .md and .jsonl files")
      ->required();
  command->add_option("-o,--output", flags->output, "a folder, or a file that ends in .json")->required();
  add_number(*command, "--vocab-size", flags->options.bpe.vocab_size, "tokens at most",
             Range<int64_t>{256, 1 << 22})
      ->required();
  command
      ->add_option("--special", flags->options.bpe.special_tokens,
                   "special tokens, which get the first ids; <|endoftext|> when none is given")
      ->take_all();
  command->add_flag("--chat", flags->chat,
                    "the special tokens of ChatML, and a template of conversations beside the tokenizer");
  command
      ->add_option("--pattern", flags->options.pattern,
                   "how text is cut into words: gpt2, llama3, qwen2, smollm (gpt2 with single digits), or an "
                   "expression")
      ->capture_default_str();
  add_number(*command, "--min-frequency", flags->options.bpe.min_frequency,
             "how often a pair must stand in the text to become a token", at_least<int64_t>(0));
  command->add_flag("--force", flags->force, "replace the tokenizer in a folder that is there");
  command->add_flag("--quiet", flags->quiet, "print no progress");
  flags->out.add_to(*command);
  command->footer("Example:\n  genesis-build tokenizer corpus/ -o tokenizer --vocab-size 32000 --chat");
  command->callback([flags] { build_tokenizer(*flags); });
}

}  // namespace genesis::tools
