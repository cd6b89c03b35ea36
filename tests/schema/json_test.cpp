// Tests the reader of JSON: what it accepts, and which words it has for what it does not.
#include <gtest/gtest.h>

#include <fstream>

#include "schema/core/error.h"
#include "schema/file/json_events.h"
#include "schema/file/json_text.h"
#include "schema/file/object_reader.h"
#include "tests/error_of.h"
#include "tests/schema/file_models.h"

namespace genesis {
namespace {

using nlohmann::json;

using testing::error_of;

std::string problem_of(const std::string& text, const JsonLimits& limits = {}) {
  return error_of([&] { parse_json_text(text, "it", limits); });
}

void expect_in(const std::string& message, const std::string& part) {
  EXPECT_NE(message.find(part), std::string::npos) << part << " / " << message;
}

std::string nested(int depth) {
  const auto n = static_cast<size_t>(depth);
  return std::string(n, '[') + std::string(n, ']');
}

TEST(Json, EveryReaderReadsTheSame) {
  const std::string text = R"({"z": [1, -2.5, "a\n]"], "a": null, "z": true})";
  EXPECT_EQ(parse_json_text(text), (json{{"a", nullptr}, {"z", true}}));
  EXPECT_EQ(parse_json_object(text), try_parse_json_text(text));
  EXPECT_EQ(parse_ordered_json_text(text).dump(), R"({"z":true,"a":null})");
  EXPECT_EQ(parse_json_text("\xEF\xBB\xBF[1]"), json::array({1}));
  struct Count final : JsonEvents {
    bool number_unsigned(number_unsigned_t) override { return ++numbers > 0; }
    void open(bool is_object) override { objects += is_object ? 1 : 0; }
    int numbers = 0, objects = 0;
  } count;
  read_json_events(text, count);
  EXPECT_EQ(count.numbers, 1);
  EXPECT_EQ(count.objects, 1);
}

TEST(Json, NestingHasALimit) {
  EXPECT_EQ(problem_of(nested(64)), "");
  expect_in(problem_of(nested(65)),
            "it nests deeper than is read: lists and objects are nested more than 64");
  EXPECT_EQ(problem_of("[\"" + std::string(100, '[') + "\\\"" + std::string(100, '{') + "\"]"), "");
  EXPECT_EQ(problem_of("[" + nested(63) + "," + nested(63) + "]"), "");
  EXPECT_TRUE(try_parse_json_text(nested(65)).is_discarded());
  expect_in(problem_of("x" + nested(65)), "something is wrong at byte 1");
  expect_in(problem_of(R"({"a": [[1]]})", {.depth = 2}), "more than 2 deep");
  JsonEvents events;
  expect_in(error_of([&] { read_json_events(nested(3), events, "this line", {.depth = 2}); }),
            "this line nests deeper");
}

TEST(Json, LimitsOfAFormatAreKept) {
  expect_in(problem_of("[1, 2]", {.bytes = 5}), "it has 6 bytes, the limit is 5");
  expect_in(problem_of(R"({"a": 1, "a": 2})", {.unique_names = true}), "it names 'a' twice");
  EXPECT_EQ(problem_of(R"({"a": {"a": 1}, "b": {"a": 2}})", {.unique_names = true}), "");
  expect_in(problem_of("\xEF\xBB\xBF{}", {.may_have_mark = false}), "byte order mark");
}

TEST(Json, SaysWhereATextStopsBeingJson) {
  expect_in(problem_of("{\n  \"a\": 1,\n  b: 2\n}"),
            "it is not JSON: something is wrong at line 3, column 3");
  expect_in(problem_of("{\"a\": \xff}"), "byte 7");
  expect_in(problem_of("{\"a\": {\"b\": [1, {\"c\": -Infinity}]}}"), "'a.b.c' is -Infinity");
  expect_in(problem_of("{\"a\": [], \"b\": NaN}"), "NaN at byte 16 is no JSON");
  expect_in(problem_of("{\"a\": [], \"b\": NaN}"), "'b' is NaN, which is no number of JSON");
  expect_in(problem_of("NaN"), "it is NaN");
  expect_in(problem_of("1e999"), "a number is too large");
  expect_in(problem_of(" \n"), "empty");
  expect_in(problem_of("{\"a\": 3,\n \"b\""), "it ends too early, in its line 2");
  expect_in(error_of([] { parse_json_object("[1]", "this line"); }),
            "this line is not a JSON object: got array");
  expect_in(error_of([] { parse_json_object("[1", "this line"); }),
            "expected a JSON object, this line is not JSON: it ends too early");
}

TEST(Json, FilesAreNamed) {
  const testing::TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "a.json";
  std::ofstream(path) << "{\"a\": 1}";
  EXPECT_EQ(read_json_object(path), (json{{"a", 1}}));
  for (const JsonLimits& limits : {JsonLimits{.bytes = 3}, JsonLimits{.depth = 0}})
    expect_in(error_of([&] { read_json_file(path, limits); }), "a.json");
  std::ofstream(path) << "[";
  expect_in(error_of([&] { read_json_object(path); }), "a.json is not JSON");
  expect_in(error_of([&] { read_json_file(folder.path() / "none.json"); }), "none.json");
}

TEST(ObjectReader, ReadsMembersByType) {
  const json object = {{"n", 3},      {"x", 0.5},        {"t", "a"},    {"f", true},   {"none", nullptr},
                       {"l", {1, 2}}, {"o", {{"k", 1}}}, {"empty", ""}, {"rest", "r"}, {"big", UINT64_MAX}};
  ObjectReader reader(object, "part.");
  EXPECT_EQ(reader.integer_in("n", 0, 3), 3);
  EXPECT_EQ(reader.number("x"), 0.5);
  EXPECT_EQ(reader.text("t"), "a");
  EXPECT_EQ(reader.flag("f"), true);
  EXPECT_EQ(reader.integers("l", 1, 2), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(*reader.object("o"), (json{{"k", 1}}));
  EXPECT_EQ(reader.number("none"), std::nullopt);
  EXPECT_EQ(reader.flag("absent"), std::nullopt);
  EXPECT_EQ(reader.unknown(), (std::vector<std::string>{"big", "rest"}));
  reader.ignore({"rest"});
  EXPECT_EQ(error_of([&] { reader.integer_in("n", 4, INT64_MAX); }),
            "'part.n' is 3, expected an integer from 4 up");
  EXPECT_EQ(error_of([&] { reader.integer_in("big", 0, 9); }),
            "'part.big' is 18446744073709551615, expected an integer from 0 to 9");
  EXPECT_EQ(error_of([&] { reader.integer_in("x", 0, 9); }),
            "'part.x' is 0.5, expected an integer from 0 to 9");
  EXPECT_EQ(error_of([&] { reader.flag("n"); }), "'part.n' is 3, expected true or false");
  EXPECT_EQ(error_of([&] { reader.text("l"); }), "'part.l' is [1,2], expected a text");
  EXPECT_EQ(error_of([&] { reader.integers("n", 0, 1); }),
            "'part.n' is 3, expected a list of integers from 0 to 1");
  EXPECT_EQ(error_of([&] { reader.required(reader.text("absent"), "absent", "a name"); }),
            "'part.absent' is not there, expected a name");
  EXPECT_EQ(reader.unknown(), std::vector<std::string>{});
}

}  // namespace
}  // namespace genesis
