// Tests genesis-run export: of files, of checkpoints written by a training, and where it fails.
#include "tests/tools/tool_test.h"

namespace genesis::testing {
namespace {

class ExportTool : public ToolTest {
 protected:
  Process run_export(const std::string& what, const Words& more = {}) {
    return run_tool("genesis-run", Words{"export", what, "-o", path("out")} + more);
  }
};

TEST_F(ExportTool, WritesAFolderThatComesInAgain) {
  const auto said = expect_json(run_export(tiny("qwen2.genesis"), {"--json"}));
  EXPECT_EQ(said["model"], "qwen2");
  EXPECT_EQ(files_in(path("out")), (std::set<std::string>{"config.json", "model.safetensors"}));
  const auto made = expect_json(run_tool("genesis-build", {path("out"), "-o", path("m.genesis"), "--json"}));
  EXPECT_EQ(made["parameters"], said["parameters"]);
}

TEST_F(ExportTool, TakesTheNewestIntactCheckpoint) {
  expect_ok(run_tool("genesis-run", train_words("gpt2", 3, {"--checkpoint", path("run"), "--quiet"})));
  expect_ok(run_export(path("run")));
  std::string newest;
  for (const std::string& name : files_in(path("run")))
    if (name.ends_with(".genesis")) newest = std::max(newest, name);
  expect_ok(run_tool("genesis-run", {"export", path("run/" + newest), "-o", path("same")}));
  EXPECT_EQ(read_text(path("out/model.safetensors")), read_text(path("same/model.safetensors")));
  std::string damaged = read_text(path("run/" + newest));
  damaged[damaged.size() - 100] ^= 1;
  write_text(path("run/" + newest), damaged);
  expect_error(run_tool("genesis-run", {"export", path("run/" + newest), "-o", path("no")}), {"damaged"});
}

TEST_F(ExportTool, WritesAnOnnxFileThatRuns) {
  const auto said =
      expect_json(run_tool("genesis-run", {"export", tiny("gpt2.genesis"), "-o", path("m.onnx"), "--json"}));
  EXPECT_GT(said["nodes"], 10);
  const auto logits = [&](const std::string& model) {
    return expect_json(
        run_tool("genesis-run", {"infer", model, "--input", "tokens=zeros", "--size", "batch=1", "--size",
                                 "seq=3", "--json"}))["outputs"]["logits"];
  };
  const auto ours = logits(tiny("gpt2.genesis")), theirs = logits(path("m.onnx"));
  EXPECT_EQ(ours["shape"], theirs["shape"]);
  EXPECT_NEAR(ours["values"][5].get<double>(), theirs["values"][5].get<double>(), 1e-4);
  expect_ok(run_tool("genesis-run",
                     {"export", tiny("gpt2.genesis"), "--like", path("m.onnx"), "-o", path("n.onnx")}));
  EXPECT_EQ(logits(path("n.onnx")), theirs);
  expect_usage_error(
      run_tool("genesis-run", {"export", tiny("gpt2.genesis"), "--entry", "loss", "-o", path("out")}),
      {"--entry", "NAME.onnx"});
}

TEST_F(ExportTool, AddsAdaptersToTheWeights) {
  expect_ok(run_tool("genesis-run",
                     {"train", tiny("gpt2.genesis"), "--data", TinyModels::get().text(), "--batch", "2",
                      "--seq", "16", "--steps", "3", "--lora", "4", "--quiet", "--checkpoint", path("run")}));
  EXPECT_GT(expect_json(run_export(path("run"), {"--json"}))["merged_adapters"], 0);
  const std::string trained = path("run/" + *files_in(path("run")).begin());
  const Words save = {trained, "--save-adapter", path("adapter")};
  expect_ok(run_tool("genesis-opt", save));
  expect_error(run_tool("genesis-opt", save), {path("adapter"), "is there already", "--force"});
  expect_ok(run_tool("genesis-opt", save + Words{"--force"}));
  expect_usage_error(run_tool("genesis-opt", {trained, "--merge-lora", "--force", "-o", path("m.genesis")}),
                     {"--force", "--save-adapter"});
  expect_ok(run_tool("genesis-opt", {trained, "--merge-lora", "--inference", "-o", path("m.genesis")}));
  const auto same =
      expect_json(run_tool("genesis-run", {"export", path("m.genesis"), "-o", path("same"), "--json"}));
  EXPECT_EQ(same["merged_adapters"], 0);
  EXPECT_EQ(read_text(path("out/model.safetensors")), read_text(path("same/model.safetensors")));
}

TEST_F(ExportTool, TellsOfAveragesThatStayBehind) {
  expect_ok(run_tool("genesis-opt",
                     {tiny("qwen2.genesis"), "--train", "adamw,ema=0.9", "-o", path("train.genesis")}));
  const Process with = run_export(path("train.genesis"));
  expect_ok(with);
  EXPECT_NE(with.err.find("--averages"), std::string::npos) << with.err;
  EXPECT_EQ(run_export(tiny("qwen2.train.genesis"), {"--force"}).err, "");
}

TEST_F(ExportTool, RefusesWhatIsThereWithoutForce) {
  expect_ok(run_export(tiny("qwen2.genesis")));
  expect_error(run_export(tiny("qwen2.genesis")), {"is there already", "--force"});
  expect_ok(run_export(tiny("qwen2.genesis"), {"--force", "--shard-size", "10KB"}));
  EXPECT_TRUE(files_in(path("out")).contains("model.safetensors.index.json"));
  expect_error(run_tool("genesis-run", {"export", path("."), "-o", path("x")}), {"no checkpoint"});
}

TEST_F(ExportTool, ChecksItsFlags) {
  expect_usage_error(run_export(tiny("qwen2.genesis"), {"--shard-size", "big"}),
                     {"--shard-size big", "500MB"});
  expect_usage_error(run_export(tiny("qwen2.genesis"), {"--dtype", "i8"}),
                     {"--dtype i8", "bf16, f16 or f32"});
  expect_error(run_export(tiny("mlp.genesis")), {"no form for the model 'mlp'", "exported are bamba, bert, ",
                                                 ", qwen2, qwen2_moe, qwen3, ", " and xlm-roberta"});
}

TEST_F(ExportTool, RefusesTheCurrentFolder) {
  const std::string command = "mkdir -p " + path("here") + " && cd " + path("here") + " && exec " +
                              tool_path("genesis-run") + " export " + tiny("qwen2.genesis") + " -o .";
  expect_error(run_process({"sh", "-c", command}), {"current folder", "name another one"});
  EXPECT_TRUE(files_in(path("here")).empty());
}

// If the file was finished before the signal came, the test shows nothing.
TEST_F(ExportTool, EndedByASignalLeavesNoHalfWrittenFile) {
  const std::string tmp = path(".big.genesis.tmp-");
  const std::string command =
      tool_path("genesis-build") + " gpt2 --set n_layer=4 --set n_embd=512 --set n_head=8 -o " +
      path("big.genesis") + " >/dev/null & tool=$!; while kill -0 $tool 2>/dev/null && ! ls " + tmp +
      "* >/dev/null 2>&1; do sleep 0.01; done; kill -TERM $tool; wait $tool; exit $?";
  const Process process = run_process({"sh", "-c", command});
  if (process.code == 0 || fs::exists(path("big.genesis")))
    GTEST_SKIP() << "the file was written before the signal";
  EXPECT_EQ(process.code, 128 + 15) << process.err;
  EXPECT_TRUE(files_in(folder()).empty());
}

TEST_F(ExportTool, OnAFullDiskLeavesNothing) {
  const std::string command = "ulimit -f 8; exec " + tool_path("genesis-run") + " export " +
                              tiny("qwen2.genesis") + " -o " + path("out");
  expect_error(run_process({"sh", "-c", command}), {"cannot write", "limit on file sizes"});
  EXPECT_TRUE(files_in(folder()).empty());
}

}  // namespace
}  // namespace genesis::testing
