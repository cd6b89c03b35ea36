#include "models/tokenizer/words/unigram.h"

#include <algorithm>
#include <limits>

#include "schema/core/error.h"
#include "schema/file/format/utf8.h"

namespace genesis::text {
namespace {

constexpr double kUnknownPenalty = 10;  // an unknown character scores this much less than the worst token

}  // namespace

Unigram::Unigram(const UnigramModel& model) : unknown_(model.unk_id.value_or(kUnknown)) {
  std::vector<std::pair<std::string_view, uint32_t>> tokens;
  double least = std::numeric_limits<double>::infinity();
  for (const auto& [token, score] : model.pieces) {
    if (!token.empty()) tokens.emplace_back(token, static_cast<uint32_t>(scores_.size()));
    scores_.push_back(score);
    least = std::min(least, score);
  }
  unknown_score_ = least - kUnknownPenalty;
  tokens_ = PrefixTree(std::move(tokens));
  for (size_t byte = 0; byte < 256; ++byte) {
    const uint32_t id =
        model.byte_fallback ? tokens_.id_of(fmt::format("<0x{:02X}>", byte)) : PrefixTree::kNone;
    fallback_[byte] = id == PrefixTree::kNone ? -1 : int64_t{id};
  }
}

std::vector<Unigram::Step> Unigram::steps_through(std::string_view word, WorkBudget& budget) const {
  std::vector<Step> steps(word.size() + 1);
  const auto offer = [&](size_t begin, size_t end, double score, uint32_t token) {
    Step& step = steps[end];
    const double total = score + steps[begin].score;
    if (step.begin != kNowhere && !(total > step.score)) return false;
    step = {total, static_cast<uint32_t>(begin), token};
    return true;
  };
  for (size_t begin = 0; begin < word.size();) {
    const size_t character = utf8::first_character(word.substr(begin)).bytes;
    bool is_token = false;
    size_t at = begin;
    for (uint32_t node = PrefixTree::kRoot; at < word.size();) {
      node = tokens_.next(node, static_cast<unsigned char>(word[at++]));
      if (node == PrefixTree::kNone) break;
      const uint32_t token = tokens_.token(node);
      if (token == PrefixTree::kNone) continue;
      offer(begin, at, scores_[token], token);
      is_token |= at - begin == character;
    }
    if (!budget.spend_steps(at - begin))
      fail("the text has {} bytes without a break, which nearly match too many long tokens of 'model.vocab'",
           word.size());
    if (!is_token && offer(begin, begin + character, unknown_score_, unknown_) && unknown_ == kUnknown)
      fail("the text has '{}', which is no token, and the tokenizer has no 'model.unk_id'",
           word.substr(begin, character));
    begin += character;
  }
  return steps;
}

void Unigram::encode(std::string_view word, WorkBudget& budget, std::vector<int64_t>& ids) const {
  if (word.size() >= kNowhere) fail("the text has {} bytes without a break, the limit is 4 GiB", word.size());
  const std::vector<Step> steps = steps_through(word, budget);
  std::vector<size_t> ends;  // the ends of the parts, last first; adjacent unknown characters are one part
  bool was_unknown = false;
  for (size_t end = word.size(); end > 0; end = steps[end].begin) {
    const bool is_unknown = steps[end].token == unknown_;
    if (!is_unknown || !was_unknown) ends.push_back(end);
    was_unknown = is_unknown;
  }
  size_t begin = 0;
  for (size_t i = ends.size(); i-- > 0; begin = ends[i]) append(word.substr(begin, ends[i] - begin), ids);
}

void Unigram::append(std::string_view part, std::vector<int64_t>& ids) const {
  if (const uint32_t id = tokens_.id_of(part); id != PrefixTree::kNone)
    ids.push_back(id);
  else if (!append_bytes(part, ids))
    ids.push_back(unknown_);
}

bool Unigram::append_bytes(std::string_view part, std::vector<int64_t>& ids) const {
  const auto id_of = [&](char byte) { return fallback_[static_cast<unsigned char>(byte)]; };
  if (std::ranges::any_of(part, [&](char byte) { return id_of(byte) < 0; })) return false;
  for (const char byte : part) ids.push_back(id_of(byte));
  return true;
}

}  // namespace genesis::text
