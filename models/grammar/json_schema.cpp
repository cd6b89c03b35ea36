#include "models/grammar/json_schema.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "models/grammar/json_formats.h"
#include "models/grammar/json_types.h"
#include "models/grammar/regex.h"
#include "schema/core/error.h"

namespace genesis::grammar {
namespace {

using Json = nlohmann::ordered_json;
using Rule = Grammar::Rule;

constexpr int kDepth = 64;

// Keys that restrict nothing.
const std::set<std::string> kNotes = {"title", "description", "default",      "examples", "$schema",
                                      "$id",   "$comment",    "deprecated",   "readOnly", "writeOnly",
                                      "$defs", "definitions", "discriminator"};

class JsonRules {
 public:
  explicit JsonRules(Grammar& grammar) : g_(grammar), blank_(blanks()) {}

  Rule any_value();
  Rule any_object();
  Rule of_schema(const Json& schema, const Json& root);

 private:
  // A schema's location in the whole.
  struct Location {
    const Json& root;
    std::string path;
    int depth = 0;
    Location inner(const std::string& name) const { return {root, path + "/" + name, depth + 1}; }
  };

  Rule blanks();
  Rule digit_of(std::string_view characters);
  Rule code_unit();
  Rule character();
  Rule written(const Ranges& ranges);
  MakeCharacters as_written() {
    return [this](const Ranges& ranges) { return written(ranges); };
  }
  Rule other_string(const std::vector<std::string>& names);
  Rule string(int64_t least = 0, int64_t most = -1) {
    return g_.sequence({g_.text("\""), g_.repeat(character(), least, most), g_.text("\"")});
  }
  Rule integer();
  Rule number();
  Rule number_within(const Json& schema, bool is_integer, const Location& at);
  Rule list(Rule open, Rule item, int64_t least, int64_t most, Rule close);
  Rule pair(Rule key, Rule value) { return g_.sequence({key, blank_, g_.text(":"), blank_, value}); }
  Rule any_string() {
    return kept(any_string_, [&] { return string(); });
  }
  template <class Make>
  Rule kept(std::optional<Rule>& rule, const Make& make) {
    if (!rule) rule = make();
    return *rule;
  }

  Rule value(const Json& schema, const Location& at);
  Rule of_type(const std::string& type, const Json& schema, const Location& at);
  Rule reference(const std::string& target, const Location& at);
  const Json& referred(const std::string& target, const Location& at);
  Rule choice(const Json& schemas, const Location& at);
  Rule constants(const Json& schema, const Location& at);
  Rule constant(const Json& value);
  Rule object(const Json& schema, const Location& at);
  Rule properties(const std::vector<std::pair<Rule, bool>>& pairs, size_t at, bool is_first,
                  std::optional<Rule> others);
  Rule array(const Json& schema, const Location& at);
  Rule tuple(const Json& schema, const Location& at);
  Rule text(const Json& schema, const Location& at);
  int64_t count(const Json& schema, const char* name, int64_t otherwise, const Location& at);
  void check_keys(const Json& schema, const std::set<std::string>& known, const Location& at);

  Grammar& g_;
  const Rule blank_;
  std::optional<Rule> any_value_, any_object_, any_string_, character_, number_, integer_;
  std::map<std::string, Rule> references_;
};

Rule JsonRules::blanks() {
  const Rule line = g_.sequence({g_.text("\n"), g_.repeat(g_.text(" "), 0, 20)});
  return g_.any_of({g_.text(""), g_.text(" "), line});
}

Rule JsonRules::character() {
  return kept(character_, [&] {
    const Rule plain = g_.characters({{0x20, 0x21}, {0x23, 0x5B}, {0x5D, 0xD7FF}, {0xE000, 0x10FFFF}});
    return g_.any_of({plain, g_.sequence({g_.text("\\"), g_.any_of({digit_of("\"\\/bfnrt"), code_unit()})})});
  });
}

Rule JsonRules::digit_of(std::string_view characters) {
  Bytes bytes;
  for (const char c : characters) bytes.set(static_cast<unsigned char>(c));
  return g_.one_of(bytes);
}

// Adds what follows the backslash of an escaped character. Two halves of a surrogate pair are one character, as lengths count them; a
// half alone is none.
Rule JsonRules::code_unit() {
  const Rule hex = digit_of("0123456789abcdefABCDEF"), d = digit_of("dD");
  const Rule two = g_.repeat(hex, 2, 2), three = g_.repeat(hex, 3, 3);
  const Rule single = g_.any_of(
      {g_.sequence({digit_of("0123456789abcefABCEF"), three}), g_.sequence({d, digit_of("01234567"), two})});
  const Rule pair = g_.sequence({d, digit_of("89abAB"), two, g_.text("\\u"), d, digit_of("cdefCDEF"), two});
  return g_.sequence({g_.text("u"), g_.any_of({single, pair})});
}

// Adds a character of the ranges as a string of JSON has it: some are escaped.
Rule JsonRules::written(const Ranges& ranges) {
  const Ranges plain = {{0x20, 0x21}, {0x23, 0x5B}, {0x5D, 0xD7FF}, {0xE000, 0x10FFFF}};
  const auto has = [&](char32_t c) {
    return std::ranges::any_of(ranges,
                               [&](const auto& range) { return range.first <= c && c <= range.second; });
  };
  Ranges own;
  for (const auto& [low, high] : ranges)
    for (const auto& [first, last] : plain)
      if (std::max(low, first) <= std::min(high, last))
        own.emplace_back(std::max(low, first), std::min(high, last));
  std::vector<Rule> choices = {g_.characters(own)};
  for (const std::string_view pair : {"\"\"", "\\\\", "//", "\bb", "\ff", "\nn", "\rr", "\tt"})
    if (has(static_cast<char32_t>(pair[0]))) choices.push_back(g_.text(std::string("\\") + pair[1]));
  for (char32_t c = 0; c < 0x20; ++c)
    if (has(c)) choices.push_back(g_.text(fmt::format("\\u{:04x}", static_cast<unsigned>(c))));
  return g_.any_of(choices);
}

// Adds a string that is none of these. Where it has gone another way than all of them, it may be anything.
Rule JsonRules::other_string(const std::vector<std::string>& names) {
  struct Branch {
    std::map<char32_t, size_t> next;
    bool is_name = false;
  };
  std::vector<Branch> branches(1);
  for (const std::string& name : names) {
    size_t branch = 0;
    for (size_t at = 0; at < name.size();) {
      const auto c = read_character(name, at);
      if (!c) fail("the name of a property is no UTF-8");
      const auto [found, is_new] = branches[branch].next.emplace(*c, branches.size());
      const size_t behind = found->second;
      if (is_new) branches.emplace_back();
      branch = behind;
    }
    branches[branch].is_name = true;
  }
  const Rule rest = g_.sequence({g_.repeat(character(), 0), g_.text("\"")});
  std::vector<Rule> rules(branches.size());
  for (size_t i = branches.size(); i-- > 0;) {  // branches come after those that they begin in
    std::vector<Rule> choices;
    Ranges taken;
    for (const auto& [c, behind] : branches[i].next) {
      taken.emplace_back(c, c);
      choices.push_back(g_.sequence({written({{c, c}}), rules[behind]}));
    }
    choices.push_back(g_.sequence({written(complement(taken)), rest}));
    if (!branches[i].is_name) choices.push_back(g_.text("\""));
    rules[i] = g_.any_of(choices);
  }
  return g_.sequence({g_.text("\""), rules[0]});
}

Rule JsonRules::integer() {
  return kept(integer_, [&] { return add_regex(g_, whole_number_expression()); });
}

Rule JsonRules::number() {
  return kept(number_,
              [&] { return add_regex(g_, "-?(0|[1-9][0-9]{0,17})(\\.[0-9]{1,17})?([eE][+-]?[0-9]{1,3})?"); });
}

// A limit of numbers that have fractions must be whole.
Rule JsonRules::number_within(const Json& schema, bool is_integer, const Location& at) {
  NumberRange range;
  bool leaves_least = false, leaves_most = false;
  const auto limit = [&](const char* name) -> std::optional<int64_t> {
    const Json value = schema.value(name, Json());
    if (value.is_null()) return {};
    if (!is_whole(value)) fail("the schema at {}/{} is no whole number of up to 15 digits", at.path, name);
    return static_cast<int64_t>(value.get<double>());
  };
  range.least = limit("minimum");
  range.most = limit("maximum");
  if (const auto above = limit("exclusiveMinimum"); above && (!range.least || *above >= *range.least)) {
    range.least = *above + is_integer;
    leaves_least = true;
  }
  if (const auto below = limit("exclusiveMaximum"); below && (!range.most || *below <= *range.most)) {
    range.most = *below - is_integer;
    leaves_most = true;
  }
  if (!range.least && !range.most) return is_integer ? integer() : number();
  return with_context(
      [&] {
        return add_regex(g_, is_integer ? integer_expression(range) + kZeroFraction
                                        : number_expression(range, leaves_least, leaves_most));
      },
      [&] { return "in the schema at " + at.path; });
}

Rule JsonRules::list(Rule open, Rule item, int64_t least, int64_t most, Rule close) {
  const Rule more = g_.sequence({blank_, g_.text(","), blank_, item});
  const Rule filled =
      g_.sequence({item, g_.repeat(more, std::max<int64_t>(least - 1, 0), most < 0 ? -1 : most - 1)});
  const Rule inside = most == 0 ? g_.text("") : least > 0 ? filled : g_.optional(filled);
  return g_.sequence({open, blank_, inside, blank_, close});
}

Rule JsonRules::any_value() {
  if (any_value_) return *any_value_;
  any_value_ = g_.declare();
  const Rule array = list(g_.text("["), *any_value_, 0, -1, g_.text("]"));
  g_.define(*any_value_, g_.any_of({any_object(), array, any_string(), number(), g_.text("true"),
                                    g_.text("false"), g_.text("null")}));
  return *any_value_;
}

Rule JsonRules::any_object() {
  if (any_object_) return *any_object_;
  any_object_ = g_.declare();
  const Rule value = any_value();
  g_.define(*any_object_, list(g_.text("{"), pair(any_string(), value), 0, -1, g_.text("}")));
  return *any_object_;
}

Rule JsonRules::of_schema(const Json& schema, const Json& root) { return value(schema, {root, "#"}); }

void JsonRules::check_keys(const Json& schema, const std::set<std::string>& known, const Location& at) {
  for (const auto& [name, unused] : schema.items())
    if (!known.contains(name) && !kNotes.contains(name))
      fail("the schema at {} has '{}', which is not supported here: leave it out", at.path, name);
}

Rule JsonRules::value(const Json& schema, const Location& at) {
  if (at.depth > kDepth) fail("the schema is nested more than {} deep", kDepth);
  if (schema.is_boolean() && schema == true) return any_value();
  if (!schema.is_object()) fail("the schema at {} is no object", at.path);
  if (schema.contains("$ref")) {
    check_keys(schema, {"$ref"}, at);
    return reference(schema["$ref"].is_string() ? schema["$ref"].get<std::string>() : "", at);
  }
  for (const char* name : {"anyOf", "oneOf", "allOf"}) {
    if (!schema.contains(name)) continue;
    check_keys(schema, {name}, at);
    const Json& all = schema[name];
    if (!all.is_array() || all.empty() || (name == std::string("allOf") && all.size() != 1))
      fail("the schema at {}/{} is no list of schemas that can be used: allOf may have one", at.path, name);
    return choice(all, at.inner(name));
  }
  if (schema.contains("enum") && !schema["enum"].is_array())
    fail("the schema at {}/enum is no list", at.path);
  if (schema.contains("enum") || schema.contains("const")) {
    check_keys(schema, {"enum", "const", "type"}, at);
    return constants(schema, at);
  }
  Json type = schema.value("type", Json());
  if (type.is_null() && schema.contains("properties")) type = "object";
  if (type.is_null()) {
    check_keys(schema, {}, at);
    return any_value();
  }
  Json typed = schema;
  typed["type"] = type;
  check_keys(schema, keys_of_types(typed), at);
  if (type.is_string()) return of_type(type.get<std::string>(), schema, at);
  std::vector<Rule> choices;
  for (const Json& one : type.is_array() ? type : Json::array())
    if (one.is_string()) choices.push_back(of_type(one.get<std::string>(), schema, at));
  if (choices.empty()) fail("the schema at {}/type is neither a string nor a list of strings", at.path);
  return g_.any_of(choices);
}

Rule JsonRules::of_type(const std::string& type, const Json& schema, const Location& at) {
  if (type == "object") return object(schema, at);
  if (type == "array") return array(schema, at);
  if (type == "string") return text(schema, at);
  if (type == "integer") return number_within(schema, true, at);
  if (type == "number") return number_within(schema, false, at);
  if (type == "boolean") return g_.any_of({g_.text("true"), g_.text("false")});
  if (type == "null") return g_.text("null");
  fail("the schema at {} has the type '{}', which there is none", at.path, type);
}

const Json& JsonRules::referred(const std::string& target, const Location& at) {
  try {
    return at.root.at(Json::json_pointer(target.substr(1)));
  } catch (const Json::exception&) {
    fail("the schema at {} refers to {}, which there is none", at.path, target);
  }
}

// A schema may refer to itself, so the rule is known before its meaning is.
Rule JsonRules::reference(const std::string& target, const Location& at) {
  if (const auto known = references_.find(target); known != references_.end()) return known->second;
  if (!target.starts_with("#"))
    fail("the schema at {} refers to '{}', expected a place in itself: #/$defs/...", at.path, target);
  const Rule rule = g_.declare();
  references_.emplace(target, rule);
  g_.define(rule, value(referred(target, at), {at.root, target, at.depth + 1}));
  return rule;
}

Rule JsonRules::choice(const Json& schemas, const Location& at) {
  std::vector<Rule> choices;
  for (size_t i = 0; i < schemas.size(); ++i)
    choices.push_back(value(schemas[i], at.inner(std::to_string(i))));
  return g_.any_of(choices);
}

Rule JsonRules::constants(const Json& schema, const Location& at) {
  std::vector<Rule> choices;
  const Json values = schema.contains("enum") ? schema["enum"] : Json::array({schema["const"]});
  for (const Json& one : values) {
    const bool is_const = !schema.contains("const") || schema["const"] == one;
    if (is_const && may_be(one, schema)) choices.push_back(constant(one));
  }
  if (choices.empty()) fail("the schema at {} allows no value", at.path);
  return g_.any_of(choices);
}

Rule JsonRules::constant(const Json& value) {
  if (is_whole(value))  // 5 and 5.0 are the same
    return g_.sequence({g_.text(fmt::format("{:.0f}", value.get<double>())), add_regex(g_, kZeroFraction)});
  if (!value.is_structured()) return g_.text(value.dump());
  const bool is_object = value.is_object();
  std::vector<Rule> parts = {g_.text(is_object ? "{" : "["), blank_};
  bool is_first = true;
  for (const auto& [name, inner] : value.items()) {
    if (!std::exchange(is_first, false)) parts.insert(parts.end(), {blank_, g_.text(","), blank_});
    parts.push_back(is_object ? pair(g_.text(Json(name).dump()), constant(inner)) : constant(inner));
  }
  parts.insert(parts.end(), {blank_, g_.text(is_object ? "}" : "]")});
  return g_.sequence(parts);
}

Rule JsonRules::object(const Json& schema, const Location& at) {
  const Json named = schema.value("properties", Json::object()),
             more = schema.value("additionalProperties", Json());
  const Json required = schema.value("required", Json::array());
  if (!named.is_object() || !required.is_array())
    fail("the schema at {} has properties or required of another kind", at.path);
  for (const Json& name : required)
    if (!name.is_string() || !named.contains(name.get<std::string>()))
      fail("the schema at {} requires {}, which is none of its properties", at.path, name.dump());
  std::optional<Rule> others;
  const bool allows_any = more == true || (more.is_null() && named.empty());
  if (allows_any || more.is_object()) {
    std::vector<std::string> names;
    for (const auto& [name, unused] : named.items()) names.push_back(name);
    others = pair(names.empty() ? any_string() : other_string(names),
                  allows_any ? any_value() : value(more, at.inner("additionalProperties")));
  }
  std::vector<std::pair<Rule, bool>> pairs;
  for (const auto& [name, inner] : named.items()) {
    const bool is_required = std::ranges::find(required, Json(name)) != required.end();
    pairs.emplace_back(pair(g_.text(Json(name).dump()), value(inner, at.inner("properties").inner(name))),
                       is_required);
  }
  return g_.sequence({g_.text("{"), blank_, properties(pairs, 0, true, others), blank_, g_.text("}")});
}

// Returns the pairs from `at` on, of which those that are not required may be left out, and other ones behind them.
Rule JsonRules::properties(const std::vector<std::pair<Rule, bool>>& pairs, size_t at, bool is_first,
                           std::optional<Rule> others) {
  std::map<std::pair<size_t, bool>, Rule> made;  // from the last to the first, so that each is made once
  const Rule comma = g_.sequence({blank_, g_.text(","), blank_});
  for (const bool first : {false, true}) {
    Rule rest = g_.text("");
    if (others) {
      const Rule more = g_.repeat(g_.sequence({comma, *others}), 0);
      rest = first ? g_.optional(g_.sequence({*others, more})) : more;
    }
    made.emplace(std::pair(pairs.size(), first), rest);
  }
  for (size_t i = pairs.size(); i-- > at;)
    for (const bool first : {false, true}) {
      std::vector<Rule> parts = {pairs[i].first, made.at({i + 1, false})};
      if (!first) parts.insert(parts.begin(), comma);
      Rule rule = g_.sequence(parts);
      if (!pairs[i].second) rule = g_.any_of({rule, made.at({i + 1, first})});
      made.emplace(std::pair(i, first), rule);
    }
  return made.at({at, is_first});
}

int64_t JsonRules::count(const Json& schema, const char* name, int64_t otherwise, const Location& at) {
  const Json value = schema.value(name, Json());
  if (value.is_null()) return otherwise;
  if (!value.is_number_integer() || value.get<int64_t>() < 0)
    fail("the schema at {}/{} is no whole number", at.path, name);
  return value.get<int64_t>();
}

Rule JsonRules::array(const Json& schema, const Location& at) {
  if (schema.contains("prefixItems")) return tuple(schema, at);
  const int64_t least = count(schema, "minItems", 0, at), most = count(schema, "maxItems", -1, at);
  const bool is_empty = schema.contains("items") && schema["items"] == false;
  if (is_empty && least > 0) fail("the schema at {} has minItems, but allows no items", at.path);
  const Rule item =
      schema.contains("items") && !is_empty ? value(schema["items"], at.inner("items")) : any_value();
  return list(g_.text("["), item, least, is_empty ? 0 : most, g_.text("]"));
}

// Adds an array of which the first items have schemas of their own. All of them must be there.
Rule JsonRules::tuple(const Json& schema, const Location& at) {
  const Json& first = schema["prefixItems"];
  const int64_t size = std::ssize(first);
  const bool has_all = first.is_array() && size > 0 && count(schema, "minItems", 0, at) == size &&
                       (schema.value("items", Json()) == false || count(schema, "maxItems", -1, at) == size);
  if (!has_all)
    fail("the schema at {}/prefixItems: expected a list, with \"items\": false and minItems of its size",
         at.path);
  std::vector<Rule> parts = {g_.text("["), blank_};
  for (int64_t i = 0; i < size; ++i) {
    if (i > 0) parts.insert(parts.end(), {blank_, g_.text(","), blank_});
    parts.push_back(value(first[static_cast<size_t>(i)], at.inner("prefixItems").inner(std::to_string(i))));
  }
  parts.insert(parts.end(), {blank_, g_.text("]")});
  return g_.sequence(parts);
}

Rule JsonRules::text(const Json& schema, const Location& at) {
  const bool has_lengths = schema.contains("minLength") || schema.contains("maxLength");
  if (!schema.contains("pattern") && !schema.contains("format"))
    return string(count(schema, "minLength", 0, at), count(schema, "maxLength", -1, at));
  if (has_lengths || (schema.contains("pattern") && schema.contains("format")))
    fail("the schema at {} has more than one of pattern, format and lengths: give one", at.path);
  const char* name = schema.contains("pattern") ? "pattern" : "format";
  const Json& given = schema[name];
  if (!given.is_string()) fail("the schema at {}/{} is no string", at.path, name);
  const auto format = format_expression(given.get<std::string>());
  if (name == std::string_view("format") && !format)
    fail("the schema at {}/format is {}, which is not supported here: leave it out", at.path, given.dump());
  const Rule inside = with_context(
      [&] {
        return name == std::string_view("pattern")
                   ? add_regex_search(g_, given.get<std::string>(), as_written())
                   : add_regex(g_, *format);
      },
      [&] { return fmt::format("in the schema at {}/{}", at.path, name); });
  return g_.sequence({g_.text("\""), inside, g_.text("\"")});
}

}  // namespace

Rule add_json_object(Grammar& grammar) { return JsonRules(grammar).any_object(); }

Rule add_json_schema(Grammar& grammar, const Json& schema) {
  return JsonRules(grammar).of_schema(schema, schema);
}

}  // namespace genesis::grammar
