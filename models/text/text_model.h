// A language model that takes text and gives text: a .genesis file with its tokenizer, its chat template, and the sampling
// settings of its makers.
//
//     auto model = text::TextModel::open("qwen.genesis", {.device = "auto"});
//     std::cout << model.generate("Once upon a time", {.max_tokens = 50}).text;
//     text::Chat chat = model.chat({.system = "Be brief."});
//     chat.answer("What is the capital of France?", [](const text::Piece& piece) {
//       std::cout << piece.text;
//       return true;
//     });
//
// Texts and conversations of a model share one session and its KV cache, which grows with them up to what the model can read.
// All of them are for one thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "executor/session_options.h"
#include "models/generation/generator.h"
#include "models/text/generate_settings.h"
#include "models/tokenizer/tokenizer.h"

namespace genesis::chat {
class ConfigFiles;
class Dialogue;
}  // namespace genesis::chat

namespace genesis::text {

// Called for each new piece of an answer; returns false to end it.
using OnPiece = std::function<bool(const Piece&)>;

struct TextOptions {
  // A tokenizer.json, a folder or a model with one, whose settings and chat template apply too. Empty: the model's own; a model
  // without one has bytes as tokens.
  std::string tokenizer = {};
  std::string chat_template =
      {};               // another chat template, a file .jinja; empty: the one beside the tokenizer
  int64_t context = 0;  // positions of the KV cache; 0: those of the file, and more where a text needs them
  // "q8": keys and values in 8 bits, with a scale for each head of a token (passes/core/quantized_cache.h), in about half the bytes
  // of bf16. Empty: as the model declares them. Not for several ranks.
  std::string cache_dtype = {};
  int64_t prefill_chunk = 512;  // tokens of a prompt that one run reads at most; a power of two
  // Speculative decoding: "ngram" drafts tokens from what a text repeats, a name of another model with the same tokens drafts with
  // that model. Texts stay the same, on a GPU up to rounding. Empty: no drafts. Not for several ranks.
  std::string draft = {};
  int64_t draft_tokens = 7;  // tokens of a draft at most, 1 to 15
  std::function<void(int64_t positions)> on_growth =
      {};  // called after the cache was replaced by a longer one
};

struct ChatOptions {
  std::string system = {};         // instructions for the model, ahead of the conversation; empty: none
  std::string variables = {};      // a JSON object that the template sees: {"enable_thinking": false}
  GenerateSettings generate = {};  // max_tokens is 1024 without a value
};

// Throws SettingError unless the text can be ChatOptions::variables.
void check_variables(const std::string& json);

// A conversation. It may outlive the TextModel that made it.
class Chat {
 public:
  ~Chat();
  Chat(Chat&&) noexcept;

  // Answers a message; the answer belongs to the conversation, also if `on_piece` ended it. Throws Error, and leaves the
  // conversation unchanged, if the template refuses the message or the conversation exceeds the context.
  GenerateResult answer(const std::string& message, const OnPiece& on_piece = {});
  void reset();  // begins a new conversation with the same instructions

  chat::Dialogue& dialogue();  // more of it: undoing, saving, answering again (models/chat/dialogue.h)
  std::string template_place() const;  // path of the chat template

 private:
  friend class TextModel;
  struct Impl;
  explicit Chat(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

class TextModel {
 public:
  // Opens a .genesis file, or the newest checkpoint of a folder. Throws Error that names the file if it is no language model
  // with the entry points prefill and decode, or if the tokenizer is invalid or another model's.
  static TextModel open(const std::string& path, SessionOptions session = {}, TextOptions options = {});
  // Does the same with a loaded model; `file` is its name, for messages. It must be shared by all ranks of `session`.
  TextModel(std::shared_ptr<const Model> model, const std::string& file, SessionOptions session = {},
            TextOptions options = {});
  ~TextModel();
  TextModel(TextModel&&) noexcept;

  // Continues a text. Throws Error for a prompt that is empty or longer than the context.
  GenerateResult generate(const std::string& prompt, const GenerateSettings& settings = {},
                          const OnPiece& on_piece = {});
  // Continues a text that is given as tokens.
  GenerateResult generate_from(const std::vector<int64_t>& prompt, const GenerateSettings& settings = {},
                               const OnPiece& on_piece = {});
  // Continues a text `count` times, the n-th time, from 0, with the seed plus n. The prompt is read once.
  std::vector<GenerateResult> generate_samples(const std::vector<int64_t>& prompt, int64_t count,
                                               const GenerateSettings& settings = {});
  // Begins a conversation. Throws SettingError for variables that are no JSON object, and Error if there is no tokenizer or no
  // template.
  Chat chat(const ChatOptions& options = {});

  const std::string& file() const;
  const Model& model() const;                         // its caches are those of the session
  const std::optional<Tokenizer>& tokenizer() const;  // empty: tokens are bytes
  std::vector<int64_t> encode(const std::string& text) const;
  std::string decode(const std::vector<int64_t>& tokens) const;
  const std::vector<int64_t>& end_tokens() const;  // the tokens that end a text; empty without a tokenizer
  int64_t vocab_size() const;
  // Returns the length of the longest text in tokens, prompt and answer: the context, or else what the model can read.
  int64_t longest_text() const;
  // Returns the options that `settings` result in, with the makers' settings and end tokens. `standard` applies where neither
  // has one.
  GenerateOptions options(const GenerateSettings& settings, const GenerateOptions& standard = {}) const;
  chat::ConfigFiles config_files() const;  // files of the tokenizer (models/chat/json_config.h)

  // Makes the cache long enough for a text of `tokens` tokens, or as long as the context that the options fix. The text so far
  // stays in it; only ranks open a new session, without the text.
  void make_room(int64_t tokens);
  // Gives the cache `rows` texts of `positions` tokens, so that many texts are generated at a time (Generator::generate_each).
  // Call it before the session is opened. Throws Error as models::with_cache() does, and if the host has too little memory
  // for such a cache.
  void set_cache(int64_t rows, int64_t positions);
  // The session and its generator, opened at the first call.
  Session& session();
  Generator& generator();

 private:
  friend class Chat;
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace genesis::text
