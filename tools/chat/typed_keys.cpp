#include "tools/chat/typed_keys.h"

#include <algorithm>

#include "schema/core/error.h"
#include "schema/file/format/utf8.h"

namespace genesis::tools {
namespace {

constexpr size_t kMaxPaste = size_t{16} << 20, kLongRun = 1000;
constexpr std::string_view kEndOfRun = "\r\n\x1b\x03\x04";
constexpr char kEscape = '\x1b';

// Returns valid UTF-8 with line feeds in place of carriage returns, which terminals send for the line feeds of a
// pasted text.
std::string with_line_feeds(std::string_view text) {
  std::string lines;
  lines.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\r')
      lines += text[i];
    else if (i + 1 == text.size() || text[i + 1] != '\n')
      lines += '\n';
  }
  return utf8::repaired(lines);
}

}  // namespace

void TypedKeys::add(std::string_view bytes) {
  waiting_ += bytes;
  is_settled_ = false;
  if (waiting_.size() > kMaxPaste)
    fail("the pasted text has more than {} bytes: put it into a file, and name that with /load", kMaxPaste);
}

std::optional<Key> TypedKeys::next() {
  if (waiting_.empty()) return std::nullopt;
  if (waiting_.starts_with(kPasteBegin)) return marked_paste();
  if (kPasteBegin.starts_with(waiting_) && !is_settled_) return std::nullopt;
  if (waiting_.size() > 1 && waiting_[0] == kEscape && (waiting_[1] == '\r' || waiting_[1] == '\n')) {
    waiting_.erase(0, 2);
    return Key{Key::Kind::kNewLine};
  }
  return waiting_.size() >= kLongRun ? long_run() : character();
}

Key TypedKeys::take_paste(size_t begin, size_t end, size_t next) {
  Key key{Key::Kind::kPaste, 0, with_line_feeds(std::string_view(waiting_).substr(begin, end - begin))};
  waiting_.erase(0, next);
  searched_ = 0;
  return key;
}

std::optional<Key> TypedKeys::marked_paste() {
  const size_t from = std::max(searched_, kPasteBegin.size());
  const size_t end = waiting_.find(kPasteEnd, from);
  if (end != std::string::npos) return take_paste(kPasteBegin.size(), end, end + kPasteEnd.size());
  searched_ = std::max(kPasteBegin.size(), waiting_.size() - std::min(waiting_.size(), kPasteEnd.size()));
  return std::nullopt;
}

std::optional<Key> TypedKeys::long_run() {
  const size_t end = waiting_.find_first_of(kEndOfRun, searched_);
  if (end != std::string::npos && end < kLongRun) return character();
  if (end == std::string::npos && !is_settled_) {
    searched_ = waiting_.size();
    return std::nullopt;
  }
  const size_t bytes = std::min(end, waiting_.size());
  return take_paste(0, bytes, bytes);
}

std::optional<Key> TypedKeys::character() {
  const utf8::Character next = utf8::first_character(waiting_);
  if (next.cut_short && !is_settled_) return std::nullopt;
  waiting_.erase(0, next.bytes);
  searched_ = 0;
  return Key{Key::Kind::kCharacter, next.valid ? next.code : 0xfffd};
}

}  // namespace genesis::tools
