// Tests a tokenizer inside a .genesis file: commands that write files pass it on, and commands that read text use it.
#include <algorithm>
#include <cmath>

#include "tests/tools/tool_test.h"

namespace genesis::testing {
namespace {

const std::string kTokenizer = GENESIS_SOURCE_ROOT "/tests/models/tokenizer/gpt2.json";

class BroughtTokenizer : public ToolTest {
 protected:
  BroughtTokenizer() {
    fs::create_directory(path("tok"));
    fs::copy(kTokenizer, path("tok/tokenizer.json"));
    write_text(path("tok/tokenizer_config.json"),
               "{\"eos_token\": \"<|endoftext|>\", \"chat_template\": \"{{ 1 }}\"}");
    write_text(path("tok/README.md"), "not taken");
  }

  Words build(const std::string& file, const Words& more = {}) const {
    return Words{"qwen2",
                 "-o",
                 path(file),
                 "--tokenizer",
                 path("tok"),
                 "--set",
                 "hidden_size=16",
                 "--set",
                 "intermediate_size=32",
                 "--set",
                 "num_hidden_layers=1",
                 "--set",
                 "num_attention_heads=2",
                 "--set",
                 "num_key_value_heads=1"} +
           more;
  }
  void make_training() const {
    expect_ok(run_tool("genesis-build", build("m.genesis")));
    expect_ok(run_tool("genesis-opt", {path("m.genesis"), "--train", "adamw", "-o", path("train.genesis")}));
  }
  Words train(const Words& more) const {
    return Words{"train", path("train.genesis"), "--batch",     "2",     "--seq",
                 "16",    "--token-cache",       path("cache"), "--json"} +
           more;
  }
  void expect_brings_it(const std::string& file) const {
    const auto files = expect_json(run_tool("genesis-run", {"info", file, "--json"}))["files"];
    EXPECT_EQ(files.size(), 2u) << file;
    EXPECT_EQ(files.value("tokenizer.json", 0u), fs::file_size(kTokenizer)) << file;
  }
  // Writes some hundred documents.
  std::string corpus() const {
    std::string lines;
    for (int i = 0; i < 400; ++i)
      lines += "{\"text\": \"In the beginning was verse " + std::to_string(i) + "\"}\n";
    write_text(path("corpus.jsonl"), lines);
    return path("corpus.jsonl");
  }
};

TEST_F(BroughtTokenizer, DecidesTheVocabularyAndIsFoundByOtherTools) {
  expect_ok(run_tool("genesis-build", build("m.genesis")));
  expect_brings_it(path("m.genesis"));
  const std::string info = expect_ok(run_tool("genesis-run", {"info", path("m.genesis")}));
  EXPECT_NE(info.find("file tokenizer.json: "), std::string::npos);
  EXPECT_EQ(info.find("merges"), std::string::npos);
  for (const Words& more : {Words{}, Words{"--no-special", "--json"}})
    EXPECT_EQ(
        expect_ok(run_tool("genesis-run", Words{"tokenize", path("m.genesis"), "--text", "In the"} + more)),
        expect_ok(run_tool("genesis-run", Words{"tokenize", kTokenizer, "--text", "In the"} + more)));
  const Words generate = {"generate", path("m.genesis"), "--prompt", "In the", "--max-tokens",
                          "20",       "--seed",          "4"};
  EXPECT_EQ(expect_ok(run_tool("genesis-run", generate)),
            expect_ok(run_tool("genesis-run", generate + Words{"--tokenizer", path("m.genesis")})));
}

TEST_F(BroughtTokenizer, IsTakenFromAnotherModel) {
  expect_ok(run_tool("genesis-build", build("m.genesis")));
  Words of_model = build("n.genesis");
  of_model[4] = path("m.genesis");
  expect_ok(run_tool("genesis-build", of_model));
  EXPECT_EQ(read_text(path("n.genesis")), read_text(path("m.genesis")));
}

TEST_F(BroughtTokenizer, IsHandedOn) {
  make_training();
  expect_brings_it(path("train.genesis"));
  expect_ok(run_tool("genesis-opt", {path("m.genesis"), "--cast", "bf16", "-o", path("bf16.genesis")}));
  expect_brings_it(path("bf16.genesis"));
  expect_ok(run_tool("genesis-run", train({"--data", corpus(), "--steps", "4", "--checkpoint", path("run"),
                                           "--checkpoint-every", "2", "-o", path("trained.genesis")})));
  expect_brings_it(path("trained.genesis"));
  int checkpoints = 0;
  for (const std::string& file : files_in(path("run")))
    if (file.ends_with(".genesis")) expect_brings_it(path("run/" + file)), ++checkpoints;
  EXPECT_EQ(checkpoints, 2);
}

TEST_F(BroughtTokenizer, NeedsAModelWithRoomForIt) {
  expect_error(run_tool("genesis-build", build("m.genesis", {"--set", "vocab_size=300"})),
               {"vocab_size=300", "tokens"});
  expect_ok(run_tool("genesis-build", build("m.genesis", {"--set", "vocab_size=1024"})));
  // The last ids of a padded vocabulary are not the tokenizer's, and decode to no text.
  EXPECT_EQ(
      expect_ok(run_tool("genesis-run", {"tokenize", path("m.genesis"), "--decode", "--text", "1023 1022"})),
      "");
  expect_error(run_tool("genesis-run", {"tokenize", path("m.genesis"), "--decode", "--text", "1024"}),
               {"no token 1024", "0 to 1023"});
  expect_error(run_tool("genesis-build", {"mlp", "-o", path("mlp.genesis"), "--tokenizer", path("tok")}),
               {"vocab_size"});
  expect_error(run_tool("genesis-build", {"qwen2", "-o", path("m.genesis"), "--tokenizer", path("nowhere")}),
               {"nowhere"});
  expect_ok(run_tool("genesis-build", {"qwen2", "-o", path("none.genesis"), "--set", "hidden_size=16",
                                       "--set", "num_attention_heads=2", "--set", "num_key_value_heads=1"}));
  expect_error(run_tool("genesis-run", {"tokenize", path("none.genesis"), "--text", "a"}),
               {"brings no tokenizer"});
}

// Many fine-tuned models add a token for padding and leave the embedding as it was.
TEST_F(BroughtTokenizer, MayHaveAnAddedTokenWithoutARow) {
  auto tokenizer = nlohmann::json::parse(read_text(kTokenizer));
  int64_t rows = 0;
  for (const auto& [token, id] : tokenizer["model"]["vocab"].items())
    rows = std::max(rows, id.get<int64_t>() + 1);
  for (const auto& token : tokenizer["added_tokens"])
    rows = std::max<int64_t>(rows, token["id"].get<int64_t>() + 1);
  expect_ok(run_tool("genesis-build", build("base.genesis")));
  expect_ok(run_tool("genesis-run", {"export", path("base.genesis"), "-o", path("hub")}));
  auto added = tokenizer["added_tokens"][0];
  added["id"] = rows, added["content"] = "[PAD]";
  tokenizer["added_tokens"].push_back(added);
  write_text(path("hub/tokenizer.json"), tokenizer.dump());
  const std::string about = "'[PAD]' (" + std::to_string(rows) + ")";
  const auto expect_told = [&](const Process& process, const std::string& what) {
    expect_ok(process);
    EXPECT_NE(process.err.find(what), std::string::npos) << process.err;
  };
  expect_told(run_tool("genesis-build", {path("hub"), "-o", path("m.genesis")}), about);
  const Words generate = {"generate", path("m.genesis"), "--max-tokens", "2", "--prompt"};
  expect_told(run_tool("genesis-run", generate + Words{"hello"}), about);
  expect_error(run_tool("genesis-run", generate + Words{"a [PAD]"}), {"token " + std::to_string(rows)});
  write_text(path("good.jsonl"), "{\"text\": \"In the beginning was a verse of many words\"}\n");
  write_text(path("bad.jsonl"), "{\"text\": \"In the beginning [PAD] was a verse of many words\"}\n");
  const auto train = [&](const std::string& data) {
    return run_tool("genesis-run",
                    {"train", path("m.genesis"), "--data", path(data), "--optimizer", "adamw", "--batch", "1",
                     "--seq", "4", "--steps", "1", "--token-cache", path("cache")});
  };
  expect_told(train("good.jsonl"), about);
  expect_error(train("bad.jsonl"), {about, "no row"});
  expect_told(run_tool("genesis-run", {"eval", path("m.genesis"), "--data", path("good.jsonl")}), about);
  expect_error(run_tool("genesis-run", {"eval", path("m.genesis"), "--data", path("bad.jsonl")}),
               {"token " + std::to_string(rows)});
}

// genesis-opt reads the same data as eval does.
TEST_F(BroughtTokenizer, QuantizingIsMeasuredOnConversationsToo) {
  write_text(path("tok/tokenizer_config.json"),
             "{\"eos_token\": \"<|endoftext|>\", \"chat_template\": \"{% for m in messages %}{{ m['content'] "
             "}}{% endfor %}\"}");
  Words words = build("m.genesis");
  std::ranges::replace(words, "hidden_size=16", "hidden_size=64");
  expect_ok(run_tool("genesis-build", words));
  const std::string talk =
      "{\"messages\": [{\"role\": \"user\", \"content\": \"In\"}, {\"role\": \"assistant\", \"content\": \" "
      "the beginning\"}]}\n";
  write_text(path("talk.jsonl"), talk + talk);
  write_text(path("bad.jsonl"), talk + "{\"messages\": 3}\n" + talk);
  const auto quantize = [&](const std::string& data, const Words& more = {}) {
    return run_tool(
        "genesis-opt",
        Words{path("m.genesis"), "--quantize", "q8", "--data", path(data), "-o", path("q.genesis")} + more);
  };
  const auto tokens = expect_json(
      run_tool("genesis-run", {"eval", path("m.genesis"), "--data", path("talk.jsonl"), "--json"}))["tokens"];
  const Process whole = quantize("talk.jsonl"), rest = quantize("bad.jsonl", {"--skip-bad"});
  for (const Process* process : {&whole, &rest}) {
    expect_ok(*process);
    EXPECT_NE(process->err.find("perplexity on " + tokens.dump() + " tokens of "), std::string::npos)
        << process->err;
  }
  EXPECT_NE(rest.err.find("1 lines were left out"), std::string::npos) << rest.err;
  expect_error(quantize("bad.jsonl"), {"bad.jsonl:2", "--skip-bad"});
  expect_usage_error(
      run_tool("genesis-opt", {path("m.genesis"), "--quantize", "q8", "--skip-bad", "-o", path("q.genesis")}),
      {"--skip-bad", "without --data"});
}

// An error in a file that the model brings names the model's file.
TEST_F(BroughtTokenizer, ThatIsDamagedIsToldOfWithTheModelsFile) {
  write_text(path("tok/tokenizer.json"), "[]");
  fs::copy(GENESIS_SOURCE_ROOT "/tests/models/hugging_face/qwen2_tied", path("model"));
  fs::copy(path("tok/tokenizer.json"), path("model/tokenizer.json"));
  expect_ok(run_tool("genesis-build", {path("model"), "-o", path("m.genesis")}));
  write_text(path("a.jsonl"), "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}\n");
  write_text(path("a.txt"), "some text");
  for (const Words& words :
       {Words{"generate", path("m.genesis"), "--prompt", "a"}, Words{"chat", path("m.genesis")},
        Words{"tokenize", path("m.genesis"), "--text", "a"},
        Words{"eval", path("m.genesis"), "--data", path("a.txt")},
        Words{"train", path("m.genesis"), "--data", path("a.txt"), "--optimizer", "adamw"},
        Words{"train", path("m.genesis"), "--data", path("a.jsonl"), "--optimizer", "adamw"}})
    expect_error(run_tool("genesis-run", words), {"tokenizer.json", path("m.genesis")});
}

TEST_F(BroughtTokenizer, AnImportedFolderBringsItsOwn) {
  fs::copy(GENESIS_SOURCE_ROOT "/tests/models/hugging_face/qwen2_tied", path("model"));
  fs::copy(kTokenizer, path("model/tokenizer.json"));
  write_text(path("model/generation_config.json"), "{\"eos_token_id\": [3, 4]}");
  expect_ok(run_tool("genesis-build", {path("model"), "-o", path("m.genesis")}));
  expect_brings_it(path("m.genesis"));
  // Another tokenizer may replace it, and must fit the model too.
  expect_error(
      run_tool("genesis-build", {path("model"), "-o", path("m.genesis"), "--tokenizer", path("tok")}),
      {"tokens, more than the model has", path("tok")});
}

TEST_F(BroughtTokenizer, GoesOutWithAnExport) {
  expect_ok(run_tool("genesis-build", build("m.genesis")));
  expect_ok(run_tool("genesis-run", {"export", path("m.genesis"), "-o", path("out")}));
  EXPECT_EQ(read_text(path("out/tokenizer.json")), read_text(kTokenizer));
  EXPECT_EQ(read_text(path("out/tokenizer_config.json")), read_text(path("tok/tokenizer_config.json")));
  expect_ok(run_tool("genesis-build", {path("out"), "-o", path("again.genesis")}));
  expect_brings_it(path("again.genesis"));
}

TEST_F(BroughtTokenizer, LetsAModelTalkByTheTemplateItBrings) {
  write_text(path("tok/tokenizer_config.json"),
             "{\"eos_token\": \"<|endoftext|>\", \"chat_template\": \"{% for m in messages %}{{ m['content'] "
             "}}{% endfor %}\"}");
  expect_ok(run_tool("genesis-build", build("m.genesis")));
  write_text(path("messages.json"), "[{\"role\": \"user\", \"content\": \"In the\"}]");
  const auto shown = expect_json(
      run_tool("genesis-run", {"tokenize", path("m.genesis"), "--chat", path("messages.json"), "--json"}));
  EXPECT_EQ(shown["text"], "In the");
  const Process chat = run_process(
      {"sh", "-c",
       "echo hello | " + tool_path("genesis-run") + " chat " + path("m.genesis") + " --max-tokens 3 --json"});
  EXPECT_TRUE(expect_json(chat).contains("text")) << chat.out;
  // The chat template beside the named tokenizer is used, whatever names it.
  write_text(path("talk.jsonl"),
             "{\"messages\": [{\"role\": \"user\", \"content\": \"In\"}, {\"role\": \"assistant\", "
             "\"content\": \" the beginning\"}]}\n");
  const Words eval{"eval", path("m.genesis"), "--data", path("talk.jsonl"), "--json"};
  const auto own = expect_json(run_tool("genesis-run", eval));
  for (const char* named : {"tok", "tok/tokenizer.json", "m.genesis"})
    EXPECT_EQ(expect_json(run_tool("genesis-run", eval + Words{"--tokenizer", path(named)}))["loss"],
              own["loss"])
        << named;
  write_text(path("text.txt"), "In the beginning God created the heaven and the earth.");
  expect_ok(run_tool("genesis-run", {"eval", path("m.genesis"), "--data", path("text.txt"), "--json"}));
}

TEST_F(BroughtTokenizer, TrainingReadsTextThroughItAndKeepsTheTokens) {
  make_training();
  const Words data = {"--data", corpus(), "--holdout", "10%", "--metrics"};
  const Process first = run_tool("genesis-run", train(data + Words{path("a.jsonl"), "--steps", "5"}));
  expect_ok(first);
  EXPECT_NE(first.err.find("made and kept in"), std::string::npos) << first.err;
  const Process again = run_tool("genesis-run", train(data + Words{path("b.jsonl"), "--steps", "5"}));
  EXPECT_NE(again.err.find("held out, kept in"), std::string::npos) << again.err;
  EXPECT_EQ(expect_json(first)["loss"], expect_json(again)["loss"]);
}

TEST_F(BroughtTokenizer, TrainingSaysWhatHoldingOutTookOfAFewDocuments) {
  make_training();
  std::string verses;
  for (int i = 0; i < 300; ++i) verses += "And the verse was " + std::to_string(i) + ". ";
  write_text(path("one.txt"), verses);
  const Words hold = {"--steps", "1", "--holdout", "1%", "--data"};
  for (int again = 0; again < 2; ++again)
    expect_error(run_tool("genesis-run", train(hold + Words{path("one.txt")})),
                 {"--holdout 1% took all", "one document", "--eval-data"});
  write_text(path("two.txt"), verses + "<|endoftext|>" + verses);
  const Process two = run_tool("genesis-run", train(hold + Words{path("two.txt")}));
  expect_ok(two);
  EXPECT_NE(two.err.find("--holdout 1% holds out 50% of the tokens"), std::string::npos) << two.err;
  const Process many = run_tool("genesis-run", train(hold + Words{corpus()}));
  EXPECT_EQ(many.err.find("holds out"), std::string::npos) << many.err;
}

// Bits per byte count the bytes of predicted tokens, without the first token, which may be a part of a character.
TEST_F(BroughtTokenizer, EvaluationCountsTheBytesThatAreForetold) {
  expect_ok(run_tool("genesis-build", build("m.genesis")));
  std::string lines = "{\"text\": \"\u597d\"}\n";
  for (int i = 0; i < 5; ++i) lines += "{\"text\": \"\u597d\u7684\"}\n";
  write_text(path("short.jsonl"), lines);
  const auto result = expect_json(
      run_tool("genesis-run", {"eval", path("m.genesis"), "--data", path("short.jsonl"), "--json"}));
  // Each token is one byte: 3 + 5 * 6, without the first of six lines.
  EXPECT_EQ(result["bytes"], 27);
  EXPECT_EQ(result["tokens"], 27);
  EXPECT_NEAR(result["bits_per_byte"].get<double>(), result["loss"].get<double>() / std::log(2.0), 1e-9);
}

TEST_F(BroughtTokenizer, TrainingResumesWithTheSameBatches) {
  make_training();
  const Words data = {"--data", corpus(), "-o"};
  const auto whole =
      expect_json(run_tool("genesis-run", train(data + Words{path("a.genesis"), "--steps", "6"})));
  const Words run = {"--checkpoint", path("run"), "--resume"};
  expect_ok(run_tool("genesis-run", train(data + Words{path("b.genesis"), "--steps", "3"} + run)));
  const auto resumed =
      expect_json(run_tool("genesis-run", train(data + Words{path("b.genesis"), "--steps", "6"} + run)));
  EXPECT_EQ(whole["loss"], resumed["loss"]);
}

TEST_F(BroughtTokenizer, TextThatIsNoUtf8IsToldOf) {
  make_training();
  std::string latin = "In the beginning\n";
  for (int i = 0; i < 40; ++i) latin += "the caf\xe9 was new\n";
  write_text(path("latin.txt"), latin);
  const std::string where = "byte 24 of '" + path("latin.txt") + "' is no UTF-8";
  for (const char* what : {"made", "kept"}) {
    const Process trained = run_tool("genesis-run", train({"--data", path("latin.txt"), "--steps", "1"}));
    expect_ok(trained);
    EXPECT_NE(trained.err.find(where), std::string::npos) << what << trained.err;
  }
  const Process evaluated =
      run_tool("genesis-run", {"eval", path("m.genesis"), "--data", path("latin.txt"), "--seq", "16"});
  expect_ok(evaluated);
  EXPECT_NE(evaluated.err.find(where), std::string::npos) << evaluated.err;
  EXPECT_EQ(run_tool("genesis-run", train({"--data", corpus(), "--steps", "1"})).err.find("UTF-8"),
            std::string::npos);
}

TEST_F(BroughtTokenizer, TrainingSaysWhatIsWrongWithText) {
  make_training();
  write_text(path("bad.jsonl"), "{\"text\": \"" + std::string(3000, 'a') + "\"}\n{\"text\": 3}\n");
  expect_error(run_tool("genesis-run", train({"--data", path("bad.jsonl"), "--steps", "1"})),
               {"bad.jsonl:2: ", "--skip-bad"});
  const Process skipped =
      run_tool("genesis-run", train({"--data", path("bad.jsonl"), "--steps", "1", "--skip-bad"}));
  expect_ok(skipped);
  EXPECT_NE(skipped.err.find("1 lines without a document"), std::string::npos) << skipped.err;
  const Process evaluated = run_tool(
      "genesis-run", {"eval", path("m.genesis"), "--data", path("bad.jsonl"), "--seq", "64", "--skip-bad"});
  expect_ok(evaluated);
  EXPECT_NE(evaluated.err.find("1 lines without a document"), std::string::npos) << evaluated.err;
  expect_error(run_tool("genesis-run", {"eval", path("m.genesis"), "--data", path("bad.jsonl")}),
               {"bad.jsonl:2: ", "--skip-bad"});
  expect_usage_error(
      run_tool("genesis-run", train({"--data", corpus(), "--steps", "1", "--holdout", "100%"})),
      {"--holdout 100%"});
  expect_usage_error(run_tool("genesis-run", train_words("qwen2", 1, {"--holdout", "1%"})),
                     {"--holdout does nothing", "brings no tokenizer"});
}

}  // namespace
}  // namespace genesis::testing
