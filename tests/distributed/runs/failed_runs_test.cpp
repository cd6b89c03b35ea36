// Tests runs in which one rank fails: the others end in time and name it, no checkpoint is lost, and fewer ranks can
// continue.
#include <fmt/format.h>

#include <algorithm>

#include "tests/distributed/runs/rank_runs.h"

namespace genesis::testing {
namespace {

using FailedRuns = RankRuns;

// Kills the ranks in turn: while they start and compile, and later after each checkpoint, while they train and write.
TEST_F(FailedRuns, KilledAtAnyMomentLoseNoCheckpoint) {
  const int steps = 240;
  expect_ok(run_ranks(2, sharing(steps, {"--checkpoint-every", "3", "-o", path("whole.genesis")})));
  fs::remove_all(path("run"));
  const Words resumed = sharing(steps, {"--checkpoint-every", "3", "--resume", "-o", path("parts.genesis")});
  EXPECT_NE(run_ranks(2, resumed, signal_to(0, "9", "sleep 0.3")).code, 0);
  int64_t newest = newest_step();
  int killed = 0;
  for (; killed < 8; ++killed) {
    const std::string moment = fmt::format("{}; sleep {}", until(newer_than(newest)), 0.02 * killed);
    const Process process = run_ranks(2, resumed, signal_to(killed % 2, "9", moment));
    EXPECT_FALSE(process.timed_out);
    const int64_t now = newest_step();
    EXPECT_GT(now, newest) << "a checkpoint was lost, or nothing was resumed: " << process.err;
    newest = now;
    if (process.code == 0) break;
  }
  EXPECT_GE(killed, 2) << "the run ended before it could be killed";
  expect_ok(run_ranks(2, resumed));
  EXPECT_EQ(read_text(path("whole.genesis")), read_text(path("parts.genesis")));
  for (const std::string& file : files_in(path("run")))
    EXPECT_EQ(file.find(".tmp-"), std::string::npos) << file;
}

TEST_F(FailedRuns, ARankThatIsStoppedEndsTheOthers) {
  const Process process =
      run_ranks(2, sharing(1000000, {"--checkpoint-every", "5"}), signal_to(1, "STOP", until(newer_than(0))));
  EXPECT_FALSE(process.timed_out);
  EXPECT_NE(process.code, 0);
  EXPECT_NE(process.err.find("rank 1 (host "), std::string::npos) << process.err;
  EXPECT_NE(process.err.find("has said nothing for"), std::string::npos) << process.err;
  const int64_t step = newest_step();
  EXPECT_GT(step, 0);
  Words alone = train_words("qwen2", static_cast<int>(step) + 2, {"--checkpoint", path("run"), "--resume"});
  expect_ok(run_tool("genesis-run", alone));
  EXPECT_EQ(newest_step(), step + 2);
}

// The other ranks report it before mpirun, which notices it too, ends them.
TEST_F(FailedRuns, ARankThatIsKilledIsNamedByTheOthers) {
  const Process process =
      run_ranks(2, sharing(1000000, {"--checkpoint-every", "1000", "--metrics", path("m.jsonl")}),
                signal_to(1, "9", until("[ -s " + path("m.jsonl") + " ]")));
  EXPECT_NE(process.code, 0);
  EXPECT_NE(process.err.find("entry point 'train_step'"), std::string::npos) << process.err;
  EXPECT_NE(process.err.find("rank 1 (host "), std::string::npos) << process.err;
  EXPECT_NE(process.err.find(") has ended without a word"), std::string::npos) << process.err;
}

// After an answer, rank 0 waits for a line of an input that stays open, while the other rank waits at the next meeting.
TEST_F(FailedRuns, ARankThatIsKilledIsNamedAtThePrompt) {
  expect_ok(run_tool("genesis-build", {"tokenizer", TinyModels::get().text(), "-o", path("tokens"),
                                       "--vocab-size", "300", "--chat"}));
  expect_ok(run_tool("genesis-build",
                     {"qwen2", "-o", path("m.genesis"), "--set", "vocab_size=300", "--set", "hidden_size=64",
                      "--set", "num_hidden_layers=1", "--set", "num_attention_heads=2", "--set",
                      "num_key_value_heads=2", "--set", "intermediate_size=64"}));
  const std::string open_input =
      on_rank(0, fmt::format("mkfifo {0}; exec <>{0} >{1}; echo a >&0", path("lines"), path("answers")));
  const Process process =
      run_ranks(2, {"chat", path("m.genesis"), "--tokenizer", path("tokens"), "--mesh", "tensor=2"},
                open_input + "\n" + signal_to(1, "9", until("[ -s " + path("answers") + " ]")));
  EXPECT_NE(process.code, 0);
  EXPECT_FALSE(process.timed_out);
  EXPECT_NE(process.err.find("rank 1 (host "), std::string::npos) << process.err;
  EXPECT_NE(process.err.find(") has ended without a word"), std::string::npos) << process.err;
}

// One rank may only use a few hundred MiB, and a step takes more.
TEST_F(FailedRuns, ARankWithoutMemoryIsNamed) {
  std::string text;
  for (int i = 0; i < 60000; ++i) text += "the cat sat on the mat ";
  write_text(path("long.txt"), text);
  const Words words = {"train",   tiny("qwen2.train.genesis"),
                       "--data",  path("long.txt"),
                       "--batch", "8192",
                       "--seq",   "48",
                       "--steps", "2",
                       "--quiet", "--mesh",
                       "data=2",  "--device",
                       "cpu"};
  const Process process = run_ranks(2, words, on_rank(1, "ulimit -v 400000"));
  EXPECT_NE(process.code, 0);
  EXPECT_FALSE(process.timed_out);
  EXPECT_NE(process.err.find("rank 1 (host "), std::string::npos) << process.err;
  EXPECT_NE(process.err.find("memory"), std::string::npos) << process.err;
}

TEST_F(FailedRuns, WhatDiffersIsNamedByRank) {
  for (const char* folder : {"a", "b"}) fs::create_directory(path(folder));
  fs::copy_file(tiny("qwen2.genesis"), path("a/m.genesis"));
  fs::copy_file(tiny("qwen3.genesis"), path("b/m.genesis"));
  const Words words = {"train",   "m.genesis", "--optimizer", "adamw", "--data",  TinyModels::get().text(),
                       "--batch", "4",         "--seq",       "16",    "--steps", "2",
                       "--quiet", "--mesh",    "data=2"};
  const std::string in_folders = "cd " + path("a") + "\n" + on_rank(1, "cd " + path("b"));
  const auto refusal = [&](const std::string& before) {
    const Process process = run_ranks(2, words, before);
    EXPECT_NE(process.code, 0);
    EXPECT_FALSE(process.timed_out);
    return process.err;
  };
  const std::string files = refusal(in_folders);
  EXPECT_NE(files.find("the training step differs between ranks: rank 0 (host "), std::string::npos) << files;
  EXPECT_NE(files.find("on rank 1"), std::string::npos) << files;
  const std::string options = refusal("cd " + path("a") + "\n" + on_rank(1, "set -- \"$@\" --zero 1"));
  EXPECT_NE(options.find("what is shared and kept differs between ranks"), std::string::npos) << options;
  EXPECT_EQ(options.find("differs between"), options.rfind("differs between")) << options;
}

// All ranks read the first rank's file.
TEST_F(FailedRuns, FilesOfOtherNamesAreNamedByRank) {
  const Words words = train_words("qwen2", 2, {"--mesh", "data=2"});
  const Process process =
      run_ranks(2, words, on_rank(1, "tool=$1\nshift 3\nset -- \"$tool\" train /nonexistent.genesis \"$@\""));
  EXPECT_NE(process.code, 0);
  EXPECT_NE(process.err.find("the name of the model file differs between ranks"), std::string::npos)
      << process.err;
  EXPECT_NE(process.err.find("/nonexistent.genesis"), std::string::npos) << process.err;
}

// The passes of one rank differ, as those of another build may.
TEST_F(FailedRuns, OtherExchangesAreNamedByRank) {
  const Process process = run_ranks(2, train_words("qwen2", 2, {"--mesh", "data=2"}),
                                    on_rank(1, "export GENESIS_DISABLE=distribute"));
  EXPECT_NE(process.code, 0);
  EXPECT_FALSE(process.timed_out);
  EXPECT_NE(process.err.find("what the training step exchanges along 'data' differs between ranks: rank 0"),
            std::string::npos)
      << process.err;
}

// Simulates two hosts without a common file system.
TEST_F(FailedRuns, AFolderThatRanksDoNotShareIsAnErrorAtTheStart) {
  for (const char* folder : {"a", "b"}) fs::create_directory(path(folder));
  const Words words = train_words("qwen2", 4, {"--mesh", "data=2", "--checkpoint", "run"});
  const Process process = run_ranks(2, words, "cd " + path("a") + "\n" + on_rank(1, "cd " + path("b")));
  EXPECT_NE(process.code, 0);
  EXPECT_NE(process.err.find("the folder of checkpoints, which all ranks must share, differs between ranks"),
            std::string::npos)
      << process.err;
}

// A program without its module beside it reports that once, before it starts any rank.
TEST_F(FailedRuns, AMissingModuleIsSaidInOneLine) {
  fs::create_directory(path("tools"));
  fs::copy_file(tool_path("genesis-run"), path("tools/genesis-run"));
  const std::string library = "libgenesis.so.0";
  if (const fs::path shared = fs::path(tool_path("")) / ".." / library; fs::exists(shared))
    fs::copy_file(shared, path(library));
  // A folder that is searched first might contain a library with its module.
  const Words alone = {"/usr/bin/env", "-u", "LD_LIBRARY_PATH", path("tools/genesis-run")};
  const Process process =
      run_process(alone + train_words("qwen2", 2, {"--mesh", "data=2", "--device", "cpu"}));
  EXPECT_NE(process.code, 0);
  EXPECT_NE(process.err.find("libgenesis_mpi.so is not there"), std::string::npos) << process.err;
  EXPECT_EQ(std::count(process.err.begin(), process.err.end(), '\n'), 1) << process.err;
}

TEST_F(FailedRuns, ABatchThatRanksDoNotDivideSaysWhichTheyDo) {
  const Words words = {"train",   tiny("qwen2.train.genesis"),
                       "--data",  TinyModels::get().text(),
                       "--batch", "5",
                       "--seq",   "16",
                       "--steps", "2",
                       "--quiet", "--mesh",
                       "data=3"};
  const Process process = run_ranks(3, words);
  EXPECT_NE(process.code, 0);
  EXPECT_NE(process.err.find("cannot be shared by 3 ranks along 'data': take"), std::string::npos)
      << process.err;
  EXPECT_EQ(process.err.find("cannot be shared"), process.err.rfind("cannot be shared"))
      << "the first rank says it for all: " << process.err;
}

// All tools read a checkpoint in several part files as one model.
TEST_F(FailedRuns, PartsAreOneModelToTools) {
  expect_ok(run_ranks(2, sharing(4, {"-o", path("whole.genesis")})));
  const Words data = {"--data", TinyModels::get().text(), "--seq", "16", "--json"};
  const auto loss_of = [&](const std::string& file) {
    return expect_json(run_tool("genesis-run", Words{"eval", path(file)} + data))["loss"].get<double>();
  };
  EXPECT_EQ(loss_of("run"), loss_of("whole.genesis"));
  expect_ok(run_tool("genesis-run", {"export", path("run"), "-o", path("from_parts"), "--quiet"}));
  expect_ok(run_tool("genesis-run", {"export", path("whole.genesis"), "-o", path("from_whole"), "--quiet"}));
  EXPECT_EQ(files_in(path("from_parts")), files_in(path("from_whole")));
  EXPECT_EQ(read_text(path("from_parts/model.safetensors")), read_text(path("from_whole/model.safetensors")));
}

TEST_F(FailedRuns, EvaluationsOfRanksAgreeWithOne) {
  const auto losses = [&](const Words& more) {
    const Words words = train_words(
        "qwen2", 6, Words{"--eval-data", TinyModels::get().text(), "--eval-every", "2", "--json"} + more);
    return expect_json(run_tool("genesis-run", words))["evaluation_loss"].get<double>();
  };
  const double alone = losses({});
  EXPECT_NEAR(losses({"--mesh", "data=2"}), alone, 1e-5 * alone)
      << "of parameters that differ in their last bits";
}

}  // namespace
}  // namespace genesis::testing
