#include "models/chat/jinja/values/write_value.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "models/chat/jinja/values/casing.h"
#include "models/chat/jinja/values/python_text.h"
#include "schema/file/format/utf8.h"

namespace genesis::jinja {
namespace {

std::string quoted(const std::string& text) {
  const char quote = text.find('\'') != std::string::npos && text.find('"') == std::string::npos ? '"' : '\'';
  std::string result(1, quote);
  for (const uint32_t code : characters(text)) {
    if (code == static_cast<uint32_t>(quote) || code == '\\')
      (result += '\\') += static_cast<char>(code);
    else if (code == '\n')
      result += "\\n";
    else if (code == '\r')
      result += "\\r";
    else if (code == '\t')
      result += "\\t";
    else if (is_printable(code))
      utf8::append(result, code);
    else if (code < 0x100)
      result += fmt::format("\\x{:02x}", code);
    else if (code < 0x10000)
      result += fmt::format("\\u{:04x}", code);
    else
      result += fmt::format("\\U{:08x}", code);
  }
  return result + quote;
}

// A text that is charged to the budget as it grows. Values may share their contents, so that their text can be far larger than
// they are.
class CountedText {
 public:
  std::string take() { return std::move(text_); }

 protected:
  explicit CountedText(Budget& budget) : budget_(budget) {}
  void append(std::string_view more) {
    budget_.read(more.size());
    budget_.check_text(text_.size() + more.size());
    text_ += more;
  }
  // Charges a text before it is written with escapes.
  void charge(const std::string& text) { budget_.characters(text.size()); }

  Budget& budget_;

 private:
  std::string text_;
};

class ReprWriter : public CountedText {
 public:
  explicit ReprWriter(Budget& budget) : CountedText(budget) {}

  void write(const Value& value) {
    if (const std::string* text = value.text()) {
      charge(*text);
      return append(value.is_markup() ? "Markup(" + quoted(*text) + ")" : quoted(*text));
    }
    if (const Sequence* sequence = value.sequence(); sequence && sequence->kind != SequenceKind::kGenerator)
      return write(*sequence);
    if (const Dict* dict = value.dict()) return write(*dict);
    append(value.is_undefined() ? "Undefined" : to_text(budget_, value));
  }

 private:
  void write(const Sequence& sequence) {
    if (sequence.kind == SequenceKind::kRange) return append(sequence.label);
    const bool is_tuple = sequence.kind == SequenceKind::kTuple,
               is_view = sequence.kind == SequenceKind::kView;
    if (is_view) append(sequence.label + "(");
    append(is_tuple ? "(" : "[");
    for (size_t i = 0; i < sequence.items.size(); ++i) {
      if (i > 0) append(", ");
      write(sequence.items[i]);
    }
    if (is_tuple && sequence.items.size() == 1) append(",");
    append(is_tuple ? ")" : "]");
    if (is_view) append(")");
  }

  void write(const Dict& dict) {
    append("{");
    for (size_t i = 0; i < dict.size(); ++i) {
      if (i > 0) append(", ");
      write(dict.entries()[i].first);
      append(": ");
      write(dict.entries()[i].second);
    }
    append("}");
  }
};

std::string json_text(const std::string& text, bool ensure_ascii) {
  std::string result = "\"";
  const auto escape = [&](uint32_t code) { result += fmt::format("\\u{:04x}", code); };
  for (const uint32_t code : characters(text)) {
    static constexpr std::string_view kShort = "\"\\\n\r\t\f\b", kNames = "\"\\nrtfb";
    const size_t at = code < 0x80 ? kShort.find(static_cast<char>(code)) : std::string_view::npos;
    if (at != std::string_view::npos)
      (result += '\\') += kNames[at];
    else if (code < 0x20 || (ensure_ascii && code >= 0x7f && code < 0x10000))
      escape(code);
    else if (ensure_ascii && code >= 0x10000)
      escape(0xd800 + ((code - 0x10000) >> 10)), escape(0xdc00 + ((code - 0x10000) & 0x3ff));
    else
      utf8::append(result, code);
  }
  return result + '"';
}

std::string json_number(double value) {
  if (std::isnan(value)) return "NaN";
  return std::isinf(value) ? value < 0 ? "-Infinity" : "Infinity" : float_text(value);
}

class JsonWriter : public CountedText {
 public:
  JsonWriter(Budget& budget, const JsonStyle& style) : CountedText(budget), style_(style) {}

  void write(const Value& value) {
    if (const Sequence* sequence = value.sequence();
        sequence && (sequence->kind == SequenceKind::kList || sequence->kind == SequenceKind::kTuple))
      return write(*sequence);
    if (const Dict* dict = value.dict()) return write(*dict);
    if (value.text()) charge(*value.text());
    append(scalar(value));
  }

 private:
  std::string scalar(const Value& value) const {
    if (const std::string* text = value.text()) return json_text(*text, style_.ensure_ascii);
    if (value.is_none()) return "null";
    if (const bool* boolean = value.boolean()) return *boolean ? "true" : "false";
    if (const int64_t* integer = value.integer()) return std::to_string(*integer);
    if (const double* real = value.real()) return json_number(*real);
    defined(value);
    fail("tojson takes texts, numbers, lists and mappings, got {}", type_name(value));
  }

  std::string name(const Value& key) const {
    return json_text(key.text() ? *key.text() : scalar(key), style_.ensure_ascii);
  }

  // Writes `count` members between brackets, each by `write_member(i)`.
  template <class WriteMember>
  void members(const char* open, const char* close, size_t count, WriteMember&& write_member) {
    append(open);
    ++level_;
    for (size_t i = 0; i < count; ++i) {
      if (i > 0) append(style_.item_separator);
      new_line();
      write_member(i);
    }
    --level_;
    if (count > 0) new_line();
    append(close);
  }

  void new_line() {
    if (!style_.indent) return;
    append("\n");
    for (int i = 0; i < level_; ++i) append(*style_.indent);
  }

  void write(const Sequence& sequence) {
    members("[", "]", sequence.items.size(), [&](size_t i) { write(sequence.items[i]); });
  }

  void write(const Dict& dict) {
    std::vector<const std::pair<Value, Value>*> entries;
    for (const auto& entry : dict.entries()) entries.push_back(&entry);
    if (style_.sort_keys)
      std::ranges::stable_sort(entries, [](auto* a, auto* b) {
        return text_in(a->first, "a sorted key") < text_in(b->first, "a sorted key");
      });
    members("{", "}", entries.size(), [&](size_t i) {
      append(name(entries[i]->first));
      append(style_.key_separator);
      write(entries[i]->second);
    });
  }

  const JsonStyle& style_;
  int level_ = 0;
};

}  // namespace

std::string to_text(Budget& budget, const Value& value) {
  if (const std::string* text = value.text()) {
    budget.read(text->size());
    return *text;
  }
  if (value.is_undefined()) return "";
  if (value.is_none()) return "None";
  if (const bool* boolean = value.boolean()) return *boolean ? "True" : "False";
  if (const int64_t* integer = value.integer()) return std::to_string(*integer);
  if (const double* real = value.real()) return float_text(*real);
  if (const Sequence* sequence = value.sequence();
      value.dict() || (sequence && sequence->kind != SequenceKind::kGenerator))
    return to_repr(budget, value);
  fail("a {} cannot be written out: make a list of it with `| list`", type_name(value));
}

std::string to_repr(Budget& budget, const Value& value) {
  if (value.is_undefined()) return "Undefined";
  ReprWriter writer(budget);
  writer.write(value);
  return writer.take();
}

std::string to_json(Budget& budget, const Value& value, const JsonStyle& style) {
  JsonWriter writer(budget, style);
  writer.write(value);
  return writer.take();
}

}  // namespace genesis::jinja
