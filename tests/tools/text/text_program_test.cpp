// Compiles and runs the program of ten lines that takes text and gives text, and compares it with the tools.
#include "tests/tools/chat/chat_fixture.h"

namespace genesis::testing {
namespace {

constexpr const char* kProgram = R"(#include <iostream>
#include "models/text/text_model.h"
int main() {
  genesis::text::TextModel model = genesis::text::TextModel::open("qwen.genesis", {.device = "cpu"});
  std::cout << model.generate("Once upon a time", {.max_tokens = 8}).text << "\n";
  genesis::text::Chat chat = model.chat({.system = "Be brief.", .generate = {.max_tokens = 8}});
  chat.answer("What is the capital of France?", [](const genesis::text::Piece& piece) { std::cout << piece.text; return true; });
}
)";

TEST_F(Chat, AProgramOfTenLinesSaysTheSame) {
  if (run_process({"sh", "-c", "command -v c++"}).code != 0) GTEST_SKIP() << "c++ is not in PATH";
  fs::rename(path("folder/tokenizer.json"), path("tokenizer.json"));
  fs::rename(path("folder/tokenizer_config.json"), path("tokenizer_config.json"));
  const Words settings = {"--set", "vocab_size=909",        "--set", "hidden_size=16",
                          "--set", "intermediate_size=32",  "--set", "num_hidden_layers=2",
                          "--set", "num_attention_heads=2", "--set", "num_key_value_heads=1",
                          "--set", "initializer_range=0.3"};
  expect_ok(run_tool("genesis-build", Words{"qwen2", "-o", path("qwen.genesis"), "--tokenizer", folder().string()} + settings));
  write_text(path("program.cpp"), kProgram);
  expect_ok(shell("cd " + folder().string() + " && c++ -std=c++20 -Wall -Wextra -Werror -I " GENESIS_SOURCE_ROOT
                  " program.cpp -o program -L " GENESIS_BUILD_ROOT " -lgenesis -lfmt"));
  const std::string said =
      expect_ok(shell("cd " + folder().string() + " && LD_LIBRARY_PATH=" GENESIS_BUILD_ROOT " ./program"));
  const auto generated = expect_json(run_tool("genesis-run", {"generate", path("qwen.genesis"), "--prompt", "Once upon a time",
                                                              "--max-tokens", "8", "--json"}));
  const auto answered = answers(shell("echo 'What is the capital of France?' | \"$CHAT\" chat " + path("qwen.genesis") +
                                      " --system 'Be brief.' --max-tokens 8 --json"));
  EXPECT_EQ(said, generated["text"].get<std::string>() + "\n" + answered.at(0)["text"].get<std::string>());
}

}  // namespace
}  // namespace genesis::testing
