#include "models/chat/jinja/values/value.h"

#include <algorithm>
#include <cmath>

#include "schema/core/error.h"

namespace genesis::jinja {
namespace {

// Limit of nesting: writing and freeing a value use stack for every level.
constexpr int kMaxDepth = 128;

int one_deeper(int depth) {
  if (depth >= kMaxDepth) fail("lists and mappings are nested more than {} deep", kMaxDepth);
  return depth + 1;
}

template <class... Cases>
struct Overloads : Cases... {
  using Cases::operator()...;
};
template <class... Cases>
Overloads(Cases...) -> Overloads<Cases...>;

}  // namespace

Value Value::sequence(std::vector<Value> items, SequenceKind kind, std::string label) {
  int depth = 0;
  for (const Value& item : items) depth = std::max(depth, depth_of(item));
  Value value;
  value.data_ =
      std::make_shared<const Sequence>(Sequence{std::move(items), kind, one_deeper(depth), std::move(label)});
  return value;
}

Value Value::list(std::vector<Value> items) { return sequence(std::move(items), SequenceKind::kList); }
Value Value::tuple(std::vector<Value> items) { return sequence(std::move(items), SequenceKind::kTuple); }
Value Value::view(std::vector<Value> items, std::string label) {
  return sequence(std::move(items), SequenceKind::kView, std::move(label));
}
Value Value::generator(std::vector<Value> items) {
  return sequence(std::move(items), SequenceKind::kGenerator);
}

Value Value::markup(std::string text) {
  Value value;
  value.data_ = Markup{std::make_shared<const std::string>(std::move(text))};
  return value;
}

Value Value::dict(Dict entries) {
  int depth = 0;
  for (const auto& [key, item] : entries.entries_) depth = std::max(depth, depth_of(item));
  entries.depth_ = one_deeper(depth);
  Value value;
  value.data_ = std::make_shared<const Dict>(std::move(entries));
  return value;
}

Value Value::undefined(std::string what) {
  Value value;
  value.data_ = Undefined{std::make_shared<const std::string>(std::move(what))};
  return value;
}

std::optional<Dict::OtherKey> Dict::other_key(const Value& key) {
  if (key.is_none()) return None{};
  if (const bool* boolean = key.boolean()) return int64_t{*boolean};
  if (const int64_t* integer = key.integer()) return *integer;
  const double* real = key.real();
  if (!real) return {};
  const bool is_whole = std::fabs(*real) < 9e18 && *real == std::trunc(*real);
  return is_whole ? OtherKey(static_cast<int64_t>(*real)) : OtherKey(*real);
}

void Dict::set(const Value& key, Value value) {
  const auto put = [&](auto& places, auto name) {
    const auto [at, is_new] = places.emplace(name, entries_.size());
    if (is_new)
      entries_.emplace_back(key, std::move(value));
    else
      entries_[at->second].second = std::move(value);
  };
  if (key.text()) return put(names_, std::string_view(*key.text()));
  const auto other = other_key(key);
  if (!other) fail_type("a mapping", "texts, numbers and none as keys", key);
  put(others_, *other);
}

const Value* Dict::find(std::string_view name) const {
  const auto at = names_.find(name);
  return at == names_.end() ? nullptr : &entries_[at->second].second;
}

const Value* Dict::find_key(const Value& key) const {
  if (key.text()) return find(*key.text());
  const auto other = other_key(key);
  const auto at = other ? others_.find(*other) : others_.end();
  return at == others_.end() ? nullptr : &entries_[at->second].second;
}

int depth_of(const Value& value) {
  if (const Sequence* sequence = value.sequence()) return sequence->depth;
  if (const Dict* dict = value.dict()) return dict->depth();
  if (const Loop* loop = value.loop()) return loop->depth;
  if (const Callable* callable = value.callable()) return callable->depth;
  return 0;
}

std::string type_name(const Value& value) {
  return std::visit(
      Overloads{[](const Undefined&) { return "undefined"; }, [](None) { return "none"; },
                [](bool) { return "bool"; }, [](int64_t) { return "int"; }, [](double) { return "float"; },
                [](const std::shared_ptr<const std::string>&) { return "str"; },
                [](const std::shared_ptr<const Sequence>& s) {
                  static constexpr const char* kNames[] = {"list", "tuple", "range", "view", "generator"};
                  return kNames[static_cast<size_t>(s->kind)];
                },
                [](const std::shared_ptr<const Dict>&) { return "dict"; },
                [](const std::shared_ptr<Namespace>&) { return "namespace"; },
                [](const std::shared_ptr<const Loop>&) { return "loop"; },
                [](const std::shared_ptr<const Callable>&) { return "function"; },
                [](const Markup&) { return "Markup"; }},
      value.data());
}

bool is_tuple(const Value& value) {
  return value.sequence() && value.sequence()->kind == SequenceKind::kTuple;
}

bool is_true(const Value& value) {
  return std::visit(
      Overloads{[](const Undefined&) { return false; }, [](None) { return false; }, [](bool b) { return b; },
                [](int64_t i) { return i != 0; }, [](double d) { return d != 0; },
                [](const std::shared_ptr<const std::string>& s) { return !s->empty(); },
                [](const std::shared_ptr<const Sequence>& s) {
                  return s->kind == SequenceKind::kGenerator || !s->items.empty();
                },
                [](const std::shared_ptr<const Dict>& d) { return d->size() > 0; },
                [](const Markup& m) { return !m.text->empty(); }, [](const auto&) { return true; }},
      value.data());
}

size_t size_of(const Value& value) {
  if (const std::string* text = value.text()) return text->size();
  if (const Sequence* sequence = value.sequence()) return sequence->items.size() * sizeof(Value);
  if (const Dict* dict = value.dict()) return dict->size() * 4 * sizeof(Value);
  return 0;
}

const Value& defined(const Value& value) {
  if (!value.is_undefined()) return value;
  const auto& what = std::get<Undefined>(value.data()).what;
  fail("{} is undefined", what ? *what : "a value");
}

void fail_type(std::string_view what, std::string_view expected, const Value& got) {
  defined(got);
  fail("{} takes {}, got {}", what, expected, type_name(got));
}

const std::string& text_in(const Value& value, std::string_view what) {
  if (!value.text()) fail_type(what, "a str", value);
  return *value.text();
}

int64_t integer_in(const Value& value, std::string_view what) {
  if (const bool* boolean = value.boolean()) return *boolean;
  if (!value.integer()) fail_type(what, "an int", value);
  return *value.integer();
}

}  // namespace genesis::jinja
