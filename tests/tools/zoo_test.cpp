// Tests the main workflow for every model of the zoo, tool by tool: build, inspect, add training, train, resume,
// optimize for inference, run, generate.
#include <map>

#include "schema/file/json_text.h"
#include "schema/file/other_formats/npy.h"
#include "schema/file/other_formats/safetensors.h"
#include "tests/tools/tool_test.h"

namespace genesis::testing {
namespace {

Words data_words(const std::string& model) {
  if (model == "mlp") return {"--data", TinyModels::get().rows(), "--batch", "8"};
  return {"--data", TinyModels::get().text(), "--batch", "4", "--seq", "16"};
}

class Zoo : public ToolTest, public ::testing::WithParamInterface<const char*> {
 protected:
  std::string model() const { return GetParam(); }
  bool writes_text() const { return model() != "mlp"; }
  Process train(int steps, const Words& more) const {
    return run_tool("genesis-run",
                    Words{"train", tiny(model() + ".train.genesis"), "--steps", std::to_string(steps)} +
                        data_words(model()) + more);
  }
};

TEST_P(Zoo, InfoSaysWhatTheFileHolds) {
  const auto json =
      expect_json(run_tool("genesis-run", {"info", tiny(model() + ".genesis"), "--json", "--states"}));
  EXPECT_EQ(json["metadata"]["architecture"], model());
  std::set<std::string> entries;
  for (const auto& entry : json["entries"]) entries.insert(entry["name"]);
  EXPECT_TRUE(entries.contains("loss") && entries.contains("forward"));
  EXPECT_EQ(entries.contains("decode"), writes_text());
  EXPECT_GT(json["states"]["parameter"]["elements"], 100);
  EXPECT_GE(json["state_table"].size(), json["states"]["parameter"]["count"]);
  const std::string text = expect_ok(run_tool("genesis-run", {"info", tiny(model() + ".genesis")}));
  EXPECT_NE(text.find("entry point forward"), std::string::npos);
}

TEST_P(Zoo, TrainsWithMetricsAndCheckpointsAndGoesOn) {
  const Words files = {
      "--metrics", path("m.jsonl"), "--checkpoint", path("run"), "--checkpoint-every", "5", "--keep", "3"};
  const auto first = expect_json(train(20, files + Words{"--json"}));
  EXPECT_EQ(first["step"], 20);
  EXPECT_EQ(
      files_in(folder() / "run"),
      (std::set<std::string>{"step-000000010.genesis", "step-000000015.genesis", "step-000000020.genesis"}));
  const auto second =
      expect_json(train(40, files + Words{"--json", "--resume", "-o", path("trained.genesis")}));
  EXPECT_EQ(second["step"], 40);
  EXPECT_LT(second["loss"].get<double>(), first["loss"].get<double>());
  int step = 0;
  std::istringstream metrics(read_text(path("m.jsonl")));
  for (std::string line; std::getline(metrics, line);) {
    const auto row = parse_json_text(line);
    EXPECT_EQ(row["step"], ++step);
    for (const char* key : {"loss", "grad_norm", "lr", "seconds", "items_per_second"})
      EXPECT_TRUE(row[key].is_number()) << key;
  }
  EXPECT_EQ(step, 40);
  const auto nothing = expect_ok(train(40, {"--checkpoint", path("run"), "--resume"}));
  EXPECT_NE(nothing.find("nothing to do"), std::string::npos);
}

TEST_P(Zoo, ServesAfterTraining) {
  expect_ok(train(3, {"--quiet", "-o", path("trained.genesis")}));
  expect_ok(run_tool("genesis-opt", {path("trained.genesis"), "--inference", "-o", path("model.genesis")}));
  const auto json =
      expect_json(run_tool("genesis-run", {"info", path("model.genesis"), "--verify", "--json"}));
  EXPECT_FALSE(json["states"].contains("optimizer"));
  for (const auto& entry : json["entries"]) EXPECT_NE(entry["name"], "train_step");
  const Words sizes =
      writes_text() ? Words{"--size", "batch=2", "--size", "seq=8"} : Words{"--size", "batch=2"};
  // The results are the same whether the model was optimized in advance or not.
  expect_ok(run_tool("genesis-run", Words{"infer", path("model.genesis"), "-o", path("a.npy")} + sizes));
  expect_ok(run_tool("genesis-run", Words{"infer", path("trained.genesis"), "-o", path("b.npy")} + sizes));
  EXPECT_EQ(read_text(path("a.npy")), read_text(path("b.npy")));
}

TEST_P(Zoo, GeneratesText) {
  if (!writes_text())
    return expect_error(run_tool("genesis-run", {"generate", tiny("mlp.genesis"), "--prompt", "a"}),
                        {"decode"});
  const Words words = {
      "generate", tiny(model() + ".genesis"), "--prompt", "the quick", "--max-tokens", "8", "--seed", "5"};
  const auto json = expect_json(run_tool("genesis-run", words + Words{"--json"}));
  EXPECT_EQ(json["tokens"].size(), 8u);
  EXPECT_EQ(json["prompt"], "the quick");
  EXPECT_EQ(json["cache_full"], false);
  for (const char* key : {"compile_seconds", "prefill_seconds", "decode_seconds"})
    EXPECT_GT(json[key], 0) << key;
  EXPECT_NEAR(json["prefill_tokens_per_second"].get<double>() * json["prefill_seconds"].get<double>(), 9,
              1e-6);
  EXPECT_NEAR(json["decode_tokens_per_second"].get<double>() * json["decode_seconds"].get<double>(), 7, 1e-6);
  const std::string text = expect_ok(run_tool("genesis-run", words));
  EXPECT_EQ(text.substr(0, 9), "the quick");
  EXPECT_EQ(text.size(), 9u + 8 + 1);
}

INSTANTIATE_TEST_SUITE_P(All, Zoo, ::testing::Values("mlp", "gpt2", "qwen2", "qwen3"),
                         [](const auto& info) { return std::string(info.param); });

using Tools = ToolTest;

TEST_F(Tools, BuildListsWhatThereIs) {
  const auto json = expect_json(run_tool("genesis-build", {"--list", "--json"}));
  for (const char* model : {"mlp", "gpt2", "qwen2", "qwen3"})
    EXPECT_TRUE(json[model]["settings"].is_object());
  EXPECT_NE(expect_ok(run_tool("genesis-build", {"--list"})).find("hidden_features=128"), std::string::npos);
}

TEST_F(Tools, TheSameSeedBuildsTheSameFile) {
  for (const char* file : {"a.genesis", "b.genesis"})
    expect_ok(run_tool("genesis-build", {"mlp", "--seed", "7", "-o", path(file)}));
  expect_ok(run_tool("genesis-build", {"mlp", "--seed", "8", "-o", path("c.genesis")}));
  EXPECT_EQ(read_text(path("a.genesis")), read_text(path("b.genesis")));
  EXPECT_NE(read_text(path("a.genesis")), read_text(path("c.genesis")));
}

TEST_F(Tools, InferReadsAndWritesArrays) {
  const Tensor x = Tensor::of<float>({2, 4}, {1, 2, 3, 4, -1, -2, -3, -4});
  write_npy(path("x.npy"), x);
  SafeTensors file;
  file.tensors = {{"x", x}, {"other", x}};
  write_safetensors(path("x.safetensors"), file);
  const Words infer = {"infer", tiny("mlp.genesis"), "--input"};
  expect_ok(run_tool("genesis-run", infer + Words{"x=" + path("x.npy"), "-o", path("a.npy")}));
  expect_ok(run_tool("genesis-run", infer + Words{path("x.safetensors"), "-o", path("b.npy")}));
  expect_ok(
      run_tool("genesis-run", infer + Words{"x=" + path("x.safetensors"), "-o", path("c.safetensors")}));
  const Tensor a = read_npy(path("a.npy"));
  EXPECT_EQ(a.type().to_string(), "f32[2,3]");
  EXPECT_EQ(a.to_doubles(), read_npy(path("b.npy")).to_doubles());
  EXPECT_EQ(a.to_doubles(), read_safetensors(path("c.safetensors")).tensors.at("logits").to_doubles());
  EXPECT_NE(a.to_doubles()[0], a.to_doubles()[3]);
}

TEST_F(Tools, InferGivesItsValuesAsJson) {
  write_npy(path("x.npy"), Tensor::of<float>({2, 4}, {1, 2, 3, 4, -1, -2, -3, -4}));
  const Words infer = {"infer", tiny("mlp.genesis"), "--input", "x=" + path("x.npy"), "--json"};
  expect_ok(run_tool("genesis-run", infer + Words{"-o", path("y.npy")}));
  const auto json = expect_json(run_tool("genesis-run", infer));
  const auto& logits = json["outputs"]["logits"];
  EXPECT_EQ(logits["dtype"], "f32");
  EXPECT_EQ(logits["shape"], (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(logits["values_left_out"], 0);
  std::vector<double> values;
  for (const auto& value : logits["values"]) values.push_back(value.get<float>());
  EXPECT_EQ(values, read_npy(path("y.npy")).to_doubles()) << "to the last bit";
  const auto two = expect_json(run_tool("genesis-run", infer + Words{"--max-values", "2"}));
  EXPECT_EQ(two["outputs"]["logits"]["values"].size(), 2u);
  EXPECT_EQ(two["outputs"]["logits"]["values_left_out"], 4);
  const Words nan = {"infer", tiny("mlp.genesis"), "--input", "x=full:nan"};
  const auto none = expect_json(run_tool("genesis-run", nan + Words{"--json"}));
  EXPECT_EQ(none["outputs"]["logits"]["values"][0], "NaN");
  EXPECT_NE(expect_ok(run_tool("genesis-run", nan + Words{"--max-values", "1"})).find("and 2 more"),
            std::string::npos);
}

TEST_F(Tools, TrainsOnArraysToo) {
  write_npy(path("x.npy"), Tensor::of<float>({6, 4}, std::vector<float>(24, 0.5f)));
  write_npy(path("y.npy"), Tensor::of<int64_t>({6}, {0, 1, 2, 0, 1, 2}));
  const auto json = expect_json(
      run_tool("genesis-run", {"train", tiny("mlp.train.genesis"), "--data", "x=" + path("x.npy"), "--data",
                               "target=" + path("y.npy"), "--batch", "3", "--steps", "4", "--json"}));
  EXPECT_EQ(json["step"], 4);
}

TEST_F(Tools, EmptyBatchesGiveEmptyResults) {
  expect_ok(
      run_tool("genesis-run", {"infer", tiny("mlp.genesis"), "--size", "batch=0", "-o", path("y.npy")}));
  EXPECT_EQ(read_npy(path("y.npy")).type().to_string(), "f32[0,3]");
  for (const Words& sizes : {Words{"batch=0", "seq=3"}, Words{"batch=3", "seq=0"}})
    expect_ok(run_tool("genesis-run", {"infer", tiny("qwen2.genesis"), "--entry", "forward", "--size",
                                       sizes[0], "--size", sizes[1]}));
}

TEST_F(Tools, BenchMeasures) {
  const auto json = expect_json(run_tool("genesis-run", {"bench", tiny("qwen2.genesis"), "--size", "batch=2",
                                                         "--size", "seq=8", "--runs", "3", "--json"}));
  EXPECT_EQ(json["runs"], 3);
  EXPECT_GT(json["median_ms"], 0);
  EXPECT_GT(json["tokens_per_second"], 0);
}

TEST_F(Tools, ProfileTracesEveryStep) {
  const auto json =
      expect_json(run_tool("genesis-run", {"profile", tiny("qwen2.genesis"), "--size", "batch=2", "--size",
                                           "seq=8", "--runs", "2", "--trace", path("trace.json"), "--json"}));
  const auto trace = parse_json_text(read_text(path("trace.json")));
  std::map<std::string, int64_t> kinds;  // steps, the memory after each, names of tracks
  int64_t alone = -1, beside = 0;  // alone: process of the steps one after another; beside: steps as they ran
  for (const auto& event : trace["traceEvents"]) {
    if (event["name"] == "process_name" &&
        event["args"]["name"].get<std::string>().ends_with("one step after the other"))
      alone = event["pid"];
  }
  for (const auto& event : trace["traceEvents"]) {
    if (event["pid"] == alone)
      ++kinds[event["ph"]];
    else
      beside += event["ph"] == "X";
    if (event["ph"] == "X") {
      EXPECT_GE(event["dur"].get<double>(), 0);
    } else if (event["ph"] == "C") {
      EXPECT_GE(event["args"].begin()->get<double>(), 0);
    }
  }
  EXPECT_EQ(kinds["X"], json["steps"]);
  EXPECT_GE(beside, json["steps"].get<int64_t>());
  EXPECT_GE(kinds["C"], json["steps"]);
  EXPECT_GT(kinds["M"], 0);
  double sum = 0;
  for (const auto& row : json["rows"]) sum += row["us"].get<double>();
  EXPECT_LE(sum, json["total_us"].get<double>() * 1.001);
  for (const auto& row : json["rows"]) EXPECT_TRUE(row["roofline"].is_null() || row["roofline"] > 0) << row;
  EXPECT_GT(json["peaks"]["caches"].size(), 2u);
}

TEST_F(Tools, BaselineIsBelowAUniformGuess) {
  const auto json = expect_json(run_tool("genesis-run", {"baseline", TinyModels::get().text(), "--json"}));
  EXPECT_LT(json["bigram"], json["unigram"]);
  EXPECT_LT(json["unigram"], 5.55);
}

TEST_F(Tools, CompareFindsNoDifferenceBetweenThreads) {
  for (const char* entry : {"loss", "train_step"}) {
    const auto json = expect_json(
        run_tool("genesis-run", {"compare", tiny("gpt2.train.genesis"), "--entry", entry, "--size", "batch=4",
                                 "--size", "seq=16", "--a", "threads=1", "--b", "threads=4", "--json"}));
    EXPECT_EQ(json["differs"], false);
    EXPECT_GT(json["compared"], 20);
  }
}

// In bf16 the product, bias and GELU of GPT-2 are rounded once as one node, and each separately as three nodes.
TEST_F(Tools, CompareNamesTheFirstNodeThatDiffersAndSavesIt) {
  expect_ok(run_tool("genesis-build", {"gpt2", "--set", "dtype=bf16", "--set", "n_embd=16", "--set",
                                       "n_head=2", "--set", "n_layer=1", "-o", path("m.genesis")}));
  const Words words = {"compare", path("m.genesis"), "--entry", "loss",    "--size",
                       "batch=4", "--size",          "seq=16",  "--repro", path("repro.safetensors")};
  const Process strict = run_tool("genesis-run", words + Words{"--tolerance", "0", "--json"});
  EXPECT_EQ(strict.code, 1);
  const auto json = parse_json_text(strict.out);
  EXPECT_EQ(json["differs"], true);
  const SafeTensors repro = read_safetensors(path("repro.safetensors"));
  EXPECT_EQ(repro.metadata.at("node"), json["first"]["node"].get<std::string>());
  EXPECT_TRUE(repro.tensors.contains("input0") && repro.tensors.contains("expected") &&
              repro.tensors.contains("got"));
  const size_t element = json["first"]["element"];
  EXPECT_EQ(repro.tensors.at("expected").to_doubles()[element], json["first"]["a"].get<double>());
  EXPECT_EQ(repro.tensors.at("got").to_doubles()[element], json["first"]["b"].get<double>());
  for (const Words& more :
       {Words{"--tolerance", "0.01"}, Words{}})  // by default it knows what rounding may do
    expect_ok(run_tool("genesis-run", words + more));
}

}  // namespace
}  // namespace genesis::testing
