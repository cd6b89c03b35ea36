// Tests the messages of tools for unknown words, and for options that would do nothing.
#include "tests/tools/tool_test.h"

namespace genesis::testing {
namespace {

using Usage = ToolTest;

struct Case {
  std::string tool;
  Words words, said;
};

TEST_F(Usage, NamesTheLikeliestWord) {
  const std::string mlp = tiny("mlp.genesis");
  const std::vector<Case> cases = {
      {"genesis-run", {"trian", mlp}, {"there is no command 'trian': did you mean 'train'?"}},
      {"genesis-run", {"gen", mlp}, {"'gen'", "did you mean 'generate'?"}},
      {"genesis-run", {"trian", mlp, "--steps", "3"}, {"there is no command 'trian'"}},
      {"genesis-run", {mlp}, {"there is no command", "mlp.genesis"}},
      {"genesis-run",
       {"infer", mlp, "--dvice", "cpu"},
       {"there is no option '--dvice': did you mean '--device'?"}},
      {"genesis-run",
       {"infer", "--dvice=cpu", mlp},
       {"did you mean '--device'?", "`genesis-run infer --help`"}},
      {"genesis-run", {"train", mlp, "--dta", "x"}, {"there is no option '--dta': did you mean '--data'?"}},
      {"genesis-run", {"--device", "cpu", "infer", mlp}, {"'--device' stands before the command", "'infer'"}},
      {"genesis-run", {"infer", mlp, "more"}, {"'more' is one word too many"}},
      {"genesis-opt", {mlp, "--trian", "adamw"}, {"did you mean '--train'?", "`genesis-opt --help`"}},
      {"genesis-build", {"mlp", "--sett", "a=1"}, {"did you mean '--set'?"}},
      {"genesis-viz", {mlp, "--no-flod"}, {"did you mean '--no-fold'?"}},
  };
  for (const Case& c : cases) expect_usage_error(run_tool(c.tool, c.words), c.said);
  // Only the file can show these errors: exit code 1.
  const std::vector<Case> names = {
      {"genesis-run", {"infer", mlp, "--entry", "foward"}, {"did you mean 'forward'?"}},
      {"genesis-run", {"infer", tiny("qwen2.genesis"), "--input", "tokns=zeros"}, {"did you mean 'tokens'?"}},
      {"genesis-build", {"qwen", "-o", path("m.genesis")}, {"did you mean 'qwen2'?"}},
  };
  for (const Case& c : names) expect_error(run_tool(c.tool, c.words), c.said);
}

TEST_F(Usage, ValuesThatMeanNothingAreWrongUsage) {
  const std::string mlp = tiny("mlp.genesis"), train = tiny("mlp.train.genesis"),
                    qwen = tiny("qwen2.genesis"), rows = TinyModels::get().rows(), out = path("o.genesis");
  const std::vector<Case> cases = {
      {"genesis-run",
       {"infer", mlp, "--disable", "simplfy"},
       {"--disable simplfy", "did you mean 'simplify'?"}},
      {"genesis-run", {"infer", mlp, "--device", "gpu"}, {"--device gpu", "did you mean 'cuda'?"}},
      {"genesis-run", {"infer", mlp, "--device", "cpu:0"}, {"did you mean 'cpu'?"}},
      {"genesis-run", {"infer", mlp, "--device", "cuda:x"}, {"--device cuda:x"}},
      {"genesis-run", {"info", mlp, "--device", "tpu"}, {"--device tpu"}},
      {"genesis-run", {"compare", mlp, "--b", "device=gpu"}, {"device gpu"}},
      {"genesis-run", {"chat", qwen, "--variables", "{"}, {"--variables"}},
      {"genesis-run", {"export", mlp, "-o", path("f"), "--dtype", "float16"}, {"did you mean 'f16'?"}},
      {"genesis-run",
       {"train", train, "--data", rows, "--optimizer", "adamw,learning_rate=1"},
       {"did you mean 'lr'?"}},
      {"genesis-run",
       {"train", train, "--data", rows, "--optimizer", "adamw,lr=-1"},
       {"--optimizer", "'lr' is -1"}},
      {"genesis-build", {"mlp", "--set", "num_clases=3", "-o", out}, {"did you mean 'num_classes'?"}},
      {"genesis-build", {"mlp", "--set", "hidden_features=many", "-o", out}, {"hidden_features", "many"}},
      {"genesis-build", {"qwen2", "--set", "dtype=bfloat16", "-o", out}, {"did you mean 'bf16'?"}},
      {"genesis-opt", {mlp, "--train", "adamw,warmpu=3", "--text"}, {"did you mean 'warmup'?"}},
      {"genesis-opt", {mlp, "--train", "adamw,max_grad_norm=1", "--text"}, {"did you mean 'clip'?"}},
      {"genesis-opt", {mlp, "--train", "adamw", "--group", "x", "--text"}, {"--group x"}},
      {"genesis-opt", {mlp, "--passes", "simplfy", "--text"}, {"did you mean 'simplify'?"}},
      {"genesis-opt", {mlp, "--print-after", "simplfy"}, {"did you mean 'simplify'?"}},
      {"genesis-opt", {mlp, "--disable", "simplfy", "-o", out}, {"did you mean 'simplify'?"}},
      {"genesis-opt", {mlp, "--cast", "fp16", "-o", out}, {"--cast fp16", "did you mean 'f16'?"}},
      {"genesis-opt", {mlp, "--cast", "nonsense", "-o", out}, {"--cast nonsense: expected bf16 or f16; see"}},
      {"genesis-opt", {mlp, "--quantize", "int8", "-o", out}, {"did you mean 'q8'?"}},
      {"genesis-opt", {mlp, "--quantize", "Q4_K_M", "-o", out}, {"did you mean 'q4'?"}},
      {"genesis-opt", {mlp, "--target", "gpu", "--text"}, {"--target gpu", "did you mean 'cuda'?"}},
      {"genesis-opt", {mlp, "--check", "gpu"}, {"--check gpu", "did you mean 'cuda'?"}},
      {"genesis-viz", {mlp, "--color", "red", "-o", path("m.svg")}, {"--color red: expected op"}},
      {"genesis-viz", {mlp, "--device", "gpu", "-o", path("m.html")}, {"--device gpu"}},
      {"genesis-viz", {mlp, "-o", path("m.txt")}, {"expected a name that ends in .html"}},
  };
  for (const Case& c : cases) expect_usage_error(run_tool(c.tool, c.words), c.said);
  EXPECT_EQ(files_in(folder()), std::set<std::string>{});
}

// Covers words of PyTorch, transformers, llama.cpp and vLLM.
TEST_F(Usage, WordsOfOtherProgramsAreUnderstood) {
  const std::string mlp = tiny("mlp.genesis"), qwen = tiny("qwen2.genesis");
  const std::vector<Case> cases = {
      {"genesis-run", {"train", mlp, "--lr", "1"}, {"--optimizer adamw,lr="}},
      {"genesis-run", {"train", mlp, "--learning_rate", "1"}, {"--optimizer adamw,lr="}},
      {"genesis-run", {"train", mlp, "--epochs", "3"}, {"--steps N"}},
      {"genesis-run", {"train", mlp, "--max-steps", "3"}, {"did you mean '--steps'?"}},
      {"genesis-run", {"train", mlp, "--batch_size", "3"}, {"did you mean '--batch'?"}},
      {"genesis-run", {"train", mlp, "--fp16"}, {"--cast bf16"}},
      {"genesis-run", {"generate", qwen, "-p", "a"}, {"did you mean '--prompt'?"}},
      {"genesis-run", {"generate", qwen, "-n", "3"}, {"did you mean '--max-tokens'?"}},
      {"genesis-run", {"generate", qwen, "--max_new_tokens", "3"}, {"did you mean '--max-tokens'?"}},
      {"genesis-run", {"generate", qwen, "--top_k", "3"}, {"did you mean '--top-k'?"}},
      {"genesis-run", {"generate", qwen, "--temp", "3"}, {"did you mean '--temperature'?"}},
      {"genesis-run", {"generate", qwen, "--ctx-size", "3"}, {"did you mean '--context'?"}},
      {"genesis-run", {"generate", qwen, "--assistant-model", "3"}, {"did you mean '--draft'?"}},
      {"genesis-run", {"generate", qwen, "--gpu-layers", "3"}, {"--device cuda"}},
      {"genesis-run", {"generate", "-m", qwen}, {"named behind the command without an option"}},
      {"genesis-run", {"api-server", qwen}, {"did you mean 'serve'?"}},
      {"genesis-opt", {"serve", qwen}, {"'serve'", "genesis-run serve MODEL"}},
      {"genesis-run", {"quantize", qwen}, {"'quantize'", "genesis-opt MODEL --quantize q8"}},
      {"genesis-run", {"help"}, {"'help'", "--help"}},
      {"genesis-run", {"evaluate", qwen}, {"did you mean 'eval'?"}},
      {"genesis-run", {"finetune", qwen}, {"did you mean 'train'?"}},
      {"genesis-build", {"help"}, {"'help'", "--help"}},
      {"genesis-build", {"qwen2", "--outtype", "q8_0"}, {"--set dtype"}},
      {"genesis-build", {"qwen2", "--hidden-size", "8"}, {"--set hidden_size"}},
      {"genesis-opt", {"quantize", mlp}, {"'quantize'", "--quantize q8"}},
      {"genesis-opt", {mlp, "--bf16"}, {"did you mean '--cast'?"}},
      {"genesis-opt", {mlp, "--load-in-8bit"}, {"did you mean '--quantize'?"}},
      {"genesis-viz", {"help"}, {"--help"}},
  };
  for (const Case& c : cases) expect_usage_error(run_tool(c.tool, c.words), c.said);
  // Without a similar word, nothing is suggested.
  for (const Words& words : {Words{"zzzzz", mlp}, Words{"infer", mlp, "--frobnicate"},
                             Words{"infer", mlp, "-x"}, Words{"qux"}, Words{"infer", mlp, "--xyz", "3"}}) {
    const Process process = run_tool("genesis-run", words);
    expect_usage_error(process, {});
    EXPECT_EQ(process.err.find("did you mean"), std::string::npos) << process.err;
  }
}

// The message has a command that can be pasted, whatever characters the name has.
TEST_F(Usage, FilesOfOtherProgramsAreToldHowToBecomeModels) {
  fs::create_directory(path("my model"));
  const std::string folder = path("my model"), quoted = "`genesis-build '" + folder + "' -o FILE.genesis`";
  write_text(folder + "/config.json", "{}");
  write_text(folder + "/model.safetensors", "");
  write_text(path("it's.gguf"), "GGUF");
  write_text(path("alone.safetensors"), "");
  write_text(path("net.onnx"), "");
  write_text(path("pytorch_model.bin"), "PK");
  const std::vector<Case> cases = {
      {"genesis-run", {"info", folder}, {"a folder of transformers", quoted}},
      {"genesis-run", {"generate", folder + "/model.safetensors", "--prompt", "a"}, {quoted}},
      {"genesis-run",
       {"infer", path("it's.gguf")},
       {"a GGUF file: `genesis-build '", "it'\\''s.gguf' -o FILE.genesis`"}},
      {"genesis-opt", {path("alone.safetensors"), "--text"}, {"there is no config.json beside it"}},
      {"genesis-run", {"bench", path("net.onnx")}, {"an ONNX model", "genesis-build " + path("net.onnx")}},
      {"genesis-run", {"train", path("pytorch_model.bin"), "--data", "x"}, {"save_pretrained"}},
      {"genesis-build",
       {"Qwen/Qwen2.5-0.5B", "-o", path("m.genesis")},
       {"genesis-build --hf Qwen/Qwen2.5-0.5B -o Qwen2.5-0.5B.genesis"}},
      {"genesis-build", {"./no/such", "-o", path("m.genesis")}, {"there is no folder './no/such'"}},
      {"genesis-build", {"nosuch.gguf", "-o", path("m.genesis")}, {"cannot open 'nosuch.gguf'"}},
  };
  for (const Case& c : cases) expect_error(run_tool(c.tool, c.words), c.said);
}

TEST_F(Usage, MeasurementsNameTheirSizes) {
  const std::string mlp = tiny("mlp.genesis");
  for (const Words& words : {Words{"bench", mlp, "--runs", "1"}, Words{"profile", mlp, "--runs", "1"}}) {
    const std::string text = expect_ok(run_tool("genesis-run", words));
    EXPECT_NE(text.find("forward with batch=1 (--size batch=N gives others)"), std::string::npos) << text;
    const auto json = expect_json(run_tool("genesis-run", words + Words{"--size", "batch=3", "--json"}));
    EXPECT_EQ(json["sizes"], (nlohmann::json{{"batch", 3}}));
  }
}

TEST_F(Usage, OptionsThatWouldDoNothingAreNamed) {
  const std::string mlp = tiny("mlp.genesis"), qwen = tiny("qwen2.genesis"), out = path("o.genesis");
  const std::string mlp_train = tiny("mlp.train.genesis"), rows = TinyModels::get().rows();
  const std::vector<Case> cases = {
      {"genesis-opt", {mlp, "--size", "batch=3", "-o", out}, {"--size does nothing without --check"}},
      {"genesis-opt", {mlp, "--check", "cpu", "-o", out, "--size", "batch=3"}, {"--output does nothing"}},
      {"genesis-opt", {mlp, "--check", "cpu", "--train", "adamw"}, {"--train does nothing with --check"}},
      {"genesis-opt", {"--list-passes", mlp}, {"input does nothing with --list-passes"}},
      {"genesis-opt", {"--list-ops", "--text"}, {"--text does nothing with --list-ops"}},
      {"genesis-opt", {"--plan-csv", "x.csv", "--entry", "a"}, {"--entry does nothing with --plan-csv"}},
      {"genesis-opt", {mlp, "--train", "adamw", "--inference", "-o", out}, {"--inference leaves out"}},
      {"genesis-opt", {mlp, "--train", "adamw", "--target", "cuda", "-o", out}, {"--target does nothing"}},
      {"genesis-opt", {mlp, "--cast", "bf16", "--disable", "cse", "-o", out}, {"--disable does nothing"}},
      {"genesis-opt", {mlp, "--disable", "megakernel", "-o", out}, {"--disable megakernel", "genesis-run"}},
      {"genesis-viz",
       {mlp, "--disable", "cse", "-o", path("m.svg")},
       {"--disable does nothing in a picture"}},
      {"genesis-opt", {mlp, "--print-after", "all", "--json"}, {"--print-after does nothing with --json"}},
      {"genesis-opt", {mlp, "--remat", "--memory-budget", "3GB", "-o", out}, {"exclude each other"}},
      {"genesis-opt", {mlp, "--freeze", "x", "-o", out}, {"--freeze does nothing without --train"}},
      {"genesis-run", {"infer", mlp, "--image", "size=3"}, {"--image does nothing"}},
      {"genesis-run", {"train", mlp_train, "--data", rows, "--image", "size=3"}, {"--image does nothing"}},
      {"genesis-build", {"--list", "--seed", "3"}, {"--seed does nothing with --list"}},
      {"genesis-build", {"mlp", "--list"}, {"model does nothing with --list"}},
      {"genesis-run", {"info", mlp, "--size", "batch=3"}, {"--size does nothing without --device"}},
      {"genesis-run",
       {"info", mlp, "--memory-budget", "3GB"},
       {"--memory-budget does nothing without --device"}},
      {"genesis-run", {"infer", mlp, "--no-optimize", "--disable", "cse"}, {"--disable cse does nothing"}},
      {"genesis-run", {"infer", mlp, "--no-optimize", "--remat"}, {"do nothing with --no-optimize"}},
      {"genesis-run",
       {"infer", mlp, "--memory-budget", "3GB"},
       {"--memory-budget does nothing with entry point forward", "training step"}},
      {"genesis-run", {"bench", mlp, "--remat"}, {"--remat does nothing with entry point forward"}},
      {"genesis-run", {"profile", mlp, "--remat"}, {"--remat does nothing with entry point forward"}},
      {"genesis-run",
       {"info", mlp, "--device", "cpu", "--size", "batch=2", "--remat"},
       {"--remat does nothing with entry point"}},
      {"genesis-run",
       {"generate", qwen, "--prompt", "a", "--memory-budget", "3GB"},
       {"no option '--memory-budget'", "training step"}},
      {"genesis-run", {"chat", qwen, "--remat"}, {"no option '--remat'", "training step"}},
      {"genesis-run", {"eval", qwen, "--data", rows, "--remat"}, {"no option '--remat'", "training step"}},
      {"genesis-run",
       {"eval", qwen, "--data", TinyModels::get().text(), "--skip-bad"},
       {"--skip-bad does nothing", ".jsonl"}},
      {"genesis-opt",
       {mlp, "--check", "cpu", "--entry", "forward", "--memory-budget", "3GB"},
       {"--memory-budget does nothing with entry point forward"}},
      {"genesis-run", {"infer", mlp, "--input", "x=zeros", "--seed", "3"}, {"--seed does nothing", "random"}},
      {"genesis-run", {"compare", mlp, "--a", "optimize=off,disable=cse"}, {"--disable cse does nothing"}},
      {"genesis-run", {"compare", mlp, "--a", "threads=1,threads=2"}, {"'threads' is given twice"}},
      {"genesis-run",
       {"bench", mlp, "--runs", "3", "--seconds", "2"},
       {"--seconds does nothing with --runs"}},
      {"genesis-run", {"profile", mlp, "--top", "3", "--json"}, {"--top does nothing with --json"}},
      {"genesis-run", {"generate", qwen, "--prompt", "a", "--temperature", "0", "--top-k", "3"}, {"--top-k"}},
      {"genesis-run", {"generate", qwen, "--prompt", "a", "--temperature", "0", "--seed", "3"}, {"--seed"}},
      {"genesis-run", {"train", mlp, "--data", "x", "--keep", "3"}, {"--keep", "--checkpoint"}},
      {"genesis-run", {"train", mlp_train, "--data", rows, "--seq", "8"}, {"--seq does nothing with arrays"}},
      {"genesis-run",
       {"train", mlp_train, "--data", rows, "--seed", "8", "--no-shuffle"},
       {"--seed does nothing with --no-shuffle"}},
      {"genesis-run",
       {"train", mlp_train, "--data", rows, "--max-skipped", "8"},
       {"--max-skipped does nothing", "f16"}},
      {"genesis-viz", {mlp, "--baseline", "2", "-o", path("v.dot")}, {"--baseline does nothing"}},
      {"genesis-viz", {mlp, "--size", "batch=2", "-o", path("v.dot")}, {"--size does nothing"}},
      {"genesis-viz", {mlp, "--profile", "p.json", "-o", path("v.dot")}, {"--profile does nothing"}},
      {"genesis-viz", {mlp, "--memory", "--no-fold", "-o", path("v.svg")}, {"--no-fold does nothing"}},
      {"genesis-viz", {mlp, "--loss", "m.jsonl", "-o", path("v.svg")}, {"input does nothing with --loss"}},
  };
  for (const Case& c : cases) expect_usage_error(run_tool(c.tool, c.words), c.said);
  EXPECT_EQ(files_in(folder()), std::set<std::string>{});
}

TEST_F(Usage, KernelsAreNamedAndCanBeSwitchedOff) {
  const std::string qwen = tiny("qwen2.genesis");
  const Words info = {"info", qwen, "--device", "cpu", "--size", "batch=2", "--size", "seq=16", "--kernels"};
  const auto kernels_of = [&](const Words& more) {
    std::set<std::string> names;
    const nlohmann::json json = expect_json(run_tool("genesis-run", info + more + Words{"--json"}));
    for (const auto& row : json["kernels"]["forward"]) names.insert(row["kernel"].get<std::string>());
    return names;
  };
  EXPECT_TRUE(kernels_of({}).contains("attention.blocks"));
  const std::set<std::string> without = kernels_of({"--disable", "kernel:attention.blocks"});
  EXPECT_FALSE(without.contains("attention.blocks"));
  EXPECT_TRUE(without.contains("attention.reference"));
  const std::string text = expect_ok(run_tool("genesis-run", info + Words{"--disable", "kernel:blocks"}));
  EXPECT_NE(text.find("not attention.blocks: switched off"), std::string::npos) << text;
  expect_usage_error(run_tool("genesis-run", {"info", qwen, "--kernels"}),
                     {"--kernels does nothing without --device"});
  expect_usage_error(run_tool("genesis-run", info + Words{"--disable", "kernel:attention.block"}),
                     {"no kernel 'attention.block'", "did you mean 'attention.blocks'"});
  const auto profile = expect_json(
      run_tool("genesis-run", {"profile", qwen, "--entry", "forward", "--size", "batch=2", "--size", "seq=16",
                               "--disable", "kernel:attention.blocks", "--json"}));
  bool seen = false;
  for (const auto& row : profile["rows"]) seen = seen || row["kernels"].contains("attention.reference");
  EXPECT_TRUE(seen) << profile;
}

TEST_F(Usage, EveryToolKnowsWhatCanBeSwitchedOff) {
  const std::string qwen = tiny("qwen2.genesis"), opt = path("opt.genesis"), page = path("page.json");
  expect_ok(run_tool("genesis-opt", {qwen, "--disable", "kernel:attention.blocks,cse", "-o", opt}));
  expect_usage_error(run_tool("genesis-opt", {qwen, "--disable", "kernel:attention.block", "-o", opt}),
                     {"no kernel 'attention.block'", "did you mean 'attention.blocks'"});
  const Words viz = {qwen, "--entry", "forward", "--size", "batch=2", "--size", "seq=16", "-o", page};
  expect_ok(run_tool("genesis-viz", viz));
  EXPECT_NE(read_text(page).find("attention.blocks"), std::string::npos);
  expect_ok(run_tool("genesis-viz", viz + Words{"--disable", "kernel:attention.blocks,kernel:megakernel"}));
  EXPECT_NE(read_text(page).find("attention.reference"), std::string::npos);
  for (const char* name : {"kernel:attention.block", "cee"})
    expect_usage_error(run_tool("genesis-viz", viz + Words{"--disable", name}), {"did you mean"});
}

TEST_F(Usage, AnEmptyValueIsNotOneThatWasNotGiven) {
  const std::string mlp = tiny("mlp.genesis");
  expect_usage_error(run_tool("genesis-opt", {mlp, "-o", ""}), {"-o", "empty"});
  expect_usage_error(run_tool("genesis-opt", {mlp, "--train", "", "--text"}), {"--train", "empty"});
  expect_usage_error(run_tool("genesis-run", {"infer", mlp, "--output="}), {"--output="});
  expect_usage_error(run_tool("genesis-run", {"info", ""}), {"empty"});
}

TEST_F(Usage, WhatAUserWroteIsNotRepeatedWhole) {
  const std::string mlp = tiny("mlp.genesis"), huge(10000, 'n');
  for (const Words& words :
       {Words{"info", huge}, Words{"infer", mlp, "--entry", huge}, Words{"infer", mlp, "--" + huge},
        Words{"infer", mlp, "--input", huge + "=zeros"}, Words{"infer", mlp, "--size", huge + "=3"},
        Words{"infer", mlp, "--disable", huge}, Words{"infer", mlp, "--device", huge}, Words{huge},
        Words{"infer", mlp, "--threads", huge}, Words{"infer", mlp, "-o", huge + ".npy"}}) {
    const Process process = run_tool("genesis-run", words);
    EXPECT_NE(process.code, 0);
    EXPECT_LT(process.err.size(), 1500u) << words[0] << words.size();
    EXPECT_NE(process.err.find("nnnn"), std::string::npos) << process.err;
    EXPECT_NE(process.err.find("bytes left out"), std::string::npos) << process.err;
  }
}

}  // namespace
}  // namespace genesis::testing
