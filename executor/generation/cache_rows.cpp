#include "executor/generation/cache_rows.h"

#include <algorithm>
#include <utility>

#include "executor/generation/entry_points.h"
#include "schema/core/error.h"

namespace genesis::generation {

int64_t CacheRows::free() const {
  return std::ranges::count_if(rows_, [](const Row& row) { return row.task == nullptr; });
}

bool CacheRows::has_reading() const { return std::ranges::any_of(rows_, &Row::is_reading); }

std::vector<size_t> CacheRows::reading() const {
  std::vector<size_t> reading;
  for (size_t r = 0; r < rows_.size(); ++r)
    if (rows_[r].is_reading()) reading.push_back(r);
  std::ranges::sort(reading, {}, [&](size_t r) { return rows_[r].task->id(); });
  return reading;
}

Row* CacheRows::find(RequestId id) {
  const auto found =
      std::ranges::find_if(rows_, [&](const Row& row) { return row.task && row.task->id() == id; });
  return found == rows_.end() ? nullptr : &*found;
}

Row* CacheRows::find_free(ConversationId conversation) {
  if (const auto found = held_.find(conversation); found != held_.end() && found->second.row) {
    Row& own = rows_[*found->second.row];
    return own.task ? nullptr : &own;
  }
  Row* best = nullptr;
  for (Row& row : rows_) {
    if (row.task) continue;
    // The first of the rows that hold nothing is taken, so that steps need few rows.
    const auto order = [](const Row& one) {
      return std::pair(one.conversation != 0, one.text->tokens.empty() ? 0 : one.last_used);
    };
    if (!best || order(row) < order(*best)) best = &row;
  }
  return best;
}

void CacheRows::assign(Row& row, ConversationId conversation) {
  if (row.conversation != 0 && row.conversation == conversation) return;
  if (row.conversation != 0) take_row(held_.at(row.conversation));
  row.text = std::make_shared<Text>();
  if (conversation == 0) return;
  Held& holder = held_.at(conversation);
  holder.row = static_cast<size_t>(&row - rows_.data());
  row.text = holder.text;
  row.conversation = conversation;
}

void CacheRows::exchange(size_t row, size_t other) {
  std::swap(rows_[row], rows_[other]);
  for (const size_t at : {row, other})
    if (rows_[at].conversation != 0) held_.at(rows_[at].conversation).row = at;
}

void CacheRows::release(Row& row) {
  row.task.reset();
  row.last_used = ++released_;
  // The next steps read the last cached token again, one at a time, which may change its last bits.
  row.text->shareable = std::max<int64_t>(std::min(row.text->shareable, row.text->cached - 1), 0);
  if (row.conversation == 0 && !keeps_texts_) row.text = std::make_shared<Text>();
}

// The conversation keeps its tokens.
void CacheRows::take_row(Held& held) {
  if (!held.row) return;
  Row& row = rows_[*std::exchange(held.row, std::nullopt)];
  held.text->cached = 0;
  row.conversation = 0;
  row.text = std::make_shared<Text>();
}

ConversationId CacheRows::open() {
  held_.emplace(++opened_, Held{std::make_shared<Text>()});
  return opened_;
}

void CacheRows::close(ConversationId id) {
  take_row(idle(id, "closed"));
  held_.erase(id);
}

void CacheRows::truncate(ConversationId id, int64_t length) {
  Held& held = idle(id, "truncated");
  Text& text = *held.text;
  if (length < 0 || length > text.size())
    fail("the text cannot be rewound to {} tokens: it has {}", length, text.size());
  text.tokens.resize(static_cast<size_t>(length));
  text.cached = std::min(text.cached, length);
  if (length == 0) take_row(held);
}

const CacheRows::Held& CacheRows::held(ConversationId id) const {
  const auto found = held_.find(id);
  if (found == held_.end()) fail("there is no conversation {}: open_conversation() returns one", id);
  return found->second;
}

CacheRows::Held& CacheRows::idle(ConversationId id, const char* what) {
  held(id);
  Held& found = held_.at(id);
  if (found.row && rows_[*found.row].task)
    fail("conversation {} cannot be {} while its request {} runs: cancel the request, or wait for its result",
         id, what, rows_[*found.row].task->id());
  return found;
}

RowAdapters::RowAdapters(Session& session, const std::vector<Row>& rows)
    : session_(session), rows_(rows), count_(adapters_of(session.model())) {}

void RowAdapters::check(int64_t adapter) const {
  if (adapter < 0 || adapter > count_)
    fail(
        "the request's adapter is {}, and the model has {} adapters: expected a number from 0, which means "
        "none, to {}",
        adapter, count_, count_);
}

// A row without a request writes the last token of its text again in each step, so that it keeps its adapter.
void RowAdapters::update() {
  if (count_ == 0) return;
  std::vector<int64_t> adapters;
  for (const Row& row : rows_) adapters.push_back(row.text->adapter);
  if (adapters == written_) return;
  session_.set_state(kAdapters, Tensor::of<int64_t>({std::ssize(adapters)}, adapters));
  written_ = adapters;
}

}  // namespace genesis::generation
