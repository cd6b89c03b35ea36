// The rows of a KV cache: which text each holds, and which request or conversation has it.
//
// A conversation keeps its row between its requests, so that the next one reads only new tokens. If a request finds no other row
// free, the conversation that was used least recently loses its row: its next request reads its text again.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "executor/generation/task.h"
#include "executor/session.h"

namespace genesis::generation {

struct Row {
  std::shared_ptr<Text> text = std::make_shared<Text>();
  std::unique_ptr<Task> task;       // null: no request has the row
  ConversationId conversation = 0;  // the conversation whose text the row holds
  bool is_unsaved = false;          // a request has ended here, and its text is not in the PrefixStore yet
  uint64_t last_used = 0;           // order in which conversations were left by their requests

  bool is_reading() const { return task && task->is_reading(); }
  bool goes_on() const { return task && task->goes_on(); }
};

class CacheRows {
 public:
  // With `keeps_texts`, a row keeps the text of a request that has ended until another one gets the row.
  explicit CacheRows(size_t count, bool keeps_texts = false) : rows_(count), keeps_texts_(keeps_texts) {}

  std::vector<Row>& all() { return rows_; }
  const std::vector<Row>& all() const { return rows_; }
  int64_t free() const;  // number of rows that no request has
  bool are_free() const { return free() == std::ssize(rows_); }
  bool has_reading() const;
  std::vector<size_t> reading() const;  // rows whose prompt is read, the oldest request first
  Row* find(RequestId id);              // the request's row; null if it has none

  // Returns a row that a request of this conversation (0: none) can get, and null if it has to wait. Prefers rows that no
  // conversation holds, and of them the one that was left first.
  Row* find_free(ConversationId conversation);
  // Gives the row of find_free() the text that the request continues: an empty one if there is no conversation.
  void assign(Row& row, ConversationId conversation);
  // Gives each of two rows what the other one holds. The caller has copied the cache.
  void exchange(size_t row, size_t other);
  // Takes the row from its task. A conversation keeps it.
  void release(Row& row);

  ConversationId open();
  bool is_open(ConversationId id) const { return held_.contains(id); }
  // The following throw Error if the conversation is not open. close() and truncate() throw Error if a request has its row.
  const Text& text(ConversationId id) const { return *held(id).text; }
  void close(ConversationId id);
  void truncate(ConversationId id, int64_t length);
  int64_t conversations() const { return std::ssize(held_); }

 private:
  struct Held {
    std::shared_ptr<Text> text;
    std::optional<size_t> row = {};
  };
  const Held& held(ConversationId id) const;
  Held& idle(ConversationId id, const char* what);
  void take_row(Held& held);

  std::vector<Row> rows_;
  const bool keeps_texts_;
  std::map<ConversationId, Held> held_;
  ConversationId opened_ = 0;
  uint64_t released_ = 0;
};

// Rows become free one by one, and reading a prompt by itself takes a GPU as long as reading several. So requests that wait for a row wait a
// few steps more, until a share of the rows is free for them.
class Company {
 public:
  static constexpr int64_t kMaxSteps = 11;  // a request waits for others no longer

  // `most`: rows that are enough, however many there are; 1: none waits.
  explicit Company(int64_t most) : most_(most) {}
  // Returns true if the requests of the queue wait for one more step, and counts this step. Those that need not wait for a row do not
  // wait for each other.
  bool waits_one_more_step(const CacheRows& rows, int64_t queued) {
    const int64_t free = rows.free(), share = std::ssize(rows.all()) / 32;
    return queued > free && free > 0 && free < std::min(share, most_) && steps_++ < kMaxSteps;
  }
  void begin() { steps_ = 0; }  // requests get rows

 private:
  const int64_t most_;
  int64_t steps_ = 0;
};

// Writes the state that says which adapter each row has (kAdapters of executor/generation/entry_points.h).
class RowAdapters {
 public:
  RowAdapters(Session& session, const std::vector<Row>& rows);
  // Throws Error if the model has no such adapter.
  void check(int64_t adapter) const;
  // Writes the adapters of the rows' texts, if they have changed. No step may be under way.
  void update();

 private:
  Session& session_;
  const std::vector<Row>& rows_;
  const int64_t count_;  // adapters of the model
  std::vector<int64_t> written_;
};

}  // namespace genesis::generation
