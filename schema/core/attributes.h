// Attributes of a node: generic named values, so that a new op never changes the file schema. An op names each of its attributes
// once, in a `fields()` visitor, through which it is read and written:
//
//     struct Softmax {
//       int64_t axis = -1;
//       static void fields(auto& self, auto&& visit) { visit("axis", self.axis); }
//     };
#pragma once

#include <concepts>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "schema/core/error.h"
#include "schema/core/shape.h"

namespace genesis {

using AttrValue = std::variant<bool, int64_t, double, std::string, DType, Shape, std::vector<int64_t>,
                               std::vector<double>, std::vector<std::string>>;

std::string to_string(const AttrValue& value);       // the text form: 1, 0.5, "x", f32, [2,3]
std::string_view kind_name(const AttrValue& value);  // "integer", "list of strings", ...

// Names the values of an enumeration, which is stored by name: specialize with `static constexpr std::string_view names[] =
// {...}` in the order of the values.
template <class E>
struct EnumNames;

// A number that remembers whether it was written as an integer: `full` and scalar operands need all 64 bits.
struct Scalar {
  std::variant<int64_t, double> value = int64_t{0};
  Scalar() = default;
  Scalar(double v) : value(v) {}
  template <std::integral T>
  Scalar(T v) : value(static_cast<int64_t>(v)) {}
  bool is_integer() const { return value.index() == 0; }
  double as_double() const {
    return is_integer() ? static_cast<double>(std::get<0>(value)) : std::get<1>(value);
  }
  int64_t as_integer() const {
    return is_integer() ? std::get<0>(value) : static_cast<int64_t>(std::get<1>(value));
  }
};

// A map of attributes, sorted by name. Copies share the entries until one of them is changed: passes copy nodes far more often than
// they change their attributes.
class Attributes {
 public:
  using Entries = std::vector<std::pair<std::string, AttrValue>>;

  void set(std::string name, AttrValue value);
  const AttrValue* find(std::string_view name) const;
  size_t size() const { return entries().size(); }
  Entries::const_iterator begin() const { return entries().begin(); }
  Entries::const_iterator end() const { return entries().end(); }
  std::string to_string() const;  // "{axis=-1, keep_dims=true}", "" when empty
  bool operator==(const Attributes&) const;

 private:
  const Entries& entries() const;

  std::shared_ptr<Entries> entries_;  // null: none
};

namespace detail {

template <class T>
AttrValue to_attr(const T& field) {
  if constexpr (std::is_same_v<T, Scalar>) {
    return std::visit([](auto v) { return AttrValue(v); }, field.value);
  } else if constexpr (std::is_enum_v<T> && !std::is_same_v<T, DType>) {
    return std::string(EnumNames<T>::names[static_cast<size_t>(field)]);
  } else {
    return field;
  }
}

template <class E>
void enum_from_attr(std::string_view name, const std::string& text, E& field) {
  std::string known;
  size_t index = 0;
  for (std::string_view candidate : EnumNames<E>::names) {
    if (candidate == text) return void(field = static_cast<E>(index));
    known += (index++ ? ", " : "") + std::string(candidate);
  }
  fail("attribute '{}' is '{}', expected one of: {}", name, text, known);
}

[[noreturn]] void wrong_kind(std::string_view name, const AttrValue& got, const AttrValue& expected);

template <class T>
void from_attr(std::string_view name, const AttrValue& value, T& field) {
  if constexpr (std::is_same_v<T, Scalar>) {
    if (auto* i = std::get_if<int64_t>(&value)) return void(field = Scalar(*i));
    if (auto* d = std::get_if<double>(&value)) return void(field = Scalar(*d));
  } else if constexpr (std::is_enum_v<T> && !std::is_same_v<T, DType>) {
    if (auto* text = std::get_if<std::string>(&value)) return enum_from_attr(name, *text, field);
  } else {
    if (auto* held = std::get_if<T>(&value)) return void(field = *held);
    if constexpr (std::is_same_v<T, double>)
      if (auto* i = std::get_if<int64_t>(&value)) return void(field = static_cast<double>(*i));
  }
  wrong_kind(name, value, to_attr(field));
}

[[noreturn]] void unknown_attribute(const Attributes& attributes, const std::vector<std::string_view>& known);

// Throws an Error that names the attribute that the op does not have.
template <class Op>
[[noreturn]] void unknown_attribute_of(const Attributes& attributes, Op& op) {
  std::vector<std::string_view> known;
  Op::fields(op, [&](const char* name, auto&) { known.push_back(name); });
  unknown_attribute(attributes, known);
}

}  // namespace detail

template <class Op>
Attributes to_attributes(const Op& op) {
  Attributes attributes;
  Op::fields(op, [&](const char* name, const auto& field) { attributes.set(name, detail::to_attr(field)); });
  return attributes;
}

// Builds an op from attributes. Absent attributes keep the op's default; an unknown name or a value of the wrong kind throws
// Error.
template <class Op>
Op from_attributes(const Attributes& attributes) {
  Op op;
  size_t found = 0;
  Op::fields(op, [&](const char* name, auto& field) {
    if (const AttrValue* value = attributes.find(name)) {
      detail::from_attr(name, *value, field);
      ++found;
    }
  });
  if (found != attributes.size()) detail::unknown_attribute_of(attributes, op);
  return op;
}

}  // namespace genesis
