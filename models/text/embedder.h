// A model that makes vectors of texts, as SentenceTransformer.encode() does: a .genesis file with the entry point `embed`
// (models/vectors.h), its tokenizer, its prompts and its longest text.
//
//     auto embedder = text::Embedder::open("minilm.genesis", {.device = "auto"});
//     const Tensor vectors = embedder.encode({"A cat sat on the mat.", "Stocks fell on Monday."});  // f32[2, features]
//     std::cout << embedder.similarity(vectors, vectors).as<float>()[1];
//
// It is for one thread at a time.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "executor/session_options.h"
#include "models/text/encoder_texts.h"

namespace genesis::text {

struct EmbedOptions {
  // The text that precedes every text: the model's prompt of this name, or `prompt`. Neither: the model's default prompt, if it has
  // one.
  std::string prompt_name = {};
  std::optional<std::string> prompt = {};
  bool normalize = false;  // vectors get the length 1, also of models that do not do that
  int64_t dimensions = 0;  // the vectors' first numbers that are kept; 0: all
  int64_t batch = 32;      // texts of a run at most
  OnTruncated on_truncated = {};
};

class Embedder {
 public:
  // Opens a .genesis file, or the newest checkpoint of a folder. Throws Error that names the file if the model makes no vectors, or
  // if its tokenizer or a file of its settings cannot be used.
  static Embedder open(const std::string& path, SessionOptions session = {});
  // Does the same with a loaded model; `file` is its name, for messages.
  Embedder(std::shared_ptr<const Model> model, const std::string& file, SessionOptions session = {});
  ~Embedder();
  Embedder(Embedder&&) noexcept;

  // Returns the vectors f32[texts, features]. A vector does not depend on the other texts, up to rounding. Throws Error for a prompt
  // that the model does not have, and for more dimensions than there are.
  Tensor encode(const std::vector<std::string>& texts, const EmbedOptions& options = {});
  // Returns the similarity of each vector of `a` with each of `b`: f32[n, m] for f32[n, features] and f32[m, features]. It is the
  // model's: cosine, dot product, or a distance (euclidean, manhattan) times -1.
  Tensor similarity(const Tensor& a, const Tensor& b) const;

  int64_t features() const;      // numbers of a vector
  int64_t longest_text() const;  // in tokens; longer texts are truncated. 0: no limit is known
  const std::map<std::string, std::string>& prompts() const;
  Session& session();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace genesis::text
