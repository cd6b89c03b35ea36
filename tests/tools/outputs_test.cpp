// Tests that an output which cannot be written is found before the work begins, by every tool that writes at its end.
#include "tests/tools/tool_test.h"

namespace genesis::testing {
namespace {

class Outputs : public ToolTest {
 protected:
  // Returns each command up to the option that names its output. None of them would succeed: the input is missing, so
  // an error about the output shows that it was checked first.
  std::vector<std::pair<std::string, Words>> writers() const {
    const std::string none = path("none.genesis");
    return {{"genesis-build", {"qwen2", "-o"}},
            {"genesis-opt", {none, "--inference", "-o"}},
            {"genesis-viz", {none, "-o"}},
            {"genesis-run", {"infer", none, "-o"}},
            {"genesis-run", {"train", none, "--data", "none.txt", "-o"}},
            {"genesis-run", {"train", none, "--data", "none.txt", "--metrics"}},
            {"genesis-run", {"profile", none, "--trace"}},
            {"genesis-run", {"profile", none, "-o"}},
            {"genesis-run", {"compare", none, "--repro"}},
            {"genesis-run", {"compare", none, "-o"}}};
  }
  // Returns the file ending that a command requires.
  static std::string ending(const Words& words) {
    if (words[0] == "infer") return ".npy";
    return words.back() == "-o" && words[0] != "train" ? ".html" : ".safetensors";
  }
};

TEST_F(Outputs, ThatCannotBeWrittenAreFoundFirst) {
  fs::create_directory(path("folder.npy"));
  for (const char* name : {"folder.html", "folder.safetensors"}) fs::create_directory(path(name));
  for (const auto& [tool, words] : writers()) {
    const std::string end = ending(words);
    expect_error(run_tool(tool, words + Words{path("missing/x" + end)}),
                 {"cannot write", "missing", "make it first"});
    expect_error(run_tool(tool, words + Words{path("folder" + end)}),
                 {"cannot write", "folder" + end, "it is a folder"});
    fs::create_symlink(path("elsewhere" + end), path("link" + end));
    expect_error(run_tool(tool, words + Words{path("link" + end)}),
                 {"cannot write", "symbolic link", "elsewhere"});
    fs::remove(path("link" + end));
    // No process can create files there, not even root.
    expect_error(run_tool(tool, words + Words{"/proc/self/x" + end}), {"cannot write", "/proc/self/x" + end});
  }
  EXPECT_EQ(files_in(folder()), (std::set<std::string>{"folder.npy", "folder.html", "folder.safetensors"}));
}

TEST_F(Outputs, ThatAreDevicesAreFoundFirst) {
  for (const Words& words :
       {Words{"train", tiny("qwen2.train.genesis"), "--data", "none.txt", "-o", "/dev/null"},
        Words{"profile", "none.genesis", "--trace", "/dev/null"}})
    expect_error(run_tool("genesis-run", words), {"cannot write '/dev/null'", "a device"});
  for (const char* tool : {"genesis-build", "genesis-opt"})
    expect_error(run_tool(tool, {"none", "-o", "/dev/full"}), {"cannot write '/dev/full'"});
  // Lines can be appended to a device.
  expect_ok(
      run_tool("genesis-run", train_words("qwen2", 2, {"--metrics", "/dev/null", "-o", path("m.genesis")})));
}

TEST_F(Outputs, ThatAreFoldersAreFoundFirst) {
  write_text(path("file"), "x");
  fs::create_symlink(path("elsewhere"), path("link"));
  const std::vector<std::pair<std::string, Words>> writers = {
      {"genesis-run", {"export", "none.genesis", "-o"}},
      {"genesis-run", train_words("qwen2", 2, {"--tensorboard"})},
      {"genesis-opt", {"none.genesis", "--save-adapter"}},
      {"genesis-build", {"tokenizer", "none.txt", "--vocab-size", "300", "-o"}}};
  for (const auto& [tool, words] : writers)
    for (const char* place : {"file", "file/x", "link"})
      expect_error(run_tool(tool, words + Words{path(place)}), {path(place)});
  EXPECT_EQ(files_in(folder()), (std::set<std::string>{"file", "link"}));
}

// The second of two models is checked before the work with the first.
TEST_F(Outputs, OfTwoModelsDoNotWaitForTheSecond) {
  const auto eval = [&](const std::string& other) {
    return run_tool("genesis-run",
                    {"eval", tiny("qwen2.genesis"), "--data", TinyModels::get().text(), "--find-nonfinite",
                     "--nonfinite-page", path("p.html"), "--compare", other});
  };
  expect_error(eval(path("none.genesis")), {"none.genesis"});
  expect_error(eval(tiny("mlp.genesis")), {"forward", "logits"});
  expect_ok(run_tool("genesis-build", {"gpt2", "--set", "vocab_size=300", "--set", "n_embd=8", "--set",
                                       "n_head=2", "--set", "n_layer=1", "-o", path("large.genesis")}));
  expect_error(eval(path("large.genesis")), {"large.genesis", "vocabulary of 300"});
  expect_error(run_tool("genesis-run", {"profile", tiny("mlp.genesis"), "-o", path("p.html"), "--compare",
                                        tiny("qwen2.genesis"), "--input", "x=random"}),
               {"no input 'x'", "tokens"});
}

}  // namespace
}  // namespace genesis::testing
