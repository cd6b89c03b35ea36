// A language model that serves requests of many threads: one thread of its own steps an Engine, in which all texts are generated
// together. A request gets a row of the cache with memory for all that it can need, so whatever has begun can end: nothing is
// preempted, and nothing runs out of memory. Requests that find no row or no memory wait, and beyond the queue they are refused.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "executor/generation/engine.h"
#include "models/chat/chat_template.h"
#include "models/generation/adapter_entries.h"
#include "models/grammar/token_masks.h"
#include "models/serving/json.h"
#include "models/serving/metrics.h"
#include "models/text/text_model.h"

namespace genesis::serving {

struct LanguageOptions {
  SessionOptions session = {};
  // tokenizer, chat_template, context (0: up to 4096 tokens), prefill_chunk, draft, draft_tokens
  text::TextOptions text = {};
  int64_t rows = 4;    // texts at a time
  int64_t queue = 64;  // requests that may wait for a row
  // Memory that the rows share (EngineOptions::cache_bytes); 0: each row has memory for the longest text.
  int64_t cache_bytes = 0;
  int64_t prefix_bytes = 0;  // EngineOptions::prefix_bytes
  bool reproducible = false;  // EngineOptions::reproducible
  // Adapters of which each text has one or none, by number from 1 (generation::Request::adapter). Not with drafts or several ranks.
  std::vector<text::Adapter> adapters = {};
  int64_t step_tokens =
      0;  // tokens of prompts that are read between two steps of the other texts; 0: a chunk
};

// The numbers of a model's cache, known before it is opened.
struct CacheNeeds {
  int64_t rows = 0, positions = 0;
  int64_t weight_bytes = 0, row_bytes = 0;  // the weights with adapters; a row with the longest text
  int64_t page_bytes = 0;                   // 0: there are none, every row has memory for its longest text
  int64_t cache_bytes = 0;                  // all rows
};
CacheNeeds cache_needs(const Model& model, const LanguageOptions& options);
// Returns the memory of a row whose text has this many tokens with its answer; 0 tokens: the row is idle.
int64_t row_bytes(const Model& model, const CacheNeeds& needs, int64_t tokens);
// Returns the memory of the largest step, and of the settings of all rows. Makes plans, which takes a moment.
int64_t step_bytes(const std::shared_ptr<const Model>& model, const LanguageOptions& options);
// Returns how many such texts the cache holds at a time.
int64_t texts_of(const Model& model, const CacheNeeds& needs, int64_t tokens);

class LanguageModel {
 public:
  // Opens the session and starts the thread. Throws Error as TextModel::open() does, and if the host's memory cannot hold the
  // cache.
  LanguageModel(const std::shared_ptr<const Model>& model, const std::string& file,
                const LanguageOptions& options, Metrics& metrics);
  ~LanguageModel();  // drops the requests that have not ended
  LanguageModel(const LanguageModel&) = delete;
  LanguageModel& operator=(const LanguageModel&) = delete;

  // All of the following may be called by any thread.

  std::vector<int64_t> encode(const std::string& text, bool add_special_tokens) const;
  std::string decode(const std::vector<int64_t>& tokens) const { return texts_.decode(tokens); }
  text::TokenText token_text() const;  // makes text of the tokens of one answer
  std::string token_bytes(
      int64_t token) const;  // the bytes that a token stands for; an added token is its name
  // The tokens by their bytes, for grammars; made at the first call.
  std::shared_ptr<const grammar::TokenTree> token_tree() const;
  // Returns the prompt of a conversation. `messages` and `variables` (tools and others) are JSON of the request. Throws ApiError
  // if there is no template or it refuses the messages.
  std::string render(const Json& messages, const Json& variables) const;
  // Returns true if the template has calls of tools between <tool_call> and </tool_call>.
  bool marks_tool_calls() const {
    return template_ && template_->source().find("<tool_call>") != std::string::npos;
  }
  // Returns the options of a request: its own, else the makers'.
  text::GenerateOptions options(const text::GenerateSettings& settings, bool is_chat) const;

  // Throws ApiError for a prompt that is empty, longer than the context, or has other tokens than the model. Returns the tokens
  // that may follow it.
  int64_t room_behind(const std::vector<int64_t>& prompt) const;
  // Reserves places for `count` requests. Throws ApiError with the status 429 if the queue is full. submit() uses a place, which
  // is free again when the request has ended.
  void reserve(int64_t count);
  void release(int64_t count);
  // Starts a request. Its callbacks run in the thread of the engine, for which other texts wait; on_result must be set.
  generation::RequestId submit(generation::Request request);
  void cancel(generation::RequestId id) { engine_->cancel(id); }

  bool is_idle() const { return taken_ == 0; }
  int64_t rows() const { return engine_->rows(); }
  int64_t capacity() const { return engine_->capacity(); }
  int64_t vocab_size() const { return engine_->vocab_size(); }
  const text::TextModel& texts() const { return texts_; }

 private:
  void load_template(const text::TextOptions& options);
  generation::EngineOptions engine_options() const;
  void run();

  const LanguageOptions options_;
  Metrics& metrics_;
  const text::TextModel texts_;
  const bool has_byte_alphabet_;
  std::optional<chat::ChatTemplate> template_;
  std::string no_template_;  // the reason if there is none
  text::GenerateOptions makers_;
  std::vector<int64_t> chat_ends_;  // tokens that end an answer of a conversation, beside those of `makers_`
  mutable std::once_flag tree_made_;
  mutable std::shared_ptr<const grammar::TokenTree> tree_;
  std::optional<Session> session_;
  std::optional<generation::Engine> engine_;
  std::atomic<int64_t> taken_ = 0;  // places of requests that were reserved and have not ended
  std::atomic<bool> stops_ = false;
  std::thread thread_;
};

}  // namespace genesis::serving
