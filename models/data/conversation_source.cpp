#include "models/data/conversation_source.h"

#include <algorithm>

#include "models/data/batch_size.h"
#include "models/data/packing.h"
#include "models/data/permutation.h"
#include "models/data/sources.h"
#include "schema/ops/nn/loss.h"

namespace genesis::data {
namespace {

// Returns the positions that a sample takes. Its last token is only a target.
int64_t length_of(const chat::Sample& sample) { return static_cast<int64_t>(sample.tokens.size()) - 1; }

// Counts the targets of a sample. Its first token cannot be one, because no token precedes it.
int64_t targets_of(const chat::Sample& sample) {
  return sample.is_target.empty() ? 0
                                  : std::count(sample.is_target.begin() + 1, sample.is_target.end(), true);
}

int64_t* rows_of(NamedTensors& batch, const char* name, const TensorType& type, int64_t value) {
  std::byte* data;
  batch.emplace(name, Tensor::uninitialized(type, &data));
  auto* values = reinterpret_cast<int64_t*>(data);
  std::fill(values, values + type.bytes() / static_cast<int64_t>(sizeof(int64_t)), value);
  return values;
}

}  // namespace

// Pointers to one row of a batch to write; positions and segments are null without packing.
struct ConversationSource::Row {
  int64_t *tokens, *targets, *positions, *segments;
};

ConversationSource::ConversationSource(std::vector<chat::Sample> samples, const ConversationOptions& options)
    : options_(options) {
  tokens_in_batch(options.batch_size, options.sequence_length, options.pack ? 4 : 2);
  take(std::move(samples));
  make_rows();
  const auto rows = static_cast<int64_t>(rows_.size());
  batches_ = options.fill_last ? divided_up(rows, options.batch_size) : rows / options.batch_size;
  if (batches_ < 1)
    fail("the conversations fill {} rows of {} tokens, one batch needs {}: give more conversations{}{}", rows,
         options.sequence_length, options.fill_last ? 1 : options.batch_size,
         options.fill_last ? "" : " or smaller batches",
         statistics_.without_targets == 0
             ? ""
             : fmt::format(
                   "; {} samples have nothing to learn in their first {} tokens: give longer rows (--seq)",
                   statistics_.without_targets, options.sequence_length));
}

void ConversationSource::take(std::vector<chat::Sample> samples) {
  const auto most = static_cast<size_t>(options_.sequence_length) + 1;
  for (chat::Sample& sample : samples) {
    const bool is_cut = sample.tokens.size() > most;
    if (is_cut) {
      sample.tokens.resize(most);
      sample.is_target.resize(most);
    }
    const int64_t targets = targets_of(sample);
    if (targets == 0) {
      ++statistics_.without_targets;
      continue;
    }
    statistics_.cut += is_cut;
    statistics_.tokens += length_of(sample);
    statistics_.targets += targets;
    samples_.push_back(std::move(sample));
  }
  statistics_.samples = static_cast<int64_t>(samples_.size());
}

void ConversationSource::make_rows() {
  const auto count = static_cast<int64_t>(samples_.size());
  const Permutation order(std::max<int64_t>(count, 1), options_.seed, 0);
  std::vector<size_t> shuffled;
  for (int64_t i = 0; i < count; ++i)
    shuffled.push_back(static_cast<size_t>(options_.shuffle ? order[i] : i));
  if (options_.pack) {
    std::vector<int64_t> lengths;
    for (const size_t sample : shuffled) lengths.push_back(length_of(samples_[sample]));
    rows_ = pack(lengths, options_.sequence_length);
    for (auto& row : rows_)
      for (size_t& sample : row) sample = shuffled[sample];
  } else {
    for (const size_t sample : shuffled) rows_.push_back({sample});
  }
  statistics_.rows = static_cast<int64_t>(rows_.size());
}

void ConversationSource::write_row(const std::vector<size_t>& samples, const Row& row) const {
  int64_t at = 0;
  for (size_t segment = 0; segment < samples.size(); ++segment) {
    const chat::Sample& sample = samples_[samples[segment]];
    for (int64_t i = 0; i < length_of(sample); ++i, ++at) {
      const auto next = static_cast<size_t>(i) + 1;
      row.tokens[at] = sample.tokens[static_cast<size_t>(i)];
      if (sample.is_target[next]) row.targets[at] = sample.tokens[next];
      if (!row.segments) continue;
      row.positions[at] = i;
      row.segments[at] = static_cast<int64_t>(segment);
    }
  }
}

NamedTensors ConversationSource::batch(int64_t position) {
  const int64_t epoch = position / batches_, first = position % batches_ * options_.batch_size;
  const auto count = static_cast<int64_t>(rows_.size());
  const Permutation order(count, options_.seed, static_cast<uint64_t>(epoch) + 1);
  const TensorType type{DType::i64, {options_.batch_size, options_.sequence_length}};
  NamedTensors batch;
  Row row{rows_of(batch, "tokens", type, options_.pad_token), rows_of(batch, "targets", type, kIgnoredTarget),
          nullptr, nullptr};
  if (options_.pack) {
    row.positions = rows_of(batch, "positions", type, 0);
    row.segments = rows_of(batch, "segments", type, -1);
  }
  for (int64_t i = 0; i < std::min(options_.batch_size, count - first); ++i) {
    write_row(rows_[static_cast<size_t>(options_.shuffle ? order[first + i] : first + i)], row);
    for (int64_t** column : {&row.tokens, &row.targets, &row.positions, &row.segments})
      if (*column) *column += options_.sequence_length;
  }
  return batch;
}

int64_t ConversationSource::items_per_batch() const {
  const double tokens_of_row =
      static_cast<double>(statistics_.tokens) / static_cast<double>(std::max<int64_t>(statistics_.rows, 1));
  return static_cast<int64_t>(tokens_of_row * static_cast<double>(options_.batch_size));
}

}  // namespace genesis::data
