#include "models/text/evaluation_texts.h"

#include <algorithm>
#include <optional>

#include "models/chat/conversation.h"
#include "models/corpus/documents.h"
#include "models/data/conversation_files.h"
#include "models/data/conversations.h"
#include "models/data/sources.h"
#include "models/generation/generator.h"
#include "models/generation/vocabulary.h"
#include "models/text/load_tokenizer.h"
#include "models/tokenizer/tokenizer.h"
#include "models/tokenizer/unicode/byte_alphabet.h"
#include "schema/core/setting_error.h"
#include "schema/file/format/utf8.h"
#include "schema/file/io/file_ending.h"
#include "schema/messages/log.h"

namespace genesis::text {
namespace {

// Returns the texts of a .jsonl, each line being a text of its own.
std::vector<std::string> texts_of_lines(const std::string& path, const std::string& all, bool skip_bad) {
  std::vector<std::string> texts;
  int64_t number = 0, skipped = 0;
  corpus::for_each_line(all, [&](std::string_view line) {
    ++number;
    try {
      if (std::string text = corpus::document_in(line); !text.empty()) texts.push_back(std::move(text));
    } catch (const Error& error) {
      if (!skip_bad) fail("{}:{}: {}; --skip-bad leaves such lines out", path, number, error.message());
      ++skipped;
    }
  });
  if (skipped > 0) log_warning("{} lines without a document were left out", skipped);
  return texts;
}

std::vector<std::string> read_texts(const TextSource& source, bool as_bytes) {
  std::string all = data::read_text(source.data);
  if (is_json_lines(source.data)) return texts_of_lines(source.data, all, source.skip_bad);
  if (source.skip_bad)
    fail_setting("--skip-bad does nothing with '{}': it leaves lines of .jsonl files out", source.data);
  if (const size_t valid = utf8::valid_bytes(all); !as_bytes && valid < all.size())
    data::warn_of_repaired(fmt::format("byte {} of '{}'", valid, source.data));
  return {std::move(all)};
}

// Returns the number of bytes of text in a token, which may be a part of a character; 0 for a token without text.
size_t bytes_of(const Tokenizer& tokenizer, int64_t id) {
  const std::string text = tokenizer.decode(std::vector<int64_t>{id});
  const std::string token = tokenizer.id_to_token(id).value_or("");
  const auto bytes = alphabet_bytes(token);
  return text.empty() || text == token || !bytes ? text.size() : bytes->size();
}

// Returns the beginning of a text from which its first `most` tokens are made, if a token has at most 16 bytes.
std::string_view beginning_of(std::string_view text, int64_t most) {
  constexpr size_t kTokenBytes = 16;
  const auto tokens = static_cast<size_t>(most);
  return tokens < text.size() / kTokenBytes ? text.substr(0, kTokenBytes * tokens) : text;
}

// Returns the tokens of the texts. A text of one token has nothing to predict and is left out.
EvaluationTexts tokens_of(const std::vector<std::string>& texts, const std::optional<Tokenizer>& tokenizer,
                          int64_t most) {
  EvaluationTexts result{.are_bytes = !tokenizer};
  int64_t left = most;
  for (const std::string& text : texts) {
    if (left < 2) break;
    const std::string begin(beginning_of(text, left));
    std::vector<int64_t> tokens = tokenizer ? tokenizer->encode(begin) : encode_bytes(begin);
    if (std::ssize(tokens) > left) tokens.resize(static_cast<size_t>(left));
    if (tokens.size() < 2) continue;
    const size_t first = tokenizer ? bytes_of(*tokenizer, tokens[0]) : 1;
    result.bytes += static_cast<int64_t>(begin.size() - std::min(first, begin.size()));
    left -= std::ssize(tokens);
    result.tokens.push_back(std::move(tokens));
  }
  if (result.tokens.empty()) fail("the data has no text of two tokens or more");
  return result;
}

// Returns the tokens of conversations, where only the messages of the assistant count.
EvaluationTexts conversations(const std::vector<std::string>& names, const TextSource& source,
                              const Model& model, const std::string& file, const Tokenizer& tokenizer,
                              int64_t most) {
  const auto files = config_files(source.tokenizer, model, file);
  const chat::SampleMaker maker(chat::ChatTemplate::from(files), tokenizer);
  data::Conversations read = data::read_conversations({names.begin(), names.end()}, maker, source.skip_bad);
  warn_of_skipped(read);
  EvaluationTexts texts;
  int64_t left = most;
  for (chat::Sample& sample : read.samples) {
    if (left < 2) break;
    if (std::ssize(sample.tokens) > left) {
      sample.tokens.resize(static_cast<size_t>(left));
      sample.is_target.resize(static_cast<size_t>(left));
    }
    left -= std::ssize(sample.tokens);
    for (size_t i = 1; i < sample.tokens.size(); ++i)
      if (sample.is_target[i]) texts.bytes += static_cast<int64_t>(bytes_of(tokenizer, sample.tokens[i]));
    texts.tokens.emplace_back(sample.tokens.begin(), sample.tokens.end());
    texts.counts.push_back(std::move(sample.is_target));
  }
  return texts;
}

}  // namespace

int64_t EvaluationTexts::longest() const {
  int64_t longest = 0;
  for (const auto& text : tokens) longest = std::max(longest, std::ssize(text));
  return longest;
}

EvaluationTexts read_evaluation_texts(const TextSource& source, const Model& model, const std::string& file,
                                      int64_t most) {
  const auto tokenizer =
      load_fitting_tokenizer(source.tokenizer, model, file, vocabulary_of(model.entry("forward"), 3));
  const auto files = data::conversation_files({source.data});
  EvaluationTexts texts = tokenizer && !files.empty()
                              ? conversations(files, source, model, file, *tokenizer, most)
                              : tokens_of(read_texts(source, !tokenizer), tokenizer, most);
  check_tokens_fit(texts, model, file);
  return texts;
}

void check_tokens_fit(const EvaluationTexts& texts, const Model& model, const std::string& file) {
  const int64_t vocabulary = vocabulary_of(model.entry("forward"), 3);
  if (texts.are_bytes && vocabulary != 256)
    fail("{} has a vocabulary of {}, and the text was read as bytes, which are 256", file, vocabulary);
  for (const auto& tokens : texts.tokens)
    for (const int64_t token : tokens)
      if (token >= vocabulary)
        fail("the text has the token {}, and {} has a vocabulary of {}: it goes with another tokenizer",
             token, file, vocabulary);
}

}  // namespace genesis::text
