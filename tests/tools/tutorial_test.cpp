// Tests the tutorials and the page of examples: every command runs unchanged except for sizes and steps, in order, starting in an
// empty folder, and the Chinese pages have the same commands.
#include <regex>
#include <sstream>

#include "models/images/read_picture.h"
#include "tests/tools/tool_test.h"

namespace genesis::testing {
namespace {

const fs::path kTutorials = fs::path(GENESIS_SOURCE_ROOT) / "docs/tutorials";

// Returns the lines of all command blocks.
Words commands(const std::string& page) {
  Words found;
  std::istringstream lines(read_text(kTutorials / page));
  bool in_block = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("```"))
      in_block = !in_block;
    else if (in_block)
      found.push_back(line);
  }
  return found;
}

class Tutorial : public ToolTest {
 protected:
  Process shell(const std::string& line) const {
    ProcessOptions options;
    options.timeout_seconds = 3 * kHangs;
    options.environment = {"PATH=" GENESIS_BUILD_ROOT "/tools:" + std::string(getenv("PATH")),
                           "HOME=" + folder().string(), "PYTHONDONTWRITEBYTECODE=1",
                           "PYTHONPATH=" GENESIS_SOURCE_ROOT "/bindings/python",
                           "GENESIS_LIBRARY=" GENESIS_BUILD_ROOT "/libgenesis.so." GENESIS_VERSION};
    return run_process({"sh", "-c", "cd " + folder().string() + "\n" + line}, options);
  }
  void do_it(const std::string& line) const {
    const Process process = shell(line);
    ASSERT_EQ(process.code, 0) << line << "\n" << process.err;
  }
  void run_page(const std::string& page) const {
    const bool can_draw = run_process({"sh", "-c", "command -v dot"}).code == 0;
    const Words lines = commands(page);
    ASSERT_GT(lines.size(), 8u);
    for (std::string line : lines) {
      if (line.starts_with("genesis-viz") && !can_draw) continue;  // Graphviz is not installed
      if (line.starts_with("bible"))
        line = "for i in $(seq 3000); do echo \"" + verse() + "\"; done > text.txt";
      for (const auto& [pattern, small] : kSmaller)
        line = std::regex_replace(line, std::regex(pattern), small);
      ASSERT_NO_FATAL_FAILURE(do_it(line));
    }
  }
  static std::string verse() {
    return "And in the day $i of the year they went up to the hills and counted $((i * 7919 % 1000)) sheep.";
  }

  static inline const std::vector<std::pair<std::string, std::string>> kSmaller = {
      {"--steps [0-9]+", "--steps 6"},
      {",total=[0-9]+", ",total=6"},
      {"warmup=[0-9]+", "warmup=2"},
      {"--eval-every [0-9]+", "--eval-every 3"},
      {"hidden_size=256", "hidden_size=32"},
      {"~/genesis/", GENESIS_SOURCE_ROOT "/"},
      {"shapes/train [0-9]+", "shapes/train 8"},
      {"shapes/val [0-9]+", "shapes/val 3"},
      {"(^| )examples/", "$1" GENESIS_SOURCE_ROOT "/examples/"},
      {"py shapes [0-9]+", "py shapes 8"},
      {"GPL-3 [0-9]+", "GPL-3 6"},
      {"tuned.genesis [0-9]+", "tuned.genesis 6"},
      {"jupyter execute", "python3 " GENESIS_SOURCE_ROOT "/tests/tools/run_notebook.py"},
      {"\\$\\(pkg-config.*\\)", "-I" GENESIS_SOURCE_ROOT "/include -L" GENESIS_BUILD_ROOT
                                " -Wl,-rpath," GENESIS_BUILD_ROOT " -l:libgenesis.so." GENESIS_VERSION},
      {"--batch 32", "--batch 4"},
      {"intermediate_size=704", "intermediate_size=64"},
      {"moe_intermediate_size=128", "moe_intermediate_size=16"},
      {"--vocab-size 4000", "--vocab-size 400"}};
};

TEST_F(Tutorial, ALanguageModelFromNothing) { run_page("from-nothing.md"); }

TEST_F(Tutorial, FineTuneQwen) {
  do_it("yes 'Who carries the boxes? They are carried by Ada and by nobody else.' | head -n 200 > text.txt");
  do_it("genesis-build tokenizer text.txt --vocab-size 300 --chat -o tokenizer");
  do_it(
      "genesis-build qwen2 --tokenizer tokenizer --set hidden_size=32 --set intermediate_size=64 --set "
      "num_hidden_layers=2 -o tiny.genesis");
  do_it("genesis-run export tiny.genesis -o Qwen2.5-0.5B-Instruct");
  run_page("fine-tune-qwen.md");
}

TEST_F(Tutorial, FineTuneAMixture) { run_page("fine-tune-a-mixture.md"); }

TEST_F(Tutorial, FineTuneAnImageModel) {
  if (!images::why_no_pictures().empty()) GTEST_SKIP() << images::why_no_pictures();
  fs::copy(fs::path(GENESIS_SOURCE_ROOT) / "tests/models/pt2/pictures.pt2", folder() / "resnet18.pt2");
  run_page("fine-tune-an-image-model.md");
}

TEST_F(Tutorial, EveryExampleRuns) {
  if (!images::why_no_pictures().empty()) GTEST_SKIP() << images::why_no_pictures();
  do_it("yes 'Who carries the boxes? They are carried by Ada and by nobody else.' | head -n 200 > text.txt");
  do_it("genesis-build tokenizer text.txt --vocab-size 300 --chat -o words");
  do_it(
      "genesis-build qwen2 --tokenizer words --set hidden_size=32 --set intermediate_size=64 --set "
      "num_hidden_layers=2 -o chat.genesis");
  do_it("genesis-build bert --set hidden_size=64 --set num_hidden_layers=1 --pooling mean -o minilm.genesis");
  run_page("../examples.md");
  const Process classes =
      shell("genesis-run infer image_classifier.genesis --input x=shapes/circle/0001.png | grep -c '%'");
  EXPECT_EQ(classes.out, "3\n") << "the classifier has the names of its three classes";
}

TEST_F(Tutorial, TheChinesePagesHaveTheSameCommands) {
  for (const std::string page :
       {"from-nothing", "fine-tune-qwen", "fine-tune-a-mixture", "fine-tune-an-image-model", "../examples"})
    EXPECT_EQ(commands(page + ".md"), commands(page + ".zh.md"));
}

}  // namespace
}  // namespace genesis::testing
