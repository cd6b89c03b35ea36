#include "schema/core/attributes.h"

#include <algorithm>
#include <cmath>

#include <fmt/ranges.h>

namespace genesis {
namespace {

std::string text_of(double x) {
  if (std::isnan(x)) return "nan";
  if (std::isinf(x)) return x > 0 ? "inf" : "-inf";
  std::string text = fmt::format("{}", x);  // the shortest text that reads back as the same double
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

std::string quoted(const std::string& s) {
  std::string text = "\"";
  for (char c : s) {
    if (c == '"' || c == '\\') text += '\\';
    if (c == '\n')
      text += "\\n";
    else
      text += c;
  }
  return text + "\"";
}

template <class T, class F>
std::string list_of(const std::vector<T>& items, F&& text) {
  std::string out = "(";
  for (size_t i = 0; i < items.size(); ++i) out += (i ? ", " : "") + text(items[i]);
  return out + ")";
}

struct Printer {
  std::string operator()(bool b) const { return b ? "true" : "false"; }
  std::string operator()(int64_t i) const { return std::to_string(i); }
  std::string operator()(double d) const { return text_of(d); }
  std::string operator()(const std::string& s) const { return quoted(s); }
  std::string operator()(DType t) const { return std::string(name_of(t)); }
  std::string operator()(const Shape& s) const { return s.to_string(); }
  std::string operator()(const std::vector<int64_t>& v) const {
    return list_of(v, [](int64_t i) { return std::to_string(i); });
  }
  std::string operator()(const std::vector<double>& v) const { return list_of(v, text_of); }
  std::string operator()(const std::vector<std::string>& v) const { return list_of(v, quoted); }
};

bool same(double a, double b) {
  return a == b ? std::signbit(a) == std::signbit(b) : std::isnan(a) && std::isnan(b);
}

bool same_value(const AttrValue& a, const AttrValue& b) {
  if (a.index() != b.index()) return false;
  if (auto* x = std::get_if<double>(&a)) return same(*x, std::get<double>(b));
  if (auto* x = std::get_if<std::vector<double>>(&a)) {
    const auto& y = std::get<std::vector<double>>(b);
    return std::equal(x->begin(), x->end(), y.begin(), y.end(), same);
  }
  return a == b;
}

}  // namespace

std::string to_string(const AttrValue& value) { return std::visit(Printer{}, value); }

std::string_view kind_name(const AttrValue& value) {
  static constexpr std::string_view kNames[] = {"boolean",          "integer",       "real",
                                                "string",           "dtype",         "shape",
                                                "list of integers", "list of reals", "list of strings"};
  return kNames[value.index()];
}

const Attributes::Entries& Attributes::entries() const {
  static const Entries none;
  return entries_ ? *entries_ : none;
}

void Attributes::set(std::string name, AttrValue value) {
  if (!entries_ || entries_.use_count() > 1) entries_ = std::make_shared<Entries>(entries());
  auto at = std::ranges::lower_bound(
      *entries_, name, {}, [](const auto& entry) -> auto& { return entry.first; });
  if (at != entries_->end() && at->first == name)
    at->second = std::move(value);
  else
    entries_->emplace(at, std::move(name), std::move(value));
}

const AttrValue* Attributes::find(std::string_view name) const {
  for (const auto& [key, value] : entries())
    if (key == name) return &value;
  return nullptr;
}

std::string Attributes::to_string() const {
  if (size() == 0) return "";
  std::string text = "{";
  for (const auto& [name, value] : entries())
    text += (text.size() > 1 ? ", " : "") + name + "=" + genesis::to_string(value);
  return text + "}";
}

bool Attributes::operator==(const Attributes& other) const {
  if (entries_ == other.entries_) return true;
  return std::equal(begin(), end(), other.begin(), other.end(), [](const auto& a, const auto& b) {
    return a.first == b.first && same_value(a.second, b.second);
  });
}

namespace detail {

void wrong_kind(std::string_view name, const AttrValue& got, const AttrValue& expected) {
  fail("attribute '{}' is {} ({}), expected {}", name, genesis::to_string(got), kind_name(got),
       kind_name(expected));
}

void unknown_attribute(const Attributes& attributes, const std::vector<std::string_view>& known) {
  for (const auto& [name, value] : attributes)
    if (std::ranges::find(known, name) == known.end())
      fail("unknown attribute '{}', expected one of: {}", name, fmt::join(known, ", "));
  fail("attributes repeat a name");
}

}  // namespace detail
}  // namespace genesis
