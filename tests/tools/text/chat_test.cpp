// Tests genesis-run chat and tokenize --chat, over a pipe.
#include "tests/distributed/why_no_ranks.h"
#include "tests/tools/chat/chat_fixture.h"

namespace genesis::testing {
namespace {

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

// Rank 0 reads and writes, and the others compute the answers with it.
TEST_F(Chat, RanksAnswerTogether) {
  if (const std::string why = why_no_ranks(); !why.empty()) GTEST_SKIP() << why;
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

TEST_F(Chat, AnswersCanBeUndoneAndMadeAnew) {
  const auto said = answers(chat("a\nb\n/undo\nb\n/regen\n/undo\n/undo\nb\n/undo\n"));
  ASSERT_EQ(said.size(), 5u);
  EXPECT_EQ(said[2]["text"], said[1]["text"]);
  EXPECT_EQ(said[3]["text"], said[1]["text"]);
  EXPECT_EQ(said[3]["prompt_tokens"], said[1]["prompt_tokens"]);
  EXPECT_EQ(said[4]["text"], answers(chat("b\n"))[0]["text"]);
  const Process none = chat("/undo\n/regen\n");
  EXPECT_EQ(none.code, 1);
  EXPECT_NE(none.err.find("nothing to undo"), std::string::npos) << none.err;
  EXPECT_NE(none.err.find("nothing to answer"), std::string::npos) << none.err;
}

// Uses the next seed each time, and then the first one again.
TEST_F(Chat, RegenDrawsAnew) {
  const auto drawn = [&](const std::string& lines, const std::string& seed) {
    std::vector<std::string> texts;
    for (const auto& answer : answers(chat(lines, "--temperature 1 --max-tokens 8 --json --seed " + seed)))
      texts.push_back(answer["text"]);
    return texts;
  };
  const auto texts = drawn("a\n/regen\n/regen\n/reset\na\n", "3");
  ASSERT_EQ(texts.size(), 4u);
  EXPECT_NE(texts[0], texts[1]);
  EXPECT_EQ(texts[1], drawn("a\n", "4")[0]);
  EXPECT_EQ(texts[2], drawn("a\n", "5")[0]);
  EXPECT_EQ(texts[3], texts[0]);
}

TEST_F(Chat, TheSystemPromptCanBeChanged) {
  const Process process =
      chat("/system\n/system Be brief.\na\n/reset\na\n/system\n/system \"\"\n/reset\na\n");
  const auto said = answers(process);
  ASSERT_EQ(said.size(), 3u);
  const std::string flags = "--temperature 0 --max-tokens 8 --json";
  EXPECT_EQ(said[0]["text"], answers(chat("a\n", flags + " --system 'Be brief.'"))[0]["text"]);
  EXPECT_EQ(said[1]["text"], said[0]["text"]);
  EXPECT_EQ(said[2]["text"], answers(chat("a\n"))[0]["text"]);
  for (const char* part : {"there is no system prompt", "Be brief.\n", "there is no system prompt now"})
    EXPECT_NE(process.err.find(part), std::string::npos) << process.err;
}

TEST_F(Chat, SettingsCanBeChanged) {
  const std::string drawn = "--temperature 1 --max-tokens 8 --json --seed 3";
  const Process process = chat(
      "/set temperature 0\na\n/set\n/reset\n/set max_tokens 3\n/set --top-k 5\n/set min-p=0.25\na\n", drawn);
  const auto said = answers(process);
  EXPECT_EQ(said[0]["text"], answers(chat("a\n"))[0]["text"]);
  EXPECT_EQ(said[1]["tokens"].size(), 3u);
  for (const char* part : {"always the likeliest token (temperature 0) (/set)", "max_tokens 3"})
    EXPECT_NE(process.err.find(part), std::string::npos) << process.err;
  const Process wrong = chat("/set temperature hot\n/set temprature 1\n/set top_k\n/set top_p 2\n", drawn);
  EXPECT_EQ(wrong.code, 1);
  for (const char* part : {"temperature hot: expected a number", "did you mean 'temperature'",
                           "a name and a value", "top_p 2: expected"})
    EXPECT_NE(wrong.err.find(part), std::string::npos) << wrong.err;
}

TEST_F(Chat, FilesAreMessagesOrConversations) {
  const std::string talk = path("talk.jsonl");
  const auto said = answers(chat("a\nb\n/save " + talk + "\nc\n"));
  EXPECT_EQ(answers(chat("/load " + talk + "\nc\n"))[0]["text"], said[2]["text"]);
  write_text(path("message.txt"), "In the\nbeginning");
  EXPECT_EQ(answers(chat("/load " + path("message.txt") + "\n"))[0]["text"],
            alone({{{"role", "user"}, {"content", "In the\nbeginning"}}}));
  write_text(path("asked.json"), R"([{"role": "user", "content": "God"}])");
  EXPECT_EQ(answers(chat("/load '" + path("asked.json") + "'\n"))[0]["text"],
            answers(chat("God\n"))[0]["text"]);
  write_text(path("bad.json"), R"({"messages": [{"role": "user"}]})");
  write_text(path("many.jsonl"), "{\"messages\": []}\n{\"messages\": []}\n");
  const Process wrong = chat("/load\n/load " + path("nosuch") + "\n/load " + path("bad.json") + "\n/load " +
                             path("many.jsonl") + "\n");
  EXPECT_EQ(wrong.code, 1);
  for (const char* part : {"/load needs", "nosuch", "message 0", "many.jsonl is not one conversation"})
    EXPECT_NE(wrong.err.find(part), std::string::npos) << wrong.err;
}

TEST_F(Chat, AMessageMayHaveSeveralLines) {
  const auto said = answers(chat("\"\"\"\n/In the\nbeginning\\\n\"\"\"\n/reset\na\\\n"));
  ASSERT_EQ(said.size(), 2u);
  EXPECT_EQ(said[0]["text"], alone({{{"role", "user"}, {"content", "/In the\nbeginning\\"}}}));
  EXPECT_EQ(said[1]["text"], alone({{{"role", "user"}, {"content", "a\\"}}}));
  EXPECT_EQ(chat("\"\"\"\nnever closed\n").code, 1);
}

// Over a pipe only answers and errors are written.
TEST_F(Chat, APipeGetsNoBannerAndNoNumbers) {
  for (const char* flags : {"--temperature 0 --max-tokens 4 --json", "--temperature 0 --max-tokens 4"}) {
    const Process process = chat("a\n", flags);
    EXPECT_EQ(process.code, 0);
    EXPECT_EQ(process.err, "");
  }
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

// A script may pass --seed to every model. Only the command line itself can be contradictory.
TEST_F(Chat, FlagsThatDrawDoNothingWithGreedySettings) {
  write_text(path("folder/generation_config.json"), R"({"do_sample": false})");
  const auto plain = answers(chat("a\n", "--max-tokens 4 --json"))[0];
  for (const char* flag : {"--seed 1", "--top-k 3", "--top-p 0.5", "--min-p 0.1", "--seed 1 --top-k 3"}) {
    const Process process = chat("a\n", std::string("--max-tokens 4 --json ") + flag);
    EXPECT_EQ(answers(process)[0]["tokens"], plain["tokens"]) << flag;
    EXPECT_NE(process.err.find("warning: --"), std::string::npos) << process.err;
    EXPECT_NE(process.err.find("generation_config.json"), std::string::npos) << process.err;
  }
  EXPECT_EQ(chat("a\n", "--max-tokens 4 --json --seed 1 --temperature 0.5").err.find("warning"),
            std::string::npos);
  EXPECT_EQ(chat("a\n", "--temperature 0 --seed 1").code, 2);
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

// The conversation gives the same as with a long cache, whether one was requested or grew. A text may be longer than
// the file's cache.
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
  // The signal is sent again if it came before the answer began.
  const Process process =
      shell("cd " + folder().string() +
            "; mkfifo in; touch out; \"$CHAT\" chat long.genesis --tokenizer folder --temperature 0 "
            "--max-tokens 60000 --json < in > out & chat=$!; exec 3> in; echo a >&3; "
            "until [ -s out ]; do sleep 1; kill -INT $chat; done; "
            "echo /reset >&3; exec 3>&-; wait $chat; code=$?; cat out; exit $code");
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
  EXPECT_EQ(chat("a\n", "--template " + path("t.jinja") + " --variables 3").code, 2);
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
