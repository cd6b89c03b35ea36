// Serves samples of conversations as batches, with one sample per row or several packed into a row.
//
// tokens, targets   i64[batch, seq]: each token and its next token; the target is -100 if it is not learned or does not exist
//   positions         i64[batch, seq]: position of each token in its sample, from 0
//   segments          i64[batch, seq]: index in the row of the sample that a token belongs to, from 0; -1 for padding
//
// Only batches with `pack` have the last two, because attention must keep the samples of a row apart. Without `pack`, no target
// depends on the padding behind a sample, since attention is causal.
#pragma once

#include "executor/training/batch_source.h"
#include "models/chat/conversation.h"

namespace genesis::data {

struct ConversationOptions {
  int64_t batch_size = 8;
  int64_t sequence_length = 1024;
  uint64_t seed = 0;
  bool shuffle = true;
  bool pack = false;
  int64_t pad_token = 0;  // fills a row behind its last sample
  // Keep the last rows of an epoch that do not fill a batch: fill the batch with rows without targets.
  bool fill_last = false;
};

// Builds rows once, from samples in an order given by the seed. Every epoch distributes the rows to batches in a new order. The
// last rows of an epoch that do not fill a batch are dropped unless `fill_last` is set.
class ConversationSource : public BatchSource {
 public:
  // Truncates samples that are longer than a row, and drops those without targets. Throws Error if the remaining rows do not fill
  // a batch; with `fill_last`, if there is no row.
  ConversationSource(std::vector<chat::Sample> samples, const ConversationOptions& options);

  NamedTensors batch(int64_t position) override;
  int64_t items_per_batch() const override;  // average number of tokens that belong to samples
  int64_t batches_per_epoch() const override { return batches_; }

  struct Statistics {
    int64_t samples = 0, rows = 0, tokens = 0;  // trained on, after dropping and truncating
    int64_t targets = 0;                        // tokens that the loss counts
    int64_t cut = 0, without_targets = 0;       // samples that were truncated; that were dropped
  };
  const Statistics& statistics() const { return statistics_; }

 private:
  struct Row;
  void take(std::vector<chat::Sample> samples);
  void make_rows();
  void write_row(const std::vector<size_t>& samples, const Row& row) const;

  ConversationOptions options_;
  std::vector<chat::Sample> samples_;
  std::vector<std::vector<size_t>> rows_;
  Statistics statistics_;
  int64_t batches_ = 0;
};

}  // namespace genesis::data
