// genesis-run chat and tokenize --chat, over a pipe.
#include "backends/mpi/mpi_ranks.h"
#include "schema/file/json_text.h"
#include "tests/tools/tool_test.h"

namespace genesis::testing {
namespace {

constexpr const char* kTemplate =
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
  // The command with these lines on its stdin.
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
  // What `generate` writes behind a conversation, with nothing in its cache.
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

TEST_F(Chat, TurnsAreWhatAFreshModelSays) {
  const auto said = answers(
      chat("In the\nbeginning\n\nGod\n", "--temperature 0 --max-tokens 8 --json --system 'Be brief.'"));
  ASSERT_EQ(said.size(), 3u);
  nlohmann::ordered_json messages = {{{"role", "system"}, {"content", "Be brief."}}};
  const char* const asked[] = {"In the", "beginning", "God"};
  for (size_t i = 0; i < 3; ++i) {
    messages.push_back({{"role", "user"}, {"content", asked[i]}});
    EXPECT_EQ(said[i]["text"], alone(messages)) << i;
    messages.push_back({{"role", "assistant"}, {"content", said[i]["text"]}});
  }
  EXPECT_EQ(said[0]["reused_tokens"], 0);
  EXPECT_GT(said[1]["reused_tokens"], said[0]["prompt_tokens"].get<int>() / 2);
  EXPECT_GT(said[2]["reused_tokens"], said[1]["prompt_tokens"].get<int>() / 2);
}

// Rank 0 reads and writes; the others answer with it.
TEST_F(Chat, RanksAnswerTogether) {
  if (const std::string why = mpi::why_missing(); !why.empty()) GTEST_SKIP() << why;
  const std::string lines = "In the\n/reset\nbeginning\n", flags = "--temperature 0 --max-tokens 8 --json";
  model("m.genesis", "256", "2");
  const auto alone = answers(chat(lines, flags)), together = answers(chat(lines, flags + " --mesh tensor=2"));
  ASSERT_EQ(together.size(), alone.size());
  for (size_t i = 0; i < alone.size(); ++i) EXPECT_EQ(together[i]["text"], alone[i]["text"]);
}

TEST_F(Chat, CommandsBeginWithASlash) {
  const Process process =
      chat("a\n/save " + path("talk.jsonl") + "\n/reset\na\n/help\n//slash\n/exit\nnever read\n");
  const auto said = answers(process);
  ASSERT_EQ(said.size(), 3u);
  EXPECT_EQ(said[0]["text"], said[1]["text"]);
  EXPECT_NE(process.err.find("/save FILE"), std::string::npos);
  const auto saved = parse_json_text(read_text(path("talk.jsonl")));
  EXPECT_EQ(saved["messages"].size(), 2u);
  EXPECT_EQ(saved["messages"][1]["content"], said[0]["text"]);
}

TEST_F(Chat, WrongLinesAreNamedAndTheRestIsAnswered) {
  const Process process = chat("/nosuch\na\n/save\n/save " + path("no/such/folder") + "\n");
  EXPECT_EQ(process.code, 1);
  for (const char* part : {"no command \"/nosuch\"", "/save needs", "no/such/folder"})
    EXPECT_NE(process.err.find(part), std::string::npos) << process.err;
  EXPECT_EQ(parse_json_text(process.out)["prompt_tokens"].is_number(), true);
}

TEST_F(Chat, SavesOverNothingButAConversation) {
  write_text(path("notes.txt"), "notes\n");
  write_text(path("many.jsonl"), "{\"messages\": []}\n{\"messages\": []}\n");
  const std::string talk = path("talk.jsonl"), tokenizer = read_text(path("folder/tokenizer.json")),
                    model = read_text(path("m.genesis"));
  const Process process = chat("a\n/save " + path("m.genesis") + "\n/save " + path("folder/tokenizer.json") +
                               "\n/save " + path("notes.txt") + "\n/save " + path("many.jsonl") + "\n/save " +
                               talk + "\nb\n/save " + talk + "\n");
  EXPECT_EQ(process.code, 1);
  for (const char* part : {"m.genesis: it is a .genesis file, which would be lost",
                           "tokenizer.json: it is a file with", "notes.txt", "many.jsonl"})
    EXPECT_NE(process.err.find(part), std::string::npos) << process.err;
  EXPECT_EQ(read_text(path("m.genesis")), model);
  EXPECT_EQ(read_text(path("folder/tokenizer.json")), tokenizer);
  EXPECT_EQ(read_text(path("notes.txt")), "notes\n");
  EXPECT_EQ(parse_json_text(read_text(talk))["messages"].size(), 4u);
}

TEST_F(Chat, AnswersStreamAsText) {
  const auto said = answers(chat("a\nb\n"));
  EXPECT_EQ(expect_ok(chat("a\nb", "--temperature 0 --max-tokens 8")),
            said[0]["text"].get<std::string>() + "\n" + said[1]["text"].get<std::string>() + "\n");
}

TEST_F(Chat, TheMakersSettingsAreTheDefaults) {
  const auto free = answers(chat("a\n"))[0];
  const auto first = free["tokens"][0].get<int64_t>();
  write_text(path("folder/generation_config.json"),
             nlohmann::json({{"do_sample", false}, {"eos_token_id", {908, first}}}).dump());
  const auto stopped = answers(chat("a\n", "--max-tokens 8 --json"))[0];
  EXPECT_EQ(stopped["stop"], "stop_token");
  EXPECT_EQ(stopped["tokens"].size(), 1u);
  EXPECT_EQ(stopped["text"], "");
  write_text(path("folder/generation_config.json"), R"({"do_sample": true, "temperature": 0.8, "top_k": 5})");
  EXPECT_EQ(answers(chat("a\n", "--max-tokens 8 --json --seed 3"))[0]["tokens"],
            answers(chat("a\n", "--max-tokens 8 --json --seed 3 --temperature 0.8 --top-k 5"))[0]["tokens"]);
}

TEST_F(Chat, ALongConversationEndsWithWhatToDo) {
  std::string lines;
  for (int i = 0; i < 12; ++i) lines += "In the beginning God created the heaven and the earth\n";
  const Process process = chat(lines + "/reset\na\n");
  EXPECT_EQ(process.code, 1);
  EXPECT_NE(process.err.find("context 256"), std::string::npos) << process.err;
  std::istringstream all(process.out);
  std::string line, last;
  while (std::getline(all, line)) last = line;
  EXPECT_EQ(parse_json_text(last)["text"], answers(chat("a\n"))[0]["text"]);
}

// What a long cache would have said, whether one grew to it or was asked for; and a text that is longer than the file's.
TEST_F(Chat, TheContextGrowsWithTheConversation) {
  const std::string lines = "In the\nbeginning\nGod\ncreated\n";
  const auto whole = answers(chat(lines));
  model("m.genesis", "256", "1", "32");
  const Process grown = chat(lines);
  const auto said = answers(grown),
             asked = answers(chat(lines, "--temperature 0 --max-tokens 8 --json --context 256"));
  ASSERT_EQ(said.size(), whole.size());
  for (size_t i = 0; i < whole.size(); ++i) {
    EXPECT_EQ(said[i]["text"], whole[i]["text"]) << i;
    EXPECT_EQ(asked[i]["text"], whole[i]["text"]) << i;
  }
  EXPECT_NE(grown.err.find("the context is 128 tokens long now"), std::string::npos) << grown.err;
  const auto written = [&](const Words& more) {
    return run_tool("genesis-run",
                    Words{"generate", path("m.genesis"), "--tokenizer", path("folder"), "--prompt",
                          std::string(100, '7'), "--temperature", "0", "--max-tokens", "8"} +
                        more);
  };
  const std::string text = expect_ok(written({}));
  EXPECT_EQ(expect_ok(written({"--context", "200"})), text);
  expect_error(written({"--context", "50"}), {"holds 50", "--context"});
}

TEST_F(Chat, CtrlCStopsTheAnswerAndNotTheProgram) {
  model("long.genesis", "60000");
  const Process process = shell(
      "mkfifo " + path("in") + "; \"$CHAT\" chat " + path("long.genesis") + " --tokenizer " + path("folder") +
      " --temperature 0 --max-tokens 60000 --json < " + path("in") + " & chat=$!; exec 3> " + path("in") +
      "; echo a >&3; sleep 2; kill -INT $chat; echo /reset >&3; exec 3>&-; wait $chat");
  const auto said = answers(process);
  ASSERT_EQ(said.size(), 1u);
  EXPECT_EQ(said[0]["stop"], "interrupted");
}

TEST_F(Chat, WhatIsMissingIsNamed) {
  fs::remove(path("folder/tokenizer_config.json"));
  expect_error(chat("a\n"), {"no chat template", "--template"});
  write_text(path("t.jinja"), "{{ messages[-1].content }}");
  EXPECT_EQ(
      answers(chat("a\n", "--temperature 0 --max-tokens 4 --json --template " + path("t.jinja"))).size(), 1u);
  write_text(path("t.jinja"), "{{ raise_exception('never') }}");
  const Process refused = chat("a\n", "--template " + path("t.jinja"));
  EXPECT_EQ(refused.code, 1);
  EXPECT_NE(refused.err.find("refuses: never"), std::string::npos);
  EXPECT_EQ(chat("a\n", "--template " + path("t.jinja") + " --temperature 0 --top-k 3").code, 2);
  EXPECT_EQ(chat("a\n", "--template " + path("t.jinja") + " --variables 3").code, 1);
}

TEST_F(Chat, TokenizeShowsTheTemplate) {
  write_text(path("m.json"), R"([{"role": "user", "content": "In the"}])");
  const auto plain =
      expect_json(run_tool("genesis-run", {"tokenize", path("folder"), "--chat", path("m.json"), "--json"}));
  EXPECT_EQ(plain["text"], "<|im_start|>user\nIn the<|im_end|>\n");
  EXPECT_EQ(plain["ids"], expect_json(run_tool("genesis-run", {"tokenize", path("folder"), "--text",
                                                               plain["text"], "--json"}))["ids"]);
  expect_usage_error(
      run_tool("genesis-run", {"tokenize", path("folder"), "--chat", path("m.json"), "--decode"}),
      {"--decode does nothing with --chat"});
  expect_usage_error(
      run_tool("genesis-run", {"tokenize", path("folder"), "--text", "a", "--generation-prompt"}),
      {"--chat"});
  const std::string messages = read_text(path("m.json"));
  write_text(
      path("folder/tokenizer_config.json"),
      nlohmann::json({{"chat_template", std::string("{{ tools[0].name }}{{ mood }}: ") + kTemplate}}).dump());
  write_text(path("m.json"),
             R"({"tools": [{"name": "look"}], "chat_template_kwargs": {"mood": "!"}, "messages": )" +
                 messages + "}");
  const auto with_tools =
      expect_json(run_tool("genesis-run", {"tokenize", path("folder"), "--chat", path("m.json"), "--json"}));
  EXPECT_EQ(with_tools["text"], "look!: " + plain["text"].get<std::string>());
  write_text(path("m.json"), R"({"talk": []})");
  expect_error(run_tool("genesis-run", {"tokenize", path("folder"), "--chat", path("m.json")}),
               {"m.json", "an object with 'messages'"});
  write_text(path("m.json"), R"([{"role": "user"}])");
  expect_error(run_tool("genesis-run", {"tokenize", path("folder"), "--chat", path("m.json")}),
               {"m.json", "message 0", "content"});
}

}  // namespace
}  // namespace genesis::testing
