// Tests models by name against a hub on this machine: --hf fetches, continues, checks and caches; flaws of hubs are named.
#include <signal.h>

#include <atomic>
#include <thread>

#include "tests/tools/tool_test.h"

namespace genesis::testing {
namespace {

// Serves a small model while it lives.
class Hub : public ToolTest {
 protected:
  Hub() {
    expect_ok(run_tool("genesis-run", {"export", tiny("qwen2.genesis"), "-o", path("model")}));
    write_text(path("model/pytorch_model.bin"), "a pickle");
    server_ = std::thread([this] {
      run_process({"python3", GENESIS_SOURCE_ROOT "/tests/tools/hub_server.py", path("model"), path("port"),
                   path("log")},
                  {.kill_once = [this] { return ends_.load(); }, .signal = SIGTERM});
    });
    while (!fs::exists(path("port"))) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    port_ = read_text(path("port"));
  }
  ~Hub() override {
    ends_ = true;
    server_.join();
  }
  Process run(const Words& words, const Words& more = {}) const { return tool("genesis-run", words, more); }
  Process tool(const std::string& name, const Words& words, const Words& more = {}) const {
    ProcessOptions options;
    options.environment = Words{"HF_ENDPOINT=http://127.0.0.1:" + port_, "HF_HOME=" + path("hf"),
                                "HF_HUB_CACHE=", "HF_HUB_OFFLINE=", "HF_TOKEN=hf_secret"} +
                          more;
    return run_tool(name, words, options);
  }
  Process generate(const std::string& name, const Words& more = {}) const {
    return run({"generate", "--hf", name, "--prompt", "ab", "--max-tokens", "3", "--temperature", "0"}, more);
  }
  std::string log() const { return fs::exists(path("log")) ? read_text(path("log")) : ""; }
  fs::path cached(const std::string& name) const { return folder() / "hf/hub" / name; }

 private:
  std::string port_;
  std::atomic<bool> ends_ = false;
  std::thread server_;
};

TEST_F(Hub, FetchesOnceInTheLayoutOfTheHubsOwnCache) {
  const std::string text = expect_ok(generate("acme/tiny"));
  const std::string own =
      expect_ok(run_tool("genesis-run", {"generate", tiny("qwen2.genesis"), "--prompt", "ab", "--max-tokens",
                                         "3", "--temperature", "0"}));
  EXPECT_EQ(text, own);
  const fs::path folder = cached("models--acme--tiny");
  const std::string commit = read_text(folder / "refs/main");
  const fs::path weights = folder / "snapshots" / commit / "model.safetensors";
  EXPECT_TRUE(fs::is_symlink(weights));
  EXPECT_EQ(fs::read_symlink(weights).parent_path(), fs::path("../../blobs"));
  EXPECT_EQ(fs::read_symlink(weights).filename().string().size(), 64u) << "the name is the SHA-256";
  EXPECT_FALSE(fs::exists(folder / "snapshots" / commit / "pytorch_model.bin"));
  EXPECT_NE(log().find("token=Bearer hf_secret"), std::string::npos) << log();

  const std::string before = log();
  EXPECT_EQ(expect_ok(generate("acme/tiny")), text);
  EXPECT_EQ(log().substr(before.size()).find("resolve"), std::string::npos) << "nothing is fetched again";
  const size_t requests = log().size();
  EXPECT_EQ(expect_ok(generate("acme/tiny", {"HF_HUB_OFFLINE=1"})), text);
  EXPECT_EQ(expect_ok(generate("acme/tiny", {"HF_ENDPOINT=http://127.0.0.1:9"})), text) << "no connection";
  EXPECT_EQ(log().size(), requests);
}

TEST_F(Hub, ContinuesWhatBrokeOff) {
  expect_ok(generate("acme/broken"));
  EXPECT_NE(log().find("range=bytes="), std::string::npos) << log();
}

// The second process gets the lock of a file that the first one found damaged and removed.
TEST_F(Hub, FetchesAgainWhatAnotherProcessFoundDamaged) {
  Process first, second;
  std::thread other([&] { first = generate("acme/once"); });
  second = generate("acme/once");
  other.join();
  EXPECT_EQ(first.code + second.code, 1) << first.err << second.err;
  const Process& damaged = first.code ? first : second;
  EXPECT_NE(damaged.err.find("is damaged"), std::string::npos) << damaged.err;
  EXPECT_EQ(expect_ok(generate("acme/once")), (first.code ? second : first).out);
  for (const auto& entry : fs::directory_iterator(cached("models--acme--once/blobs")))
    EXPECT_NE(entry.path().extension(), ".incomplete") << entry.path();
}

TEST_F(Hub, AQuantizationOrAFileChoosesAGguf) {
  const fs::path made = fs::path(GENESIS_SOURCE_ROOT) / "tests/models/gguf";
  fs::copy(made / "qwen2.gguf", path("model/tiny-Q8_0.gguf"));
  fs::copy(made / "qwen3.gguf", path("model/tiny-Q4_K_M.gguf"));
  const auto built = [&](const std::string& name) {
    const std::string file = path("built.genesis");
    return expect_ok(tool("genesis-build", {"--hf", name, "-o", file})).substr(file.size());
  };
  const auto fetched = [&](const std::string& file) {
    return fs::exists(cached("models--acme--gguf/snapshots/c0ffee" + std::string(34, '0')) / file);
  };
  expect_error(generate("acme/gguf"), {"has several GGUF files", "tiny-Q4_K_M.gguf", "tiny-Q8_0.gguf"});
  expect_error(generate("acme/gguf:Q4"), {"no GGUF file for 'Q4'"});
  EXPECT_EQ(built("acme/gguf:q8_0").find(": qwen2"), 0u);
  EXPECT_TRUE(fetched("tiny-Q8_0.gguf"));
  EXPECT_FALSE(fetched("tiny-Q4_K_M.gguf"));
  EXPECT_EQ(built("acme/gguf:tiny-Q4_K_M.gguf").find(": qwen3"), 0u);
  // A repository that has both kinds: safetensors are taken unless a GGUF file is named.
  EXPECT_EQ(built("acme/tiny:Q4_K_M").find(": qwen3"), 0u);
  EXPECT_EQ(built("acme/tiny@main").find(": qwen2"), 0u);
}

TEST_F(Hub, RefusesFlaws) {
  expect_error(generate("acme/corrupt"), {"model.safetensors is damaged", "fetches it again"});
  EXPECT_TRUE(fs::is_empty(cached("models--acme--corrupt/blobs")) ||
              !fs::exists(cached("models--acme--corrupt/snapshots") / "model.safetensors"));
  expect_error(generate("acme/gated"), {"acme/gated", "accept its terms", "HF_TOKEN"});
  expect_error(generate("acme/none"), {"there is no model 'acme/none'"});
  expect_error(generate("acme/away"), {"127.0.0.2", "is not followed"});
  expect_error(generate("acme/pickle"), {"pickle", "Genesis fetches none"});
  expect_error(generate("acme/tiny:pytorch_model.bin"), {"pickle"});
  expect_error(generate("acme/escape"), {"../../outside.json", "outside of the model's folder"});
  expect_error(generate("acme/tiny:Q4_K_M"), {"no GGUF file for 'Q4_K_M'"});
  expect_error(generate("acme/other", {"HF_HUB_OFFLINE=1"}), {"not in the cache", "HF_HUB_OFFLINE is set"});
  expect_usage_error(generate("tiny"), {"expected OWNER/NAME"});
  expect_usage_error(run({"generate", "--prompt", "a"}), {"file, or --hf NAME is required"});
}

}  // namespace
}  // namespace genesis::testing
