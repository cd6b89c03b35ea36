#include "models/jobs/train_data.h"

#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "executor/inputs.h"
#include "models/chat/json_config.h"
#include "models/corpus/text_files.h"
#include "models/data/conversation_files.h"
#include "models/data/conversation_source.h"
#include "models/data/conversations.h"
#include "models/data/token_corpus.h"
#include "models/generation/vocabulary.h"
#include "models/jobs/image_data.h"
#include "models/text/load_tokenizer.h"
#include "models/text/token_rows.h"
#include "models/tokenizer/model_files.h"
#include "models/zoo.h"
#include "schema/core/setting_error.h"
#include "schema/file/attached_files.h"
#include "schema/file/io/file_ending.h"
#include "schema/file/json_text.h"
#include "schema/messages/log.h"

namespace genesis::jobs {
namespace {

namespace fs = std::filesystem;

// Returns the first line that is a JSON object, from which the kind of lines is known; discarded if there is none.
// Lines before it are malformed, and the reader of the data reports them.
nlohmann::json first_object(const fs::path& file) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);)
    if (auto object = try_parse_json_text(line); object.is_object()) return object;
  return nlohmann::json(nlohmann::json::value_t::discarded);
}

// Returns true if the lines have a "text", so that they are documents.
bool has_text_lines(const fs::path& file) {
  const auto object = first_object(file);
  return object.is_discarded() || object.contains("text");
}

bool is_text(const std::string& name) {
  const fs::path path = name;
  if (fs::is_directory(path)) return true;
  const std::string kind = file_ending(path);
  if (kind == ".npy" || kind == ".safetensors") return false;
  return !is_json_lines(path) || has_text_lines(path);
}

// Returns the vocabulary size of the model. Without the entry point `forward` it is unknown, so the limit is the
// largest integer.
int64_t rows_of(const Model& model) {
  const Graph* forward = model.find_entry("forward");
  return forward ? text::vocabulary_of(*forward, 3) : std::numeric_limits<int64_t>::max();
}

// Finds tokens without an embedding row, which would end the training at the step that reads them. It searches only
// if the tokenizer has such tokens.
void check_corpus(const data::TokenStream& tokens, const text::Tokenizer& tokenizer, int64_t rows) {
  constexpr int64_t kPiece = 1 << 16;
  if (tokenizer.vocab_size() <= rows) return;
  std::vector<int64_t> piece(kPiece);
  for (int64_t first = 0; first < tokens.size(); first += kPiece) {
    const int64_t count = std::min(kPiece, tokens.size() - first);
    tokens.read(first, count, piece.data());
    text::check_have_rows(std::span(piece).first(static_cast<size_t>(count)), rows, tokenizer);
  }
}

void check_samples(const std::vector<chat::Sample>& samples, const text::Tokenizer& tokenizer, int64_t rows) {
  if (tokenizer.vocab_size() <= rows) return;
  for (const chat::Sample& sample : samples)
    text::check_have_rows(std::vector<int64_t>(sample.tokens.begin(), sample.tokens.end()), rows, tokenizer);
}

data::TextTokens tokens_of(const Model& model, const text::Tokenizer& tokenizer, const std::string& file) {
  const auto end =
      with_context([&] { return text::end_of_text_token(model, tokenizer); }, [&] { return file; });
  if (!end)
    fail(
        "the tokenizer that the model {} brings has no token that ends a text: expected <|endoftext|>, "
        "<|end_of_text|>, </s>, or an eos_token in its tokenizer_config.json",
        file);
  return {tokenizer, std::string(attached_file(model, "tokenizer.json").value()), *end};
}

void say_where(const data::TokenCorpus& corpus, bool quiet) {
  if (corpus.bad_lines > 0) log_warning("{} lines without a document were left out", corpus.bad_lines);
  if (!corpus.first_repaired.empty()) data::warn_of_repaired(corpus.first_repaired);
  if (!corpus.has_hashes)
    log_warning(
        "the tokens in {0} were kept by an older version of Genesis, without hashes, so damage to them is "
        "not "
        "found: remove {0}, and the text is tokenized anew",
        corpus.folder.string());
  if (quiet) return;
  log_info("{} tokens to train on and {} held out, {} {}", corpus.training.size(), corpus.held_out.size(),
           corpus.was_there ? "kept in" : "made and kept in", corpus.folder.string());
}

// Checks the size of the held-out data. Documents are held out whole, so with a few long ones it may be much more
// than asked for, or everything.
void check_held_out(const data::TokenCorpus& corpus, double asked) {
  const int64_t held_out = corpus.held_out.size(), all = corpus.training.size() + held_out;
  if (held_out == 0) return;
  if (held_out == all)
    fail(
        "--holdout {:g}% took all {} tokens and nothing is left to train on: documents are held out whole, "
        "and the text is "
        "one document, or too few: leave --holdout out, and name another text to evaluate with --eval-data",
        100 * asked, all);
  const double share = static_cast<double>(held_out) / static_cast<double>(all);
  if (share > 5 * asked)
    log_warning(
        "--holdout {:g}% holds out {:.0f}% of the tokens, {} of {}, as documents are held out whole and the "
        "text has few of "
        "them: --eval-data names another text to evaluate with",
        100 * asked, 100 * share, held_out, all);
}

TrainData token_data(const std::vector<std::string>& names, const data::TextTokens& tokens, int64_t rows,
                     data::SourceOptions options, const DataRequest& request) {
  const TextSettings& settings = request.text;
  data::TokenCorpus corpus = data::open_token_corpus(corpus::text_files(names), tokens,
                                                     {.held_out = settings.holdout,
                                                      .skip_bad = settings.skip_bad,
                                                      .cache = settings.token_cache,
                                                      .progress = request.progress});
  check_held_out(corpus, settings.holdout);
  for (const data::TokenStream* stream : {&corpus.training, &corpus.held_out})
    check_corpus(*stream, tokens.tokenizer, rows);
  say_where(corpus, request.quiet);
  TrainData data;
  data.training = data::token_source(std::move(corpus.training), options);
  options.shuffle = false;
  options.fill_last = true;
  if (settings.holdout > 0)
    data.held_out = with_context([&] { return data::token_source(std::move(corpus.held_out), options); },
                                 [] { return "in the data that is held out"; });
  return data;
}

void say_rows(const data::ConversationSource& source) {
  const auto& seen = source.statistics();
  log_info(
      "{} samples in {} rows, {} tokens, {} of them to learn; {} samples were cut, {} have nothing to learn",
      seen.samples, seen.rows, seen.tokens, seen.targets, seen.cut, seen.without_targets);
}

// Warns of padding: in a step made from `loss` most of a row may be padding, which costs as much time as text.
void warn_of_padding(const data::ConversationSource& source, const Model& model, const Graph& entry,
                     int64_t row_tokens) {
  const auto& seen = source.statistics();
  const double share = static_cast<double>(seen.tokens) / static_cast<double>(seen.rows * row_tokens);
  if (entry.name() != "train_step" || has_input(entry, "segments") || !model.find_entry("loss_packed") ||
      share > 0.75)
    return;
  log_warning(
      "each row holds one conversation, and {:.0f}% of all rows is padding, which takes as long as text: the "
      "training step of this file was made of 'loss'. Packed rows hold several: give --optimizer here, or "
      "make the "
      "step with `genesis-opt --train OPTIMIZER,entry=loss_packed`",
      100 * (1 - share));
}

// Returns how many tokens of a row the longest sample takes.
int64_t longest_of(const std::vector<chat::Sample>& samples, int64_t row) {
  int64_t longest = 0;
  for (const chat::Sample& sample : samples) longest = std::max(longest, std::ssize(sample.tokens) - 1);
  return std::min(longest, row);
}

TrainData conversation_data(const std::vector<std::string>& names, const Model& model,
                            const data::SourceOptions& options, const DataRequest& request) {
  const std::string& file = request.file;
  const Graph& entry = model.entry(request.entry);
  if (request.text.holdout > 0)
    fail_setting("--holdout does nothing with conversations: name a file with --eval-data");
  if (!request.text.token_cache.empty()) fail_setting("--token-cache does nothing with conversations");
  const auto tokenizer = text::brought_tokenizer(model, file);
  if (!tokenizer)
    fail(
        "conversations need the model's tokenizer and chat template, and it brings none (genesis-build "
        "--tokenizer)");
  const chat::SampleMaker maker(chat::ChatTemplate::from(chat::ConfigFiles::of_model(model, file)),
                                *tokenizer);
  data::Conversations read =
      data::read_conversations({names.begin(), names.end()}, maker, request.text.skip_bad);
  data::warn_of_skipped(read);
  check_samples(read.samples, *tokenizer, rows_of(model));
  warn_of_positions(model, longest_of(read.samples, options.sequence_length));
  auto source = std::make_unique<data::ConversationSource>(
      std::move(read.samples), data::ConversationOptions{.batch_size = options.batch_size,
                                                         .sequence_length = options.sequence_length,
                                                         .seed = options.seed,
                                                         .shuffle = options.shuffle,
                                                         .pack = has_input(entry, "segments"),
                                                         .fill_last = options.fill_last});
  if (!request.quiet) say_rows(*source);
  warn_of_padding(*source, model, entry, options.sequence_length);
  return {.training = std::move(source)};
}

void check_no_settings(const TextSettings& settings, const char* why) {
  if (settings.holdout > 0) fail_setting("--holdout does nothing {}", why);
  if (settings.skip_bad) fail_setting("--skip-bad does nothing {}", why);
  if (!settings.token_cache.empty()) fail_setting("--token-cache does nothing {}", why);
}

}  // namespace

void warn_of_positions(const Model& model, int64_t tokens) {
  if (const int64_t longest = models::longest_text(model); longest > 0 && tokens > longest)
    log_warning(
        "texts of {} tokens (--seq), and the model was made for {} at most (its max_position_embeddings): "
        "its output at later positions may mean little",
        tokens, longest);
}

std::string TextSettings::order() const { return holdout > 0 ? fmt::format(" --holdout {}", holdout) : ""; }

TrainData open_train_data(const std::vector<std::string>& names, const Model& model,
                          const data::SourceOptions& options, const DataRequest& request) {
  const bool takes_tokens = has_input(model.entry(request.entry), "tokens");
  if (!takes_tokens && is_image_data(names)) return open_image_data(names[0], model, options, request);
  if (!request.image.empty()) fail_setting("--image does nothing with data that are no pictures");
  if (const auto files = data::conversation_files(names); !files.empty()) {
    text::check_positions(model, options.sequence_length);
    return conversation_data(files, model, options, request);
  }
  if (names.empty() || !std::all_of(names.begin(), names.end(), is_text)) {
    check_no_settings(request.text, "with arrays");
    return {.training = data::open_source(names, options)};
  }
  text::check_positions(model, options.sequence_length);
  warn_of_positions(model, options.sequence_length);
  if (const auto tokenizer = text::brought_tokenizer(model, request.file))
    return token_data(names, tokens_of(model, *tokenizer, request.file), rows_of(model), options, request);
  check_no_settings(request.text, "with a model that brings no tokenizer (genesis-build --tokenizer)");
  return {.training = data::open_source(data::without_folders(names), options)};
}

}  // namespace genesis::jobs
