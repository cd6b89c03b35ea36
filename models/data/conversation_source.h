// Samples of conversations as batches, one a row or several packed into a row.
//
//   tokens, targets   i64[batch, seq]: each token and the next, -100 where that is not to be learnt or nothing follows
//   positions         i64[batch, seq]: of each token in its sample, from 0
//   segments          i64[batch, seq]: which sample of its row a token belongs to, from 0; -1 behind the last
//
// The last two only with `pack`: attention must keep the samples of a row apart. Without, what stands behind a sample's end is
// never seen by what counts, since attention is causal.
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
  int64_t pad_token = 0;  // behind the last sample of a row
  // Whether the last rows of an epoch that do not fill a batch come in one that is filled up with rows without targets.
  bool fill_last = false;
};

// Rows are made once, of samples in an order by seed; which rows a batch has is a new order every epoch. The last rows of an
// epoch that do not fill a batch are left out where `fill_last` does not keep them.
class ConversationSource : public BatchSource {
 public:
  // Samples that are longer than a row lose their end, and those without targets are left out. Throws Error where what is left
  // does not fill a batch, or with `fill_last` where nothing is.
  ConversationSource(std::vector<chat::Sample> samples, const ConversationOptions& options);

  NamedTensors batch(int64_t position) override;
  int64_t items_per_batch() const override;  // tokens of samples, on average
  int64_t batches_per_epoch() const override { return batches_; }

  struct Statistics {
    int64_t samples = 0, rows = 0, tokens = 0;  // that are learnt from
    int64_t targets = 0;                        // of the tokens: those that the loss counts
    int64_t cut = 0, without_targets = 0;       // samples
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
