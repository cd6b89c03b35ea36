// Tests the tools on a GPU: a damaged cache folder, comparing the two devices, and reports about the device's memory
// and limits. Skipped without a GPU, except for tests that need none.
#include <fstream>

#include "schema/file/json_text.h"
#include "tests/tools/tool_test.h"

namespace genesis::testing {
namespace {

constexpr double kPatience = 300;  // seconds: a first run compiles and measures

class CudaTools : public ToolTest {
 protected:
  void SetUp() override {
    const Process probe =
        run_tool("genesis-run", {"bench", tiny("mlp.genesis"), "--device", "cuda", "--runs", "1"},
                 {.timeout_seconds = kPatience});
    if (probe.code != 0) GTEST_SKIP() << probe.err;
  }

  // Returns the losses of a few steps of bf16 training, run by a process that keeps its caches in `cache`.
  std::vector<double> losses(const std::string& cache) const {
    fs::remove(path("metrics.jsonl"));
    expect_ok(
        run_tool("genesis-run",
                 {"train", path("train.genesis"), "--data", TinyModels::get().text(), "--batch", "2", "--seq",
                  "256", "--steps", "4", "--device", "cuda", "--metrics", path("metrics.jsonl")},
                 {.timeout_seconds = kPatience, .environment = {"XDG_CACHE_HOME=" + cache}}));
    std::vector<double> losses;
    std::ifstream in(path("metrics.jsonl"));
    for (std::string line; std::getline(in, line);) losses.push_back(parse_json_text(line)["loss"]);
    return losses;
  }
};

// The size is large enough for the library's attention, whose plans are cached too.
void make_model(const std::string& folder) {
  expect_ok(run_tool("genesis-build",
                     {"qwen2", "--set", "hidden_size=256", "--set", "intermediate_size=512", "--set",
                      "num_hidden_layers=2", "--set", "num_attention_heads=4", "--set",
                      "num_key_value_heads=2", "--set", "vocab_size=256", "-o", folder + "/model.genesis"}));
  expect_ok(run_tool("genesis-opt", {folder + "/model.genesis", "--train", "adamw,lr=1e-3,clip=1.0", "--cast",
                                     "bf16", "-o", folder + "/train.genesis"}));
}

std::set<std::string> kept(const fs::path& cache) { return files_in(cache / "genesis"); }

TEST_F(CudaTools, ADamagedCacheCostsTimeAndNothingElse) {
  make_model(folder().string());
  const std::string cache = path("cache");
  fs::create_directory(cache);
  const std::vector<double> first = losses(cache);
  const std::set<std::string> files = kept(cache);
  std::set<std::string> kinds;
  for (const std::string& file : files) kinds.insert(fs::path(file).extension());
  EXPECT_EQ(kinds, (std::set<std::string>{".kernel", ".plan", ".txt"}));
  EXPECT_EQ(losses(cache), first) << "from the cache";
  const auto damage = [&](const std::string& how, const auto& edit) {
    for (const std::string& file : files) {
      std::string text = read_text(cache + "/genesis/" + file);
      edit(text);
      write_text(cache + "/genesis/" + file, text);
    }
    const std::vector<double> again = losses(cache);  // products are measured again, and another implementation may win
    ASSERT_EQ(again.size(), first.size());
    for (size_t i = 0; i < first.size(); ++i) EXPECT_NEAR(again[i], first[i], 0.005 * first[i]) << how;
    EXPECT_EQ(kept(cache), files) << how;
    for (const std::string& file : files)
      EXPECT_GT(fs::file_size(cache + "/genesis/" + file), 40u)
          << how << ": " << file << " was not made anew";
  };
  damage("flipped bits", [](std::string& text) {
    for (size_t i = 7; i < text.size(); i += 97) text[i] = static_cast<char>(text[i] ^ 0x55);
  });
  damage("cut in half", [](std::string& text) { text.resize(text.size() / 2); });
  damage("emptied", [](std::string& text) { text.clear(); });
}

TEST_F(CudaTools, BothDevicesGiveTheSameNodeByNode) {
  for (const char* entry : {"loss", "train_step"}) {
    const Words words = {"compare", tiny("qwen2.train.genesis"),
                         "--entry", entry,
                         "--size",  "batch=4",
                         "--size",  "seq=16",
                         "--a",     "cpu",
                         "--b",     "cuda",
                         "--json"};
    const auto json = expect_json(run_tool("genesis-run", words, {.timeout_seconds = kPatience}));
    EXPECT_EQ(json["differs"], false) << entry << json.dump();
    EXPECT_GT(json["compared"], 20) << entry;
  }
}

// Sums have another order: without any tolerance some product differs first, and its data is saved.
TEST_F(CudaTools, TheFirstNodeThatDiffersIsNamed) {
  const Process strict = run_tool(
      "genesis-run",
      {"compare", tiny("qwen2.genesis"), "--entry", "loss", "--size", "batch=4", "--size", "seq=16", "--a",
       "cpu", "--b", "cuda", "--tolerance", "0", "--repro", path("repro.safetensors"), "--json"},
      {.timeout_seconds = kPatience});
  EXPECT_EQ(strict.code, 1);
  const auto json = parse_json_text(strict.out);
  EXPECT_EQ(json["differs"], true);
  EXPECT_NE(json["first"]["a"], json["first"]["b"]);
  EXPECT_TRUE(fs::exists(path("repro.safetensors")));
}

TEST_F(CudaTools, ProfileAndBenchKnowTheLimitsOfTheGpu) {
  const Words words = {tiny("qwen2.train.genesis"),
                       "--entry",
                       "train_step",
                       "--size",
                       "batch=4",
                       "--size",
                       "seq=16",
                       "--device",
                       "cuda",
                       "--json"};
  const auto profile =
      expect_json(run_tool("genesis-run", Words{"profile"} + words + Words{"--trace", path("t.json")},
                           {.timeout_seconds = kPatience}));
  const auto bench = expect_json(
      run_tool("genesis-run", Words{"bench"} + words + Words{"--runs", "3"}, {.timeout_seconds = kPatience}));
  for (const auto& json : {profile, bench}) {
    EXPECT_GT(json["peaks"]["copy_gbps"], 500);
    EXPECT_GT(json["peaks"]["low_gflops"], json["peaks"]["f32_gflops"]);
  }
  for (const auto& row : profile["rows"]) EXPECT_LT(row["roofline"], 1.5) << row.dump();
  const auto trace = parse_json_text(read_text(path("t.json")));
  EXPECT_GE(trace["traceEvents"].size(), 2 * profile["steps"].get<size_t>());  // on streams, and one after another
  EXPECT_GT(bench["share_of_peak"], 0);
  EXPECT_LT(bench["share_of_peak"], 1.1);
  // Device memory is what the session counts, plus a little for inputs and reductions.
  const double planned = bench["arena_bytes"].get<double>() + bench["state_bytes"].get<double>();
  EXPECT_NEAR(bench["device_bytes"], planned, 0.01 * planned + (1 << 20));
}

using AnyTools = ToolTest;

// The device "auto" is cuda if a GPU can be used, else cpu.
TEST_F(AnyTools, TheDeviceMayBeLeftToThem) {
  const Words sized = {"--device", "auto", "--size", "batch=2"};
  expect_ok(run_tool("genesis-run", Words{"bench", tiny("mlp.genesis"), "--runs", "1"} + sized));
  expect_ok(run_tool("genesis-run", {"compare", tiny("mlp.genesis"), "--a", "auto", "--b", "threads=1",
                                     "--size", "batch=2"}));
  const auto check = expect_json(
      run_tool("genesis-opt", {tiny("mlp.genesis"), "--check", "auto", "--size", "batch=2", "--json"}));
  EXPECT_TRUE(check["device"] == "cpu" || check["device"] == "cuda") << check["device"];
}

// A plan for a GPU needs no GPU.
TEST_F(AnyTools, InfoTellsWhatRunsWouldTakeOfADevice) {
  for (const std::string device : {"cpu", "cuda"}) {
    const Process process = run_tool("genesis-run", {"info", tiny("qwen2.train.genesis"), "--device", device,
                                                     "--size", "batch=4", "--size", "seq=16", "--json"});
    if (device == "cuda" && process.err.find("no CUDA") != std::string::npos) continue;
    const auto memory = expect_json(process)["memory"];
    EXPECT_EQ(memory["device"], device);
    const auto& step = memory["entries"]["train_step"];
    EXPECT_EQ(step["peak_bytes"].get<int64_t>(),
              step["arena_bytes"].get<int64_t>() + step["state_bytes"].get<int64_t>() +
                  step["constant_bytes"].get<int64_t>() + step["input_bytes"].get<int64_t>());
    EXPECT_GT(step["state_bytes"], memory["entries"]["forward"]["state_bytes"]) << "moments, too";
    EXPECT_EQ(step["input_bytes"], 2 * 4 * 16 * 8);
  }
  const auto chosen =
      expect_json(run_tool("genesis-run", {"info", tiny("mlp.genesis"), "--device", "auto", "--size",
                                           "batch=2", "--json"}))["memory"]["device"];
  EXPECT_TRUE(chosen == "cpu" || chosen == "cuda") << chosen;
  expect_usage_error(run_tool("genesis-run", {"info", tiny("mlp.genesis"), "--device", "tpu"}),
                     {"no device 'tpu'"});
  const Process sizeless = run_tool("genesis-run", {"info", tiny("mlp.genesis"), "--device", "cpu"});
  expect_error(sizeless, {"--size"});
}

TEST_F(AnyTools, InfoSaysWhatTheBuildLacks) {
  std::string missing;
  const nlohmann::json info = expect_json(run_tool("genesis-run", {"info", tiny("mlp.genesis"), "--json"}));
  for (const auto& part : info["missing"]) missing += part.get<std::string>() + "\n";
  EXPECT_EQ(missing.find("has no CUDA") == std::string::npos, GENESIS_HAVE_CUDA == 1) << missing;
  EXPECT_EQ(missing.find("oneDNN"), std::string::npos) << "nobody misses what is only compared with: " << missing;
  const std::string text = expect_ok(run_tool("genesis-run", {"info", tiny("mlp.genesis")}));
  EXPECT_EQ(text.find("missing: ") == std::string::npos, missing.empty()) << text;
}

}  // namespace
}  // namespace genesis::testing
