// Serves non-overlapping rows of one long stream of tokens as batches. Text and token shards share this code.
#pragma once

#include <algorithm>

#include "models/data/batch_size.h"
#include "models/data/permutation.h"
#include "models/data/sources.h"
#include "schema/ops/nn/loss.h"

namespace genesis::data {

// A `Stream` has size() and read(first, count, int64_t* tokens).
template <class Stream>
class RowSource final : public BatchSource {
 public:
  // Requires a stream that fills at least one batch: make_row_source() checks that.
  RowSource(Stream stream, const SourceOptions& options)
      : stream_(std::move(stream)),
        options_(options),
        rows_(rows_in(stream_.size(), options)),
        batches_(options.fill_last ? divided_up(rows_, options.batch_size) : rows_ / options.batch_size) {}

  NamedTensors batch(int64_t position) override {
    const int64_t first = position % batches_ * options_.batch_size, length = options_.sequence_length;
    const Permutation order(rows_, options_.seed, static_cast<uint64_t>(position / batches_));
    const TensorType type{DType::i64, {options_.batch_size, length}};
    std::byte *tokens_data, *targets_data;
    Tensor tokens = Tensor::uninitialized(type, &tokens_data),
           targets = Tensor::uninitialized(type, &targets_data);
    for (int64_t i = 0; i < options_.batch_size; ++i) {
      const int64_t begin =
          first + i >= rows_ ? stream_.size() : (options_.shuffle ? order[first + i] : first + i) * length;
      read_row(begin, 0, reinterpret_cast<int64_t*>(tokens_data) + i * length);
      read_row(begin + 1, kIgnoredTarget, reinterpret_cast<int64_t*>(targets_data) + i * length);
    }
    return {{"tokens", tokens}, {"targets", targets}};
  }

  int64_t items_per_batch() const override { return options_.batch_size * options_.sequence_length; }
  int64_t batches_per_epoch() const override { return batches_; }

 private:
  // Returns the number of rows. Every token but the last is followed by its target.
  static int64_t rows_in(int64_t tokens, const SourceOptions& options) {
    const int64_t length = options.sequence_length;
    return options.fill_last ? divided_up(tokens - 1, length) : (tokens - 1) / length;
  }

  // Reads one row of the stream from `begin` on, and writes `filling` behind the end of the stream.
  void read_row(int64_t begin, int64_t filling, int64_t* row) const {
    const int64_t there = std::clamp<int64_t>(stream_.size() - begin, 0, options_.sequence_length);
    if (there > 0) stream_.read(begin, there, row);
    std::fill(row + there, row + options_.sequence_length, filling);
  }

  Stream stream_;
  SourceOptions options_;
  int64_t rows_, batches_;
};

// Throws Error for sizes that are not positive or too large (batch_size.h), and if the stream is shorter than one batch. `what`
// says how long it is: "the text has 8 bytes".
template <class Stream>
std::unique_ptr<BatchSource> make_row_source(Stream stream, const SourceOptions& options,
                                             const std::string& what) {
  const int64_t batch = options.batch_size, length = options.sequence_length;
  const int64_t tokens = tokens_in_batch(batch, length, 2), needed = options.fill_last ? 2 : tokens + 1;
  if (stream.size() < needed)
    fail("{}, one batch of {} x {} tokens needs {}: give more text{}", what, batch, length, needed,
         options.fill_last ? "" : " or smaller batches");
  return std::make_unique<RowSource<Stream>>(std::move(stream), options);
}

}  // namespace genesis::data
