#include "executor/generation/model_drafter.h"

#include <algorithm>
#include <bit>

#include "executor/generation/entry_points.h"
#include "executor/generation/prompt_reader.h"
#include "executor/generation/rewinding.h"
#include "executor/generation/sampling_states.h"

namespace genesis::generation {
namespace {

constexpr int64_t kChunk = 512;   // tokens of a text that one run reads
constexpr int64_t kCatchUp = 16;  // tokens that are read in all rows at once

class ModelDrafter final : public Drafter {
 public:
  ModelDrafter(Session session, int64_t longest)
      : session_(std::move(session)),
        longest_(longest),
        rows_(static_cast<size_t>(rows_of_cache(session_.model()))),
        vocabulary_(vocabulary_of(session_.model().entry("decode"), 2)) {
    if (takes_text_length(session_.model()))
      fail("this model cannot draft: its rotary frequencies depend on the length of the text");
    if (!can_rewind(session_.model()))
      fail("this model cannot draft: its recurrent states cannot go back to the last token that was right");
  }

  void compile() override { session_.plan(decode_name({})); }
  Drafts draft(std::span<const DraftRow> wanted) override;

 private:
  struct Held {
    std::vector<int64_t> tokens;  // tokens of the row that the cache holds
    int64_t most = 0;             // tokens to draft now
    uint64_t group = 0;           // a text of another group is not continued
    int64_t size() const { return std::ssize(tokens); }
  };

  void prepare(std::span<const DraftRow> wanted);
  int64_t unread(size_t row, std::span<const DraftRow> wanted) const;
  void read(std::span<const DraftRow> wanted);
  void read_one(size_t row, const std::vector<int64_t>& text);
  void read_together(std::span<const DraftRow> wanted);
  void set_states(std::span<const DraftRow> wanted);
  void choose(std::span<const DraftRow> wanted, Drafts& drafts);
  int64_t capacity() const { return positions_of_cache(session_.model()); }

  Session session_;
  const int64_t longest_;
  std::vector<Held> rows_;
  const int64_t vocabulary_;
};

Drafts ModelDrafter::draft(std::span<const DraftRow> wanted) {
  Drafts drafts(wanted.size());
  prepare(wanted);
  if (std::ranges::all_of(rows_, [](const Held& row) { return row.most == 0; })) return drafts;
  read(wanted);
  set_states(wanted);
  choose(wanted, drafts);
  return drafts;
}

// Forgets what is not in the texts, and finds out for how many tokens there is room.
void ModelDrafter::prepare(std::span<const DraftRow> wanted) {
  int64_t needed = 0;
  for (size_t r = 0; r < rows_.size(); ++r) {
    Held& row = rows_[r];
    row.most = 0;
    if (wanted[r].most == 0) continue;
    const std::vector<int64_t>& text = *wanted[r].text;
    if (std::exchange(row.group, wanted[r].group) != wanted[r].group) row.tokens.clear();
    const auto same = std::ranges::mismatch(row.tokens, text).in1 - row.tokens.begin();
    row.tokens.resize(static_cast<size_t>(std::min<int64_t>(same, std::ssize(text) - 1)));
    const bool is_known = std::ranges::all_of(text, [&](int64_t token) { return token < vocabulary_; });
    row.most = is_known ? std::clamp<int64_t>(longest_ - std::ssize(text), 0, wanted[r].most) : 0;
    if (row.most > 0) needed = std::max(needed, std::ssize(text) + row.most);
  }
  if (needed > capacity()) session_.grow_cache(std::min(longest_, std::max(needed, 2 * capacity())));
}

// Returns the number of tokens to read: all but the last, which is read when the first token is chosen.
int64_t ModelDrafter::unread(size_t row, std::span<const DraftRow> wanted) const {
  return rows_[row].most == 0 ? 0 : std::ssize(*wanted[row].text) - 1 - rows_[row].size();
}

void ModelDrafter::read(std::span<const DraftRow> wanted) {
  const bool reads_rows = rows_.size() == 1 || session_.model().find_entry(kFillRow);
  for (size_t r = 0; r < rows_.size(); ++r)
    while (reads_rows && unread(r, wanted) > (rows_.size() == 1 ? 0 : kCatchUp)) read_one(r, *wanted[r].text);
  const auto has_unread = [&] {
    for (size_t r = 0; r < rows_.size(); ++r)
      if (unread(r, wanted) > 0) return true;
    return false;
  };
  while (has_unread()) read_together(wanted);
}

void ModelDrafter::read_one(size_t row, const std::vector<int64_t>& text) {
  Held& held = rows_[row];
  const int64_t left = std::ssize(text) - 1 - held.size();
  const auto [size, repeated] = next_chunk(left, held.size(), capacity() - held.size(), {kChunk, false});
  const int64_t begin = held.size() - repeated, count = std::min(size, left + repeated);
  std::vector<int64_t> tokens(text.begin() + begin, text.begin() + begin + count);
  tokens.resize(static_cast<size_t>(size), 0);
  NamedTensors inputs = {{"tokens", Tensor::of<int64_t>({1, size}, tokens)}};
  if (rows_.size() == 1) {
    inputs.emplace("position", Tensor::scalar<int64_t>(begin));
  } else {
    inputs.emplace("position", Tensor::of<int64_t>({1}, {begin}));
    inputs.emplace("length", Tensor::of<int64_t>({1}, {count}));
    inputs.emplace("row", Tensor::scalar<int64_t>(static_cast<int64_t>(row)));
  }
  session_.run(rows_.size() == 1 ? kFillCache : kFillRow, inputs);
  held.tokens.assign(text.begin(), text.begin() + begin + count);
}

void ModelDrafter::read_together(std::span<const DraftRow> wanted) {
  int64_t longest = 0;
  for (size_t r = 0; r < rows_.size(); ++r) longest = std::max(longest, unread(r, wanted));
  const auto size = std::min(kCatchUp, static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(longest))));
  std::vector<int64_t> tokens, positions, lengths;
  for (size_t r = 0; r < rows_.size(); ++r) {
    Held& held = rows_[r];
    const int64_t count = std::min(size, unread(r, wanted));
    positions.push_back(held.size());
    lengths.push_back(count);
    if (count > 0) {
      const auto begin = wanted[r].text->begin() + held.size();
      tokens.insert(tokens.end(), begin, begin + count);
      held.tokens.insert(held.tokens.end(), begin, begin + count);
    }
    tokens.resize((r + 1) * static_cast<size_t>(size), 0);
  }
  const int64_t rows = std::ssize(rows_);
  session_.run(kFillCache, {{"tokens", Tensor::of<int64_t>({rows, size}, tokens)},
                            {"position", Tensor::of<int64_t>({rows}, positions)},
                            {"length", Tensor::of<int64_t>({rows}, lengths)}});
}

// An idle row reads its last token again.
void ModelDrafter::set_states(std::span<const DraftRow> wanted) {
  std::vector<SamplingRow> rows;
  for (size_t r = 0; r < rows_.size(); ++r) {
    const Held& held = rows_[r];
    SamplingRow& row = rows.emplace_back(held.tokens);
    row.position = held.most > 0 ? held.size() : std::max<int64_t>(held.size() - 1, 0);
    if (held.most > 0)
      row.token = wanted[r].text->back();
    else if (held.size() > 0)
      row.token = held.tokens.back();
    if (held.most == 0) continue;
    row.options = wanted[r].options;
    row.remaining = held.most;
  }
  set_sampling_states(session_, rows, vocabulary_, false);
}

void ModelDrafter::choose(std::span<const DraftRow> wanted, Drafts& drafts) {
  int64_t steps = 0, started = 0;
  for (const Held& row : rows_) steps = std::max(steps, row.most);
  const int64_t ahead = session_.is_asynchronous() ? 2 : 1;
  const std::string entry = decode_name({});
  for (int64_t step = 0; step < steps; ++step) {
    for (; started < std::min(steps, step + ahead); ++started) session_.start(entry);
    const NamedTensors outputs = session_.result();
    const auto tokens = outputs.at("token").as<int64_t>();
    for (size_t r = 0; r < rows_.size(); ++r) {
      std::vector<int64_t>& draft = drafts[r];
      const auto& stops = rows_[r].most > 0 ? wanted[r].options->stop_tokens : draft;
      const bool has_ended = !draft.empty() && std::ranges::count(stops, draft.back()) > 0;
      if (step >= rows_[r].most || has_ended) continue;
      rows_[r].tokens.push_back(draft.empty() ? wanted[r].text->back() : draft.back());
      draft.push_back(tokens[r]);
    }
  }
}

}  // namespace

std::shared_ptr<Drafter> make_model_drafter(Session session, int64_t longest) {
  return std::make_shared<ModelDrafter>(std::move(session), longest);
}

}  // namespace genesis::generation
