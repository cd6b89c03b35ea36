#include "executor/generation/drafter.h"

#include <algorithm>

namespace genesis::generation {
namespace {

constexpr size_t kLongest = 6, kShortest = 2;  // tokens that must have occurred before
constexpr size_t kWindow = 1 << 16;            // last tokens of a text that are looked at

class NgramDrafter final : public Drafter {
 public:
  Drafts draft(std::span<const DraftRow> rows) override {
    Drafts drafts(rows.size());
    for (size_t r = 0; r < rows.size(); ++r)
      if (rows[r].most > 0) drafts[r] = repeated_tokens(*rows[r].text, rows[r].most);
    return drafts;
  }
};

// Returns how many tokens before `end` equal the last ones of the text, up to kLongest.
size_t equal_tokens(std::span<const int64_t> text, size_t end) {
  size_t count = 0;
  while (count < std::min(kLongest, end) && text[end - 1 - count] == text[text.size() - 1 - count]) ++count;
  return count;
}

}  // namespace

std::vector<int64_t> repeated_tokens(std::span<const int64_t> text, int64_t most) {
  text = text.last(std::min(text.size(), kWindow));
  size_t longest = 0, from = 0;
  for (size_t end = text.empty() ? 0 : text.size() - 1; end > 0 && longest < kLongest; --end)
    if (const size_t count = equal_tokens(text, end); count > longest) longest = count, from = end;
  std::vector<int64_t> draft;
  if (longest < kShortest) return draft;
  // A draft that reaches the end of the text goes on with its own first tokens.
  for (size_t i = from; std::ssize(draft) < most; ++i)
    draft.push_back(i < text.size() ? text[i] : draft[i - text.size()]);
  return draft;
}

std::shared_ptr<Drafter> make_ngram_drafter() { return std::make_shared<NgramDrafter>(); }

}  // namespace genesis::generation
