// Runs the commands of docs/tour.md as they stand there, in order, starting in an empty folder, and those of README.md with a
// tiny model and fewer steps. The Chinese pages have the same commands.
#include <regex>
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

// Returns the lines of the blocks of commands of a section, and the commands of its table of pictures. A block that begins
// with ```text shows output and is skipped.
Words commands(const std::string& page, const std::string& title) {
  Words found;
  std::istringstream lines(section(read_text(kSource / page), title));
  bool in_block = false, is_output = false;
  for (std::string line; std::getline(lines, line);) {
    const size_t code = line.starts_with("| ![") ? line.find("| `") : std::string::npos;
    if (line.starts_with("```")) {
      in_block = !in_block;
      is_output = line == "```text";
    } else if (in_block && !is_output && !line.empty())
      found.push_back(line);
    else if (code != std::string::npos)
      found.push_back(line.substr(code + 3, line.rfind('`') - code - 3));
  }
  return found;
}

Words commands(const std::string& page, const Words& titles) {
  Words found;
  for (const std::string& title : titles) found = found + commands(page, title);
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
    options.timeout_seconds = 3 * kHangs;
    options.environment = {"PATH=" GENESIS_BUILD_ROOT "/tools:" + std::string(getenv("PATH")),
                           "HOME=" + folder().string()};
    return run_process({"sh", "-c", "cd " + folder().string() + "\n" + line}, options);
  }
  void do_it(const std::string& line) const {
    const Process process = shell(line);
    ASSERT_EQ(process.code, 0) << line << "\n" << process.err;
  }
  void expect_same_commands(const Words& english, const Words& chinese) const {
    ASSERT_EQ(english.size(), chinese.size());
    for (size_t i = 0; i < english.size(); ++i) {
      EXPECT_EQ(without_comment(english[i]), without_comment(chinese[i]));
      EXPECT_EQ(shell("set -n\n" + chinese[i]).code, 0) << chinese[i];
    }
  }
};

const Words kTour = {"The commands", "Pictures"}, kChineseTour = {"命令", "图片"};

TEST_F(Readme, EveryLineOfTheTourRunsAsItStands) {
  const bool can_draw = run_process({"sh", "-c", "command -v dot"}).code == 0;
  const Words lines = commands("docs/tour.md", kTour);
  ASSERT_GT(lines.size(), 30u);
  for (const std::string& line : lines) {
    if (line.starts_with("genesis-viz") && !can_draw) continue;  // Graphviz is not installed
    ASSERT_NO_FATAL_FAILURE(do_it(line));
  }
}

// The Chinese tour therefore runs if the English one does.
TEST_F(Readme, TheChineseTourIsTheSameButForItsComments) {
  expect_same_commands(commands("docs/tour.md", kTour), commands("docs/tour.zh.md", kChineseTour));
}

// Makes a tiny model in the place of the one that the pages expect in the home folder.
class ChatPages : public Readme {
 protected:
  void SetUp() override {
    Readme::SetUp();
    make_tiny_chat_model();
  }
  void make_tiny_chat_model() const;
};

void ChatPages::make_tiny_chat_model() const {
  do_it("yes 'Who carries the boxes? They are carried by Ada and by nobody else.' | head -n 200 > text.txt");
  do_it("genesis-build tokenizer text.txt --vocab-size 300 --chat -o tokenizer");
  do_it(
      "genesis-build qwen2 --tokenizer tokenizer --set hidden_size=64 --set intermediate_size=128 --set "
      "num_hidden_layers=2 -o tiny.genesis");
  do_it("genesis-run export tiny.genesis -o Qwen2.5-0.5B-Instruct");
  // The cache of Hugging Face has the model, too, so that nothing is fetched.
  const std::string hub = ".cache/huggingface/hub/models--Qwen--Qwen2.5-0.5B-Instruct", commit(40, 'a');
  do_it("mkdir -p " + hub + "/refs " + hub + "/snapshots && printf " + commit + " >" + hub +
        "/refs/main && cp -r Qwen2.5-0.5B-Instruct " + hub + "/snapshots/" + commit);
}

// The chat gets one message by a pipe.
TEST_F(ChatPages, TheChatOfReadmeAnswers) {
  const Words lines = commands("README.md", "Chat with a model");
  ASSERT_GE(lines.size(), 4u);
  for (const std::string& line : lines) {
    const bool is_chat = line.starts_with("genesis-run chat");
    ASSERT_NO_FATAL_FAILURE(
        do_it(is_chat ? "echo Who? | HF_HUB_OFFLINE=1 " + without_comment(line) + " --max-tokens 20" : line));
  }
}

const Words kFiveMinutes = {"Talk at once", "Open a model", "Make it small", "Talk", "Serve", "Look inside"};
const Words kChineseFiveMinutes = {"马上对话", "打开模型", "让它变小", "对话", "服务", "看看里面"};

// The server only says what it would do; tests/tools/serve starts it.
TEST_F(ChatPages, EveryCommandOfTheFirstFiveMinutesRuns) {
  const Words lines = commands("docs/five-minutes.md", kFiveMinutes);
  ASSERT_GE(lines.size(), 8u);
  for (const std::string& line : lines) {
    const std::string command = without_comment(line);
    const bool is_chat = command.starts_with("genesis-run chat"),
               is_server = command.starts_with("genesis-run serve");
    ASSERT_NO_FATAL_FAILURE(do_it((is_chat ? "echo Who? | HF_HUB_OFFLINE=1 " : "") + command +
                                  (is_chat ? " --max-tokens 20" : "") + (is_server ? " --check" : "")));
  }
  expect_same_commands(lines, commands("docs/five-minutes.zh.md", kChineseFiveMinutes));
}

TEST_F(Readme, ItsTrainingRunsWithFewerSteps) {
  const Words lines = commands("README.md", "Train a model");
  ASSERT_GE(lines.size(), 4u);
  for (const std::string& line : lines)
    ASSERT_NO_FATAL_FAILURE(do_it(std::regex_replace(line, std::regex("--steps [0-9]+"), "--steps 6")));
}

TEST_F(Readme, TheChinesePageHasTheSameCommands) {
  expect_same_commands(commands("README.md", Words{"Two commands", "Chat with a model", "Train a model"}),
                       commands("README.zh.md", Words{"两条命令", "与模型对话", "训练模型"}));
}

}  // namespace
}  // namespace genesis::testing
