#include "executor/generation/prompt_reader.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "executor/generation/entry_points.h"
#include "executor/generation/prefixes.h"
#include "executor/generation/rewinding.h"

namespace genesis::generation {
namespace {

// The tokens of kCheapTokens on a GPU, which multiplies 150 to 300 times for each byte that it reads.
constexpr int64_t kCheapTokensOfGpu = 128;

// Returns the largest size of a chunk of up to so many tokens. Sizes are powers of two and, above `cheap`, three quarters of them.
int64_t size_up_to(int64_t tokens, int64_t cheap) {
  const auto power = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(tokens)));
  return power >= cheap && tokens >= power / 2 * 3 ? power / 2 * 3 : power;
}
int64_t size_from(int64_t tokens, int64_t cheap) {
  const auto whole = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(tokens)));
  return whole > cheap && tokens <= whole / 4 * 3 ? whole / 4 * 3 : whole;
}

// Pads a chunk by up to a quarter, and by more if that takes no longer than two chunks.
ChunkSize next_fast_chunk(int64_t unread, int64_t read, int64_t room, const ChunkLimits& limits) {
  const int64_t part = size_up_to(unread, limits.cheap), whole = size_from(unread, limits.cheap),
                missing = whole - unread;
  const auto cost = [&](int64_t tokens) { return std::max(tokens, limits.cheap); };
  if (whole <= limits.most && (4 * missing <= whole || cost(whole) <= cost(part) + cost(unread - part))) {
    if (missing <= read) return {whole, missing};
    if (whole <= room) return {whole};
  }
  return {part};
}

}  // namespace

ChunkSize next_chunk(int64_t unread, int64_t read, int64_t room, const ChunkLimits& limits) {
  if (unread >= limits.most) return {limits.most};
  const auto part = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(unread)));
  if (!limits.may_pad) return {part};
  if (!limits.by_length_alone) return next_fast_chunk(unread, read, room, limits);
  const auto whole = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(unread))),
             missing = whole - unread;
  const bool is_cheap = whole <= kCheapTokens;
  if (is_cheap || 4 * missing <= whole) {
    if (missing <= read) return {whole, missing};
    if (!is_cheap) return {part};
    // The room is tiny. Kernels pad up to kCheapTokens rows to a power of two anyway, so the bits are the same.
    return {whole <= room ? whole : unread};
  }
  return {part};
}

PromptReader::Limits PromptReader::limits_of(const Session& session, int64_t prefill_chunk,
                                             int64_t step_tokens, bool reproducible) {
  if (prefill_chunk < 1 || !std::has_single_bit(static_cast<uint64_t>(prefill_chunk)))
    fail("a prefill chunk of {} tokens: expected a power of two", prefill_chunk);
  if (step_tokens < 1) fail("step_tokens is {}: a step must be able to read a token", step_tokens);
  const uint64_t least = static_cast<uint64_t>(std::min(prefill_chunk, step_tokens));
  return {static_cast<int64_t>(std::bit_floor(least)), positions_of_cache(session.model()),
          reproducible || !session.is_asynchronous(),
          session.is_asynchronous() ? kCheapTokensOfGpu : kCheapTokens};
}

PromptReader::PromptReader(Session& session, std::vector<Row>& rows, std::vector<size_t> reading,
                           const Limits& limits)
    : session_(session),
      rows_(rows),
      reading_(std::move(reading)),
      limits_(limits),
      can_rewind_(can_rewind(session.model())) {
  if (limits_.by_length_alone)
    cut_by_length_alone();
  else
    cut_for_speed();
}

void PromptReader::cut_by_length_alone() {
  if (rows_.size() == 1)
    chunks_ = cut_one_by_one(kFillCache);
  else if (session_.model().find_entry(kFillRow))
    chunks_ = cut_one_by_one(kFillRow);
  else
    chunks_ = cut_together();
}

void PromptReader::cut_for_speed() {
  const Task& first = *rows_[reading_[0]].task;
  const std::string entry = prefill_name(features_of(first.options()));
  if (rows_.size() == 1 && first.remaining() > 0 && session_.model().find_entry(entry))
    sampling_entry_ = entry;
  chunks_ = cut_together();
  if (session_.model().find_entry(kFillRow))
    if (auto one_by_one = cut_one_by_one(kFillRow); cost_of(one_by_one) < cost_of(chunks_))
      chunks_ = std::move(one_by_one);
  if (session_.has_entry(kFillPacked))
    if (auto packed = cut_packed(); time_of(packed) < time_of(chunks_)) chunks_ = std::move(packed);
  if (sampling_entry_.empty()) return;
  chunks_.back().entry = sampling_entry_;
  if (chunks_.back().parts[0].count > 1) return;
  chunks_.pop_back();  // decode_and_sample reads its only token
  sampling_entry_.clear();
}

// Returns the end of the tokens that are read before the next one is chosen: decode_and_sample reads the last one itself.
int64_t PromptReader::end_of(const Row& row) const {
  const bool leaves_one = row.task->remaining() > 0 && sampling_entry_.empty();
  return row.text->size() - (leaves_one ? 1 : 0);
}

// Chunks with all rows in each run; rows with nothing left to read have a count of 0.
std::vector<PromptReader::Chunk> PromptReader::cut_together() const {
  std::vector<size_t> all(rows_.size());
  std::iota(all.begin(), all.end(), size_t{0});
  const auto each = static_cast<uint64_t>(std::max<int64_t>(1, limits_.chunk / std::ssize(rows_)));
  return cut(kFillCache, all, static_cast<int64_t>(std::bit_floor(each)));
}

std::vector<PromptReader::Chunk> PromptReader::cut_one_by_one(const char* entry) const {
  std::vector<Chunk> chunks;
  for (const size_t row : reading_)
    for (Chunk& chunk : cut(entry, {row}, limits_.chunk)) chunks.push_back(std::move(chunk));
  return chunks;
}

// Packs the prompts that are read from their first token on, each into the first run with room for it.
std::vector<PromptReader::Chunk> PromptReader::cut_packed() const {
  struct Pack {
    std::vector<size_t> rows;
    int64_t tokens = 0;
  };
  std::vector<Pack> packs;
  for (const size_t row : reading_) {
    const int64_t cached = rows_[row].text->cached, unread = end_of(rows_[row]) - cached;
    if (unread == 0) continue;
    const int64_t tokens = cached > 0 ? limits_.chunk : unread;
    const auto room = std::ranges::find_if(packs, [&](const Pack& pack) {
      return std::ssize(pack.rows) < kPackedTexts && pack.tokens + tokens <= limits_.chunk;
    });
    Pack& pack = room == packs.end() ? packs.emplace_back() : *room;
    pack.rows.push_back(row);
    pack.tokens += tokens;
  }
  std::vector<Chunk> chunks;
  for (const Pack& pack : packs) {
    std::vector<Chunk> each;
    for (const size_t row : pack.rows)
      std::ranges::move(cut(kFillRow, {row}, limits_.chunk), std::back_inserter(each));
    if (pack.rows.size() > 1)
      if (std::vector<Chunk> together = {packed(pack.rows)}; time_of(together) < time_of(each))
        each = std::move(together);
    std::ranges::move(each, std::back_inserter(chunks));
  }
  return chunks;
}

// Returns a time as that of so many tokens. Each run takes a while beyond its tokens', and writing several rows of each cache another one.
int64_t PromptReader::time_of(const std::vector<Chunk>& chunks) {
  constexpr int64_t kRun = 256, kPacked = 384;
  int64_t tokens = 0;
  for (const Chunk& chunk : chunks) tokens += kRun + chunk.tokens() + (chunk.is_packed() ? kPacked : 0);
  return tokens;
}

PromptReader::Chunk PromptReader::packed(const std::vector<size_t>& rows) const {
  Chunk chunk{.entry = kFillPacked, .rows = rows, .parts = {}};
  for (const size_t row : rows) {
    chunk.parts.push_back({0, end_of(rows_[row])});
    chunk.size += chunk.parts.back().count;
  }
  // Few sizes: the first run of each waits for its plan. A text's tokens are written from a tensor of this size, which must not be
  // longer than the cache.
  const auto whole = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(chunk.size)));
  const int64_t most = std::min(limits_.chunk, std::ssize(rows_) * limits_.capacity),
                least = std::max<int64_t>(limits_.chunk / 4, 1);
  chunk.size = std::clamp(whole, std::min(least, most), most);
  return chunk;
}

bool PromptReader::is_reading(size_t row) const { return std::ranges::find(reading_, row) != reading_.end(); }

std::vector<PromptReader::Chunk> PromptReader::cut(const char* entry, const std::vector<size_t>& rows,
                                                   int64_t most) const {
  std::vector<Chunk> chunks;
  std::vector<Part> read;
  for (const size_t r : rows) read.push_back({is_reading(r) ? rows_[r].text->cached : 0, 0});
  const auto unread = [&](size_t i) {
    return is_reading(rows[i]) ? end_of(rows_[rows[i]]) - read[i].at : int64_t{0};
  };
  for (;;) {
    int64_t longest = 0;
    for (size_t i = 0; i < rows.size(); ++i) longest = std::max(longest, unread(i));
    if (longest == 0) return chunks;
    // Several rows may begin at different positions, and repeat no tokens; recurrent states cannot.
    const int64_t before = rows.size() == 1 && can_rewind_ ? read[0].at : 0;
    // With several rows, padding is not written to the cache; still no chunk may be longer than the cache.
    const int64_t room = limits_.capacity - (rows_.size() == 1 ? read[0].at : 0);
    // A recurrent state would read the padding of a cache of one row, whose entry points take no lengths. Where chunks depend on
    // the text alone, more rows are read in the same chunks.
    const bool may_pad = can_rewind_ || (rows_.size() > 1 && !limits_.by_length_alone);
    const auto [size, repeated] =
        next_chunk(longest, before, room, {most, limits_.by_length_alone, may_pad, limits_.cheap});
    for (size_t i = 0; i < rows.size(); ++i) {
      read[i].at -= repeated;
      read[i].count = std::min(size, unread(i));
    }
    chunks.push_back({entry, size, rows, read});
    for (Part& part : read) part.at += part.count;
  }
}

// Returns a cost in tokens. A run of few tokens costs as much as reading the weights.
int64_t PromptReader::cost_of(const std::vector<Chunk>& chunks) const {
  int64_t tokens = 0;
  for (const Chunk& chunk : chunks) tokens += std::max(limits_.cheap, chunk.tokens());
  return tokens;
}

std::vector<std::pair<std::string, int64_t>> PromptReader::plans() const {
  std::vector<std::pair<std::string, int64_t>> plans;
  for (const Chunk& chunk : chunks_) plans.emplace_back(chunk.entry, chunk.size);
  return plans;
}

void PromptReader::fill_cache(int64_t budget, const std::function<void(size_t row)>& on_read,
                              RunTimes& times) {
  for (; next_ < chunks_.size() && chunks_[next_].entry != sampling_entry_; ++next_) {
    const Chunk& chunk = chunks_[next_];
    if (next_ > 0 && chunk.tokens() > budget) return;
    budget -= chunk.tokens();
    times.measure(chunk.tokens(), [&] { session_.run(chunk.entry, inputs_of(chunk)); });
    for (size_t i = 0; i < chunk.rows.size(); ++i)
      if (const Part& part = chunk.parts[i]; part.count > 0) {
        Text& text = *rows_[chunk.rows[i]].text;
        text.cached = part.at + part.count;
        text.shareable =
            shareable_after(text.shareable, part.at, part.count, limits_.by_length_alone ? limits_.chunk : 1);
        on_read(chunk.rows[i]);
      }
  }
}

std::vector<size_t> PromptReader::rows_of(const Chunk& chunk) {
  std::vector<size_t> rows;
  for (size_t i = 0; i < chunk.rows.size(); ++i)
    if (chunk.parts[i].count > 0) rows.push_back(chunk.rows[i]);
  return rows;
}

std::vector<size_t> PromptReader::rows_of_next_chunk() const {
  return next_ < chunks_.size() ? rows_of(chunks_[next_]) : reading_;
}

bool PromptReader::has_read(size_t row) const {
  for (size_t i = next_; i < chunks_.size() && chunks_[i].entry != sampling_entry_; ++i)
    if (std::ranges::count(rows_of(chunks_[i]), row) > 0) return false;
  return true;
}

Decoding::First PromptReader::last() const {
  if (sampling_entry_.empty()) return {};
  return {sampling_entry_, inputs_of(chunks_.back())};
}

// Padding is a text of its own, which is written nowhere.
NamedTensors PromptReader::inputs_of_packed(const Chunk& chunk) const {
  std::vector<int64_t> tokens, positions, first, begins, lengths, places;
  for (size_t i = 0; i < chunk.rows.size(); ++i) {
    const int64_t count = chunk.parts[i].count;
    const auto& text = rows_[chunk.rows[i]].text->tokens;
    begins.push_back(std::ssize(tokens));
    tokens.insert(tokens.end(), text.begin(), text.begin() + count);
    first.resize(tokens.size(), begins.back());
    for (int64_t place = 0; place < count; ++place) positions.push_back(place);
    lengths.push_back(count);
    places.push_back(static_cast<int64_t>(chunk.rows[i]) * limits_.capacity);
  }
  first.resize(static_cast<size_t>(chunk.size), std::ssize(tokens));
  for (auto* each : {&tokens, &positions}) each->resize(first.size(), 0);
  for (auto* each : {&begins, &lengths, &places}) each->resize(kPackedTexts, 0);
  const auto of_tokens = [&](const auto& values) { return Tensor::of<int64_t>({1, chunk.size}, values); };
  const auto of_texts = [&](const auto& values) { return Tensor::of<int64_t>({kPackedTexts}, values); };
  return {{"tokens", of_tokens(tokens)}, {"position", of_tokens(positions)}, {"first", of_tokens(first)},
          {"begin", of_texts(begins)},   {"length", of_texts(lengths)},      {"place", of_texts(places)}};
}

NamedTensors PromptReader::inputs_of(const Chunk& chunk) const {
  if (chunk.is_packed()) return inputs_of_packed(chunk);
  std::vector<int64_t> tokens, positions, lengths, texts;
  for (size_t i = 0; i < chunk.rows.size(); ++i) {
    const Part& part = chunk.parts[i];
    const auto begin = rows_[chunk.rows[i]].text->tokens.begin() + part.at;
    tokens.insert(tokens.end(), begin, begin + part.count);
    tokens.resize((i + 1) * static_cast<size_t>(chunk.size), 0);
    positions.push_back(part.at);
    lengths.push_back(part.count);
    texts.push_back(rows_[chunk.rows[i]].text->size());
  }
  const auto rows = std::ssize(chunk.rows);
  NamedTensors inputs = {{"tokens", Tensor::of<int64_t>({rows, chunk.size}, tokens)}};
  const bool is_one = rows_.size() == 1;
  if (takes_text_length(session_.model()))
    inputs.emplace("text_length",
                   is_one ? Tensor::scalar<int64_t>(texts[0]) : Tensor::of<int64_t>({rows}, texts));
  if (is_one) {
    inputs.emplace("position", Tensor::scalar<int64_t>(positions[0]));
    if (chunk.entry == sampling_entry_) inputs.emplace("last", Tensor::scalar<int64_t>(lengths[0] - 1));
    return inputs;
  }
  inputs.emplace("position", Tensor::of<int64_t>({rows}, positions));
  inputs.emplace("length", Tensor::of<int64_t>({rows}, lengths));
  if (chunk.entry == kFillRow)
    inputs.emplace("row", Tensor::scalar<int64_t>(static_cast<int64_t>(chunk.rows[0])));
  return inputs;
}

}  // namespace genesis::generation
