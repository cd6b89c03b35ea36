// Tests that every option of every tool that takes a number refuses other text. The options are read from the tools'
// own help, so that new ones are included.
#include <regex>
#include <set>

#include "tests/tools/tool_test.h"

namespace genesis::testing {
namespace {

struct NumberOption {
  std::string name;
  bool whole = false;
};

std::vector<NumberOption> numbers_in(const std::string& help) {
  static const std::regex kOption(R"((--[a-z0-9-]+) (INT|UINT|NUMBER|FLOAT)\b)");
  std::vector<NumberOption> options;
  for (std::sregex_iterator at(help.begin(), help.end(), kOption), end; at != end; ++at)
    options.push_back({(*at)[1], (*at)[2] != "NUMBER" && (*at)[2] != "FLOAT"});
  return options;
}

// Words that make the command line complete. Numbers are checked before any file is read.
const std::vector<std::pair<std::string, Words>> kCommands = {
    {"genesis-build", {"mlp", "-o", "/nowhere/m.genesis"}},
    {"genesis-opt", {"none.genesis"}},
    {"genesis-viz", {"none.genesis"}},
    {"genesis-run", {"info", "none.genesis"}},
    {"genesis-run", {"infer", "none.genesis"}},
    {"genesis-run", {"train", "none.genesis", "--data", "x", "--checkpoint", "x"}},
    {"genesis-run", {"generate", "none.genesis", "--prompt", "a"}},
    {"genesis-run", {"bench", "none.genesis"}},
    {"genesis-run", {"profile", "none.genesis"}},
    {"genesis-run", {"compare", "none.genesis"}},
    {"genesis-run", {"baseline", "none.txt"}},
    {"genesis-run", {"tokenize", "none.json", "--text", "a"}},
};

TEST(Numbers, WhatIsNoneIsRefusedByEveryOption) {
  size_t looked_at = 0;
  for (const auto& [tool, words] : kCommands) {
    const Words help = tool == "genesis-run" ? Words{words[0], "--help"} : Words{"--help"};
    for (const NumberOption& option : numbers_in(expect_ok(run_tool(tool, help)))) {
      ++looked_at;
      Words bad = {"",    " 5",  "5 ",   "5x",   "x",    "0x10", "+5", "99999999999999999999x",
                   "nan", "inf", "-inf", "-nan", "1e999"};
      if (option.whole) bad = bad + Words{"1e3", "1.5", "99999999999999999999", "-99999999999999999999"};
      static const std::set<std::string> kMayBeNegative = {"--baseline", "--presence-penalty",
                                                           "--frequency-penalty"};
      if (!kMayBeNegative.contains(option.name)) bad.push_back("-1");
      for (const std::string& text : bad) {
        const Process process = run_tool(tool, words + Words{option.name, text});
        EXPECT_EQ(process.code, 2) << tool << " " << words[0] << " " << option.name << " '" << text << "'";
        EXPECT_NE(process.err.find(option.name), std::string::npos) << process.err;
      }
    }
  }
  EXPECT_GT(looked_at, 25u);
}

// f64 can represent them, but they are converted to f32, where they would be infinite.
TEST(Numbers, BeyondF32AreRefusedByName) {
  const std::string mlp = tiny("mlp.genesis"), train = tiny("mlp.train.genesis"), rows = tiny("far.jsonl");
  expect_usage_error(
      run_tool("genesis-run", {"train", tiny("qwen2.genesis"), "--data", TinyModels::get().text(), "--lora",
                               "2", "--lora-alpha", "1e39"}),
      {"--lora-alpha 1e39", "at most 3.4"});
  expect_usage_error(run_tool("genesis-opt", {mlp, "--text", "--train", "adamw,lr=1e39"}),
                     {"'lr'", "1e39", "f32"});
  expect_usage_error(run_tool("genesis-opt", {mlp, "--text", "--train", "adamw,group={*.bias:lr=1e39x}"}),
                     {"'lr'", "1e39", "f32"});
  expect_usage_error(
      run_tool("genesis-build", {"qwen2", "--set", "rope_theta=1e39", "-o", tiny("never.genesis")}),
      {"rope_theta=1e39", "f32"});
  expect_error(run_tool("genesis-run", {"infer", mlp, "--size", "batch=1", "--input", "x=full:1e39"}),
               {"1e+39", "f32"});
  write_text(rows, R"({"x":[1,2,3,1e39],"target":1})");
  expect_error(run_tool("genesis-run", {"train", train, "--data", rows, "--batch", "1", "--steps", "1"}),
               {"'x'", "1e+39", "f32"});
}

// These have a limit that depends on their meaning.
TEST(Numbers, BeyondTheirLimitsAreRefusedByName) {
  const std::string qwen2 = tiny("qwen2.genesis"), text = TinyModels::get().text();
  const Words train = {"train", qwen2, "--data", text, "--lora", "2"};
  const std::vector<std::pair<Words, Words>> cases = {
      {{"infer", qwen2, "--threads", "1025"}, {"--threads 1025", "at most 1024"}},
      {{"compare", qwen2, "--a", "threads=1025"}, {"threads=1025", "at most 1024"}},
      {{"eval", qwen2, "--data", text, "--seq", "16", "--stride", "17"}, {"--stride 17", "--seq 16"}},
      {train + Words{"--lora-alpha", "0"}, {"--lora-alpha 0", "of more than 0"}},
      {train + Words{"--lora-dropout", "1"}, {"--lora-dropout 1", "less than 1"}},
      {train + Words{"--memory-budget", "nan"}, {"--memory-budget nan"}},
  };
  for (const auto& [words, parts] : cases) expect_usage_error(run_tool("genesis-run", words), parts);
  expect_usage_error(run_tool("genesis-build", {"tokenizer", text, "-o", "/nowhere/t", "--vocab-size", "300",
                                                "--pattern", "+1"}),
                     {"--pattern +1", "quantifier"});
  expect_usage_error(
      run_tool("genesis-build", {"qwen2", "--set", "rope_factor=-1", "-o", "/nowhere/m.genesis"}),
      {"--set rope_factor=-1 does nothing", "rope_scaling"});
  for (const auto& [settings, expected] :
       {std::pair("sgd,momentum=-1", "'momentum' is -1, expected at least 0"),
        {"sgd,momentum=1", "less than 1"},
        {"sgd,momentum=0.5,dampening=2", "'dampening' is 2"},
        {"muon,momentum=2147483648", "'momentum' is 2147483648"},
        {"adamw,schedule=step,step_size=2,gamma=-1", "'gamma' is -1"},
        {"adamw,schedule=cosine,total=10,min_lr=-1", "'min_lr' is -1"},
        {"adamw,schedule=linear,total=10,start_factor=-1", "'start_factor' is -1"}})
    expect_usage_error(run_tool("genesis-opt", {qwen2, "--text", "--train", settings}), {settings, expected});
}

TEST(Numbers, InsideOtherTextToo) {
  const std::string mlp = tiny("mlp.genesis");
  for (const std::string bad : {"99999999999999999999", "5x", " 5", "1e3", "-1", "", "nan"}) {
    expect_usage_error(run_tool("genesis-run", {"infer", mlp, "--size", "batch=" + bad}), {"--size batch="});
    expect_usage_error(run_tool("genesis-run", {"compare", mlp, "--a", "threads=" + bad}), {"threads="});
    expect_usage_error(
        run_tool("genesis-build", {"mlp", "--set", "num_classes=" + bad, "-o", tiny("never.genesis")}),
        {"num_classes"});
    if (bad != "-1")
      expect_usage_error(run_tool("genesis-opt", {mlp, "--text", "--train", "adamw,accumulate=" + bad}),
                         {"'accumulate' is '" + bad + "'", "integer"});
  }
  for (const std::string bad :
       {"99999999999TB", "1e999", "5x", " 5", "-1", "0", "nan", "inf", "0.1", "MB", "1.2.3MB"})
    expect_usage_error(run_tool("genesis-run", {"infer", mlp, "--memory-budget", bad}), {"--memory-budget"});
  for (const std::string bad : {"1e999", "nan", "inf", "5x", " 5", "", "-inf"})
    expect_usage_error(run_tool("genesis-opt", {mlp, "--text", "--train", "adamw,lr=" + bad}),
                       {"'lr' is '" + bad + "'"});
  expect_usage_error(run_tool("genesis-run", {"infer", mlp, "--device", "cuda:99999999999999999999"}),
                     {"no device"});
}

}  // namespace
}  // namespace genesis::testing
