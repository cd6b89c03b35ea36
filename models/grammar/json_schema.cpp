#include "models/grammar/json_schema.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

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
  Rule character();
  Rule string(int64_t least = 0, int64_t most = -1) {
    return g_.sequence({g_.text("\""), g_.repeat(character(), least, most), g_.text("\"")});
  }
  Rule integer();
  Rule number();
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
  Rule constants(const Json& values);
  Rule object(const Json& schema, const Location& at);
  Rule properties(const std::vector<std::pair<Rule, bool>>& pairs, size_t at, bool is_first,
                  std::optional<Rule> others);
  Rule array(const Json& schema, const Location& at);
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
    Bytes hex;
    for (const char c : std::string("0123456789abcdefABCDEF")) hex.set(static_cast<unsigned char>(c));
    Bytes escapes;
    for (const char c : std::string("\"\\/bfnrt")) escapes.set(static_cast<unsigned char>(c));
    const Rule code = g_.sequence({g_.text("u"), g_.repeat(g_.one_of(hex), 4, 4)});
    return g_.any_of({plain, g_.sequence({g_.text("\\"), g_.any_of({g_.one_of(escapes), code})})});
  });
}

Rule JsonRules::integer() {
  return kept(integer_, [&] { return add_regex(g_, "-?(0|[1-9][0-9]{0,17})"); });
}

Rule JsonRules::number() {
  return kept(number_,
              [&] { return add_regex(g_, "-?(0|[1-9][0-9]{0,17})(\\.[0-9]{1,17})?([eE][+-]?[0-9]{1,3})?"); });
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
    return constants(schema.contains("enum") ? schema["enum"] : Json::array({schema["const"]}));
  }
  Json type = schema.value("type", Json());
  if (type.is_null() && schema.contains("properties")) type = "object";
  if (type.is_null()) {
    check_keys(schema, {}, at);
    return any_value();
  }
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
  const bool is_among_others = schema["type"].is_array();
  if (!is_among_others) check_keys(schema, {"type"}, at);
  if (type == "integer") return integer();
  if (type == "number") return number();
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

Rule JsonRules::constants(const Json& values) {
  std::vector<Rule> choices;
  for (const Json& one : values) choices.push_back(g_.text(one.dump()));
  if (choices.empty()) fail("an enum of the schema has no value");
  return g_.any_of(choices);
}

Rule JsonRules::object(const Json& schema, const Location& at) {
  check_keys(schema, {"type", "properties", "required", "additionalProperties"}, at);
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
  if (allows_any || more.is_object())
    others = pair(any_string(), allows_any ? any_value() : value(more, at.inner("additionalProperties")));
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
  check_keys(schema, {"type", "items", "minItems", "maxItems"}, at);
  const Rule item = schema.contains("items") ? value(schema["items"], at.inner("items")) : any_value();
  return list(g_.text("["), item, count(schema, "minItems", 0, at), count(schema, "maxItems", -1, at),
              g_.text("]"));
}

Rule JsonRules::text(const Json& schema, const Location& at) {
  check_keys(schema, {"type", "minLength", "maxLength", "pattern"}, at);
  if (!schema.contains("pattern"))
    return string(count(schema, "minLength", 0, at), count(schema, "maxLength", -1, at));
  const Json& pattern = schema["pattern"];
  const bool is_whole = pattern.is_string() && pattern.get<std::string>().starts_with('^') &&
                        pattern.get<std::string>().ends_with('$');
  if (!is_whole || schema.contains("minLength") || schema.contains("maxLength"))
    fail(
        "the schema at {}/pattern: expected a string that begins with ^ and ends with $, without lengths "
        "beside it",
        at.path);
  return g_.sequence({g_.text("\""), add_regex(g_, pattern.get<std::string>()), g_.text("\"")});
}

}  // namespace

Rule add_json_object(Grammar& grammar) { return JsonRules(grammar).any_object(); }

Rule add_json_schema(Grammar& grammar, const Json& schema) {
  return JsonRules(grammar).of_schema(schema, schema);
}

}  // namespace genesis::grammar
