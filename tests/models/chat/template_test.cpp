// Tests chat templates against the results of transformers (templates.json, made by make_templates.py), and their
// limits.
#include "models/chat/jinja/template.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "models/chat/jinja/values/json_value.h"
#include "schema/core/error.h"
#include "schema/file/io/read_file.h"
#include "schema/file/json_text.h"

namespace genesis::jinja {
namespace {

nlohmann::ordered_json stored() {
  return parse_ordered_json_text(read_whole_file(GENESIS_SOURCE_ROOT "/tests/models/chat/templates.json"));
}

Rendered render(const std::string& source, const std::string& variables = "{}", const Limits& limits = {}) {
  return Template::parse(source).render(*parse_json(variables).dict(), 1'700'000'000, limits);
}

std::string text(const std::string& source, const std::string& variables = "{}") {
  return render(source, variables).text;
}

// Returns the message of the Error with which rendering ends; empty without one.
std::string error_of(const std::string& source, const std::string& variables = "{}",
                     const Limits& limits = {}) {
  try {
    render(source, variables, limits);
    return "";
  } catch (const Error& error) {
    return error.message();
  }
}

class Templates : public ::testing::Test {
 protected:
  Templates() {
    setenv("TZ", "UTC", 1);
    tzset();
  }
};

TEST_F(Templates, RenderAsTransformersDoes) {
  const auto file = stored();
  int rendered = 0, refused = 0;
  for (const auto& one : file["cases"]) {
    const auto name = one["template"].get<std::string>();
    const std::string source =
        file["templates"].contains(name) ? file["templates"][name].get<std::string>() : name;
    const std::string variables =
        (one["variables"].is_string() ? file["VARIABLES"] : one["variables"]).dump();
    SCOPED_TRACE(name + "\n" + variables);
    if (one.contains("error")) {
      EXPECT_NE(error_of(source, variables), "");
      ++refused;
      continue;
    }
    const Rendered result = render(source, variables);
    EXPECT_EQ(result.text, one["text"].get<std::string>());
    auto spans = nlohmann::ordered_json::array();
    for (const Span& span : result.generations) spans.push_back({span.begin, span.end});
    EXPECT_EQ(spans, one["generations"]);
    ++rendered;
  }
  EXPECT_GT(rendered, 400);
  EXPECT_GT(refused, 20);
}

TEST_F(Templates, ErrorsNameTheLine) {
  EXPECT_NE(error_of("a\nb\n{{ x.y }}").find("'x' is undefined (at line 3 of the template)"),
            std::string::npos);
  EXPECT_NE(error_of("\n{{ 'a' | nosuch }}").find("line 2: the filter 'nosuch' is not supported"),
            std::string::npos);
  EXPECT_NE(error_of("\n\n{% include 'x' %}")
                .find("line 3: the statement 'include' is not supported: a chat template is one file"),
            std::string::npos);
  EXPECT_NE(error_of("{% if true %}\n\n").find("endif"), std::string::npos);
  EXPECT_NE(error_of("{{ raise_exception('no ' ~ 'tools') }}").find("refuses: no tools"), std::string::npos);
  EXPECT_NE(error_of("{{ x | unknown }}").find("unknown"), std::string::npos);
  EXPECT_NE(error_of("\xff").find("UTF-8"), std::string::npos);
}

TEST_F(Templates, TakeNoMoreThanTheirLimits) {
  const Limits few = {.steps = 10'000, .text_bytes = 100'000, .made_bytes = 1'000'000};
  const std::vector<std::pair<std::string, std::string>> greedy = {
      {"{% for i in range(2000) %}{% for j in range(2000) %}{% endfor %}{% endfor %}", "steps"},
      {"{{ 'x' * 1000000000000 }}", "bytes"},
      {"{{ 'x' * 1000000 }}", "bytes"},
      {"{{ [0] * 1000000000 }}", "bytes"},
      {"{% set ns = namespace(x='xxxxxxxx') %}{% for i in range(99) %}{% set ns.x = ns.x ~ ns.x %}{% endfor "
       "%}",
       "bytes"},
      {"{% set ns = namespace(x=[0]) %}{% for i in range(99) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ "
       "ns.x }}",
       ""},
      {"{% set ns = namespace(x=[0]) %}{% for i in range(999) %}{% set ns.x = [ns.x] %}{% endfor %}",
       "nested"},
      {"{% set ns = namespace(x=[0]) %}{% for i in range(99) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ "
       "ns.x == ns.x + [] }}{{ ns.x | tojson }}",
       ""},
      {"{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}", "deep"},
      {"{{ '" + std::string(50'000, 'a') + "'.replace('a', '" + std::string(1000, 'b') + "') }}", "bytes"},
      {"{{ '" + std::string(50'000, 'a') + "'.replace('', '" + std::string(1000, 'b') + "') }}", "bytes"},
      {"{{ range(100001) }}", "steps"},
      {"{{ range(100) | join('" + std::string(9000, 'x') + "') }}", "bytes"},
      {"{{ 'a\na\na'|indent('" + std::string(60'000, 'x') + "') }}", "bytes"},
      {std::string(5000, '(') + "1" + std::string(5000, ')'), ""},
      {"{{ " + std::string(5000, '(') + "1" + std::string(5000, ')') + " }}", "nested"},
      {"{{ " + std::string(5000, '[') + std::string(5000, ']') + " }}", "nested"},
      {"{{ " + std::string(5000, '-') + "1 }}", "nested"},
      {"{{ 1" + std::string(5000, '+') + "1 }}", "nested"},
      {"{{ x" +
           [] {
             std::string s;
             for (int i = 0; i < 5000; ++i) s += ".a";
             return s;
           }() +
           " }}",
       "nested"},
      {"{{ x" +
           [] {
             std::string s;
             for (int i = 0; i < 5000; ++i) s += " not";
             return s;
           }() +
           " }}",
       ""},
      {"{{ 1" +
           [] {
             std::string s;
             for (int i = 0; i < 5000; ++i) s += " if 1";
             return s;
           }() +
           " }}",
       "nested"},
      {"{{ 1" +
           [] {
             std::string s;
             for (int i = 0; i < 5000; ++i) s += "|int";
             return s;
           }() +
           " }}",
       "nested"},
      {[] {
         std::string s;
         for (int i = 0; i < 5000; ++i) s += "{% if 1 %}";
         return s;
       }(),
       "nested"},
      {std::string(2 << 20, ' '), "limit"}};
  for (const auto& [source, expected] : greedy) {
    SCOPED_TRACE(source.substr(0, 100));
    const std::string error = error_of(source, "{}", few);
    EXPECT_NE(error.find(expected), std::string::npos) << error;
  }
}

TEST_F(Templates, DifferFromJinjaInNoSmallTemplate) {
  const auto file =
      parse_ordered_json_text(read_whole_file(GENESIS_SOURCE_ROOT "/tests/models/chat/jinja_golden.json"));
  const std::string variables = file["VARIABLES"].dump();
  for (const auto& one : file["cases"]) {
    const auto source = one[0].get<std::string>();
    SCOPED_TRACE(source);
    if (one[1].is_null())
      EXPECT_NE(error_of(source, variables), "");
    else
      EXPECT_EQ(text(source, variables), one[1].get<std::string>());
  }
}

// Each of these operations on large values took minutes or gigabytes in a loop before its work was counted.
TEST_F(Templates, ChargeEachOperationForItsWork) {
  std::string texts, numbers;
  for (int i = 0; i < 1000; ++i) {
    texts += fmt::format("'k{0}':{0},", i);
    numbers += fmt::format("{0}:{0},", i);
  }
  const auto error = [&](const std::string& expression) {
    return error_of("{% set d = {" + texts + "} %}{% set e = {" + numbers + "} %}{% set t = 'a' * 10000 %}" +
                        "{% for i in range(1000) %}{% set x = " + expression + " %}{% endfor %}",
                    "{}", {.steps = 130'000});
  };
  for (const char* cheap :
       {"i", "d", "t", "d.k5", "d['k7']", "e[999]", "e.get(5)", "dict(d)", "'k5' in d", "7 in e"})
    EXPECT_EQ(error(cheap), "") << cheap;
  for (const char* expression : {"d.values()",
                                 "e.values()",
                                 "d.items()",
                                 "d|items",
                                 "d.keys()",
                                 "dict(d, x=1)",
                                 "namespace(d)",
                                 "d|list",
                                 "d|dictsort",
                                 "d == dict(d, x=1)",
                                 "d|tojson",
                                 "d ~ ''",
                                 "t.upper()",
                                 "t|upper",
                                 "t.find('b')",
                                 "t.rfind('b')",
                                 "t.count('b')",
                                 "'b' in t",
                                 "t.replace('a', 'b')",
                                 "t|replace('b', 'c')",
                                 "t.strip(t)",
                                 "t.split('b')",
                                 "t.title()",
                                 "t[::-1]",
                                 "t[5000]",
                                 "t|list",
                                 "t|reverse",
                                 "t ~ 'b'",
                                 "t + 'b'",
                                 "t == t ~ ''",
                                 "t|wordcount",
                                 "t.isalpha()",
                                 "t|e",
                                 "t|trim('a')",
                                 "'%s' % t",
                                 "'{}'.format(t)",
                                 "t.zfill(20000)",
                                 "t|tojson",
                                 "t|indent",
                                 "[t]|join",
                                 "t|truncate",
                                 "t|urlencode",
                                 "t.splitlines()",
                                 "t|length",
                                 "t.casefold()",
                                 "t is upper",
                                 "range(1000)",
                                 "[0] * 1000",
                                 "t|int"})
    EXPECT_NE(error(expression).find("130000 steps, the limit of one rendering"), std::string::npos)
        << expression << ": " << error(expression);
}

TEST_F(Templates, EndWithinTheirLimits) {
  EXPECT_EQ(text("{{ ('a'*2000000).find('a'*1000000 ~ 'b') }}"), "-1");
  EXPECT_EQ(text("{{ ('a'*2000000).rfind('b' ~ 'a'*1000000) }}"), "-1");
  EXPECT_EQ(text("{{ ('a'*2000000).count('a'*1000 ~ 'b') }}{{ 'a'*1000 ~ 'b' in 'a'*2000000 }}"), "0False");
  EXPECT_EQ(text("{{ ('a'*2000000).strip('b'*2000000 ~ 'a')|length }}"), "0");
  EXPECT_EQ(text("{{ 1e999 }}{{ -1e999 }}{{ '1e999'|float }}"), "inf-infinf");
  EXPECT_NE(error_of("{{ 1e300|int > 5 }}").find("64 bits"), std::string::npos);
  EXPECT_NE(error_of("{% for i in range(1000) %}{{ 'a'*60000 }}{% endfor %}").find("bytes"),
            std::string::npos);
  const std::string end = "{% endfor %}";
  const Limits few = {.steps = 1'000'000, .made_bytes = 4 << 20};
  EXPECT_NE(error_of("{% for i in range(100000) %}{% set x = namespace(a=1,b=2,c=3) %}" + end, "{}", few)
                .find("more than 4194304 bytes of values, the limit of one rendering"),
            std::string::npos);
}

// Namespaces that refer to each other, or form a long chain, are freed without recursion.
TEST_F(Templates, FreeNamespaces) {
  EXPECT_EQ(text("{% set ns = namespace() %}{% set ns.me = ns %}{% set ns.all = [ns, {'a': ns}] %}{{ "
                 "ns.me.all|length }}"),
            "2");
  EXPECT_EQ(text("{% set ns = namespace(last=0) %}{% for i in range(50000) %}{% set ns.last = "
                 "namespace(last=ns.last) %}"
                 "{% endfor %}{% set ns.last = 0 %}{{ ns.last }}"),
            "0");
}

TEST_F(Templates, CannotReachBeyondTheirValues) {
  for (const char* source :
       {"{{ ''.__class__.__mro__ }}", "{{ x.__init__.__globals__ }}", "{{ [].append(1) }}",
        "{{ {}.update({}) }}", "{% set ns = namespace() %}{% set ns._x = 1 %}", "{% import 'os' as os %}",
        "{{ self._TemplateReference__context }}", "{{ cycler.__init__.__globals__ }}", "{% set x.y = 1 %}"})
    EXPECT_NE(error_of(source, R"({"x": {}})"), "") << source;
}

TEST_F(Templates, IntegersEndAt64Bits) {
  EXPECT_EQ(text("{{ 9223372036854775807 }}{{ -9223372036854775807 - 1 }}"),
            "9223372036854775807-9223372036854775808");
  for (const char* source : {"{{ 9223372036854775808 }}", "{{ 9223372036854775807 + 1 }}",
                             "{{ (-9223372036854775807 - 1) // -1 }}", "{{ -(-9223372036854775807 - 1) }}",
                             "{{ 3037000500 * 3037000500 }}", "{{ 2 ** 63 }}",
                             "{{ (-9223372036854775807 - 1)|abs }}", "{{ 10 ** 400 }}"})
    EXPECT_NE(error_of(source), "") << source;
  EXPECT_EQ(text("{{ (-9223372036854775807 - 1) % -1 }}"), "0");
}

TEST_F(Templates, AreSharedByCopies) {
  const Template one = Template::parse("{{ a }}{% set a = 2 %}{{ a }}");
  const Template other = one;
  for (const Template& each : {one, other, one})
    EXPECT_EQ(each.render(*parse_json(R"({"a": 1})").dict()).text, "12");
}

TEST(JsonValue, KeepsOrderAndHasLimits) {
  EXPECT_EQ(text("{{ d }}", R"({"d": {"z": 1, "a": [true, null, 1.5, "x"], "z": 2}})"),
            "{'z': 2, 'a': [True, None, 1.5, 'x']}");
  EXPECT_THROW(parse_json(std::string(100, '[') + std::string(100, ']')), Error);
  EXPECT_THROW(parse_json("18446744073709551615"), Error);
  for (const char* json : {"", "{", "[1,", "{\"a\" 1}", "nul", "\"\xff\"", "[1] 2"})
    EXPECT_THROW(parse_json(json), Error) << json;
}

TEST(JsonValue, SaysWhatIsNoJson) {
  for (const auto& [json, words] : std::vector<std::pair<std::string, std::string>>{
           {R"({"score": NaN})", "NaN at byte 11 is no JSON"},
           {R"({"score": [1, -Infinity]})", "Infinity at byte"},
           {R"({"score": Infinity})", "Infinity at byte 11 is no JSON"},
           {R"({"a": "\ud83d"})", "lone surrogate"},
           {R"({"a": "\udc00 x"})", "lone surrogate"},
           {R"({'a': 1})", "single quote"},
           {R"({"a": 1)", "too early"},
           {R"({"a": 1e999})", "too large"},
           {"{\"a\": \"x\ny\"}", "control character"},
           {"{\"a\": \"\xff\"}", "no UTF-8"}}) {
    try {
      parse_json(json);
      ADD_FAILURE() << json;
    } catch (const Error& error) {
      EXPECT_NE(error.message().find(words), std::string::npos) << json << ": " << error.message();
    }
  }
}

}  // namespace
}  // namespace genesis::jinja
