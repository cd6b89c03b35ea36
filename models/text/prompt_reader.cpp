#include "models/text/prompt_reader.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "models/text/sampling_entries.h"

namespace genesis::text {
namespace {

// Rows that cost little beside reading the weights for one of them.
constexpr int64_t kCheapRows = 32;

}  // namespace

int64_t next_chunk(int64_t unread, int64_t room, int64_t most) {
  if (unread >= most) return most;
  const auto padded = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(unread)));
  const bool is_waste = padded > kCheapRows && 4 * (padded - unread) > padded;
  if (padded <= room && padded <= most && !is_waste) return padded;
  return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(unread)));
}

PromptReader::PromptReader(Session& session, std::vector<Row>& rows, std::vector<size_t> fresh, int64_t most)
    : session_(session), rows_(rows), fresh_(std::move(fresh)) {
  const Answer& first = *rows_[fresh_[0]].answer;
  const std::string entry = prefill_name(features_of(first.options()));
  if (rows_.size() == 1 && first.remaining() > 0 && session_.model().find_entry(entry))
    sampling_entry_ = entry;
  const auto each = static_cast<uint64_t>(std::max<int64_t>(1, most / std::ssize(rows_)));
  cut(static_cast<int64_t>(std::bit_floor(each)));
  if (sampling_entry_.empty()) return;
  chunks_.back().entry = sampling_entry_;
  if (chunks_.back().parts[0].count > 1) return;
  chunks_.pop_back();  // a step of decode_and_sample reads it
  sampling_entry_.clear();
}

// What is read before the next token is chosen, where decode_and_sample reads the last one.
int64_t PromptReader::end_of(const Row& row) const {
  const bool leaves_one = row.goes_on() && sampling_entry_.empty();
  return row.text.size() - (leaves_one ? 1 : 0);
}

void PromptReader::cut(int64_t most) {
  std::vector<Part> read(rows_.size());
  for (const size_t r : fresh_) read[r].at = rows_[r].text.cached;
  for (;;) {
    int64_t unread = 0, room = std::numeric_limits<int64_t>::max();
    for (const size_t r : fresh_) unread = std::max(unread, end_of(rows_[r]) - read[r].at);
    if (unread == 0) return;
    // Of several rows padding is not written.
    if (rows_.size() == 1) room = rows_[0].text.capacity - read[0].at;
    Chunk& chunk = chunks_.emplace_back(kFillCache, next_chunk(unread, room, most), read);
    for (const size_t r : fresh_) {
      Part& part = chunk.parts[r];
      part.count = std::min(chunk.size, end_of(rows_[r]) - part.at);
      read[r].at = part.at + part.count;
    }
  }
}

std::vector<std::pair<std::string, int64_t>> PromptReader::plans() const {
  std::vector<std::pair<std::string, int64_t>> plans;
  for (const Chunk& chunk : chunks_) plans.emplace_back(chunk.entry, chunk.size);
  return plans;
}

void PromptReader::fill_cache() {
  for (const Chunk& chunk : chunks_) {
    if (chunk.entry != kFillCache) continue;
    session_.run(chunk.entry, inputs_of(chunk));
    for (const size_t r : fresh_) rows_[r].text.cached = chunk.parts[r].at + chunk.parts[r].count;
  }
}

Decoding::First PromptReader::last() const {
  if (sampling_entry_.empty()) return {};
  return {sampling_entry_, inputs_of(chunks_.back())};
}

NamedTensors PromptReader::inputs_of(const Chunk& chunk) const {
  std::vector<int64_t> tokens, positions, lengths;
  for (size_t r = 0; r < rows_.size(); ++r) {
    const auto begin = rows_[r].text.tokens.begin() + chunk.parts[r].at;
    tokens.insert(tokens.end(), begin, begin + chunk.parts[r].count);
    tokens.resize((r + 1) * static_cast<size_t>(chunk.size), 0);
    positions.push_back(chunk.parts[r].at);
    lengths.push_back(chunk.parts[r].count);
  }
  const auto rows = std::ssize(rows_);
  NamedTensors inputs = {{"tokens", Tensor::of<int64_t>({rows, chunk.size}, tokens)}};
  if (rows > 1) {
    inputs.emplace("position", Tensor::of<int64_t>({rows}, positions));
    inputs.emplace("length", Tensor::of<int64_t>({rows}, lengths));
    return inputs;
  }
  inputs.emplace("position", Tensor::scalar<int64_t>(positions[0]));
  if (chunk.entry != kFillCache) inputs.emplace("last", Tensor::scalar<int64_t>(lengths[0] - 1));
  return inputs;
}

}  // namespace genesis::text
