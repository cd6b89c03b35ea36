// Tests grammars against texts that they describe and texts that they do not, and damaged requests.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "models/grammar/gbnf.h"
#include "models/grammar/json_schema.h"
#include "models/grammar/regex.h"
#include "models/grammar/token_masks.h"
#include "schema/core/error.h"
#include "tests/error_of.h"
#include "tests/fuzz/mutate.h"
#include "tests/fuzz/try_request.h"

namespace genesis::grammar {
namespace {

using genesis::testing::error_of;
using Json = nlohmann::ordered_json;

bool matches(Recognizer& recognizer, const std::string& text) {
  auto state = recognizer.start();
  for (const char byte : text) state = recognizer.next(state, static_cast<unsigned char>(byte));
  return recognizer.may_end(state);
}

template <class Add>
void expect(const Add& add, const std::vector<std::string>& good, const std::vector<std::string>& bad) {
  Grammar grammar;
  grammar.set_root(add(grammar));
  Recognizer recognizer(grammar);
  for (const std::string& text : good) EXPECT_TRUE(matches(recognizer, text)) << text;
  for (const std::string& text : bad) EXPECT_FALSE(matches(recognizer, text)) << text;
}

void expect_regex(const std::string& expression, const std::vector<std::string>& good,
                  const std::vector<std::string>& bad) {
  expect([&](Grammar& g) { return add_regex(g, expression); }, good, bad);
}

void expect_schema(const std::string& schema, const std::vector<std::string>& good,
                   const std::vector<std::string>& bad) {
  expect([&](Grammar& g) { return add_json_schema(g, Json::parse(schema)); }, good, bad);
}

TEST(Regex, DescribesTexts) {
  expect_regex("^a+(b|cd)?$", {"a", "aab", "acd"}, {"", "b", "ac", "abb"});
  expect_regex("[a-c\\d_]{2,3}", {"a1", "_bc"}, {"a", "abcd", "ad"});
  expect_regex("[^é]é.", {"xéz", "üéü"}, {"ééz", "xé\n", "x\xc3z"});
  expect_regex("\\w+@\\w+\\.(?:com|org)", {"me@here.org"}, {"me@here", "@here.org"});
}

TEST(Regex, RefusesWhatItDoesNotKnow) {
  for (const char* expression :
       {"(?=a)", "a\\b", "(a", "[a", "a)", "*a", "a{2", "a{3,2}", "\\1", "[b-a]", "\xff", "a{5000}"}) {
    Grammar grammar;
    EXPECT_NE(error_of([&] { add_regex(grammar, expression); }), "") << expression;
  }
}

TEST(JsonSchema, AnyObject) {
  expect([](Grammar& g) { return add_json_object(g); },
         {"{}", R"({"a": [1, -2.5e+3, true, null, "x\n\u00e9ü"], "b": {"c": {}}})", "{\n  \"a\": 1\n}"},
         {"[]", "{\"a\" 1}", "{\"a\": 01}", "{\"a\": \"\n\"}", "{,}", "{}  ", "{\"a\": \"\xff\"}"});
}

TEST(JsonSchema, ObjectsWithProperties) {
  const std::string schema =
      R"({"type": "object", "title": "T", "properties": {"a": {"type": "integer"}, "b": {"type": ["string", "null"]},
      "c": {"enum": ["x", 2]}}, "required": ["b"]})";
  expect_schema(
      schema,
      {R"({"b": null})", R"({"a": 1, "b": "y"})", R"({"b": "", "c": 2})", R"({"a": -7, "b": "", "c": "x"})"},
      {"{}", R"({"a": 1})", R"({"b": "", "a": 1})", R"({"a": 1.5, "b": ""})", R"({"b": "", "d": 1})",
       R"({, "b": ""})"});
  expect_schema(
      R"({"type": "object", "properties": {"a": {"type": "boolean"}}, "additionalProperties": {"type": "number"}})",
      {"{}", R"({"a": true})", R"({"x": 1})", R"({"a": true, "x": 1, "y": 2})"}, {R"({"x": "1"})"});
}

TEST(JsonSchema, ListsAndReferences) {
  expect_schema(R"({"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 2})",
                {"[1]", "[1, 2]"}, {"[]", "[1, 2, 3]", "[1,]"});
  expect_schema(
      R"({"$ref": "#/$defs/node", "$defs": {"node": {"type": "object", "properties": {"next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}},
      "required": ["next"]}}})",
      {R"({"next": null})", R"({"next": {"next": null}})"}, {"{}", R"({"next": {}})"});
  expect_schema(R"({"type": "string", "pattern": "^[a-z]+$"})", {"\"ab\""}, {"\"\"", "\"A\""});
}

TEST(JsonSchema, StringsThatMatch) {
  expect_schema(R"({"type": "string", "pattern": "b.$|^x"})", {R"("ab\"")", R"("bc")", R"("xyz")"},
                {R"("ab"")", R"("a")", R"("bcd")", "\"b\n\""});
  expect_schema(R"({"type": "string", "format": "date"})", {"\"2024-02-29\"", "\"1999-12-31\""},
                {"\"2023-02-29\"", "\"1900-02-29\"", "\"2024-13-01\"", "\"24-01-01\""});
  expect_schema(R"({"type": "string", "format": "ipv4"})", {"\"127.0.0.255\""},
                {"\"1.2.3\"", "\"1.2.3.256\""});
}

// A character beyond U+FFFF is two escapes, and one character.
TEST(JsonSchema, SurrogatePairsAreOneCharacter) {
  expect_schema(R"({"type": "string", "minLength": 1, "maxLength": 1})",
                {R"("\ud83d\ude00")", R"("\u00e9")", R"("\uD7ff")", R"("\n")"},
                {R"("\ud83d")", R"("\ude00")", R"("\ud83d\u0041")", R"("\ud83d\ude00a")"});
  expect_schema(R"({"type": "string", "minLength": 2})", {R"("\ud83d\ude00a")"}, {R"("\ud83d\ude00")"});
}

TEST(JsonSchema, NumbersOfARange) {
  for (const auto& [least, most] :
       {std::pair(-120, 7), std::pair(3, 3), std::pair(95, 1203), std::pair(-40, -8)}) {
    Grammar grammar;
    grammar.set_root(add_json_schema(grammar, {{"type", "integer"}, {"minimum", least}, {"maximum", most}}));
    Recognizer recognizer(grammar);
    for (int i = -1500; i < 1500; ++i)
      EXPECT_EQ(matches(recognizer, std::to_string(i)), least <= i && i <= most)
          << i << " of " << least << " to " << most;
  }
  expect_schema(R"({"type": "number", "exclusiveMinimum": 0, "maximum": 2})",
                {"0.001", "1", "1.999", "2", "2.00"}, {"0", "0.0", "2.01", "-1", "3", "-0.5"});
  expect_schema(R"({"type": "number", "minimum": -1})", {"-1", "-1.0", "-0.5", "0", "17.25"}, {"-1.5", "-2"});
}

TEST(JsonSchema, IntegersMayBeWrittenAsOtherNumbers) {
  expect_schema(R"({"type": "integer"})",
                {"0", "-826", "826.0", "-1.000", "1e3", "1E+03", "1.5e3", "0.25e2", "12.50e02", "7e17"},
                {"826.5", "1.", "1e-3", "1.25e1", "1.e3", "01", "0.5", "1e", "7e18", "-"});
  expect_schema(R"({"type": "integer", "minimum": 3, "exclusiveMaximum": 900})", {"3", "826.0", "899.00"},
                {"2.0", "900.0", "3.5", "8."});
  expect_schema(R"({"type": "integer", "enum": [5, 7.0, 2.5]})", {"5", "5.0", "7", "7.00"}, {"2.5", "5.5"});
  expect_schema(R"({"const": 2.5})", {"2.5"}, {"2", "2.50001"});
}

// Objects of JSON have no order, but an answer keeps that of the schema: docs/serving.md says why.
TEST(JsonSchema, PropertiesComeInTheOrderOfTheSchema) {
  expect_schema(
      R"({"type": "object", "properties": {"why": {"type": "string"}, "is": {"type": "boolean"}},
      "required": ["is", "why"], "additionalProperties": true})",
      {R"({"why": "", "is": true})", R"({"why": "", "is": true, "more": 1, "again": 2})"},
      {R"({"is": true, "why": ""})", R"({"more": 1, "why": "", "is": true})"});
}

TEST(JsonSchema, OtherPropertiesAreNotTheNamedOnes) {
  expect_schema(
      R"({"type": "object", "properties": {"ab": {"type": "boolean"}}, "additionalProperties": {"type": "integer"}})",
      {R"({"ab": true, "a": 1, "abc": 2, "": 3})"},
      {R"({"ab": 1})", R"({"a": 1, "ab": 2})", R"({"\u0061b": 1})"});
}

TEST(JsonSchema, ConstantsOfTheirType) {
  expect_schema(R"({"type": ["string", "object"], "enum": ["a", 1, {"b": [1, 2]}]})",
                {"\"a\"", R"({"b":[1,2]})", R"({ "b": [1, 2] })"}, {"1", R"({"b": [1]})"});
  expect_schema(
      R"({"type": "array", "prefixItems": [{"type": "integer"}, {"type": "null"}], "items": false, "minItems": 2})",
      {"[1, null]"}, {"[1]", "[]", "[1, null, 2]"});
}

TEST(Gbnf, DescribesTexts) {
  const std::string text = R"(# a comment
root ::= (greeting | "bye" "!"{2}) [^\n] # behind
greeting ::=
  "hi" (", " name)? |
  "\x48\u00e9" .
name ::= [A-Z] [a-z-]{1,3}
)";
  expect([&](Grammar& g) { return add_gbnf(g, text); }, {"hi.", "hi, Ann?", "bye!!x", "H\u00e9\u4e16 "},
         {"hi", "hi, ann.", "bye!x", "hi, Annaa?", "hi\n", "hi, A."});
  expect([](Grammar& g) { return add_gbnf(g, "root ::= \"(\" root* \")\""); }, {"()", "(()(()))"},
         {"", "(", "())"});
}

TEST(Gbnf, RefusesWhatItDoesNotKnow) {
  for (const char* text : {"", "a ::= \"b\"", "root ::= b", "root = \"a\"", "root ::= \"a", "root ::= [a",
                           "root ::= (\"a\"", "root ::= \"a\" )", "root ::= \"\\q\"", "root ::= \"a\"{2,1}",
                           "root ::= \"a\"\nroot ::= \"b\"", "root ::= [b-a]", "root ::= \"\xff\""}) {
    Grammar grammar;
    EXPECT_NE(error_of([&] { add_gbnf(grammar, text); }), "") << text;
  }
  Grammar endless;
  endless.set_root(add_gbnf(endless, "root ::= root \"a\" | \"b\""));
  EXPECT_NE(error_of([&] { Recognizer recognizer(endless); }).find("begins with itself"), std::string::npos);
}

TEST(JsonSchema, RefusesWhatItCannotKeep) {
  for (const char* schema :
       {R"({"type": "integer", "multipleOf": 3})", R"({"type": "text"})",
        R"({"type": "number", "minimum": 0.5})", R"({"type": "integer", "minimum": 3, "maximum": 2})",
        R"({"type": "string", "minimum": 3})", R"({"type": "array", "prefixItems": [{}]})",
        R"({"type": "string", "enum": [1]})", R"({"$ref": "http://x"})", R"({"$ref": "#/no"})",
        R"({"$ref": "#a"})", R"({"type": "object", "properties": {}, "required": ["x"]})",
        R"({"type": "string", "format": "email"})", R"({"not": {}})", "5",
        R"({"type": "string", "pattern": "(?=a)b"})"}) {
    Grammar grammar;
    EXPECT_NE(error_of([&] { add_json_schema(grammar, Json::parse(schema)); }), "") << schema;
  }
}

TEST(Constraint, AllowsTokensThatTheGrammarHas) {
  const std::vector<std::string> bytes = {"a", "ab", "b", "abc", "", "c", "bc"};
  Grammar grammar;
  grammar.set_root(add_regex(grammar, "a(bc)*"));
  Constraint constraint(std::make_shared<TokenMasks>(std::make_shared<const TokenTree>(bytes), grammar,
                                                     std::vector<int64_t>{4}));
  std::vector<int64_t> chosen;
  const auto allowed = [&] {
    std::vector<float> bias(bytes.size() + 1, 0);
    constraint.apply(chosen, bias);
    std::vector<size_t> found;
    for (size_t i = 0; i < bias.size(); ++i)
      if (bias[i] == 0) found.push_back(i);
    return found;
  };
  EXPECT_EQ(allowed(), (std::vector<size_t>{0, 1, 3}));
  chosen.push_back(1);  // "ab"
  EXPECT_EQ(allowed(), (std::vector<size_t>{5}));
  chosen.push_back(5);
  EXPECT_EQ(allowed(), (std::vector<size_t>{2, 4, 6}));
}

TEST(Requests, DamagedOnesAreErrors) {
  const std::string seeds[] = {
      R"({"messages": [{"role": "user", "content": "x"}], "format": "root ::= (a | \"b\"){1,3} # c\na ::= [^a-c\\n]+ \"\\x41\" . root?"})",
      R"({"messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}], "n": 2, "seed": 7, "stop": ["a", "b"], "format": "(a|b)+[^c]{1,3}"})",
      R"({"messages": [{"role": "assistant", "content": null, "tool_calls": [{"function": {"name": "f", "arguments": "{\"a\": 1}"}}]}], "tools":
          [{"type": "function", "function": {"name": "f"}}], "tool_choice": "required", "temperature": 0.5, "format": {"type": "object",
          "properties": {"a": {"type": "array", "items": {"enum": [1, "x"]}, "maxItems": 3}}, "required": ["a"]}})",
      "{\"messages\": [{\"role\": \"user\", \"content\": \"<tool_call>{\\\"name\\\": \\\"f\\\", "
      "\\\"arguments\\\": {}}</tool_call>\"}]}"};
  int used = 0;
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    testing::Mutator mutator(seed);
    std::string body = seeds[seed % std::size(seeds)];
    if (seed >= std::size(seeds)) mutator.damage(body);
    try {
      used += testing::try_request(body);
    } catch (const std::exception& error) {
      ADD_FAILURE() << "seed " << seed << ": " << error.what();
    }
  }
  EXPECT_GT(used, 100);
  EXPECT_LT(used, 2900);
}

}  // namespace
}  // namespace genesis::grammar
