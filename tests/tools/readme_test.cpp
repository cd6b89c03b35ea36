// Tests the tour of the tools in README: every line runs unchanged, in order, starting in an empty folder.
#include <sstream>

#include "tests/tools/tool_test.h"

namespace genesis::testing {
namespace {

const fs::path kSource = GENESIS_SOURCE_ROOT;

std::string section(const std::string& text, const std::string& title) {
  const size_t at = text.find("\n## " + title + "\n");
  EXPECT_NE(at, std::string::npos) << title;
  return at == std::string::npos ? "" : text.substr(at, text.find("\n## ", at + 1) - at);
}

// Returns the lines of the command block, then the commands of the picture table.
Words commands(const std::string& readme, const std::string& title) {
  Words found;
  std::istringstream lines(section(read_text(kSource / readme), title));
  bool in_block = false;
  for (std::string line; std::getline(lines, line);) {
    const size_t code = line.starts_with("| ![") ? line.find("| `") : std::string::npos;
    if (line.starts_with("```"))
      in_block = !in_block;
    else if (in_block && !line.empty())
      found.push_back(line);
    else if (code != std::string::npos)
      found.push_back(line.substr(code + 3, line.rfind('`') - code - 3));
  }
  return found;
}

std::string without_comment(const std::string& line) {
  const std::string command = line.substr(0, line.find(" #"));
  return command.substr(0, command.find_last_not_of(' ') + 1);
}

class Readme : public ToolTest {
 protected:
  Process shell(const std::string& line) const {
    ProcessOptions options;
    options.timeout_seconds = 300;
    options.environment = {"PATH=" GENESIS_BUILD_ROOT "/tools:" + std::string(getenv("PATH"))};
    return run_process({"sh", "-c", "cd " + folder().string() + "\n" + line}, options);
  }
};

TEST_F(Readme, EveryLineOfTheTourRunsAsItStands) {
  const bool can_draw = run_process({"sh", "-c", "command -v dot"}).code == 0;
  const Words lines = commands("README.md", "A tour of the tools");
  ASSERT_GT(lines.size(), 12u);
  for (const std::string& line : lines) {
    if (line.starts_with("genesis-viz") && !can_draw) continue;  // Graphviz is not installed
    const Process process = shell(line);
    ASSERT_EQ(process.code, 0) << line << "\n" << process.err;
  }
}

// The commands are equal, so the test of one README covers the other.
TEST_F(Readme, TheChineseTourIsTheSameButForItsComments) {
  const Words english = commands("README.md", "A tour of the tools"),
              chinese = commands("README.zh.md", "工具一览");
  ASSERT_EQ(english.size(), chinese.size());
  for (size_t i = 0; i < english.size(); ++i) {
    EXPECT_EQ(without_comment(english[i]), without_comment(chinese[i]));
    EXPECT_EQ(shell("set -n\n" + chinese[i]).code, 0) << chinese[i];
  }
}

}  // namespace
}  // namespace genesis::testing
