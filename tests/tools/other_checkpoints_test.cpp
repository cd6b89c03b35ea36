// Tests checkpoints from which a training cannot continue, because they are of another model or not files of the run.
#include "tests/tools/tool_test.h"

namespace genesis::testing {
namespace {

class OtherCheckpoints : public ToolTest {
 protected:
  Process train(const std::string& model, int steps, const Words& more) const {
    return run_tool("genesis-run", train_words(model, steps, more));
  }
  std::string newest() const { return "run/" + *files_in(folder() / "run").rbegin(); }
};

TEST_F(OtherCheckpoints, OfAnotherModelAreNotResumedInSilence) {
  expect_ok(train("qwen2", 2, {"--checkpoint", path("run")}));
  expect_error(train("qwen3", 4, {"--checkpoint", path("run"), "--resume"}),
               {path(newest()), "another model", "qwen3.train.genesis", "is a qwen2"});
  expect_error(train("gpt2", 4, {"--checkpoint", path("run"), "--resume"}),
               {path(newest()), "another model"});
  expect_ok(run_tool("genesis-build",
                     {"qwen2", "--set", "hidden_size=16", "--set", "num_hidden_layers=1", "--set",
                      "num_attention_heads=2", "--set", "num_key_value_heads=1", "--set",
                      "intermediate_size=24", "--set", "vocab_size=256", "-o", path("wide.genesis")}));
  Words wide = train_words("qwen2", 4, {"--checkpoint", path("run"), "--resume", "--optimizer", "adamw"});
  wide[1] = path("wide.genesis");
  expect_error(run_tool("genesis-run", wide), {path(newest()), "another model", "wide.genesis", "'model."});
  EXPECT_EQ(train("qwen2", 6, {"--checkpoint", path("run"), "--resume"}).err, "");
}

// The training options come from the checkpoint, and a run that names others is warned.
TEST_F(OtherCheckpoints, OfOtherTrainingOptionsAreGoneOnWith) {
  expect_ok(train("qwen2", 2, {"--checkpoint", path("run")}));
  const Process other =
      train("qwen2", 4, {"--checkpoint", path("run"), "--resume", "--optimizer", "sgd,lr=1"});
  expect_ok(other);
  EXPECT_NE(other.err.find("other training options"), std::string::npos) << other.err;
}

TEST_F(OtherCheckpoints, ThatNoTrainingWroteAreNamed) {
  expect_ok(train("qwen2", 2, {"--checkpoint", path("run")}));
  fs::copy_file(tiny("mlp.genesis"), path("run/step-000000009.genesis"));
  const Process process = train("qwen2", 4, {"--checkpoint", path("run"), "--resume"});
  expect_error(process, {"run/step-000000009.genesis", "'train_step'", "remove it"});
  EXPECT_EQ(process.err.find("qwen2.train.genesis has no"), std::string::npos) << process.err;
}

// A name that Genesis makes up never follows a link: the file is created in the run's own folder.
TEST_F(OtherCheckpoints, ThatAreLinksLeaveOtherFilesAlone) {
  fs::create_directory(path("run"));
  write_text(path("mine.txt"), "mine");
  fs::create_symlink(path("outside.genesis"), path("run/step-000000002.genesis"));
  fs::create_symlink(path("mine.txt"), path("run/best.genesis"));
  const Words more = {"--checkpoint",           path("run"),      "--resume", "--eval-data",
                      TinyModels::get().text(), "--eval-batches", "1"};
  const Process process = train("qwen2", 2, more);
  EXPECT_FALSE(fs::exists(path("outside.genesis"))) << process.err;
  EXPECT_EQ(read_text(path("mine.txt")), "mine");
  fs::remove(path("run/step-000000002.genesis"));
  expect_ok(train("qwen2", 1, more));
  fs::create_symlink(path("outside.genesis"), path("run/step-000000002.genesis"));
  expect_ok(train("qwen2", 2, more));
  EXPECT_FALSE(fs::exists(path("outside.genesis")));
  for (const char* file : {"run/step-000000002.genesis", "run/best.genesis"})
    EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(path(file)))) << file;
  EXPECT_EQ(read_text(path("mine.txt")), "mine");
}

TEST_F(OtherCheckpoints, OfAModelThatServesAreNotBegun) {
  expect_ok(run_tool("genesis-opt", {tiny("qwen2.genesis"), "--inference", "-o", path("serve.genesis")}));
  for (const Words& words : {Words{}, Words{"--optimizer", "adamw"}, Words{"--lora", "2"}}) {
    Words training = train_words("qwen2", 2, words);
    training[1] = path("serve.genesis");
    const Process process = run_tool("genesis-run", training);
    expect_error(process,
                 {"serve.genesis cannot be trained", "--inference", "the file that this one was made from"});
    EXPECT_EQ(process.err.find("--optimizer"), std::string::npos) << process.err;
  }
  expect_error(run_tool("genesis-opt", {path("serve.genesis"), "--train", "adamw", "-o", path("t.genesis")}),
               {"serve.genesis cannot be trained", "--inference"});
}

}  // namespace
}  // namespace genesis::testing
