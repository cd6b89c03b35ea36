// Tokens as training data: rows that do not overlap, taken from the mapped shards as they are asked for.
#include "models/data/permutation.h"
#include "models/data/sources.h"

namespace genesis::data {
namespace {

class TokenSource final : public BatchSource {
 public:
  TokenSource(TokenStream tokens, const SourceOptions& options)
      : tokens_(std::move(tokens)),
        options_(options),
        rows_((tokens_.size() - 1) / options.sequence_length),
        batches_(rows_ / options.batch_size) {
    if (batches_ < 1)
      fail("there are {} tokens, one batch of {} x {} needs {}: give more text or smaller batches",
           tokens_.size(), options.batch_size, options.sequence_length,
           options.batch_size * options.sequence_length + 1);
  }

  NamedTensors batch(int64_t position) override {
    const int64_t first = position % batches_ * options_.batch_size;
    const Permutation order(rows_, options_.seed, static_cast<uint64_t>(position / batches_));
    const TensorType type{DType::i64, {options_.batch_size, options_.sequence_length}};
    std::byte *tokens_data, *targets_data;
    Tensor tokens = Tensor::uninitialized(type, &tokens_data),
           targets = Tensor::uninitialized(type, &targets_data);
    for (int64_t i = 0; i < options_.batch_size; ++i) {
      const int64_t row = options_.shuffle ? order[first + i] : first + i;
      read_row(row, reinterpret_cast<int64_t*>(tokens_data) + i * options_.sequence_length,
               reinterpret_cast<int64_t*>(targets_data) + i * options_.sequence_length);
    }
    return {{"tokens", tokens}, {"targets", targets}};
  }

  int64_t items_per_batch() const override { return options_.batch_size * options_.sequence_length; }
  int64_t batches_per_epoch() const override { return batches_; }

 private:
  void read_row(int64_t row, int64_t* tokens, int64_t* targets) const {
    tokens_.read(row * options_.sequence_length, options_.sequence_length, tokens);
    tokens_.read(row * options_.sequence_length + 1, options_.sequence_length, targets);
  }

  TokenStream tokens_;
  SourceOptions options_;
  int64_t rows_, batches_;
};

}  // namespace

std::unique_ptr<BatchSource> token_source(TokenStream tokens, const SourceOptions& options) {
  if (options.batch_size < 1 || options.sequence_length < 1)
    fail("batch size {} and sequence length {} must be positive", options.batch_size,
         options.sequence_length);
  return std::make_unique<TokenSource>(std::move(tokens), options);
}

}  // namespace genesis::data
