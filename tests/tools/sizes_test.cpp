// Tests sizes for which no machine has memory, or that overflow when multiplied: they are refused before the work
// begins, with the name of the option.
#include "tests/tools/tool_test.h"

namespace genesis::testing {
namespace {

using Sizes = ToolTest;

const std::string kHuge = "4611686018427387904";  // 2^62: four times it overflows to 0

TEST_F(Sizes, OfBatchesAreNamed) {
  const Words train = {
      "train",          tiny("qwen2.train.genesis"), "--data", TinyModels::get().text(), "--steps", "2", "-o",
      path("m.genesis")};
  const auto run = [&](const Words& more) { return run_tool("genesis-run", train + more); };
  expect_error(run({"--batch", kHuge, "--seq", "16"}), {"--batch", kHuge});
  expect_error(run({"--batch", "2", "--seq", kHuge}), {"--seq", kHuge});
  expect_error(run({"--batch", kHuge, "--seq", kHuge}), {"--batch", kHuge});
}

TEST_F(Sizes, OfInputsAreNamed) {
  const auto infer = [&](const std::string& size) {
    return run_tool("genesis-run",
                    {"infer", tiny("mlp.genesis"), "--input", "x=random", "--size", "batch=" + size});
  };
  for (const std::string size : {"1000000000000", "36028797018963968", kHuge.c_str(), "9223372036854775807"})
    expect_error(infer(size), {"'x'", "batch=" + size});
}

// Covers every size of every model of the zoo.
TEST_F(Sizes, OfModelsAreNamed) {
  const nlohmann::json zoo = expect_json(run_tool("genesis-build", {"--list", "--json"}));
  size_t looked_at = 0;
  std::set<std::string> settings,
      networks;  // image models of one network have the same settings: the first stands for all
  for (const auto& [model, about] : zoo.items()) {
    std::string names;
    for (const auto& [setting, value] : about["settings"].items()) names += setting + " ";
    if (about["settings"].contains("image_size") && !networks.insert(names).second) continue;
    for (const auto& [setting, value] : about["settings"].items()) {
      if (!value.is_number_integer()) continue;
      ++looked_at;
      // Settings of one name are checked alike: the first stands for all at the largest number.
      std::vector<std::string> sizes = {kHuge};
      if (settings.insert(setting).second) sizes.push_back("9223372036854775807");
      for (const std::string& size : sizes) {
        const Process process =
            run_tool("genesis-build", {model, "--set", setting + "=" + size, "-o", path("m.genesis")});
        // A window larger than any text has no effect.
        if (setting == "sliding_window" && process.code == 0) continue;
        expect_usage_error(process, {setting});
      }
    }
  }
  EXPECT_GT(looked_at, 20u);
}

TEST_F(Sizes, OfSettingsTogetherAreNamed) {
  expect_error(run_tool("genesis-build", {"gpt2", "--set", "n_embd=1048576", "--set", "n_layer=4096", "-o",
                                          path("m.genesis")}),
               {"--set n_embd=1048576", "--set n_layer=4096", "of memory"});
}

TEST_F(Sizes, OfAKvCacheAreNamed) {
  for (const Words& command :
       {Words{"generate", tiny("qwen2.genesis"), "--prompt", "a"}, Words{"chat", tiny("qwen2.genesis")}})
    for (const std::string size : {"1000000000000", kHuge.c_str(), "9223372036854775807"})
      expect_error(run_tool("genesis-run", command + Words{"--context", size}), {"--context " + size});
}

// genesis-opt plans runs of larger machines, as far as 64 bits can count their bytes.
TEST_F(Sizes, OfPlansAreNamed) {
  for (const std::string size : {"2147483647", "4294967296", kHuge.c_str(), "9223372036854775807"})
    expect_error(run_tool("genesis-opt", {tiny("qwen2.train.genesis"), "--check", "cpu", "--entry",
                                          "train_step", "--size", "batch=2", "--size", "seq=" + size}),
                 {"'train_step'", "--size batch=2 --size seq=" + size});
}

TEST_F(Sizes, OfNothingAreNotMeasured) {
  for (const char* command : {"bench", "profile"})
    expect_error(run_tool("genesis-run", {command, tiny("qwen2.genesis"), "--entry", "forward", "--size",
                                          "batch=1", "--size", "seq=0", "--runs", "1"}),
                 {"'forward' has nothing to run", "--size seq=0"});
}

TEST_F(Sizes, OfMicroBatchesAreRefused) {
  for (const char* count : {"1000000000", "4097"})
    expect_usage_error(
        run_tool("genesis-opt", {tiny("qwen2.genesis"), "--train", std::string("adamw,accumulate=") + count,
                                 "-o", path("m.genesis")}),
        {"'accumulate'", "between 1 and 4096"});
  expect_error(run_tool("genesis-opt",
                        {tiny("qwen2.genesis"), "--train", "adamw,accumulate=4096", "-o", path("m.genesis")}),
               {"accumulate=4096", "nodes"});
}

}  // namespace
}  // namespace genesis::testing
