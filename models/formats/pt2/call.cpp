#include "models/formats/pt2/call.h"

#include <algorithm>

#include <fmt/ranges.h>

#include <limits>

#include "models/formats/pt2/size_expression.h"
#include "schema/core/error.h"
#include "schema/ops/elementwise/elementwise.h"

namespace genesis::models::pt2 {
namespace {

using nlohmann::json;

// Arguments that say where and how a result is stored, which is the executor's matter here.
const std::set<std::string> kOfStorage = {"device",        "layout",       "pin_memory",
                                          "memory_format", "non_blocking", "copy"};

const json kNone;

std::string shown(const json& value) { return value.dump().substr(0, 100); }

}  // namespace

DType dtype_of(int64_t scalar_type) {
  static const std::map<int64_t, DType> kTypes = {
      {1, DType::u8},  {2, DType::i8},  {3, DType::i16}, {4, DType::i32},      {5, DType::i64},
      {6, DType::f16}, {7, DType::f32}, {8, DType::f64}, {12, DType::boolean}, {13, DType::bf16}};
  const auto type = kTypes.find(scalar_type);
  if (type == kTypes.end())
    fail("torch's scalar type {} (complex, FP8 or unsigned 16 to 64 bits) is not read", scalar_type);
  return type->second;
}

Call::Call(GraphBuilder& g, const json& node, const Environment& environment)
    : g_(&g), target_(node.at("target").get<std::string>()), environment_(&environment) {
  for (const json& input : node.at("inputs"))
    arguments_[input.at("name").get<std::string>()] = &input.at("arg");
}

const json& Call::argument(const std::string& name) {
  read_.insert(name);
  const auto given = arguments_.find(name);
  if (given == arguments_.end() || given->second->contains("as_none")) return kNone;
  return *given->second;
}

bool Call::has(const std::string& name) { return !argument(name).is_null(); }

const json& Call::required(const std::string& name, std::initializer_list<const char*> kinds) {
  const json& given = argument(name);
  if (given.is_null()) fail("its argument '{}' is missing", name);
  for (const char* kind : kinds)
    if (given.contains(kind)) return given.at(kind);
  fail("its argument '{}' is {}: expected {}", name, shown(given), fmt::join(kinds, " or "));
}

Value Call::tensor_named(const json& value) const {
  const auto name = value.at("name").get<std::string>();
  const auto known = environment_->tensors.find(name);
  if (known == environment_->tensors.end())
    fail("it reads the tensor '{}', which nothing before it makes", name);
  return known->second;
}

Value Call::tensor(const std::string& name) { return tensor_named(required(name, {"as_tensor"})); }

bool Call::is_tensor(const std::string& name) { return argument(name).contains("as_tensor"); }

bool Call::is_list(const std::string& name) {
  return argument(name).contains("as_ints") || argument(name).contains("as_sym_ints");
}

bool Call::is_text(const std::string& name) { return argument(name).contains("as_string"); }

std::vector<Value> Call::tensors(const std::string& name) {
  std::vector<Value> values;
  for (const json& item : required(name, {"as_tensors", "as_optional_tensors"})) {
    const json& tensor = item.contains("as_tensor") ? item.at("as_tensor") : item;
    values.push_back(tensor.contains("as_none") ? Value{} : tensor_named(tensor));
  }
  return values;
}

// A size in a call: a number, or the name of a size computed earlier.
Dim Call::size_of(const json& value) const {
  if (value.is_number_integer()) return value.get<int64_t>();
  if (value.contains("as_int")) return value.at("as_int").get<int64_t>();
  if (!value.contains("as_name")) fail("{} is no size", shown(value));
  const auto name = value.at("as_name").get<std::string>();
  const auto known = environment_->sizes.find(name);
  if (known == environment_->sizes.end()) fail("it reads the size '{}', which nothing before it makes", name);
  return known->second;
}

Dim Call::size(const std::string& name) { return size_of(required(name, {"as_int", "as_sym_int"})); }

std::vector<Dim> Call::sizes(const std::string& name) {
  std::vector<Dim> sizes;
  for (const json& item : required(name, {"as_ints", "as_sym_ints"})) sizes.push_back(size_of(item));
  return sizes;
}

int64_t Call::integer(const std::string& name) {
  const Dim value = size(name);
  if (!value.is_constant()) fail("its argument '{}' is {}: expected a number", name, value.to_string());
  return value.value();
}

std::vector<int64_t> Call::integers(const std::string& name) {
  std::vector<int64_t> values;
  for (const Dim& size : sizes(name)) {
    if (!size.is_constant()) fail("its argument '{}' has {}: expected numbers", name, size.to_string());
    values.push_back(size.value());
  }
  return values;
}

std::vector<double> Call::numbers(const std::string& name) {
  const json& list = required(name, {"as_floats", "as_ints"});
  if (!list.is_array() || !std::ranges::all_of(list, [](const json& one) { return one.is_number(); }))
    fail("its argument '{}' is no list of numbers", name);
  return list.get<std::vector<double>>();
}

Scalar Call::scalar(const std::string& name) {
  const json& value = required(name, {"as_int", "as_float", "as_bool"});
  if (value.is_boolean()) return value.get<bool>() ? 1 : 0;
  if (value.is_number_integer()) return value.get<int64_t>();
  if (value.is_number()) return value.get<double>();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (value == "Infinity") return kInfinity;
  if (value == "-Infinity") return -kInfinity;
  if (value == "NaN") return std::numeric_limits<double>::quiet_NaN();
  fail("its argument '{}' is {}: expected a number", name, shown(value));
}

bool Call::flag_or(const std::string& name, bool otherwise) {
  return has(name) ? required(name, {"as_bool"}).get<bool>() : otherwise;
}

std::string Call::text_or(const std::string& name, const std::string& otherwise) {
  return has(name) ? required(name, {"as_string"}).get<std::string>() : otherwise;
}

std::optional<DType> Call::dtype(const std::string& name) {
  if (!has(name)) return std::nullopt;
  return dtype_of(required(name, {"as_scalar_type"}).get<int64_t>());
}

Value Call::operand(const std::string& name, Value like) {
  return is_tensor(name) ? tensor(name) : scalar_like(like, scalar(name));
}

void Call::must_be(const std::string& name, const json& value) {
  const json& given = argument(name);
  if (given.is_null()) return;
  if (given.begin().value() != value)
    fail("its argument '{}' is {}: read is only {}", name, shown(given), value.dump());
}

void Call::ignore_all() {
  for (const auto& [name, value] : arguments_) read_.insert(name);
}

void Call::check_all_read() const {
  for (const auto& [name, value] : arguments_)
    if (!read_.contains(name) && !kOfStorage.contains(name) && !value->contains("as_none"))
      fail("its argument '{}' ({}) is not understood", name, shown(*value));
}

}  // namespace genesis::models::pt2
