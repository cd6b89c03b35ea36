#include "executor/generation/speculation.h"

#include <algorithm>
#include <bit>

#include "executor/generation/entry_points.h"
#include "schema/messages/log.h"

namespace genesis::generation {
namespace {

// Returns the least N of a verify_N that reads these tokens.
int64_t size_for(int64_t tokens) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(tokens, 2))));
}

}  // namespace

Speculation::Speculation(Session& session, std::vector<Row>& rows, DraftOptions options)
    : session_(session), rows_(rows), options_(std::move(options)) {
  if (options_.most < 1 || options_.most >= kMaxVerified)
    fail("a draft of {} tokens: expected 1 to {}", options_.most, kMaxVerified - 1);
  if (!session.model().find_entry(verify_name(2)))
    fail("the session's model verifies no drafts: open it with open_for_generation(model, options, true)");
}

std::vector<std::string> Speculation::entries(int64_t most) {
  std::vector<std::string> names;
  for (int64_t size = 2; size <= size_for(most + 1); size *= 2) names.push_back(verify_name(size));
  return names;
}

// Returns the number of tokens that may be drafted: the last one that is chosen is never read, and padding, which the only row
// writes to the cache, must fit in it.
int64_t Speculation::room_of(const Row& row) const {
  const int64_t capacity = positions_of_cache(session_.model()), read = row.text->size() - 1;
  int64_t size = kMaxVerified;
  while (size > 1 && (rows_.size() == 1 ? read + size : size) > capacity) size /= 2;
  return std::min({size - 1, capacity - read - 1, row.task->remaining() - 1});
}

std::vector<DraftRow> Speculation::wanted() {
  std::vector<DraftRow> wanted(rows_.size());
  for (size_t r = 0; r < rows_.size(); ++r) {
    Row& row = rows_[r];
    if (!row.goes_on()) continue;
    const int64_t room = room_of(row);
    wanted[r] = {&row.text->tokens, &row.task->options(),
                 room > 0 ? std::min(room, row.task->draft_length().next()) : 0, row.text->group};
  }
  return wanted;
}

Drafts Speculation::draft() {
  if (has_given_up_) return {};
  const std::vector<DraftRow> wanted = this->wanted();
  if (std::ranges::all_of(wanted, [](const DraftRow& row) { return row.most == 0; })) return {};
  Drafts drafts;
  try {
    drafts = options_.drafter->draft(wanted);
  } catch (const Error& error) {
    has_given_up_ = true;
    log_warning("no more tokens are drafted, the texts go on without: {}", error.what());
    return {};
  }
  const int64_t vocabulary = vocabulary_of(session_.model().entry("decode"), 2);
  for (size_t r = 0; r < rows_.size(); ++r) {
    auto& draft = drafts[r];
    const auto is_unknown = [&](int64_t token) { return token < 0 || token >= vocabulary; };
    draft.resize(static_cast<size_t>(std::min(wanted[r].most, std::ssize(draft))));
    draft.erase(std::ranges::find_if(draft, is_unknown), draft.end());
  }
  return drafts;
}

bool Speculation::step() {
  const Drafts drafts = draft();
  int64_t longest = 0;
  for (const auto& draft : drafts) longest = std::max(longest, std::ssize(draft));
  if (longest == 0) return false;
  const int64_t size = size_for(longest + 1);
  const NamedTensors outputs = verify(drafts, size);
  const auto chosen = outputs.at("token").as<int64_t>();
  for (size_t r = 0; r < rows_.size(); ++r)
    if (rows_[r].goes_on())
      take(r, drafts[r], chosen.subspan(r * static_cast<size_t>(size), drafts[r].size() + 1));
  return true;
}

// A row that is idle reads nothing.
NamedTensors Speculation::verify(const Drafts& drafts, int64_t size) {
  std::vector<int64_t> tokens, positions, lengths;
  for (size_t r = 0; r < rows_.size(); ++r) {
    const Row& row = rows_[r];
    const bool goes_on = row.goes_on();
    positions.push_back(goes_on ? row.text->size() - 1 : 0);
    lengths.push_back(goes_on ? std::ssize(drafts[r]) + 1 : 0);
    if (goes_on) tokens.push_back(row.text->tokens.back());
    tokens.insert(tokens.end(), drafts[r].begin(), drafts[r].end());
    tokens.resize((r + 1) * static_cast<size_t>(size), 0);
  }
  const int64_t rows = std::ssize(rows_);
  return with_context(
      [&] {
        return session_.run(verify_name(size), {{"tokens", Tensor::of<int64_t>({rows, size}, tokens)},
                                                {"position", Tensor::of<int64_t>({rows}, positions)},
                                                {"length", Tensor::of<int64_t>({rows}, lengths)}});
      },
      [] { return std::string("while drafted tokens were verified"); });
}

// `chosen` has one token more than the draft.
void Speculation::take(size_t row, const std::vector<int64_t>& draft, std::span<const int64_t> chosen) {
  Task& task = *rows_[row].task;
  size_t accepted = 0;
  while (accepted < draft.size() && chosen[accepted] == draft[accepted]) ++accepted;
  const int64_t before = task.taken();
  for (size_t i = 0; i <= accepted && task.goes_on(); ++i) task.take(chosen[i]);
  task.count_step(std::ssize(draft),
                  std::min<int64_t>(static_cast<int64_t>(accepted), task.taken() - before));
}

}  // namespace genesis::generation
