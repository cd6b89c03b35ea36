#include "models/chat/jinja/values/value.h"

#include <algorithm>

#include "schema/core/error.h"

namespace genesis::jinja {
namespace {

// Whoever writes a value out, or takes it apart, uses stack for every level.
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

Value Value::sequence(std::vector<Value> items, SequenceKind kind) {
  int depth = 0;
  for (const Value& item : items) depth = std::max(depth, depth_of(item));
  Value value;
  value.data_ = std::make_shared<const Sequence>(Sequence{std::move(items), kind, one_deeper(depth)});
  return value;
}

Value Value::list(std::vector<Value> items) { return sequence(std::move(items), SequenceKind::kList); }
Value Value::tuple(std::vector<Value> items) { return sequence(std::move(items), SequenceKind::kTuple); }
Value Value::view(std::vector<Value> items) { return sequence(std::move(items), SequenceKind::kView); }
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
  for (const auto& [key, item] : entries.entries) depth = std::max(depth, depth_of(item));
  entries.depth = one_deeper(depth);
  Value value;
  value.data_ = std::make_shared<const Dict>(std::move(entries));
  return value;
}

Value Value::undefined(std::string what) {
  Value value;
  value.data_ = Undefined{std::make_shared<const std::string>(std::move(what))};
  return value;
}

void Dict::set(const Value& key, Value value) {
  if (!key.text()) {
    entries.emplace_back(key, std::move(value));
    return;
  }
  const auto [at, is_new] = names.emplace(*key.text(), entries.size());
  if (is_new)
    entries.emplace_back(key, std::move(value));
  else
    entries[at->second].second = std::move(value);
}

const Value* Dict::find(std::string_view name) const {
  const auto at = names.find(name);
  return at == names.end() ? nullptr : &entries[at->second].second;
}

int depth_of(const Value& value) {
  if (const Sequence* sequence = value.sequence()) return sequence->depth;
  if (const Dict* dict = value.dict()) return dict->depth;
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
                  static constexpr const char* kNames[] = {"list", "tuple", "view", "generator"};
                  return kNames[static_cast<size_t>(s->kind)];
                },
                [](const std::shared_ptr<const Dict>&) { return "dict"; },
                [](Namespace*) { return "namespace"; },
                [](const std::shared_ptr<const Loop>&) { return "loop"; },
                [](const std::shared_ptr<const Callable>&) { return "function"; },
                [](const Markup&) { return "Markup"; }},
      value.data());
}

bool is_true(const Value& value) {
  return std::visit(
      Overloads{[](const Undefined&) { return false; }, [](None) { return false; }, [](bool b) { return b; },
                [](int64_t i) { return i != 0; }, [](double d) { return d != 0; },
                [](const std::shared_ptr<const std::string>& s) { return !s->empty(); },
                [](const std::shared_ptr<const Sequence>& s) {
                  return s->kind == SequenceKind::kGenerator || !s->items.empty();
                },
                [](const std::shared_ptr<const Dict>& d) { return !d->entries.empty(); },
                [](const Markup& m) { return !m.text->empty(); }, [](const auto&) { return true; }},
      value.data());
}

size_t size_of(const Value& value) {
  if (const std::string* text = value.text()) return text->size();
  if (const Sequence* sequence = value.sequence()) return sequence->items.size() * sizeof(Value);
  if (const Dict* dict = value.dict()) return dict->entries.size() * 4 * sizeof(Value);
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
