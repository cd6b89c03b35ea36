// Generates many texts at a time with a language model, as tokens: requests come and go at any time, and each step chooses one
// token for every text that has a row of the KV cache.
//
//     generation::Engine engine(session);  // session: text::open_for_generation()
//     engine.submit({.prompt = {5, 1, 7},
//                    .options = {.max_tokens = 20, .stop_tokens = {2}},
//                    .on_token = [](const generation::NewToken& token) { return token.token != 9; },
//                    .on_result = [](const generation::Result& result) { std::cout << result.tokens.size(); }});
//     const auto id = engine.submit({.prompt = {3}});  // without callbacks: the result is polled
//     while (engine.step()) {
//     }
//     const auto tokens = engine.poll(id).result->tokens;
//
// Requests get rows in the order of their arrival. A prompt is read in chunks between the steps of the other texts, up to
// EngineOptions::step_tokens a step (chunked prefill); the oldest request is always among those that are read. Texts know nothing
// of their neighbors: on the CPU a text has the same tokens for every number of rows, time of arrival and neighbor, because its
// logits are the same bit for bit. On a GPU, products of more rows are summed in another order, so that a text equals that of its
// prompt alone only up to rounding. The same calls in the same order give the same runs, so that ranks may share a model's layers.
//
// The engine knows tokens only. models/generation/generator.h makes text of them and looks for stop strings.
//
// An engine is for one thread, except for submit(), cancel() and wait(), which any thread may call. Callbacks run inside of step().
// They may call submit(), cancel(), load() and poll(); what they submit or cancel takes effect at the latest at the next step.
//
// Requests that wait for a row get it a few steps later, a share of the rows at a time, if one run reads several prompts (on GPUs, without
// EngineOptions::reproducible) and other texts are being written.
//
// A prompt that several requests have is read once, if they say so (Request::shares_prompt) and the cache has several rows.
//
// An error of one request ends this request alone: Result::error has it. If a step fails because logits are NaN, only the
// requests with such logits end. If a run fails for another reason, all requests that took part in it end.
//
// Asynchronous devices (GPUs) start a step before the host has read the tokens of the previous one. A step that turns out to be
// superfluous is discarded: later steps behave as if it had not run.
#pragma once

#include <memory>
#include <optional>

#include "executor/generation/drafter.h"
#include "executor/generation/request.h"
#include "executor/session.h"

namespace genesis::generation {

// A chunk has up to the smaller of both numbers of tokens. Its size decides on the last bits of what it computes.
struct EngineOptions {
  int64_t prefill_chunk = 512;  // maximum tokens of a prompt per run; a power of two
  int64_t step_tokens =
      512;  // tokens of prompts, with padding, that a step may read before it goes on with texts
  // A step is started before the tokens of the previous one are read. Empty: if the device is asynchronous. With drafts it never
  // is, because they continue the tokens.
  std::optional<bool> run_ahead = {};
  // Speculative decoding: a step may choose several tokens of a text. Steps that need penalties, biases or log-probabilities for
  // any text use no drafts.
  DraftOptions drafts = {};
  // A request without a conversation takes over what the cache still holds of an earlier or present text that begins as its prompt
  // does (executor/generation/prefixes.h). Its text is the same; on a GPU up to rounding.
  bool reuse_prefixes = false;
  // Memory of the host for what the cache held of earlier prompts (executor/generation/prefix_store.h), in bytes. Needs
  // reuse_prefixes, and a cache that can go on from any token. 0: texts are kept in their rows alone, until others get those.
  int64_t prefix_bytes = 0;
  // On a GPU: texts know nothing of their neighbors there either, for the same number of rows and the same prefill_chunk. Prompts are
  // read as on the CPU, one by one in chunks that depend on their length alone, and steps compute all rows, however few texts there are.
  bool reproducible = false;
  // Memory that the rows of the cache share, in bytes. A request waits until what its prompt and `max_tokens` can need is free.
  // Needs a cache with pages (executor/cache_pages.h). 0: every row has memory for its longest text.
  int64_t cache_bytes = 0;
};

// The news of a request since it was polled last.
struct Progress {
  std::vector<int64_t> tokens;
  std::optional<Result> result;  // set once the request has ended; it has all tokens
};

// Numbers of the requests that an engine keeps.
struct Load {
  int64_t queued = 0, reading = 0,
          decoding = 0;   // waiting for a row, with a row whose prompt is read, choosing tokens
  int64_t step_rows = 0;  // rows that a step computes: the first ones, as few as the texts allow
  int64_t finished = 0;   // results that wait for poll()
  int64_t conversations = 0;
  int64_t cache_bytes = 0;   // memory that rows have now; 0 without EngineOptions::cache_bytes
  int64_t prefix_bytes = 0;  // memory of what is kept of earlier prompts
};

struct Work;  // executor/generation/stopwatch.h

class Engine {
 public:
  // `session` runs a model with the entry points of executor/generation/entry_points.h, must outlive this object, and be used by
  // one engine at a time, because its caches hold the texts. Throws Error if the model lacks the entry points.
  explicit Engine(Session& session, EngineOptions options = {});
  ~Engine();
  Engine(Engine&&) noexcept;

  // Adds a request to the queue. Throws Error, and adds nothing, for options out of range, a token outside of the vocabulary, an
  // empty prompt, and a prompt longer than capacity(). The length of a conversation is known only when its turn has come: then
  // the request fails with the same errors. Any thread may call this.
  RequestId submit(Request request);
  // Ends a request: its row is free for the next one in the next step. Its result, with kCancelled, has the tokens so far. Does
  // nothing if the request has ended. Any thread may call this.
  void cancel(RequestId id);

  // Ends cancelled requests, gives free rows to queued ones, reads up to `step_tokens` tokens of prompts, and chooses one token of
  // each text whose prompt is read. Returns false if no request is left. Passes exceptions of on_result on; the request has ended
  // then.
  bool step();
  bool is_idle() const;  // no request is queued or has a row
  // Waits until a request is submitted or cancelled. Returns false if that takes longer. Any thread may call this.
  bool wait(double seconds) const;
  // Returns new tokens of a request, and its result if it has ended, which the engine then forgets. Throws Error if the request
  // has ended and its result was passed to on_result or polled.
  Progress poll(RequestId id);
  // Drops all requests and their results without any callback. Conversations keep their texts.
  void clear();

  // A conversation is a text that requests continue one after another: Request::conversation names it. Its text contains the
  // prompts and all tokens of the results. A request reads only what the cache does not hold yet. Conversations keep their rows
  // while they are open, unless other requests need them; then the next request reads the text again. Models whose rotary
  // frequencies depend on the length of a text always read it again.
  ConversationId open_conversation();
  // The following throw Error for a conversation that is not open; the first two also while a request of it has a row.
  void close_conversation(ConversationId id);
  void truncate_conversation(ConversationId id,
                             int64_t length);  // to its first tokens; Error if the text is shorter
  const std::vector<int64_t>& conversation_tokens(ConversationId id) const;

  // Throws the errors of submit(). `behind` is the number of tokens that the prompt continues.
  void check(const std::vector<int64_t>& prompt, const SamplingOptions& options, int64_t behind = 0) const;

  // Gives the cache this many positions, no fewer than it has. The texts stay in it (Session::grow_cache). Throws Error while a
  // request has a row, and as the session does; then nothing has changed.
  void grow_cache(int64_t positions);

  Load load() const;
  const Work& work() const;    // the runs so far, and their seconds
  int64_t rows() const;        // rows of the cache: texts that are generated at a time
  int64_t capacity() const;    // positions of the KV cache: the longest text
  int64_t vocab_size() const;  // tokens are less than this

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace genesis::generation
