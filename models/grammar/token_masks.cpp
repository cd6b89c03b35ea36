#include "models/grammar/token_masks.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "schema/core/error.h"

namespace genesis::grammar {
namespace {

constexpr size_t kMasks = 256;  // masks are kept for this many states

size_t common_prefix(const std::string& a, const std::string& b) {
  return static_cast<size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

}  // namespace

TokenTree::TokenTree(const std::vector<std::string>& bytes) : bytes_(bytes), order_(bytes.size()) {
  std::iota(order_.begin(), order_.end(), int64_t{0});
  std::erase_if(order_, [&](int64_t token) { return this->bytes(token).empty(); });
  std::ranges::sort(order_, [&](int64_t a, int64_t b) { return this->bytes(a) < this->bytes(b); });
}

// Walks over the sorted tokens with the states behind each of their bytes, of which neighbors share the first ones.
void TokenTree::allow(Recognizer& recognizer, Recognizer::State state, std::vector<bool>& allowed) const {
  std::vector<Recognizer::State> states = {
      state};  // behind each byte of the present token that is no dead end
  const std::string* before = nullptr;
  for (const int64_t token : order_) {
    const std::string& text = bytes(token);
    const size_t shared = before ? common_prefix(*before, text) : 0;
    before = &text;
    if (states.size() > shared + 1) states.resize(shared + 1);
    // The token before has ended in a dead end within the common bytes, and so does this one.
    if (states.back() == Recognizer::kDead) continue;
    while (states.size() <= text.size() && states.back() != Recognizer::kDead)
      states.push_back(recognizer.next(states.back(), static_cast<unsigned char>(text[states.size() - 1])));
    allowed[static_cast<size_t>(token)] = states.back() != Recognizer::kDead;
  }
}

Constraint::Constraint(std::shared_ptr<const TokenTree> tree, Grammar grammar, std::vector<int64_t> ends)
    : tree_(std::move(tree)),
      ends_(std::move(ends)),
      recognizer_(std::move(grammar)),
      state_(recognizer_.start()) {}

const std::vector<bool>& Constraint::allowed() {
  if (const auto found = masks_.find(state_); found != masks_.end()) return found->second;
  if (masks_.size() >= kMasks) masks_.clear();
  std::vector<bool> allowed(static_cast<size_t>(tree_->size()), false);
  try {
    tree_->allow(recognizer_, state_, allowed);
  } catch (const Error&) {  // the grammar has grown too large: the text ends here
    std::fill(allowed.begin(), allowed.end(), false);
  }
  const bool may_go_on = std::ranges::find(allowed, true) != allowed.end();
  for (const int64_t end : ends_)
    if (end >= 0 && end < std::ssize(allowed))
      allowed[static_cast<size_t>(end)] = !may_go_on || recognizer_.may_end(state_);
  return masks_.emplace(state_, std::move(allowed)).first->second;
}

void Constraint::apply(std::span<const int64_t> chosen, std::span<float> bias) {
  for (; read_ < chosen.size(); ++read_) {
    const int64_t token = chosen[read_];
    if (token < 0 || token >= tree_->size()) continue;
    try {
      for (const char byte : tree_->bytes(token))
        state_ = recognizer_.next(state_, static_cast<unsigned char>(byte));
    } catch (const Error&) {
      state_ = Recognizer::kDead;
    }
  }
  const std::vector<bool>& may = allowed();
  for (size_t i = 0; i < bias.size(); ++i)
    if (i >= may.size() || !may[i]) bias[i] = -std::numeric_limits<float>::infinity();
}

}  // namespace genesis::grammar
