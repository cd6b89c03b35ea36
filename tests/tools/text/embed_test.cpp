// Tests genesis-run embed and genesis-run rerank, and genesis-build for folders of encoders.
#include <fmt/format.h>

#include "tests/tools/tool_test.h"

namespace genesis::testing {
namespace {

const std::string kEncoders = GENESIS_SOURCE_ROOT "/tests/models/hugging_face/encoders/";

class Embed : public ToolTest {
 protected:
  std::string built(const std::string& name, const Words& more = {}) {
    const std::string file = path(name + ".genesis");
    expect_ok(run_tool("genesis-build", Words{kEncoders + name, "-o", file} + more));
    return file;
  }
};

TEST_F(Embed, WritesVectorsOfTexts) {
  const std::string model = built("bert");
  write_text(path("texts.txt"), "the cat sat on a mat\n\nA dog!\n");
  write_text(path("texts.jsonl"), "\"the cat sat on a mat\"\n{\"text\": \"A dog!\"}\n");
  const auto by_words = expect_json(run_tool(
      "genesis-run", {"embed", model, "--text", "the cat sat on a mat", "--text", "A dog!", "--json"}));
  ASSERT_EQ(by_words["vectors"].size(), 2u);
  EXPECT_EQ(by_words["features"], 16);
  for (const char* file : {"texts.txt", "texts.jsonl"})
    EXPECT_EQ(
        expect_json(run_tool("genesis-run", {"embed", model, "--input", path(file), "--json"}))["vectors"],
        by_words["vectors"])
        << file;
  expect_ok(run_tool("genesis-run", {"embed", model, "--input", path("texts.txt"), "-o", path("v.npy")}));
  EXPECT_EQ(fs::file_size(path("v.npy")), 128u + 2 * 16 * 4);
  const std::string lines =
      expect_ok(run_tool("genesis-run", {"embed", model, "--input", path("texts.txt")}));
  const auto first = nlohmann::json::parse(lines.substr(0, lines.find('\n')));
  EXPECT_EQ(first["text"], "the cat sat on a mat");
  EXPECT_EQ(first["vector"], by_words["vectors"][0]);
  expect_ok(run_tool("genesis-run", {"embed", model, "--input", path("texts.txt"), "-o", path("v.jsonl")}));
  EXPECT_EQ(read_text(path("v.jsonl")), lines);
}

TEST_F(Embed, KnowsPromptsAndSimilarity) {
  const std::string model = built("bert");
  const Words texts = {"embed", model, "--text", "cats", "--text", "dog", "--json"};
  const auto plain = expect_json(run_tool("genesis-run", texts + Words{"--similarity"}));
  EXPECT_NEAR(plain["similarity"][0][0].get<double>(), 1, 1e-6);
  EXPECT_EQ(plain["similarity"][0][1], plain["similarity"][1][0]);
  const auto named = expect_json(run_tool("genesis-run", texts + Words{"--prompt-name", "query"}));
  EXPECT_NE(named["vectors"], plain["vectors"]);
  EXPECT_EQ(expect_json(run_tool("genesis-run", texts + Words{"--prompt", "find: "}))["vectors"],
            named["vectors"]);
  expect_error(run_tool("genesis-run", texts + Words{"--prompt-name", "qury"}), {"did you mean 'query'"});
  const Process truncated = run_tool(
      "genesis-run", {"embed", model, "--text", "zebras quickly jumped over nine lazy frogs", "--json"});
  expect_json(truncated);
  EXPECT_NE(truncated.err.find("its first 16 are read"), std::string::npos) << truncated.err;
}

TEST_F(Embed, PoolingCanBeChosen) {
  const std::string mean = built("modernbert");
  const Words texts = {"--text", "cats", "--json"};
  const auto means = expect_json(run_tool("genesis-run", Words{"embed", mean} + texts));
  fs::rename(mean, path("mean.genesis"));
  const std::string cls = built("modernbert", {"--pooling", "cls", "--normalize"});
  const auto first = expect_json(run_tool("genesis-run", Words{"embed", cls} + texts));
  EXPECT_NE(first["vectors"], means["vectors"]);
  double squares = 0;
  for (const double x : first["vectors"][0]) squares += x * x;
  EXPECT_NEAR(squares, 1, 1e-5);
  expect_ok(run_tool("genesis-run", {"export", cls, "-o", path("out")}));
  EXPECT_NE(read_text(path("out/1_Pooling/config.json")).find("\"pooling_mode_cls_token\": true"),
            std::string::npos);
  expect_usage_error(
      run_tool("genesis-build", {kEncoders + "bert", "-o", path("x.genesis"), "--pooling", "min"}),
      {"--pooling min", "weightedmean"});
}

TEST_F(Embed, DecodersMakeVectorsToo) {
  const std::string model = built("qwen3_embedding");
  EXPECT_EQ(expect_json(run_tool("genesis-run", {"embed", model, "--text", "cats", "--json"}))["features"],
            16);
  expect_error(run_tool("genesis-run", {"embed", tiny("qwen2.genesis"), "--text", "cats"}),
               {"no entry point 'embed'", "--pooling"});
  expect_usage_error(run_tool("genesis-run", {"embed", model}), {"--text TEXT or --input FILE"});
  expect_usage_error(run_tool("genesis-run", {"embed", model, "--text", "a", "-o", "v.csv"}),
                     {".npy or .jsonl"});
}

// A cross-encoder learns scores of pairs from rows of arrays, whole and with adapters.
TEST_F(Embed, ClassifiersLearnFromArrays) {
  const std::string model = built("bert_cross");
  std::string rows;
  for (int i = 0; i < 8; ++i)
    rows += fmt::format(
        "{{\"tokens\": [2, {}, 3, {}, 3, 0], \"lengths\": {}, \"token_types\": [0, 0, 0, 1, 1, 0], "
        "\"targets\": {}}}\n",
        5 + i, 20 + i, 4 + i % 2, i < 4 ? 0.5 : -0.5);
  write_text(path("rows.jsonl"), rows);
  for (const Words& more : {Words{}, Words{"--lora", "2"}}) {
    const Words train = {
        "train",   model, "--data", path("rows.jsonl"),      "--optimizer", "adamw,lr=1e-2", "--batch", "4",
        "--steps", "30",  "-o",     path("trained.genesis"), "--json"};
    const auto result = expect_json(run_tool("genesis-run", train + more));
    EXPECT_LT(result["loss"].get<double>(), 0.2) << result.dump();
    fs::remove(path("trained.genesis"));
  }
}

TEST_F(Embed, Reranks) {
  const std::string model = built("bert_cross");
  write_text(path("texts.txt"), "the cat sat on a mat\nA dog!\ncats\n");
  const Words query = {"rerank", model, "--query", "what is a cat"};
  const auto ranked =
      expect_json(run_tool("genesis-run", query + Words{"--input", path("texts.txt"), "--json"}))["ranked"];
  ASSERT_EQ(ranked.size(), 3u);
  EXPECT_GE(ranked[0]["score"], ranked[1]["score"]);
  const std::string top =
      expect_ok(run_tool("genesis-run", query + Words{"--input", path("texts.txt"), "--top", "1"}));
  EXPECT_NE(top.find(ranked[0]["text"].get<std::string>()), std::string::npos);
  EXPECT_EQ(std::count(top.begin(), top.end(), '\n'), 1);
  write_text(path("pairs.jsonl"),
             "[\"what is a cat\", \"cats\"]\n{\"query\": \"dog\", \"text\": \"cats\"}\n");
  const auto scores = expect_json(
      run_tool("genesis-run", {"rerank", model, "--pairs", path("pairs.jsonl"), "--json"}))["scores"];
  ASSERT_EQ(scores.size(), 2u);
  for (const auto& row : ranked)
    if (row["text"] == "cats") {
      EXPECT_NEAR(row["score"].get<double>(), scores[0][0].get<double>(), 1e-5);
    }
  write_text(path("wrong.jsonl"), "[\"one\"]\n");
  expect_error(run_tool("genesis-run", {"rerank", model, "--pairs", path("wrong.jsonl")}),
               {"wrong.jsonl, line 1", "two strings"});
  expect_error(run_tool("genesis-run", {"rerank", built("bert"), "--query", "a", "--text", "b"}),
               {"no classifier of texts"});
}

}  // namespace
}  // namespace genesis::testing
