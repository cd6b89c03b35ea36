// Tests genesis-run generate: prompts from all sources, and options of sampling.
#include <cmath>
#include <sstream>

#include "executor/session.h"
#include "schema/file/json_text.h"
#include "schema/file/reader.h"
#include "tests/tools/tool_test.h"

namespace genesis::testing {
namespace {

using Generate = ToolTest;

Words generate() { return {"generate", tiny("qwen2.genesis"), "--max-tokens", "6", "--seed", "5"}; }
Process run(const Words& more) { return run_tool("genesis-run", generate() + more); }

// Parses one JSON object per line.
std::vector<nlohmann::json> objects(const Process& process) {
  std::istringstream lines(expect_ok(process));
  std::vector<nlohmann::json> all;
  for (std::string line; std::getline(lines, line);) all.push_back(parse_json_text(line));
  return all;
}

TEST_F(Generate, ManyPromptsGiveWhatEachGivesAlone) {
  write_text(path("one.txt"), "a prompt\nof two lines");
  write_text(path("more.jsonl"), "\"the\\nquick\"\n\n{\"prompt\": \"brown\", \"id\": 4}\n");
  const auto together = objects(run({"--json", "--prompt", "the", "--prompt", "quick", "--prompt-file",
                                     path("one.txt"), "--prompts", path("more.jsonl")}));
  const Words prompts = {"the", "quick", "a prompt\nof two lines", "the\nquick", "brown"};
  ASSERT_EQ(together.size(), prompts.size());
  std::string plain;
  for (size_t i = 0; i < prompts.size(); ++i) {
    EXPECT_EQ(together[i]["prompt"], prompts[i]);
    EXPECT_EQ(together[i]["stop"], "max_tokens");
    EXPECT_EQ(together[i]["tokens"], expect_json(run({"--json", "--prompt", prompts[i]}))["tokens"]);
  }
  EXPECT_EQ(expect_ok(run({"--prompt", "the"})).substr(0, 3), "the");
}

TEST_F(Generate, ABatchGivesWhatEachGivesAlone) {
  write_text(path("p.txt"), "the quick\n\nbrown\r\na\n" + std::string(40, 'x') + "\nfox\n");
  const Words prompts = {"the quick", "brown", "a", std::string(40, 'x'), "fox"};
  const auto together = objects(run({"--prompts", path("p.txt"), "--batch", "2", "--logprobs", "1"}));
  ASSERT_EQ(together.size(), prompts.size());
  for (size_t i = 0; i < prompts.size(); ++i) {
    const auto alone = expect_json(run({"--json", "--prompt", prompts[i]}));
    EXPECT_EQ(together[i]["prompt"], prompts[i]);
    for (const char* key : {"text", "tokens", "stop"}) EXPECT_EQ(together[i][key], alone[key]) << key;
    EXPECT_EQ(together[i]["logprobs"].size(), together[i]["tokens"].size());
  }
  // More rows than prompts, printed as they end.
  const auto unordered = objects(run({"--prompts", path("p.txt"), "--batch", "32", "--unordered"}));
  ASSERT_EQ(unordered.size(), prompts.size());
  for (const auto& object : unordered)
    EXPECT_EQ(object["tokens"], together[object["index"].get<size_t>()]["tokens"]);
  const Process process = run({"--prompts", path("p.txt"), "--batch", "4"});
  EXPECT_NE(process.err.find("5 texts"), std::string::npos) << process.err;
  EXPECT_NE(process.err.find("tok/s"), std::string::npos);
}

TEST_F(Generate, SamplesAreThoseOfTheNextSeeds) {
  const Words words{"generate", tiny("qwen2.genesis"), "--max-tokens", "6", "--json"};
  const Words many = words + Words{"--seed", "5", "--samples", "3", "--prompt", "the", "--prompt", "quick"};
  const auto after = objects(run_tool("genesis-run", many));
  const auto together = objects(run_tool("genesis-run", many + Words{"--batch", "4"}));
  const auto unordered = objects(run_tool("genesis-run", many + Words{"--batch", "4", "--unordered"}));
  ASSERT_EQ(after.size(), 6u);
  ASSERT_EQ(together.size(), 6u);
  ASSERT_EQ(unordered.size(), 6u);
  for (size_t i = 0; i < 6; ++i) {
    const std::string prompt = i < 3 ? "the" : "quick";
    const auto alone = expect_json(
        run_tool("genesis-run", words + Words{"--seed", std::to_string(5 + i % 3), "--prompt", prompt}));
    EXPECT_FALSE(alone.contains("sample"));
    for (const auto* many_of : {&after, &together}) {
      EXPECT_EQ((*many_of)[i]["sample"], i % 3);
      EXPECT_EQ((*many_of)[i]["prompt"], prompt);
      EXPECT_EQ((*many_of)[i]["tokens"], alone["tokens"]);
    }
    const auto& one = unordered[i];
    EXPECT_EQ(one["tokens"],
              together[3 * one["index"].get<size_t>() + one["sample"].get<size_t>()]["tokens"]);
  }
  EXPECT_NE(after[0]["tokens"], after[1]["tokens"]);
  expect_usage_error(
      run_tool("genesis-run", words + Words{"--prompt", "a", "--temperature", "0", "--samples", "2"}),
      {"--samples", "--temperature 0"});
}

// Tokens are those of the text "the", one by one as bytes.
TEST_F(Generate, PromptsMayBeTokens) {
  const auto text = expect_json(run({"--json", "--prompt", "the"}));
  EXPECT_FALSE(text.contains("prompt_ids"));
  write_text(path("ids.jsonl"), "[116, 104, 101]\n{\"prompt\": [116,104,101]}\n");
  for (const Words& words : {Words{"--prompt-ids", "116,104,101"}, Words{"--prompt-ids", "116 104  101"}}) {
    const auto ids = expect_json(run(words + Words{"--json"}));
    EXPECT_EQ(ids["tokens"], text["tokens"]);
    EXPECT_EQ(ids["prompt"], "the");
    EXPECT_EQ(ids["prompt_ids"], nlohmann::json({116, 104, 101}));
  }
  for (const char* flag : {"--prompt-ids", "--prompts"})
    for (const Words& words : {Words{"--json"}, Words{"--batch", "2"}})
      for (const auto& each : objects(run(words + Words{flag, path("ids.jsonl")})))
        EXPECT_EQ(each["tokens"], text["tokens"]) << flag;
  EXPECT_EQ(expect_ok(run({"--prompt-ids", "116,104,101"})).substr(0, 3), "the");
  expect_usage_error(run({"--prompt-ids", "1,x"}), {"--prompt-ids 1,x"});
  expect_usage_error(run({"--prompt-ids", ","}), {"expected tokens"});
  expect_error(run({"--prompt-ids", "1,256"}), {"token 256", "vocabulary of 256"});
}

TEST_F(Generate, BiasesAndEndsAreChosen) {
  const auto run = [](const Words& more) {
    return run_tool("genesis-run", Words{"generate", tiny("qwen2.genesis"), "--max-tokens", "6"} + more);
  };
  const auto tokens = expect_json(run({"--json", "--prompt", "the", "--temperature", "0"}))["tokens"];
  const std::string first = std::to_string(tokens[0].get<int64_t>());
  const Words greedy = {"--json", "--prompt", "the", "--temperature", "0"};
  const auto without = expect_json(run(greedy + Words{"--logit-bias", first + "=-inf"}));
  for (const auto& token : without["tokens"]) EXPECT_NE(token, tokens[0]);
  const auto always = expect_json(run(greedy + Words{"--logit-bias", "x=100", "--logit-bias", "7=-3.5"}));
  EXPECT_EQ(always["text"], "xxxxxx");
  const auto once = expect_json(run(greedy + Words{"--logit-bias", "x=100", "--no-repeat-ngram-size", "1"}));
  EXPECT_EQ(once["text"].get<std::string>().substr(0, 1), "x");
  EXPECT_EQ(once["text"].get<std::string>().find('x', 1), std::string::npos);
  const Words ends = greedy + Words{"--stop-token", first};
  EXPECT_EQ(expect_json(run(ends))["tokens"].size(), 1u);
  EXPECT_GE(expect_json(run(ends + Words{"--min-tokens", "4"}))["tokens"].size(), 4u);
  EXPECT_EQ(expect_json(run(ends + Words{"--ignore-eos"}))["tokens"].size(), 1u);
  expect_usage_error(run(greedy + Words{"--logit-bias", "xy=1"}), {"'xy' is 2 tokens"});
  expect_usage_error(run(greedy + Words{"--logit-bias", "256=1"}), {"0 to 255"});
  expect_usage_error(run(greedy + Words{"--logit-bias", "1=much"}), {"--logit-bias 1=much"});
  expect_usage_error(run(greedy + Words{"--logit-bias", "1"}), {"TOKEN=VALUE"});
}

TEST_F(Generate, DraftsChangeNoText) {
  const Words words = {"generate",     tiny("qwen2.genesis"), "--json", "--prompt",
                       "abababababab", "--max-tokens",        "30"};
  for (const Words& sampling : {Words{"--temperature", "0"}, Words{"--temperature", "0.7"}}) {
    const auto plain = expect_json(run_tool("genesis-run", words + sampling));
    EXPECT_FALSE(plain.contains("drafted"));
    for (const std::string& draft : {std::string("ngram"), tiny("qwen2.genesis")}) {
      const Process process =
          run_tool("genesis-run", words + sampling + Words{"--draft", draft, "--draft-tokens", "5"});
      const auto with = expect_json(process);
      EXPECT_EQ(with["tokens"], plain["tokens"]);
      if (draft == "ngram") continue;
      // The model drafts for itself: all of it is accepted.
      EXPECT_EQ(with["accepted"], with["drafted"]);
      EXPECT_GT(with["tokens_per_step"].get<double>(), 3);
      EXPECT_NE(process.err.find("tokens a step"), std::string::npos) << process.err;
    }
  }
  expect_error(run_tool("genesis-run", words + Words{"--draft", path("none.genesis")}),
               {"--draft", "none.genesis"});
  expect_usage_error(run_tool("genesis-run", words + Words{"--draft", "ngram", "--draft-tokens", "16"}),
                     {"--draft-tokens 16"});
}

TEST_F(Generate, ABatchKeepsItsAdapters) {
  expect_ok(run_tool("genesis-run",
                     {"train", tiny("qwen2.genesis"), "--lora", "2", "--data", TinyModels::get().text(),
                      "--batch", "2", "--seq", "16", "--steps", "3", "--quiet", "-o", path("lora.genesis")}));
  write_text(path("p.txt"), "the quick\nbrown\n");
  const Words words = {"generate", path("lora.genesis"), "--max-tokens", "6", "--temperature", "0", "--json"};
  const auto together =
      objects(run_tool("genesis-run", words + Words{"--prompts", path("p.txt"), "--batch", "2"}));
  ASSERT_EQ(together.size(), 2u);
  EXPECT_EQ(together[1]["tokens"],
            expect_json(run_tool("genesis-run", words + Words{"--prompt", "brown"}))["tokens"]);
}

TEST_F(Generate, MistakesOfABatchAreNamed) {
  write_text(path("p.txt"), "a\n" + std::string(49, 'x') + "\n");
  const Process process = run({"--prompts", path("p.txt"), "--batch", "2"});
  expect_error(process, {"(prompt \"xxx", "49 tokens", "holds 48"});
  EXPECT_EQ(process.out, "") << "nothing is written before all prompts are fit";
  EXPECT_EQ(objects(run({"--prompts", path("p.txt"), "--batch", "2", "--truncate"})).size(), 2u);
  write_text(path("empty.txt"), "\n\n");
  expect_error(run({"--prompts", path("empty.txt"), "--batch", "2"}), {"empty.txt has no prompts"});
  expect_usage_error(run({"--prompt", "a", "--batch", "0"}), {"--batch 0"});
  expect_usage_error(run({"--prompt", "a", "--unordered"}), {"--unordered", "--batch"});
}

// The second text ends beside the first, which continues. The text that replaces it cannot be computed.
TEST_F(Generate, AnErrorOfOnePromptLosesNoTextThatIsDone) {
  expect_ok(run_tool("genesis-build", {"qwen2",
                                       "--set",
                                       "hidden_size=16",
                                       "--set",
                                       "intermediate_size=16",
                                       "--set",
                                       "num_hidden_layers=1",
                                       "--set",
                                       "num_attention_heads=1",
                                       "--set",
                                       "num_key_value_heads=1",
                                       "--set",
                                       "vocab_size=256",
                                       "--set",
                                       "max_position_embeddings=48",
                                       "--set",
                                       "tie_word_embeddings=false",
                                       "--quiet",
                                       "-o",
                                       path("m.genesis")}));
  {
    Session session(load_model(path("m.genesis")));
    const std::string name = "model.embed_tokens.weight";
    const Tensor table = session.state(name);
    std::vector<float> values(table.as<float>().begin(), table.as<float>().end());
    values[16 * 'z'] = NAN;
    session.set_state(name, Tensor::of<float>({256, 16}, values));
    session.save(path("nan.genesis"));
  }
  write_text(path("p.txt"), "a\n" + std::string(47, 'x') + "\nz\nb\n");
  const Process process =
      run_tool("genesis-run", {"generate", path("nan.genesis"), "--prompts", path("p.txt"), "--batch", "2",
                               "--max-tokens", "20", "--temperature", "0"});
  EXPECT_EQ(process.code, 1);
  EXPECT_NE(process.err.find("not a number"), std::string::npos) << process.err;
  EXPECT_EQ(process.out.find("{\"prompt\":\"xxx"), 0u) << process.out;
}

TEST_F(Generate, MistakesInPromptsAreNamedByFileAndLine) {
  write_text(path("bad.jsonl"), "\"good\"\n\n{\"text\": \"no prompt\"}\n");
  expect_error(run({"--prompts", path("bad.jsonl")}), {"bad.jsonl, line 3", "a string 'prompt'"});
  write_text(path("cut.jsonl"), "{\"prompt\": \"never end");
  expect_error(run({"--prompts", path("cut.jsonl")}), {"cut.jsonl, line 1"});
  write_text(path("empty.jsonl"), "\n");
  expect_error(run({"--prompts", path("empty.jsonl")}), {"has no prompts"});
  expect_error(run({"--prompt-file", path("none.txt")}), {"none.txt"});
  expect_usage_error(run({}), {"--prompt"});
}

TEST_F(Generate, PromptsThatCannotBeReadAreNamedByFileAndLine) {
  write_text(path("p.jsonl"), "\"a\"\n\n\"\"\n");
  for (const Words& how : {Words{}, Words{"--batch", "2"}}) {
    const Process process = run(Words{"--prompts", path("p.jsonl")} + how);
    EXPECT_EQ(process.code, 1);
    EXPECT_NE(process.err.find("the prompt is empty"), std::string::npos) << process.err;
    EXPECT_NE(process.err.find("p.jsonl, line 3"), std::string::npos) << process.err;
  }
  write_text(path("empty.txt"), "");
  expect_error(run({"--prompt-file", path("empty.txt")}), {"the prompt is empty", "of " + path("empty.txt")});
}

TEST_F(Generate, StopTokensAreTheModels) {
  expect_error(run({"--prompt", "a", "--stop-token", "256"}), {"--stop-token 256", "it has 256 tokens"});
  EXPECT_EQ(run({"--prompt", "a", "--stop-token", "255"}).code, 0);
}

TEST_F(Generate, AByteOrderMarkIsNoPartOfAPrompt) {
  write_text(path("marked.txt"),
             "\xef\xbb\xbf"
             "In\r\nthe\r\n");
  const std::string lines =
      expect_ok(run_tool("genesis-run", {"generate", tiny("qwen2.genesis"), "--prompts", path("marked.txt"),
                                         "--max-tokens", "1", "--batch", "2"}));
  EXPECT_NE(lines.find("{\"prompt\":\"In\""), std::string::npos) << lines;
}

TEST_F(Generate, StopsAndLogprobsAreTold) {
  const auto whole = expect_json(run({"--json", "--prompt", "the"}));
  const int64_t third = whole["tokens"][2];
  const auto stopped = expect_json(
      run({"--json", "--prompt", "the", "--stop-token", std::to_string(third), "--logprobs", "3"}));
  EXPECT_EQ(stopped["stop"], "stop_token");
  EXPECT_LE(stopped["tokens"].size(), 3u);
  EXPECT_EQ(stopped["tokens"].back(), third);
  ASSERT_EQ(stopped["logprobs"].size(), stopped["tokens"].size());
  EXPECT_EQ(stopped["logprobs"][0]["token"], stopped["tokens"][0]);
  EXPECT_LT(stopped["logprobs"][0]["logprob"], 0);
  EXPECT_EQ(stopped["logprobs"][0]["top"].size(), 3u);
  expect_usage_error(run({"--prompt", "the", "--logprobs", "3"}), {"--logprobs", "--json"});
  expect_usage_error(run({"--prompt", "the", "--json", "--logprobs", "21"}), {"--logprobs 21"});
  expect_usage_error(run({"--prompt", "the", "--stop", ""}), {"--stop"});
}

// The flag gives the same text as a file whose cache is in 8 bits.
TEST_F(Generate, ACacheIn8BitsIsAFlagOrOfTheFile) {
  expect_ok(
      run_tool("genesis-opt", {tiny("qwen2.genesis"), "--cache-dtype", "q8", "-o", path("q8.genesis")}));
  const auto tokens = [&](const Words& words) {
    return expect_json(run_tool(
        "genesis-run",
        Words{"generate"} + words + Words{"--json", "--prompt", "the", "--max-tokens", "6"}))["tokens"];
  };
  const auto flag = tokens({tiny("qwen2.genesis"), "--cache-dtype", "q8"});
  EXPECT_EQ(flag.size(), 6u);
  EXPECT_EQ(tokens({path("q8.genesis")}), flag);
  EXPECT_EQ(tokens({path("q8.genesis"), "--cache-dtype", "q8", "--draft", "ngram"}), flag);
  expect_usage_error(run({"--prompt", "a", "--cache-dtype", "q4"}), {"--cache-dtype q4", "q8"});
  expect_error(run_tool("genesis-opt", {path("q8.genesis"), "--cache-dtype", "q8", "-o", path("x.genesis")}),
               {"8 bits already"});
}

TEST_F(Generate, ALongPromptIsAnErrorOrItsEnd) {
  const std::string prompt(100, 'a');
  expect_error(run({"--prompt", prompt + "bcd"}), {"103 tokens", "48"});
  const auto cut = expect_json(run({"--json", "--truncate", "--prompt", prompt + "bcd"}));
  EXPECT_EQ(cut["tokens"].size(), 6u);
  EXPECT_EQ(cut["tokens"], expect_json(run({"--json", "--prompt", std::string(40, 'a') + "bcd"}))["tokens"]);
}

TEST_F(Generate, OptionsOfTheChoiceAreChecked) {
  for (const Words& words : {Words{"--min-p", "1.5"}, Words{"--min-p", "nan"}, Words{"--typical-p", "0"},
                             Words{"--repetition-penalty", "0"}, Words{"--presence-penalty", "1e9"},
                             Words{"--prefill-chunk", "12"}, Words{"--prefill-chunk", "0"}})
    expect_usage_error(run(Words{"--prompt", "a"} + words), {words[0] + " " + words[1]});
  const auto plain = expect_json(run({"--json", "--prompt", "aaaa"}));
  EXPECT_NE(expect_json(run({"--json", "--prompt", "aaaa", "--frequency-penalty", "50"}))["tokens"],
            plain["tokens"]);
  EXPECT_EQ(expect_json(run({"--json", "--prompt", "aaaa", "--prefill-chunk", "1"}))["tokens"],
            plain["tokens"]);
}

}  // namespace
}  // namespace genesis::testing
