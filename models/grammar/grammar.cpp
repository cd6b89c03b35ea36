#include "models/grammar/grammar.h"

#include <algorithm>

#include "schema/core/error.h"

namespace genesis::grammar {
namespace {

constexpr size_t kMaxRules = 100'000, kMaxFrames = 200'000, kMaxStates = 100'000;
constexpr int64_t kMaxTimes = 1000;
constexpr char32_t kLastCharacter = 0x10FFFF;

std::string utf8(char32_t c) {
  const auto byte = [](char32_t value) { return static_cast<char>(value); };
  if (c < 0x80) return {byte(c)};
  if (c < 0x800) return {byte(0xC0 | c >> 6), byte(0x80 | (c & 63))};
  if (c < 0x10000) return {byte(0xE0 | c >> 12), byte(0x80 | (c >> 6 & 63)), byte(0x80 | (c & 63))};
  return {byte(0xF0 | c >> 18), byte(0x80 | (c >> 12 & 63)), byte(0x80 | (c >> 6 & 63)),
          byte(0x80 | (c & 63))};
}

Bytes range(unsigned char low, unsigned char high) {
  Bytes bytes;
  for (unsigned b = low; b <= high; ++b) bytes.set(b);
  return bytes;
}

// Cuts a range of characters whose UTF-8 has the same size into products of ranges of bytes.
void cut(char32_t low, char32_t high, std::vector<std::vector<Bytes>>& products) {
  const std::string first = utf8(low), last = utf8(high);
  for (size_t behind = first.size() - 1; behind > 0; --behind) {
    const char32_t span = char32_t{1} << 6 * behind, mask = span - 1;
    if ((low | mask) >= high) continue;  // the bytes before are equal
    if ((low & mask) != 0) {
      cut(low, low | mask, products);
      return cut((low | mask) + 1, high, products);
    }
    if ((high & mask) != mask) {
      cut(low, (high & ~mask) - 1, products);
      return cut(high & ~mask, high, products);
    }
    break;
  }
  std::vector<Bytes> product;
  for (size_t i = 0; i < first.size(); ++i)
    product.push_back(range(static_cast<unsigned char>(first[i]), static_cast<unsigned char>(last[i])));
  products.push_back(std::move(product));
}

}  // namespace

Ranges complement(Ranges ranges) {
  ranges.emplace_back(0xD800, 0xDFFF);
  std::ranges::sort(ranges);
  Ranges rest;
  char32_t next = 0;
  for (const auto& [low, high] : ranges) {
    if (low > next) rest.emplace_back(next, low - 1);
    next = std::max<char32_t>(next, high + 1);
  }
  if (next <= kLastCharacter) rest.emplace_back(next, kLastCharacter);
  return rest;
}

std::optional<char32_t> read_character(std::string_view text, size_t& at) {
  const int first = at < text.size() ? static_cast<unsigned char>(text[at]) : -1;
  const int behind = first < 0x80 ? 0 : first >= 0xF0 ? 3 : first >= 0xE0 ? 2 : 1;
  if (first < 0 || (first >= 0x80 && first < 0xC2) || at + static_cast<size_t>(behind) >= text.size())
    return {};
  char32_t c = behind == 0 ? static_cast<char32_t>(first) : static_cast<char32_t>(first & (0x3F >> behind));
  ++at;
  for (int i = 0; i < behind; ++i, ++at) c = c << 6 | (static_cast<unsigned char>(text[at]) & 63);
  if (c > kLastCharacter) return {};
  return c;
}

Grammar::Rule Grammar::add(std::vector<Sequence> alternatives) {
  if (rules_.size() >= kMaxRules) fail("the grammar is too large: it has more than {} rules", kMaxRules);
  rules_.push_back(std::move(alternatives));
  return static_cast<Rule>(rules_.size() - 1);
}

Grammar::Symbol Grammar::set_of(const Bytes& bytes) {
  const auto found = std::ranges::find(sets_, bytes);
  if (found != sets_.end()) return {static_cast<int32_t>(found - sets_.begin()), -1};
  sets_.push_back(bytes);
  return {static_cast<int32_t>(sets_.size() - 1), -1};
}

Grammar::Rule Grammar::text(std::string_view bytes) {
  Sequence sequence;
  for (const char c : bytes) sequence.push_back(set_of(Bytes().set(static_cast<unsigned char>(c))));
  return add({std::move(sequence)});
}

Grammar::Rule Grammar::one_of(const Bytes& bytes) { return add({{set_of(bytes)}}); }

Grammar::Rule Grammar::characters(const Ranges& ranges) {
  constexpr char32_t kLast[] = {0x7F, 0x7FF, 0xFFFF, 0x10FFFF};  // with one byte, two, three, four
  Bytes ascii;
  std::vector<std::vector<Bytes>> products;
  for (const auto& [first, last] : ranges) {
    char32_t low = first;
    for (const char32_t end : kLast) {
      const char32_t high = std::min(last, end);
      if (low > high) continue;
      if (end == 0x7F)
        ascii |= range(static_cast<unsigned char>(low), static_cast<unsigned char>(high));
      else
        cut(low, high, products);
      low = high + 1;
    }
  }
  std::vector<Sequence> alternatives;
  if (ascii.any()) alternatives.push_back({set_of(ascii)});
  for (const auto& product : products) {
    Sequence sequence;
    for (const Bytes& bytes : product) sequence.push_back(set_of(bytes));
    alternatives.push_back(std::move(sequence));
  }
  return add(std::move(alternatives));
}

Grammar::Rule Grammar::sequence(const std::vector<Rule>& parts) {
  Sequence sequence;
  for (const Rule part : parts) sequence.push_back({-1, part});
  return add({std::move(sequence)});
}

Grammar::Rule Grammar::any_of(const std::vector<Rule>& choices) {
  std::vector<Sequence> alternatives;
  for (const Rule choice : choices) alternatives.push_back({{-1, choice}});
  return add(std::move(alternatives));
}

Grammar::Rule Grammar::repeat(Rule part, int64_t least, int64_t most) {
  if (std::max(least, most) > kMaxTimes)
    fail("a part is repeated {} times: {} are the most", std::max(least, most), kMaxTimes);
  Rule rest;
  if (most < 0) {
    rest = add({{}});
    rules_[static_cast<size_t>(rest)] = {{}, {{-1, part}, {-1, rest}}};
  } else {
    rest = text("");
    for (int64_t i = least; i < most; ++i) rest = optional(sequence({part, rest}));
  }
  std::vector<Rule> parts(static_cast<size_t>(std::max<int64_t>(least, 0)), part);
  parts.push_back(rest);
  return sequence(parts);
}

Grammar::Rule Grammar::declare() { return add({}); }

Recognizer::Recognizer(Grammar grammar) : grammar_(std::move(grammar)) {
  Making making;
  for (const Grammar::Sequence& sequence : grammar_.alternatives(grammar_.root()))
    expand({&sequence, 0, -1}, making);
  start_ = state_of(std::move(making));
}

int32_t Recognizer::number_of(const Frame& frame) {
  const auto [found, is_new] = numbers_.emplace(frame, static_cast<int32_t>(frames_.size()));
  if (is_new) frames_.push_back(frame);
  if (frames_.size() > kMaxFrames)
    fail("the text that the grammar describes is nested too deep, or a rule begins with itself");
  return found->second;
}

// Adds what may come next: frames that begin with bytes, and the end. Rules are opened, and finished frames are left.
void Recognizer::expand(Frame frame, Making& making) {
  std::vector<Frame> open = {frame};
  while (!open.empty()) {
    const Frame top = open.back();
    open.pop_back();
    if (!making.visited.insert(top).second) continue;
    if (top.at == top.sequence->size()) {
      if (top.below < 0)
        making.may_end = true;
      else
        open.push_back(frames_[static_cast<size_t>(top.below)]);
      continue;
    }
    const Grammar::Symbol& symbol = (*top.sequence)[top.at];
    if (symbol.bytes >= 0) {
      making.frames.push_back(number_of(top));
      continue;
    }
    // A frame that ends behind the rule need not be kept.
    const Frame behind = {top.sequence, top.at + 1, top.below};
    const int32_t below = behind.at == top.sequence->size() ? top.below : number_of(behind);
    for (const Grammar::Sequence& sequence : grammar_.alternatives(symbol.rule))
      open.push_back({&sequence, 0, below});
  }
}

Recognizer::State Recognizer::state_of(Making making) {
  if (making.frames.empty() && !making.may_end) return kDead;
  std::ranges::sort(making.frames);
  making.frames.erase(std::unique(making.frames.begin(), making.frames.end()), making.frames.end());
  const auto [found, is_new] =
      found_.emplace(std::pair(making.frames, making.may_end), static_cast<State>(states_.size()));
  if (is_new) {
    states_.push_back({std::move(making.frames), making.may_end});
    next_.emplace_back().fill(kUnknown);
  }
  if (states_.size() > kMaxStates) fail("the grammar has more than {} states", kMaxStates);
  return found->second;
}

Recognizer::State Recognizer::find_next(State state, unsigned char byte) {
  const std::vector<int32_t> frames = states_[static_cast<size_t>(state)].frames;
  Making making;
  Bytes alike;  // bytes that the same frames take as this one: they lead to the same state
  alike.set();
  for (const int32_t number : frames) {
    const Frame frame = frames_[static_cast<size_t>(number)];
    const Bytes& bytes = grammar_.bytes((*frame.sequence)[frame.at].bytes);
    alike &= bytes.test(byte) ? bytes : ~bytes;
    if (bytes.test(byte)) expand({frame.sequence, frame.at + 1, frame.below}, making);
  }
  const State made = state_of(std::move(making));
  for (size_t b = 0; b < alike.size(); ++b)
    if (alike.test(b)) next_[static_cast<size_t>(state)][b] = made;
  return made;
}

}  // namespace genesis::grammar
