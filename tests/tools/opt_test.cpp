// Tests genesis-opt: effects of passes, memory plans, devices.
#include "tests/tools/tool_test.h"

namespace genesis::testing {
namespace {

using Opt = ToolTest;

TEST_F(Opt, ListsPassesWithTheirReasons) {
  const auto json = expect_json(run_tool("genesis-opt", {"--list-passes", "--json"}));
  EXPECT_TRUE(json.contains("cse") && json.contains("dce") && json.contains("fuse_elementwise"));
  const std::string text = expect_ok(run_tool("genesis-opt", {"--list-passes"}));
  for (const auto& [name, why] : json.items())
    EXPECT_NE(text.find(why.get<std::string>()), std::string::npos) << name;
}

TEST_F(Opt, PrintsTheGraphAfterPasses) {
  const std::string all = expect_ok(run_tool("genesis-opt", {tiny("qwen2.genesis"), "--print-after", "all"}));
  EXPECT_NE(all.find("cse"), std::string::npos);
  EXPECT_NE(all.find("entry decode("), std::string::npos);
  const std::string none = expect_ok(run_tool("genesis-opt", {tiny("qwen2.genesis"), "--print-after", "cse",
                                                              "--disable", "cse", "--entry", "decode"}));
  EXPECT_EQ(none.find("entry decode("), std::string::npos);
}

TEST_F(Opt, SaysWhatItDidNotDo) {
  const auto warning = [](const Words& words) {
    const Process process = run_tool("genesis-opt", words);
    expect_ok(process);
    return process.err;
  };
  for (const Words& words :
       {Words{}, Words{"--train", "adamw"}, Words{"--cast", "bf16"}, Words{"--inference"}})
    expect_usage_error(run_tool("genesis-opt", Words{tiny("mlp.genesis")} + words), {"-o FILE", "--check"});
  EXPECT_NE(warning({tiny("mlp.genesis"), "--print-after", "simplify"}).find("nothing was changed"),
            std::string::npos);
  EXPECT_EQ(warning({tiny("mlp.genesis"), "--train", "adamw", "-o", path("t.genesis")}), "");
  for (const Words& words : {Words{}, Words{"--train", "adamw"}})
    expect_usage_error(
        run_tool("genesis-opt",
                 Words{tiny("mlp.genesis"), "--keep-f32", "a", "-o", path("t.genesis")} + words),
        {"--keep-f32 a", "--cast bf16"});
  expect_error(run_tool("genesis-opt", {"--plan-csv", folder().string()}), {folder().string(), "folder"});
}

TEST_F(Opt, DumpsAFileForEachPassThatChangedTheGraph) {
  expect_ok(run_tool("genesis-opt", {tiny("qwen2.genesis"), "--dump", path("dumps"), "--entry", "decode"}));
  bool found = false;
  for (const std::string& file : files_in(folder() / "dumps")) {
    found = true;
    EXPECT_EQ(file.find("decode."), 0u) << file;
    EXPECT_NE(read_text(folder() / "dumps" / file).find("entry decode("), std::string::npos);
  }
  EXPECT_TRUE(found);
}

TEST_F(Opt, OptimizedFilesGiveTheSameResults) {
  expect_ok(run_tool("genesis-opt", {tiny("qwen3.genesis"), "-o", path("o.genesis")}));
  const Words loss = {"--entry", "loss", "--size", "batch=2", "--size", "seq=8", "-o"};
  expect_ok(run_tool("genesis-run", Words{"infer", tiny("qwen3.genesis")} + loss + Words{path("a.npy")}));
  expect_ok(run_tool("genesis-run",
                     Words{"infer", path("o.genesis"), "--no-optimize"} + loss + Words{path("b.npy")}));
  EXPECT_EQ(read_text(path("a.npy")), read_text(path("b.npy")));
}

TEST_F(Opt, ChecksADeviceAndItsMemory) {
  const auto json = expect_json(run_tool("genesis-opt", {tiny("qwen2.train.genesis"), "--check", "cpu",
                                                         "--size", "batch=2", "--size", "seq=8", "--json"}));
  EXPECT_EQ(json["entries"].size(), 7u);
  for (const auto& entry : json["entries"]) {
    EXPECT_GE(entry["ratio"], 1.0) << entry;
    EXPECT_LE(entry["ratio"], 1.001) << entry;
    EXPECT_GT(entry["steps"], 0) << entry;
  }
  expect_usage_error(run_tool("genesis-opt", {tiny("mlp.genesis"), "--check", "tpu"}),
                     {"no device 'tpu'", "cpu, cuda or cuda:N"});
}

TEST_F(Opt, ChecksWithUsualSizesWhereNoneAreGiven) {
  const auto json = expect_json(run_tool(
      "genesis-opt", {tiny("qwen2.train.genesis"), "--mesh", "data=4", "--zero", "1", "--json", "--check"}));
  EXPECT_EQ(json["sizes"]["batch"], 32);
  EXPECT_LE(json["sizes"]["seq"], 256);
  EXPECT_EQ(json["entries"].size(), 7u);
  const std::string told = expect_ok(run_tool("genesis-opt", {tiny("mlp.genesis"), "--check"}));
  EXPECT_EQ(expect_ok(run_tool("genesis-opt", {"--check", tiny("mlp.genesis")})), told)
      << "the file, not a device";
  expect_usage_error(run_tool("genesis-opt", {"--check", "cpu"}),
                     {"--check cpu", "a model file is required"});
  EXPECT_NE(told.find("sizes that are not given: --size batch=8\n"), std::string::npos) << told;
}

TEST_F(Opt, RefusesAnAxisThatNothingIsSharedAlong) {
  expect_error(run_tool("genesis-opt", {tiny("qwen2.train.genesis"), "--mesh", "rows=2", "--check"}),
               {"'rows'", "data, expert, tensor and pipeline"});
}

// A file is for every device: layers that one device computes as one step could not be sharded.
TEST_F(Opt, WhatServesIsSharedAsWhatItWasMadeOf) {
  expect_ok(run_tool("genesis-opt", {tiny("qwen2.genesis"), "--inference", "-o", path("serve.genesis")}));
  const auto on_two_ranks = [&](const std::string& file) {
    return expect_json(run_tool("genesis-opt", {file, "--entry", "decode", "--mesh", "tensor=2", "--json",
                                                "--check", "cpu"}))["entries"][0];
  };
  const auto whole = on_two_ranks(tiny("qwen2.genesis")), serving = on_two_ranks(path("serve.genesis"));
  EXPECT_EQ(serving["state_bytes"], whole["state_bytes"]);
  EXPECT_EQ(serving["exchanged"], whole["exchanged"]);
  expect_ok(run_tool("genesis-opt",
                     {tiny("qwen2.genesis"), "--inference", "--target", "cpu", "-o", path("cpu.genesis")}));
  expect_error(run_tool("genesis-opt",
                        {path("cpu.genesis"), "--entry", "decode", "--mesh", "tensor=2", "--check", "cpu"}),
               {"cannot share any layer"});
}

TEST_F(Opt, CastsForInference) {
  expect_ok(run_tool("genesis-opt",
                     {tiny("qwen2.genesis"), "--inference", "--cast", "bf16", "-o", path("b.genesis")}));
  EXPECT_LT(fs::file_size(path("b.genesis")), fs::file_size(tiny("qwen2.genesis")));
  expect_ok(run_tool("genesis-run", {"generate", path("b.genesis"), "--prompt", "a", "--max-tokens", "3"}));
}

TEST_F(Opt, TrainsInLowPrecision) {
  const std::string data = path("text.txt");
  write_text(data, std::string(2000, 'a') + std::string(2000, 'b'));
  for (const char* cast : {"bf16", "f16"}) {
    expect_ok(run_tool("genesis-opt", {tiny("qwen2.genesis"), "--train", "adamw,clip=1", "--cast", cast,
                                       "--keep-f32", "lm_head*", "-o", path("t.genesis")}));
    const auto json = expect_json(
        run_tool("genesis-run", {"train", path("t.genesis"), "--data", data, "--steps", "3", "--seq", "8",
                                 "--batch", "2", "--json", "-o", path("done.genesis")}));
    EXPECT_LT(json["loss"], 6) << cast;
    // The result has weights of f32 and can be served like any other.
    expect_ok(run_tool("genesis-opt", {path("done.genesis"), "--inference", "-o", path("s.genesis")}));
    expect_ok(run_tool("genesis-run", {"generate", path("s.genesis"), "--prompt", "a", "--max-tokens", "3"}));
  }
  expect_error(run_tool("genesis-opt", {tiny("qwen2.genesis"), "--train", "adamw", "--cast", "bf16",
                                        "--keep-f32", "no_such*", "-o", path("x.genesis")}),
               {"'no_such*'", "--text"});
}

TEST_F(Opt, TrainsGroupsOfParameters) {
  const Words train = {tiny("qwen2.genesis"), "--train", "adamw,lr=0.5", "--group"};
  const auto json =
      expect_json(run_tool("genesis-opt", train + Words{"*norm*, *.bias: weight_decay=0", "--group",
                                                        "*embed*: freeze", "--json", "--text"}));
  const std::string text = json["entries"]["train_step"]["text"];
  EXPECT_NE(text.find("update @model.norm.weight"), std::string::npos);
  EXPECT_EQ(text.find("update @model.embed_tokens.weight"), std::string::npos);
  EXPECT_NE(text.find("weight_decays=(0.0)"), std::string::npos);
  expect_error(run_tool("genesis-opt", train + Words{"*nrm.weight: lr=2x", "-o", path("t.genesis")}),
               {"'*nrm.weight'", "names no parameter", "norm.weight"});
  expect_usage_error(run_tool("genesis-opt", train + Words{"*norm*: lr=2", "-o", path("t.genesis")}),
                     {"'*norm*: lr=2'", "lr=0.5x"});
  expect_usage_error(
      run_tool("genesis-opt", {tiny("mlp.genesis"), "--group", "*: freeze", "-o", path("t.genesis")}),
      {"--group", "--train"});
}

TEST_F(Opt, SaysWhatQuantizingCostsOnASample) {
  const auto opt = [&](const Words& words) { return run_tool("genesis-opt", words); };
  expect_ok(run_tool("genesis-build",
                     {"qwen2", "--set", "hidden_size=32", "--set", "intermediate_size=64", "--set",
                      "num_hidden_layers=1", "--set", "initializer_range=0.3", "-o", path("m.genesis")}));
  const std::string text = TinyModels::get().text();
  for (const char* format : {"q8", "q4", "q4m"}) {
    const Process said =
        opt({path("m.genesis"), "--quantize", format, "--data", text, "-o", path("q.genesis")});
    expect_ok(said);
    EXPECT_NE(said.err.find("perplexity on "), std::string::npos) << said.err;
    EXPECT_NE(said.err.find(" before, "), std::string::npos) << said.err;
    EXPECT_EQ(said.err.find("kept as q8: model.embed_tokens.weight") != std::string::npos,
              std::string(format) != "q8")
        << said.err;
  }
  const Process unmeasured = opt({path("m.genesis"), "--quantize", "q4", "-o", path("q.genesis")});
  EXPECT_NE(unmeasured.err.find("--data TEXT measures it"), std::string::npos) << unmeasured.err;
  expect_usage_error(opt({path("m.genesis"), "--data", text, "-o", path("q.genesis")}),
                     {"--data", "--quantize"});
  const Process calibrated =
      opt({path("m.genesis"), "--quantize", "q4m", "--calibrate", text, "-o", path("q.genesis")});
  expect_ok(calibrated);
  EXPECT_NE(calibrated.err.find("calibrating: 4 of 4 inputs"), std::string::npos) << calibrated.err;
  expect_usage_error(
      opt({path("m.genesis"), "--quantize", "q4", "--calibrate", text, "-o", path("q.genesis")}),
      {"--calibrate", "--quantize q4m"});
  expect_error(
      opt({path("m.genesis"), "--quantize", "q4", "--data", path("none.txt"), "-o", path("q.genesis")}),
      {"none.txt"});
}

TEST_F(Opt, SaysThatTrainingLeavesQuantizedWeightsAsTheyAre) {
  const auto opt = [&](const Words& words) { return run_tool("genesis-opt", words); };
  const std::string q8 = path("q8.genesis"), all = path("all.genesis"), out = path("t.genesis");
  expect_ok(run_tool("genesis-build", {"qwen2", "--set", "hidden_size=32", "--set", "intermediate_size=64",
                                       "--set", "num_hidden_layers=1", "-o", path("m.genesis")}));
  expect_ok(opt({path("m.genesis"), "--quantize", "q8", "-o", q8}));
  expect_ok(
      opt({path("m.genesis"), "--quantize", "q8", "--quantize-embedding", "--quantize-head", "-o", all}));
  const Process warned = opt({q8, "--train", "adamw", "-o", out});
  expect_ok(warned);
  EXPECT_NE(warned.err.find("7 weights are kept as q8, q4 or q4m and stay as they are"), std::string::npos)
      << warned.err;
  EXPECT_NE(warned.err.find("--lora"), std::string::npos) << warned.err;
  expect_error(opt({all, "--train", "adamw", "-o", out}),
               {"only", "norms and biases would be trained", "--lora"});
  const Words train{"train",   all, "--data", TinyModels::get().text(),
                    "--batch", "1", "--seq",  "16",
                    "--steps", "1", "-o",     out};
  expect_error(run_tool("genesis-run", train + Words{"--optimizer", "adamw"}),
               {"norms and biases", "--lora"});
  const Process adapters = run_tool("genesis-run", train + Words{"--lora", "2"});
  expect_ok(adapters);
  EXPECT_EQ(adapters.err.find("stay as they are"), std::string::npos) << adapters.err;
}

TEST_F(Opt, SaysThatWeightsOf16BitsLoseSmallUpdates) {
  const Words build{
      "qwen2", "--set", "hidden_size=32", "--set", "intermediate_size=64", "--set", "num_hidden_layers=1"};
  expect_ok(run_tool("genesis-build", build + Words{"--set", "dtype=bf16", "-o", path("short.genesis")}));
  expect_ok(run_tool("genesis-build", build + Words{"-o", path("full.genesis")}));
  const auto said = [&](const std::string& file, const Words& how) {
    const Process process =
        run_tool("genesis-run", Words{"train", path(file), "--data", TinyModels::get().text(), "--batch", "1",
                                      "--seq", "16", "--steps", "1", "-o", path("t.genesis")} +
                                    how);
    expect_ok(process);
    return process.err;
  };
  const std::string warned = said("short.genesis", {"--optimizer", "adamw"});
  for (const char* part : {"weights are bf16", "--set dtype=f32", "precision=bf16"})
    EXPECT_NE(warned.find(part), std::string::npos) << warned;
  EXPECT_EQ(said("short.genesis", {"--lora", "2"}).find("weights are bf16"), std::string::npos);
  EXPECT_EQ(said("full.genesis", {"--optimizer", "adamw,precision=bf16"}).find("weights are"),
            std::string::npos);
}

TEST_F(Opt, PlansBuffersFromCsv) {
  write_text(path("buffers.csv"), "id,lower,upper,size\na,0,2,10\nb,1,3,20\nc,2,4,10\n");
  const auto json = expect_json(run_tool("genesis-opt", {"--plan-csv", path("buffers.csv"), "--json"}));
  EXPECT_EQ(json["height"], 30);
  EXPECT_EQ(json["lower_bound"], 30);
  EXPECT_EQ(json["ratio"], 1.0);
  const int64_t a = json["offsets"]["a"], b = json["offsets"]["b"], c = json["offsets"]["c"];
  EXPECT_TRUE(a + 10 <= b || b + 20 <= a);
  EXPECT_TRUE(c + 10 <= b || b + 20 <= c);
  write_text(path("bad.csv"), "id,lower,upper,size\na,0,2\n");
  expect_error(run_tool("genesis-opt", {"--plan-csv", path("bad.csv")}),
               {"bad.csv:2", "id,lower,upper,size"});
}

TEST_F(Opt, MayWriteOverItsInput) {
  fs::copy_file(tiny("qwen2.genesis"), path("m.genesis"));
  expect_ok(run_tool("genesis-opt", {path("m.genesis"), "--inference", "-o", path("m.genesis")}));
  expect_ok(run_tool("genesis-run", {"info", path("m.genesis"), "--verify"}));
  EXPECT_EQ(files_in(folder()), std::set<std::string>{"m.genesis"});
}

TEST_F(Opt, RefusesWhatItDoesNotKnow) {
  const std::string model = tiny("qwen2.genesis");
  for (const char* flag : {"--passes", "--disable", "--print-after"})
    expect_usage_error(run_tool("genesis-opt", {model, flag, "nopass", "-o", path("x.genesis")}),
                       {"'nopass'", "cse"});
  expect_usage_error(run_tool("genesis-opt", {model, "--train", "newton", "-o", path("x.genesis")}),
                     {"'newton'", "adamw"});
  expect_usage_error(run_tool("genesis-opt", {model, "--train", "adamw,speed=3", "-o", path("x.genesis")}),
                     {"'speed'", "lr"});
  expect_usage_error(run_tool("genesis-opt", {model, "--train", "adamw,lr=fast", "-o", path("x.genesis")}),
                     {"'fast'", "number"});
  expect_error(
      run_tool("genesis-opt", {tiny("qwen2.train.genesis"), "--train", "adamw,name=other", "--text"}),
      {"optimizer.step"});
  expect_usage_error(run_tool("genesis-opt", {model, "--cast", "i8", "-o", path("x.genesis")}),
                     {"i8", "bf16"});
  expect_usage_error(run_tool("genesis-opt", {model, "--target", "tpu", "--text"}),
                     {"no device 'tpu'", "cpu, cuda or cuda:N"});
  expect_error(run_tool("genesis-opt", {model, "--entry", "nope", "--text"}),
               {"'nope'", "loss, loss_packed, forward"});
  expect_error(run_tool("genesis-opt", {model, "--dump", "/dev/null/x"}), {"/dev/null/x"});
  EXPECT_EQ(files_in(folder()), std::set<std::string>{});
}

}  // namespace
}  // namespace genesis::testing
