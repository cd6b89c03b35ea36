// Tests genesis-run train and eval on conversations: files and folders of them, and lines that are not conversations.
#include "tests/tools/tool_test.h"

namespace genesis::testing {
namespace {

class Conversations : public ToolTest {
 protected:
  Conversations() {
    expect_ok(run_tool("genesis-build", {"tokenizer", TinyModels::get().text(), "--vocab-size", "280",
                                         "--chat", "-o", path("tokenizer"), "--quiet"}));
    Words build{"qwen2", "--tokenizer", path("tokenizer"), "-o", path("m.genesis"), "--quiet"};
    for (const char* setting : {"hidden_size=16", "intermediate_size=32", "num_hidden_layers=1"})
      build = build + Words{"--set", setting};
    expect_ok(run_tool("genesis-build", build));
    fs::create_directory(path("talks"));
    write_text(path("talks/good.jsonl"), good(6));
  }

  static std::string good(int lines) {
    std::string all;
    for (int i = 0; i < lines; ++i)
      all += "{\"messages\": [{\"role\": \"user\", \"content\": \"Who is " + std::to_string(i) +
             "?\"}, {\"role\": \"assistant\", \"content\": \"I am.\"}]}\n";
    return all;
  }
  Process train(const Words& more) {
    return run_tool("genesis-run", Words{"train", path("m.genesis"), "--lora", "2", "--batch", "1", "--seq",
                                         "64", "--steps", "1", "-o", path("out.genesis")} +
                                       more);
  }
};

TEST_F(Conversations, AFolderOfThemIsLearntAndMeasured) {
  const Process trained = train({"--data", path("talks")});
  expect_ok(trained);
  EXPECT_NE(trained.err.find("6 samples in"), std::string::npos) << trained.err;
  EXPECT_NE(trained.err.find("of them to learn"), std::string::npos) << trained.err;
  const auto of_folder =
      expect_json(run_tool("genesis-run", {"eval", path("out.genesis"), "--data", path("talks"), "--json"}));
  const auto of_file = expect_json(
      run_tool("genesis-run", {"eval", path("out.genesis"), "--data", path("talks/good.jsonl"), "--json"}));
  EXPECT_EQ(of_folder["loss"], of_file["loss"]);
}

// Every target counts equally in an evaluation, for any batch size, and also with fewer rows than a batch.
TEST_F(Conversations, AreAllEvaluatedWithAnyBatch) {
  const auto evaluated = [&](const Words& data, int batch) {
    const Words train{"train",
                      path("m.genesis"),
                      "--optimizer",
                      "adamw,lr=0,weight_decay=0",
                      "--seq",
                      "64",
                      "--steps",
                      "1",
                      "-o",
                      path("out.genesis"),
                      "--json",
                      "--batch",
                      std::to_string(batch)};
    return expect_json(run_tool("genesis-run", train + data))["evaluation_loss"].get<double>();
  };
  write_text(path("many.jsonl"), good(20));
  std::string uneven = good(2);
  for (size_t i = 1; i < 4; ++i)
    uneven +=
        "{\"messages\": [{\"role\": \"user\", \"content\": \"Where?\"}, {\"role\": \"assistant\", "
        "\"content\": \"" +
        std::string(8 * i, 'a') + "\"}]}\n";
  write_text(path("uneven.jsonl"), uneven);
  const std::string text = TinyModels::get().text();
  for (const Words& data : {Words{"--data", path("many.jsonl"), "--eval-data", path("uneven.jsonl")},
                            Words{"--data", text, "--eval-data", text, "--token-cache", path("tokens")}}) {
    const double one = evaluated(data, 1);
    for (const int batch : {2, 3, 4})
      EXPECT_NEAR(evaluated(data, batch), one, 1e-6 * one) << data[1] << " " << batch;
  }
}

TEST_F(Conversations, AreReadFromLinesOfAnyName) {
  for (const char* name : {"talks.ndjson", "talks.JSONL"}) {
    write_text(path(name), good(6));
    const Process trained = train({"--data", path(name)});
    expect_ok(trained);
    EXPECT_NE(trained.err.find("6 samples in"), std::string::npos) << name << trained.err;
  }
}

TEST_F(Conversations, OneARowSayHowToPackThem) {
  const auto trained_as = [&](const std::string& optimizer, const Words& more) {
    expect_ok(run_tool("genesis-opt",
                       {path("m.genesis"), "--train", optimizer, "-o", path("t.genesis"), "--quiet"}));
    const Process process =
        run_tool("genesis-run", Words{"train", path("t.genesis"), "--batch", "1", "--seq", "128", "--steps",
                                      "1", "--data", path("talks"), "-o", path("out.genesis")} +
                                    more);
    expect_ok(process);
    return process.err;
  };
  const std::string padded = trained_as("adamw", {});
  for (const char* part : {"% of all rows is padding", "--optimizer", "entry=loss_packed"})
    EXPECT_NE(padded.find(part), std::string::npos) << padded;
  for (const std::string& packed :
       {trained_as("adamw,entry=loss_packed", {}), trained_as("adamw", {"--optimizer", "adamw"})}) {
    EXPECT_EQ(packed.find("padding"), std::string::npos) << packed;
    EXPECT_EQ(packed.find("6 samples in 6 rows"), std::string::npos) << packed;
  }
}

TEST_F(Conversations, WithoutOneThatTeachesSayWhy) {
  write_text(path("none.jsonl"), "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}\n");
  const Process none = train({"--data", path("none.jsonl"), "--skip-bad"});
  EXPECT_EQ(none.code, 1);
  for (const char* part : {"none.jsonl:1: ", "no message is the assistant's", "fill 0 rows"})
    EXPECT_NE(none.err.find(part), std::string::npos) << none.err;
  write_text(path("other.jsonl"), "{\"conversations\": [{\"from\": \"human\", \"value\": \"a\"}]}\n");
  expect_error(train({"--data", path("other.jsonl")}),
               {"other.jsonl:1", "ShareGPT", "'conversations'", "{\"messages\": [{"});
}

TEST_F(Conversations, AFolderMayHoldMoreThanThem) {
  write_text(path("talks/README.md"), "# What this is\n");
  write_text(path("talks/empty.jsonl"), "");
  write_text(path("talks/blank.jsonl"), " \n\n");
  const Process trained = train({"--data", path("talks")});
  expect_ok(trained);
  EXPECT_NE(trained.err.find("6 samples in"), std::string::npos) << trained.err;
  write_text(path("talks/texts.jsonl"), "{\"text\": \"a\"}\n");
  expect_error(train({"--data", path("talks")}), {"good.jsonl' has conversations", "texts.jsonl' has none",
                                                  "name the files that have conversations"});
}

TEST_F(Conversations, InAnArrayOfJsonAreNotReadAsText) {
  std::string array = good(2);
  array[array.find('\n')] = ',';
  write_text(path("all.json"), "[\n" + array + "]");
  expect_error(train({"--data", path("all.json")}), {"all.json", "\"messages\"", ".jsonl", "jq"});
}

TEST_F(Conversations, AWrongFirstLineHidesNotWhatTheOthersAre) {
  write_text(path("bad.jsonl"), "{\"messages\": [\n[1]\n" + good(4));
  expect_error(train({"--data", path("bad.jsonl")}), {"bad.jsonl:1: ", "--skip-bad"});
  const Process skipped = train({"--data", path("bad.jsonl"), "--skip-bad"});
  expect_ok(skipped);
  EXPECT_NE(skipped.err.find("2 lines were left out"), std::string::npos) << skipped.err;
  EXPECT_NE(skipped.err.find("4 samples in"), std::string::npos) << skipped.err;
}

TEST_F(Conversations, BringWhatTheirTemplateReads) {
  const std::string messages = good(1).substr(1, good(1).rfind('}') - 1);
  write_text(path("more.jsonl"),
             "{\"id\": 7, \"tools\": null, \"chat_template_kwargs\": {\"enable_thinking\": false}, " +
                 messages + "}\n");
  expect_ok(train({"--data", path("more.jsonl")}));
  write_text(path("more.jsonl"), "{\"chat_template_kwargs\": [1], " + messages + "}\n");
  expect_error(train({"--data", path("more.jsonl")}),
               {"more.jsonl:1: ", "'chat_template_kwargs' is no object, but list"});
}

// Plain text between conversations is learned too, wherever it is.
TEST_F(Conversations, StandAmongLinesOfText) {
  const std::string text = "{\"text\": \"In the beginning, as \\\"messages\\\" have it.\"}\n";
  std::vector<nlohmann::json> losses;
  for (const std::string& lines : {text + good(5), good(5) + text}) {
    write_text(path("mixed.jsonl"), lines);
    const Process trained = train({"--data", path("mixed.jsonl")});
    expect_ok(trained);
    EXPECT_NE(trained.err.find("6 samples in"), std::string::npos) << trained.err;
    losses.push_back(expect_json(run_tool(
        "genesis-run", {"eval", path("m.genesis"), "--data", path("mixed.jsonl"), "--json"}))["tokens"]);
  }
  EXPECT_EQ(losses[0], losses[1]);
}

// If a conversation comes far after text, the file is text with an invalid line.
TEST_F(Conversations, FarBehindTextAreNamed) {
  std::string lines;
  for (const std::string text = "{\"text\": \"" + std::string(1 << 20, 'a') + "\"}\n";
       lines.size() < (17u << 20);)
    lines += text;
  write_text(path("late.jsonl"), lines + good(1));
  expect_error(train({"--data", path("late.jsonl")}), {"late.jsonl:18: ", "where one stands among its first lines"});
}

// A named entry point is the one that is trained, or reported as missing.
TEST_F(Conversations, AreTrainedByTheEntryPointThatIsNamed) {
  const auto trained = [&](const std::string& optimizer) {
    return run_tool("genesis-run",
                    {"train", path("m.genesis"), "--optimizer", optimizer, "--batch", "1", "--seq", "64",
                     "--steps", "1", "--data", path("talks"), "-o", path("out.genesis")});
  };
  expect_error(trained("adamw,entry=los"), {"'los'", "did you mean 'loss'"});
  EXPECT_NE(trained("adamw,entry=loss").err.find("6 samples in 6 rows"), std::string::npos);
  EXPECT_EQ(trained("adamw").err.find("6 samples in 6 rows"), std::string::npos);
}

TEST_F(Conversations, SayWhichDataIsTooShort) {
  write_text(path("none.jsonl"), "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}\n");
  expect_error(train({"--data", path("talks"), "--eval-data", path("none.jsonl"), "--quiet"}),
               {"none.jsonl:1: ", "--eval-data"});
  expect_error(train({"--data", path("none.jsonl"), "--quiet"}),
               {"none.jsonl:1: ", "in the data to train on"});
}

TEST_F(Conversations, GoNotTogetherWithText) {
  expect_error(train({"--data", path("talks"), "--data", TinyModels::get().text()}),
               {"good.jsonl' has conversations", "text.txt' has none"});
}

}  // namespace
}  // namespace genesis::testing
