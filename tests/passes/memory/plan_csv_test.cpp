// Tests buffers from CSV text: what is accepted, what is refused with which message, and the report.
#include "passes/memory/offsets/plan_csv.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "schema/core/error.h"

namespace genesis::passes {
namespace {

std::string complaint(std::string_view text) {
  try {
    parse_plan_csv(text, "b.csv");
  } catch (const Error& error) {
    return error.message();
  }
  return "no complaint";
}

TEST(PlanCsv, ReadsPlainLines) {
  const PlanCsv csv = parse_plan_csv("a,0,3,16\nb 2,-1,2,8", "b.csv");
  ASSERT_EQ(csv.ids, (std::vector<std::string>{"a", "b 2"}));
  EXPECT_EQ(csv.buffers[0].upper, 3);
  EXPECT_EQ(csv.buffers[1].lower, -1);
  EXPECT_EQ(csv.buffers[1].size, 8);
}

TEST(PlanCsv, HeaderNamesColumnsInAnyOrder) {
  const PlanCsv csv = parse_plan_csv("Size, upper ,ID,lower\n16,3,x,1\n", "b.csv");
  ASSERT_EQ(csv.ids.size(), 1u);
  EXPECT_EQ(csv.ids[0], "x");
  EXPECT_EQ(csv.buffers[0].size, 16);
  EXPECT_EQ(csv.buffers[0].lower, 1);
  EXPECT_EQ(csv.buffers[0].upper, 3);
}

TEST(PlanCsv, SkipsCommentsBlankLinesAndCarriageReturns) {
  const PlanCsv csv =
      parse_plan_csv("\xEF\xBB\xBF# made by hand\r\n\r\nid,lower,upper,size\r\n a ,0, 1,2\r\n\r\n", "b.csv");
  ASSERT_EQ(csv.ids, std::vector<std::string>{"a"});
  EXPECT_EQ(csv.buffers[0].size, 2);
}

TEST(PlanCsv, QuotedIds) {
  const PlanCsv csv = parse_plan_csv("\"a,\"\"b\"\"\" ,0,1,2\n\"\",0,1,2\n", "b.csv");
  EXPECT_EQ(csv.ids, (std::vector<std::string>{"a,\"b\"", ""}));
}

TEST(PlanCsv, EmptyTextIsNoBuffers) { EXPECT_TRUE(parse_plan_csv("", "b.csv").buffers.empty()); }

TEST(PlanCsv, ComplainsWithFileAndLine) {
  EXPECT_EQ(complaint("a,0,1\n"), "b.csv:1: 3 fields, expected 4: id,lower,upper,size");
  EXPECT_EQ(complaint("a,0,1,2\nb,0,1,2x\n"), "b.csv:2: size is '2x', expected an integer");
  EXPECT_EQ(complaint("a,0,1,\n"), "b.csv:1: size is '', expected an integer");
  EXPECT_EQ(complaint("# c\na,0,1,99999999999999999999\n"),
            "b.csv:2: size is 99999999999999999999, which does not fit into 64 bits");
  EXPECT_EQ(complaint("a,5,1,2\n"),
            "b.csv:1: buffer 'a' has lower 5 above upper 1; lifetimes are [lower, upper)");
  EXPECT_EQ(complaint("a,0,1,-2\n"), "b.csv:1: buffer 'a' has size -2, expected 0 or more");
  EXPECT_EQ(complaint("a,0,1,2\n\na,0,1,2\n"),
            "b.csv:3: id 'a' was already used in line 1; ids must be unique");
  EXPECT_EQ(complaint("id,lower,upper\n"),
            "b.csv:1: the header names no column 'size'; expected id, lower, upper and size");
  EXPECT_EQ(complaint("id,lower,upper,size,alignment\n"),
            "b.csv:1: the header names 5 columns; expected id, lower, upper and size, each once");
  EXPECT_EQ(complaint("\"a,0,1,2\n"), "b.csv:1: a quoted field is not closed; add the missing '\"'");
}

TEST(PlanCsv, ReportsThePlanByIdInFileOrder) {
  const auto path = std::filesystem::temp_directory_path() / "genesis_plan_csv_test.csv";
  std::ofstream(path) << "id,lower,upper,size\nz,0,2,10\na,1,3,20\nm,2,4,10\n";
  const PlanCsvReport report = plan_csv_file(path.string());
  std::filesystem::remove(path);
  EXPECT_EQ(report.height, 30);
  EXPECT_EQ(report.lower_bound, 30);
  EXPECT_EQ(report.ratio, 1.0);
  ASSERT_EQ(report.offsets.size(), 3u);
  EXPECT_EQ(report.offsets[0].first, "z");
  EXPECT_EQ(report.offsets[2].first, "m");
  EXPECT_EQ(report.offsets[0].second, report.offsets[2].second);
}

TEST(PlanCsv, NamesAFileThatIsNotThere) {
  try {
    read_plan_csv("/nowhere/b.csv");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.message(), "cannot open '/nowhere/b.csv': No such file or directory");
  }
}

}  // namespace
}  // namespace genesis::passes
