// Text from a language model: reads prompts into the KV cache and makes token after token.
//
//   Session session = open_for_generation(load_model("qwen.genesis"), {.device = "auto"});
//   Generator generator(session, {.text = byte_text});  // models/text/generate.h; a tokenizer has a StreamDecoder for it
//   auto answer = generator.continue_with(tokens, {.temperature = 0.7, .stop_tokens = {2}}, [](const Piece& piece) {
//     std::cout << piece.text;
//     return true;
//   });
//
// Where the cache has several rows (models::with_cache), as many texts are made at a time, and each is what it is alone:
//
//   auto answers = generator.generate_all({{.prompt = first}, {.prompt = second, .options = {.seed = 3}}});
//
// On the CPU a text has the same tokens for every number of rows, size of the cache and neighbour, bit for bit: each prompt is
// read by itself, and a row of a product is added up as if it were alone. On a GPU products of more rows add in
// another order, so that a text is that of its prompt alone up to rounding.
//
// Each token is chosen on the device (models/text/sampling_entries.h) and is the next step's input there. Where
// steps go on by themselves (on a GPU), the host starts a step before it reads the token of the one before. A
// step that was started and is not wanted any more is forgotten: all that later calls see is as if it had not run.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "executor/session.h"
#include "models/text/request.h"

namespace genesis::text {

struct GeneratorOptions {
  std::function<TokenText()> text = {};  // a new one for each answer; empty: answers are tokens only
  int64_t prefill_chunk = 512;           // tokens of a prompt that one run reads at most; a power of two
  std::optional<bool> run_ahead = {};    // empty: where the device runs by itself
};

// A session over the model with the entry points that a Generator needs. Weights are shared with `model`.
// Throws Error where the model has no entry points `prefill` and `decode`.
Session open_for_generation(const std::shared_ptr<const Model>& model, SessionOptions options = {});

class Generator {
 public:
  // The session is open_for_generation()'s, outlives this and is used by one Generator at a time: its caches are the
  // text so far. Starts with an empty text. Throws Error where the session's model lacks the entry points.
  explicit Generator(Session& session, GeneratorOptions options = {});
  ~Generator();
  Generator(Generator&&) noexcept;

  // Appends the prompt to the text so far and goes on from there; an empty prompt goes on where the last call
  // stopped. Only what the cache does not hold yet is read. `on_piece` may end the answer by returning false.
  // Afterwards the text so far has the prompt and all of result.tokens.
  //
  // Throws Error, and the text is as before, for options out of range, a token that the vocabulary has not, an
  // empty text, and a text longer than capacity(). Throws Error naming the position when the model's logits are
  // not numbers; then the text so far is what was sure before.
  GenerateResult continue_with(const std::vector<int64_t>& prompt, const GenerateOptions& options,
                               const std::function<bool(const Piece&)>& on_piece = {});

  // The next request, or nothing where there are no more.
  using NextRequest = std::function<std::optional<Request>()>;

  // The text of each request. As many are made at a time as the cache has rows; when one ends, the next prompt takes its row.
  // A text is the one that continue_with() makes of its prompt alone, as said above. `on_result` is given each as it
  // ends, with the number of its request, and nothing is kept: memory does not grow with the number of requests. The texts so far are
  // forgotten.
  //
  // Throws Error, naming the request by its number, where one is not fit for continue_with(); whatever is thrown, results
  // that were given are whole. Callbacks may not call this generator.
  void generate_each(const NextRequest& next,
                     const std::function<void(size_t request, GenerateResult result)>& on_result);

  // The same with requests that are there already, all of which are checked first: the results, in their order.
  // `on_result` is told of each as it ends.
  //
  // Throws Error before the first step, naming the request by its place, where one is not fit for continue_with().
  std::vector<GenerateResult> generate_all(
      std::span<const Request> requests,
      const std::function<void(size_t request, const GenerateResult& result)>& on_result = {});

  // Throws what continue_with() would before its first step.
  void check(const std::vector<int64_t>& prompt, const GenerateOptions& options) const;

  // Makes the text so far its first `length` tokens. What the cache holds of them is kept. Throws Error when the
  // text is shorter.
  void rewind(int64_t length);

  const std::vector<int64_t>& tokens() const;  // the text so far: that of the cache's first row
  int64_t rows() const;                        // of the cache
  int64_t capacity() const;                    // positions of the KV cache: the longest text that can be read
  int64_t vocab_size() const;                  // tokens are below it

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace genesis::text
