// A model that scores pairs of texts, as CrossEncoder.predict() and rank() of sentence-transformers do: an encoder with a classifier of
// texts (models/encoder.h), and its tokenizer.
//
//     auto reranker = text::CrossEncoder::open("reranker.genesis");
//     for (const text::Ranked& one : reranker.rank("what do cats eat", documents))
//       std::cout << one.score << " " << documents[one.index] << "\n";
//
// It is for one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "executor/session_options.h"
#include "models/text/encoder_texts.h"

namespace genesis::text {

struct PairOptions {
  int64_t batch = 32;  // pairs of a run at most
  OnTruncated on_truncated = {};
};

// A document among those that were ranked.
struct Ranked {
  size_t index;
  double score;
};

class CrossEncoder {
 public:
  // Opens a .genesis file, or the newest checkpoint of a folder. Throws Error that names the file if the model is no classifier of
  // texts, or if its tokenizer cannot be used.
  static CrossEncoder open(const std::string& path, SessionOptions session = {});
  // Does the same with a loaded model; `file` is its name, for messages.
  CrossEncoder(std::shared_ptr<const Model> model, const std::string& file, SessionOptions session = {});
  ~CrossEncoder();
  CrossEncoder(CrossEncoder&&) noexcept;

  // Returns the scores f32[pairs, labels]: the logits, or their sigmoids if config.json says so, or if it says nothing and there is
  // one label.
  Tensor scores(const std::vector<std::pair<std::string, std::string>>& pairs,
                const PairOptions& options = {});
  // Returns all documents, those with the highest scores first. Throws Error for a model with several labels.
  std::vector<Ranked> rank(const std::string& query, const std::vector<std::string>& documents,
                           const PairOptions& options = {});

  int64_t labels() const;
  int64_t longest_text() const;  // counts the tokens of both texts; 0: no limit is known
  Session& session();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace genesis::text
