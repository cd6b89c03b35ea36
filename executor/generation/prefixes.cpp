#include "executor/generation/prefixes.h"

#include <algorithm>

#include "executor/generation/entry_points.h"

namespace genesis::generation {

int64_t shareable_after(int64_t shareable, int64_t at, int64_t count, int64_t unit) {
  if (unit == 1) return at + count;
  if (at == shareable && count == unit) return shareable + unit;
  return std::min(shareable, at / unit * unit);
}

std::optional<Prefix> longest_prefix(const std::vector<Row>& rows, const Request& request, int64_t unit) {
  const std::vector<int64_t>& prompt = request.prompt;
  std::optional<Prefix> best;
  for (size_t r = 0; r < rows.size(); ++r) {
    const Text& text = *rows[r].text;
    if (rows[r].conversation != 0 || !text.is_shared_with(request)) continue;
    const int64_t limit = std::min({text.shareable, text.cached, text.size(), std::ssize(prompt) - 1});
    if (limit <= (best ? best->tokens : 0)) continue;
    const auto begin = text.tokens.begin();
    const auto differs =
        std::mismatch(begin, begin + static_cast<std::ptrdiff_t>(limit), prompt.begin()).first;
    const int64_t tokens = (differs - begin) / unit * unit;
    if (tokens > (best ? best->tokens : 0)) best = {r, tokens};
  }
  return best;
}

namespace {

// A prefix that cannot be copied is read.
void copy_prefix(CacheBudget& budget, size_t from, size_t to, Text& text, int64_t tokens) {
  try {
    budget.copy(from, to, tokens);
    text.cached = text.shareable = tokens;
  } catch (const Error&) {
  }
}

}  // namespace

Row& give_row(const Session& session, CacheRows& rows, CacheBudget& budget, const Request& request,
              int64_t positions, int64_t unit) {
  const auto index = [&](const Row& row) { return static_cast<size_t>(&row - rows.all().data()); };
  Row* row = rows.find_free(request.conversation);
  std::optional<Prefix> prefix;
  if (unit > 0 && request.conversation == 0) prefix = longest_prefix(rows.all(), request, unit);
  if (!prefix) {
    budget.make_room(rows, index(*row), index(*row), positions);
    rows.assign(*row, request.conversation);
    budget.set(index(*row), positions);
    return *row;
  }
  Row& holder = rows.all()[prefix->row];
  const bool may_copy =
      session.model().find_entry(kCopyRow) && budget.has_room_beside(rows.all(), prefix->row, positions);
  // A text of which much would be lost stays where it is.
  const bool takes_holder = !holder.task && (2 * prefix->tokens >= holder.text->shareable || !may_copy);
  if (takes_holder) row = &holder;
  budget.make_room(rows, index(*row), prefix->row, positions);
  rows.assign(*row, 0);
  budget.set(index(*row), positions);
  if (takes_holder)
    row->text->cached = row->text->shareable = prefix->tokens;
  else if (may_copy)
    copy_prefix(budget, prefix->row, index(*row), *row->text, prefix->tokens);
  return *row;
}

}  // namespace genesis::generation
