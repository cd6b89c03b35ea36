#include "models/chat/jinja/library/library.h"

#include "models/chat/jinja/values/casing.h"
#include "models/chat/jinja/values/python_text.h"
#include "models/chat/jinja/values/write_value.h"

namespace genesis::jinja {
namespace {

template <CompareOp op>
bool compares(Rendering& i, const Value& v, Arguments& a) {
  return compare(i.budget(), op, v, a.need("other"));
}

bool has_items(const Value& v) { return v.is_undefined() || v.text() || v.sequence() || v.dict(); }
bool is_sequence(const Value& v) { return has_items(v) && (!v.sequence() || v.sequence()->has_numbers()); }

bool is_same(Rendering& i, const Value& v, Arguments& a) {
  const Value other = a.need("other");
  return v.data().index() == other.data().index() && equal(i.budget(), v, other);
}

bool is_divisible(Rendering& i, const Value& v, Arguments& a) {
  return !is_true(binary(i.budget(), BinaryOp::kModulo, v, a.need("num")));
}

template <int64_t rest>
bool rest_of_two(Rendering& i, const Value& v, Arguments&) {
  return equal(i.budget(), binary(i.budget(), BinaryOp::kModulo, v, int64_t{2}), rest);
}

template <bool (*is)(std::string_view)>
bool text_is(Rendering& i, const Value& v, Arguments&) {
  const std::string text = to_text(i.budget(), v);
  i.budget().characters(text.size());
  return is(text);
}

const std::map<std::string, Test, std::less<>>& tests() {
  static const std::map<std::string, Test, std::less<>> kTests = {
      {"!=", {nullptr, compares<CompareOp::kNotEqual>}},
      {"<", {nullptr, compares<CompareOp::kLess>}},
      {"<=", {nullptr, compares<CompareOp::kLessEqual>}},
      {"==", {nullptr, compares<CompareOp::kEqual>}},
      {">", {nullptr, compares<CompareOp::kGreater>}},
      {">=", {nullptr, compares<CompareOp::kGreaterEqual>}},
      {"boolean", {[](const Value& v) { return v.boolean() != nullptr; }, nullptr}},
      {"callable", {[](const Value& v) { return v.callable() || v.is_undefined(); }, nullptr}},
      {"defined", {[](const Value& v) { return !v.is_undefined(); }, nullptr}},
      {"divisibleby", {nullptr, is_divisible}},
      {"eq", {nullptr, compares<CompareOp::kEqual>}},
      {"equalto", {nullptr, compares<CompareOp::kEqual>}},
      {"escaped", {[](const Value& v) { return v.is_markup(); }, nullptr}},
      {"even", {nullptr, rest_of_two<0>}},
      {"false", {[](const Value& v) { return v.boolean() && !*v.boolean(); }, nullptr}},
      {"filter", {[](const Value& v) { return v.text() && find_filter(*v.text()); }, nullptr}},
      {"float", {[](const Value& v) { return v.real() != nullptr; }, nullptr}},
      {"ge", {nullptr, compares<CompareOp::kGreaterEqual>}},
      {"greaterthan", {nullptr, compares<CompareOp::kGreater>}},
      {"gt", {nullptr, compares<CompareOp::kGreater>}},
      {"in", {nullptr, compares<CompareOp::kIn>}},
      {"integer", {[](const Value& v) { return v.integer() != nullptr; }, nullptr}},
      {"iterable", {[](const Value& v) { return has_items(v) || v.loop(); }, nullptr}},
      {"le", {nullptr, compares<CompareOp::kLessEqual>}},
      {"lessthan", {nullptr, compares<CompareOp::kLess>}},
      {"lower", {nullptr, text_is<is_lower>}},
      {"lt", {nullptr, compares<CompareOp::kLess>}},
      {"mapping", {[](const Value& v) { return v.dict() != nullptr; }, nullptr}},
      {"ne", {nullptr, compares<CompareOp::kNotEqual>}},
      {"none", {[](const Value& v) { return v.is_none(); }, nullptr}},
      {"number", {[](const Value& v) { return v.is_number(); }, nullptr}},
      {"odd", {nullptr, rest_of_two<1>}},
      {"sameas", {nullptr, is_same}},
      {"sequence", {is_sequence, nullptr}},
      {"string", {[](const Value& v) { return v.text() != nullptr; }, nullptr}},
      {"test", {[](const Value& v) { return v.text() && find_test(*v.text()); }, nullptr}},
      {"true", {[](const Value& v) { return v.boolean() && *v.boolean(); }, nullptr}},
      {"undefined", {[](const Value& v) { return v.is_undefined(); }, nullptr}},
      {"upper", {nullptr, text_is<is_upper>}},
  };
  return kTests;
}

}  // namespace

const Test* find_test(std::string_view name) {
  const auto found = tests().find(name);
  return found == tests().end() ? nullptr : &found->second;
}

}  // namespace genesis::jinja
