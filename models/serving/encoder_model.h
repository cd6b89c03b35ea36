// An encoder that serves requests of many threads: vectors of texts, and scores of pairs. One request at a time runs, and a
// limited number waits.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "models/text/cross_encoder.h"
#include "models/text/embedder.h"

namespace genesis::serving {

class EncoderModel {
 public:
  // Returns null if the model makes no vectors and scores no pairs.
  static std::unique_ptr<EncoderModel> open(const std::shared_ptr<const Model>& model,
                                            const std::string& file, const SessionOptions& options);

  bool makes_vectors() const { return embedder_.has_value(); }
  bool scores_pairs() const { return scorer_.has_value(); }
  // These wait for their turn. They throw ApiError with the status 429 if too many wait.
  Tensor embed(const std::vector<std::string>& texts, const text::EmbedOptions& options);
  std::vector<text::Ranked> rank(const std::string& query, const std::vector<std::string>& documents);
  int64_t features() const { return embedder_->features(); }
  // Returns the tokens that the model reads of a text, or of a pair.
  int64_t tokens_of(const std::string& text) const;
  int64_t tokens_of(const std::string& first, const std::string& second) const;
  bool is_idle() const { return waiting_ == 0; }

 private:
  EncoderModel(const Model& model, const std::string& file) : texts_(model, file) {}
  template <class Work>
  auto in_turn(const Work& work);

  text::EncoderTexts texts_;
  std::optional<text::Embedder> embedder_;
  std::optional<text::CrossEncoder> scorer_;
  std::mutex mutex_;                  // guards the sessions
  std::atomic<int64_t> waiting_ = 0;  // requests that run or wait
};

}  // namespace genesis::serving
