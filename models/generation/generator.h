// Generates text with a language model: reads prompts into the KV cache, then generates token by token.
//
//     Session session = open_for_generation(load_model("qwen.genesis"), {.device = "auto"});
//     Generator generator(session, {.text = byte_text});  // a tokenizer has a StreamDecoder for it
//     auto answer = generator.continue_with(tokens, {.temperature = 0.7, .stop_tokens = {2}}, [](const Piece& piece) {
//       std::cout << piece.text;
//       return true;
//     });
//
// If the cache has several rows (models::with_cache), that many texts are generated at a time. Each is the same as if it were
// generated alone:
//
//     const std::vector<Request> requests = {{.prompt = first}, {.prompt = second, .options = {.seed = 3}}};
//     auto answers = generator.generate_all(requests);
//
// On the CPU the tokens of a text are the same for every number of rows, cache size and neighbor, because its logits are the same
// bit for bit: each prompt is read by itself, and a row of a product is summed as if it were alone. On a GPU, products of more
// rows are summed in another order, so that a text equals that of its prompt alone only up to rounding.
//
// A Generator is a loop around an Engine (executor/generation/engine.h), which serves requests that come at any time.
//
// Tokens are chosen on the device (models/generation/sampling_entries.h), where they are the input of the next step. On
// asynchronous devices (GPUs) the host starts a step before it reads the token of the previous one. A step that turns out to be
// superfluous is discarded: later calls behave as if it had not run.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "executor/generation/drafter.h"
#include "executor/session.h"
#include "models/generation/generate_options.h"

namespace genesis::text {

struct GeneratorOptions {
  std::function<TokenText()> text = {};  // makes one per answer; empty: answers are tokens only
  int64_t prefill_chunk = 512;           // maximum tokens of a prompt per run; a power of two
  std::optional<bool> run_ahead = {};    // empty: if the device is asynchronous
  // Makes what drafts tokens for a cache of this size, once (speculative decoding); empty: no drafts. The session must verify them.
  std::function<std::shared_ptr<generation::Drafter>(const CacheSize& cache)> drafter = {};
  int64_t draft_tokens = 7;  // tokens of a draft at most, 1 to 15
};

// Opens a session over the model extended by the entry points that a Generator needs. Weights are shared with `model`. Throws
// Error if the model has no entry points `prefill` and `decode`. With `verifies`, the session can verify drafted tokens
// (models/generation/verify_entries.h); then throws Error for models that cannot, and for several ranks.
Session open_for_generation(const std::shared_ptr<const Model>& model, SessionOptions options = {},
                            bool verifies = false);

class Generator {
 public:
  // `session` must come from open_for_generation(), outlive this object, and be used by one Generator at a time, because its
  // caches hold the text so far. Starts with an empty text. Throws Error if the session's model lacks the entry points.
  explicit Generator(Session& session, GeneratorOptions options = {});
  ~Generator();
  Generator(Generator&&) noexcept;

  // Appends the prompt to the text so far and continues it; with an empty prompt, continues where the last call stopped. Reads
  // only tokens that the cache does not hold yet. `on_piece` may end the answer by returning false. Afterwards the text so far
  // contains the prompt and all of result.tokens.
  //
  // Throws Error, and leaves the text unchanged, for options out of range, a token outside of the vocabulary, an empty text, and
  // a text longer than capacity(). Throws Error naming the position if a logit is NaN; then the text keeps the
  // tokens chosen before.
  GenerateResult continue_with(const std::vector<int64_t>& prompt, const GenerateOptions& options,
                               const std::function<bool(const Piece&)>& on_piece = {});

  // Begins a text with this prompt and continues it, as continue_with() does after rewind(0). If the last text began so, too, its
  // prompt stays in the cache and is not read again.
  GenerateResult continue_prompt(const std::vector<int64_t>& prompt, const GenerateOptions& options,
                                 const std::function<bool(const Piece&)>& on_piece = {});

  // Returns the next request, or nothing if there are no more.
  using NextRequest = std::function<std::optional<Request>()>;

  // Generates the text of each request. There are as many at a time as the cache has rows; when one ends, the next prompt takes
  // its row. Each text is the one that continue_with() generates for its prompt alone, as said above. Passes each result to
  // `on_result` as it ends, with the index of its request, and keeps none: memory does not grow with the number of requests. The
  // texts so far are dropped.
  //
  // Throws Error, naming the request by its index, if continue_with() would refuse it. Results passed on before any error are
  // complete. Callbacks must not call this generator.
  void generate_each(const NextRequest& next,
                     const std::function<void(size_t request, GenerateResult result)>& on_result);

  // Does the same with a list of requests, all of which are checked first, and returns the results in their order. Calls
  // `on_result` as each one ends.
  //
  // Throws Error before the first step, naming the request by its index, if continue_with() would refuse it.
  std::vector<GenerateResult> generate_all(
      std::span<const Request> requests,
      const std::function<void(size_t request, const GenerateResult& result)>& on_result = {});

  // Throws the errors that continue_with() throws before its first step.
  void check(const std::vector<int64_t>& prompt, const GenerateOptions& options) const;

  // Truncates the text so far to its first `length` tokens, and keeps what the cache holds of them. Throws Error if the text is
  // shorter.
  void rewind(int64_t length);

  // Gives the cache this many positions, no fewer than it has. The texts so far stay in it (Session::grow_cache). Throws Error as
  // the session does; then nothing has changed.
  void grow(int64_t positions);

  const std::vector<int64_t>& tokens() const;  // text so far in the first row of the cache
  int64_t rows() const;                        // rows of the cache
  int64_t capacity() const;                    // positions of the KV cache: the longest text
  int64_t vocab_size() const;                  // tokens are less than this

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// Answers one prompt, starting from an empty text, in a session of open_for_generation().
GenerateResult generate(Session& session, const std::vector<int64_t>& prompt, const GenerateOptions& options,
                        const std::function<bool(const Piece&)>& on_piece = {});

// Bytes as tokens, for models with a vocabulary of 256.
std::vector<int64_t> encode_bytes(const std::string& text);
std::string decode_bytes(const std::vector<int64_t>& tokens);
TokenText byte_text();

}  // namespace genesis::text
