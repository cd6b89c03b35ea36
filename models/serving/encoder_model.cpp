#include "models/serving/encoder_model.h"

#include "models/serving/api_error.h"

namespace genesis::serving {
namespace {

constexpr int64_t kWaiting = 64;

// Counts a request while it exists.
class Turn {
 public:
  explicit Turn(std::atomic<int64_t>& count) : count_(count) { ++count_; }
  ~Turn() { --count_; }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  std::atomic<int64_t>& count_;
};

}  // namespace

std::unique_ptr<EncoderModel> EncoderModel::open(const std::shared_ptr<const Model>& model,
                                                 const std::string& file, const SessionOptions& options) {
  const bool has_vectors = model->find_entry("embed"), is_encoder = model->find_entry("hidden");
  if (!has_vectors && !is_encoder) return nullptr;
  std::unique_ptr<EncoderModel> made(new EncoderModel(*model, file));
  if (has_vectors) made->embedder_.emplace(model, file, options);
  try {
    if (is_encoder) made->scorer_.emplace(model, file, options);
  } catch (const Error&) {
    if (!has_vectors) throw;  // an encoder without classifier may still make vectors
  }
  return made;
}

template <class Work>
auto EncoderModel::in_turn(const Work& work) {
  const Turn turn(waiting_);
  if (waiting_ > kWaiting)
    throw ApiError(
        429, "rate_limit_error", "queue_full",
        fmt::format("{} requests wait, which are all that this server takes: try again later", kWaiting));
  const std::lock_guard lock(mutex_);
  return work();
}

Tensor EncoderModel::embed(const std::vector<std::string>& texts, const text::EmbedOptions& options) {
  return in_turn([&] { return embedder_->encode(texts, options); });
}

std::vector<text::Ranked> EncoderModel::rank(const std::string& query,
                                             const std::vector<std::string>& documents) {
  return in_turn([&] { return scorer_->rank(query, documents); });
}

int64_t EncoderModel::tokens_of(const std::string& text) const { return std::ssize(texts_.encode(text).ids); }

int64_t EncoderModel::tokens_of(const std::string& first, const std::string& second) const {
  return std::ssize(texts_.encode(first, second).ids);
}

}  // namespace genesis::serving
