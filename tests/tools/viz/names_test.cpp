// Tests hostile names in a file: in a picture they are text that makes no tags, links or other boxes, and the file
// stays well-formed.
#include <cctype>

#include "schema/file/json_text.h"
#include "schema/file/writer.h"
#include "schema/graph/model.h"
#include "schema/ops/elementwise/elementwise.h"
#include "tests/tools/tool_test.h"

namespace genesis::testing {
namespace {

// Names in a file are UTF-8 without control characters. Others are refused when it is written or read.
const std::string kHostile[] = {
    "</title><script>alert(1)</script>",
    "\" onload=\"alert(1)",
    "' onload='alert(1)",
    "back\\slash\\",
    "a\\\", URL=\"javascript:alert(1)\", x=\"",
    "x\"]; evil [label=\"e\", URL=\"javascript:alert(1)\"]; y [label=\"",
    "<<TABLE HREF=\"javascript:alert(1)\"><TR><TD>x</TD></TR></TABLE>>",
    "]]>",
    "--> <!--",
    "\\N \\G \\E \\T \\H \\L \\l",
    "turned \xe2\x80\xae around\xe2\x80\x8f",
    "no character \xef\xbf\xbf",
    "&lt;b&gt; &amp; &#60; &nbsp; &unknown;",
    "{port|<a> b}",
    "n:s",
};

// Fails if `text` is not well-formed XML, considering brackets, entities and the nesting of tags.
class XmlCheck {
 public:
  explicit XmlCheck(const std::string& text) : text_(text) {}

  void run() {
    for (const char c : text_) {
      const auto code = static_cast<unsigned char>(c);
      ASSERT_TRUE(code >= ' ' || c == '\n') << "a control character";
    }
    while (at_ < text_.size() && !::testing::Test::HasFatalFailure())
      text_[at_] == '<' ? tag() : text_[at_] == '&' ? entity() : void(++at_);
    EXPECT_TRUE(open_.empty());
  }

 private:
  void tag() {
    const bool is_comment = text_.compare(at_, 4, "<!--") == 0;
    const std::string end = is_comment ? "-->" : ">";
    const size_t last = text_.find(end, at_);
    ASSERT_NE(last, std::string::npos);
    const std::string body = text_.substr(at_ + 1, last - at_ - 1);
    at_ = last + end.size();
    if (is_comment || body[0] == '!' || body[0] == '?') return;
    ASSERT_TRUE(body[0] == '/' || std::isalpha(static_cast<unsigned char>(body[0]))) << body;
    if (body[0] == '/') {
      ASSERT_FALSE(open_.empty());
      EXPECT_EQ(open_.back(), body.substr(1));
      open_.pop_back();
      return;
    }
    const std::string name = body.substr(0, body.find_first_of(" \n/>"));
    EXPECT_NE(name, "script");
    EXPECT_NE(name, "a") << "a link";
    EXPECT_EQ(body.find(" on"), std::string::npos) << body;
    if (body.back() != '/' && name != "meta") open_.push_back(name);
  }

  void entity() {
    const size_t end = text_.find(';', at_);
    ASSERT_LT(end - at_, 12u) << text_.substr(at_, 30);
    at_ = end + 1;
  }

  const std::string& text_;
  size_t at_ = 0;
  std::vector<std::string> open_;
};

void check_xml(const std::string& text) { XmlCheck(text).run(); }

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at) ++found;
  return found;
}

void save_hostile_model(const std::string& file, const std::string& name, const char* other = "") {
  Model model;
  Graph& graph = model.add_entry(name);
  const Value x = graph.add_input(name, {DType::f32, {4}});
  const Value y = graph.add_node(*find_op("exp"), {}, {x}, name + other)[0];
  graph.add_output(name, neg(y));
  save_model(model, file);
}

using VizNames = ToolTest;

TEST_F(VizNames, AreTextInEveryPicture) {
  const bool has_graphviz = run_process({"dot", "-V"}).code == 0;
  for (const std::string& name : kHostile) {
    SCOPED_TRACE(name);
    const std::string model = path("m.genesis");
    save_hostile_model(model, name);
    expect_ok(run_tool("genesis-viz", {model, "-o", path("g.dot")}));
    // The boxes are the input, two nodes and the output; each has one line in the text.
    EXPECT_EQ(count(read_text(path("g.dot")), ", fillcolor=\""), 4u);
    EXPECT_EQ(count(read_text(path("g.dot")), "\n"), 3u + 1 + 4 + 3 + 1);
    expect_ok(run_tool("genesis-viz", {model, "--memory", "-o", path("m.svg")}));
    check_xml(read_text(path("m.svg")));
    if (!has_graphviz) continue;
    expect_ok(run_tool("genesis-viz", {model, "-o", path("g.svg")}));
    check_xml(read_text(path("g.svg")));
    EXPECT_EQ(count(read_text(path("g.svg")), "class=\"node\""), 4u);
    EXPECT_EQ(count(read_text(path("g.svg")), "href"), 0u + count(name, "href"));
  }
}

TEST_F(VizNames, AreTextInDifferences) {
  for (const std::string& name : kHostile) {
    SCOPED_TRACE(name);
    save_hostile_model(path("a.genesis"), name);
    save_hostile_model(path("b.genesis"), name, "2");
    const Process process = run_tool(
        "genesis-viz", {path("a.genesis"), "--compare", path("b.genesis"), "--json", "-o", path("d.dot")});
    const nlohmann::json nodes = expect_json(process)["nodes"];
    EXPECT_EQ(nodes["added"], 1);
    EXPECT_EQ(nodes["gone"], 1);
    EXPECT_EQ(nodes["same"], 1);
  }
}

TEST_F(VizNames, OfBaselinesAndFilesAreText) {
  write_text(path("m.jsonl"), "{\"step\":1,\"loss\":3}\n{\"step\":2,\"loss\":2}\n");
  Words names(std::begin(kHostile), std::end(kHostile));
  for (const std::string& name : names + Words{"line\nbreak\r\ttab", "control\x01\x1b[31m\x7f",
                                               "not utf8 \xff\xfe \xc0\xaf \xed\xa0\x80"}) {
    expect_ok(run_tool("genesis-viz", {"--loss", path("m.jsonl"), "--baseline", "1", "--baseline-name", name,
                                       "-o", path("l.svg")}));
    check_xml(read_text(path("l.svg")));
  }
  write_text(path("<b> & \".jsonl"), "{\"step\":1,\"loss\":3}\n");
  expect_ok(run_tool("genesis-viz", {"--loss", path("<b> & \".jsonl"), "-o", path("l.svg")}));
  check_xml(read_text(path("l.svg")));
}

TEST_F(VizNames, AreTextInTraces) {
  const std::string name = "\"}]} \\ \xe2\x80\xae";
  save_hostile_model(path("m.genesis"), name);
  expect_ok(run_tool("genesis-run", {"profile", path("m.genesis"), "--entry", name, "--runs", "1", "--trace",
                                     path("t.json")}));
  EXPECT_TRUE(try_parse_json_text(read_text(path("t.json"))).is_object());
}

}  // namespace
}  // namespace genesis::testing
