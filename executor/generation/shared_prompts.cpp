#include "executor/generation/shared_prompts.h"

#include <algorithm>

namespace genesis::generation {
namespace {

// Returns true if both rows have the same whole prompt, and requests of the same group.
bool has_prompt(const Row& row, const Row& wanted) {
  const auto size = static_cast<size_t>(wanted.task->prompt_size());
  const auto &tokens = row.text->tokens, &prompt = wanted.text->tokens;
  if (row.text->group != wanted.text->group || row.text->adapter != wanted.text->adapter) return false;
  return row.task && row.task->has_whole_prompt() && row.task->prompt_size() == wanted.task->prompt_size() &&
         std::equal(prompt.begin(), prompt.end(), tokens.begin(),
                    tokens.begin() + static_cast<std::ptrdiff_t>(size));
}

}  // namespace

std::optional<size_t> row_with_prompt_of(const std::vector<Row>& rows, size_t row) {
  const Row& wanted = rows[row];
  if (!wanted.task->shares_prompt() || wanted.text->cached > 0 || wanted.task->prompt_size() < 2) return {};
  std::optional<size_t> first;  // a row that reads the prompt
  for (size_t r = 0; r < rows.size(); ++r) {
    if (r == row || !has_prompt(rows[r], wanted)) continue;
    if (!rows[r].is_reading() && rows[r].text->cached >= wanted.task->prompt_size() - 1) return r;
    const bool is_before = rows[r].is_reading() && rows[r].task->id() < wanted.task->id();
    if (is_before && (!first || rows[r].task->id() < rows[*first].task->id())) first = r;
  }
  return first;
}

std::vector<size_t> copy_prompts(CacheBudget& budget, std::vector<Row>& rows,
                                 std::span<const size_t> reading) {
  std::vector<size_t> copied;
  for (const size_t r : reading) {
    const auto from = row_with_prompt_of(rows, r);
    if (!from || rows[*from].is_reading()) continue;
    const int64_t copied_tokens = rows[r].text->size() - 1;
    budget.copy(*from, r, copied_tokens);
    rows[r].text->cached = copied_tokens;
    rows[r].task->prompt_is_copied();
    copied.push_back(r);
  }
  return copied;
}

}  // namespace genesis::generation
