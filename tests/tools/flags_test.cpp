// Tests help, versions and wrong usage, which are the same for all four tools.
#include "tests/tools/tool_test.h"

namespace genesis::testing {
namespace {

const Words kTools = {"genesis-build", "genesis-opt", "genesis-run", "genesis-viz"};
const Words kCommands = {"info",    "infer",   "train",    "generate", "bench",
                         "profile", "compare", "baseline", "tokenize"};

TEST(Flags, HelpShowsExamples) {
  for (const std::string& tool : kTools)
    EXPECT_NE(expect_ok(run_tool(tool, {"--help"})).find("Examples:\n  " + tool), std::string::npos) << tool;
  for (const std::string& command : kCommands)
    EXPECT_NE(
        expect_ok(run_tool("genesis-run", {command, "--help"})).find("Example:\n  genesis-run " + command),
        std::string::npos)
        << command;
}

TEST(Flags, EveryToolSaysWhichVersionItIs) {
  for (const std::string& tool : kTools)
    EXPECT_EQ(expect_ok(run_tool(tool, {"--version"})), GENESIS_VERSION "\n");
}

TEST(Flags, UnknownFlagsAndCommandsAreWrongUsage) {
  for (const std::string& tool : kTools)
    expect_usage_error(run_tool(tool, {"--frobnicate"}), {"--frobnicate"});
  expect_usage_error(run_tool("genesis-run", {"frobnicate"}), {"frobnicate"});
  expect_usage_error(run_tool("genesis-run", {"info", tiny("mlp.genesis"), "--frobnicate"}),
                     {"--frobnicate"});
  expect_usage_error(run_tool("genesis-build", {"mlp", "--seed", "x", "-o", "m.genesis"}), {"--seed"});
}

TEST(Flags, MissingArgumentsAreWrongUsage) {
  expect_usage_error(run_tool("genesis-build", {}), {"a model's name"});
  expect_usage_error(run_tool("genesis-build", {"mlp"}), {"-o FILE"});
  expect_usage_error(run_tool("genesis-opt", {}), {"a model file"});
  expect_usage_error(run_tool("genesis-run", {}), {"a command (info, infer, train"});
  expect_usage_error(run_tool("genesis-run", {"infer"}), {"file"});
  expect_usage_error(run_tool("genesis-run", {"train", tiny("mlp.train.genesis")}), {"--data"});
  expect_usage_error(run_tool("genesis-run", {"generate", tiny("qwen2.genesis")}), {"--prompt"});
  expect_usage_error(run_tool("genesis-viz", {tiny("mlp.genesis")}), {"-o FILE"});
  expect_usage_error(run_tool("genesis-viz", {"-o", "x.svg"}), {"a model file"});
  expect_usage_error(run_tool("genesis-run", {"train", tiny("mlp.train.genesis"), "--data", "x", "--resume"}),
                     {"--checkpoint"});
  expect_usage_error(
      run_tool("genesis-run", {"train", tiny("mlp.train.genesis"), "--data", "x", "--checkpoint-every", "3"}),
      {"--checkpoint DIR"});
}

// Work that takes a moment shows no progress, with or without --quiet.
TEST(Flags, QuickWorkIsSilent) {
  const fs::path output = fs::temp_directory_path() / "genesis_flags_test.genesis";
  for (const Words& flags : {Words{}, Words{"--quiet"}}) {
    const Process built = run_tool("genesis-build", Words{"mlp", "-o", output.string()} + flags);
    EXPECT_EQ(built.err, "");
    expect_ok(built);
    const Process cast =
        run_tool("genesis-opt", Words{output.string(), "--cast", "bf16", "-o", output.string()} + flags);
    EXPECT_EQ(cast.err, "");
    expect_ok(cast);
  }
  fs::remove(output);
}

TEST(Flags, ALogLevelThatIsNoneIsNamed) {
  ProcessOptions options;
  options.environment = {"GENESIS_LOG=loud"};
  expect_error(run_tool("genesis-build", {"--list"}, options),
               {"GENESIS_LOG is 'loud'", "trace, debug, info"});
}

TEST(Flags, TextsBeyondTheModelsPositionsAreRefused) {
  for (const Words& words : {Words{"train", tiny("gpt2.train.genesis"), "--steps", "1", "--batch", "1"},
                             Words{"eval", tiny("gpt2.genesis")}})
    expect_error(run_tool("genesis-run", words + Words{"--data", TinyModels::get().text(), "--seq", "2000"}),
                 {"--seq", "2000", "n_positions"});
}

TEST(Flags, TextsLongerThanTheModelWasMadeForAreToldOf) {
  for (const Words& words :
       {Words{"eval", tiny("qwen2.genesis"), "--data", TinyModels::get().text(), "--seq"},
        Words{"train", tiny("qwen2.train.genesis"), "--data", TinyModels::get().text(), "--steps", "1",
              "--batch", "1", "--quiet", "--seq"}}) {
    const Process longer = run_tool("genesis-run", words + Words{"49"});
    expect_ok(longer);
    EXPECT_NE(longer.err.find("made for 48 at most"), std::string::npos) << longer.err;
    EXPECT_EQ(run_tool("genesis-run", words + Words{"48"}).err.find("at most"), std::string::npos);
  }
}

TEST(Flags, ARunsMetricsAreNotItsModel) {
  const std::string file = tiny("both.out"), other = fs::path(file).parent_path() / "." / "both.out";
  expect_usage_error(run_tool("genesis-run", {"train", tiny("qwen2.train.genesis"), "--data",
                                              TinyModels::get().text(), "--metrics", file, "-o", other}),
                     {"--metrics and -o", "both.out"});
}

TEST(Flags, NumbersOutOfRangeAreNamed) {
  for (const Words& words : {Words{"--keep", "0"}, Words{"--minutes", "-1"}, Words{"--steps", "-1"},
                             Words{"--checkpoint-every", "-1"}})
    expect_usage_error(
        run_tool("genesis-run", Words{"train", tiny("mlp.train.genesis"), "--data", "x"} + words),
        {words[0] + " " + words[1]});
  expect_usage_error(run_tool("genesis-run", {"compare", tiny("mlp.genesis"), "--tolerance", "nan"}),
                     {"--tolerance"});
}

}  // namespace
}  // namespace genesis::testing
