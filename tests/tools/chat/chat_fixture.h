// Fixture of the tests of `genesis-run chat`: a tiny model, and a folder with its tokenizer and chat template.
#pragma once

#include <sstream>

#include "schema/file/json_text.h"
#include "tests/tools/tool_test.h"

namespace genesis::testing {

inline constexpr const char* kTemplate =
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

class Chat : public ToolTest {
 protected:
  Chat() {
    fs::create_directory(path("folder"));
    fs::copy(GENESIS_SOURCE_ROOT "/tests/models/tokenizer/qwen.json", path("folder/tokenizer.json"));
    write_text(path("folder/tokenizer_config.json"), nlohmann::json({{"chat_template", kTemplate}}).dump());
    model("m.genesis", "256");
  }
  void model(const std::string& name, const std::string& positions, const std::string& key_heads = "1",
             const std::string& cache = "0") {
    expect_ok(run_tool("genesis-build", {"qwen2",
                                         "-o",
                                         path(name),
                                         "--set",
                                         "vocab_size=909",
                                         "--set",
                                         "hidden_size=16",
                                         "--set",
                                         "intermediate_size=32",
                                         "--set",
                                         "num_hidden_layers=2",
                                         "--set",
                                         "num_attention_heads=2",
                                         "--set",
                                         "num_key_value_heads=" + key_heads,
                                         "--set",
                                         "initializer_range=0.3",
                                         "--set",
                                         "max_position_embeddings=" + positions,
                                         "--set",
                                         "cache_positions=" + cache}));
  }
  // Runs the command with these lines on its stdin.
  Process chat(const std::string& lines, const std::string& more = "--temperature 0 --max-tokens 8 --json") {
    write_text(path("lines"), lines);
    return shell("\"$CHAT\" chat " + path("m.genesis") + " --tokenizer " + path("folder") + " " + more +
                 " < " + path("lines"));
  }
  Process shell(const std::string& command) {
    return run_process({"bash", "-c", command}, {.environment = {"CHAT=" + tool_path("genesis-run")}});
  }
  static std::vector<nlohmann::json> answers(const Process& process) {
    std::vector<nlohmann::json> all;
    std::istringstream lines(expect_ok(process));
    for (std::string line; std::getline(lines, line);) all.push_back(parse_json_text(line));
    return all;
  }
  // Returns the answer of `generate` to a conversation, with an empty cache.
  std::string alone(const nlohmann::ordered_json& messages) {
    write_text(path("messages.json"), messages.dump());
    const auto rendered =
        expect_json(run_tool("genesis-run", {"tokenize", path("folder"), "--chat", path("messages.json"),
                                             "--generation-prompt", "--json"}));
    return expect_json(run_tool(
        "genesis-run", {"generate", path("m.genesis"), "--tokenizer", path("folder"), "--prompt",
                        rendered["text"], "--temperature", "0", "--max-tokens", "8", "--json"}))["text"];
  }
};

}  // namespace genesis::testing
