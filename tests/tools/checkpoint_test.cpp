// Tests that a run which was stopped in any way resumes as if it had not been stopped: the same parameters, bit for
// bit.
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <csignal>

#include "schema/file/json_text.h"
#include "tests/tools/tool_test.h"

namespace genesis::testing {
namespace {

class Checkpoints : public ToolTest {
 protected:
  Process train(const std::string& model, int steps, const Words& more,
                const ProcessOptions& options = {}) const {
    return run_tool("genesis-run", train_words(model, steps, more), options);
  }
  // Does the same with words about progress on stderr.
  Process train_aloud(const std::string& model, int steps, const Words& more,
                      const ProcessOptions& options) const {
    Words words = train_words(model, steps, more);
    std::erase(words, "--quiet");
    return run_tool("genesis-run", words, options);
  }
  // Returns the newest checkpoint. A running command may write and remove files meanwhile.
  std::string newest() const {
    std::string newest;
    std::error_code error;
    for (fs::directory_iterator at(folder() / "run", error), end; at != end; at.increment(error))
      if (const std::string name = at->path().filename(); name.starts_with("step-"))
        newest = std::max(newest, "run/" + name);
    return newest;
  }
};

class Killed : public Checkpoints, public ::testing::WithParamInterface<const char*> {};

// gpt2 has dropout, so its random numbers must also continue.
TEST_P(Killed, AndResumedGivesTheSameBits) {
  const std::string model = GetParam();
  const int steps = 400;
  expect_ok(train(model, steps, {"-o", path("whole.genesis")}));
  const Words resume = {"--checkpoint",        path("run"), "--checkpoint-every", "7", "--resume", "-o",
                        path("parts.genesis"), "--metrics", path("m.jsonl")};
  int killed = 0;
  for (; killed < 8; ++killed) {
    // The run is killed a few milliseconds after its first checkpoint: in any step, or while it writes the next one.
    const std::string before = newest();
    int more = killed;
    const auto has_written = [&] { return newest() > before && more-- == 0; };
    const Process process = train(model, steps, resume, {.kill_once = has_written});
    EXPECT_GT(newest(), before) << "nothing was resumed";
    if (process.code == 0) break;
    ASSERT_EQ(process.code, 128 + 9) << process.err;
  }
  expect_ok(train(model, steps, resume));
  EXPECT_GE(killed, 3) << "the run ended before it could be killed";
  EXPECT_EQ(read_text(path("whole.genesis")), read_text(path("parts.genesis")));
  int step = 0;
  std::istringstream metrics(read_text(path("m.jsonl")));
  for (std::string line; std::getline(metrics, line);) EXPECT_EQ(parse_json_text(line)["step"], ++step);
  EXPECT_EQ(step, steps);
  for (const std::string& file : files_in(folder())) EXPECT_EQ(file.find(".tmp-"), std::string::npos) << file;
}

INSTANTIATE_TEST_SUITE_P(Models, Killed, ::testing::Values("qwen2", "gpt2"),
                         [](const auto& info) { return std::string(info.param); });

TEST_F(Checkpoints, ADamagedOneIsPassedOver) {
  expect_ok(train("qwen2", 20, {"-o", path("whole.genesis")}));
  expect_ok(train("qwen2", 12, {"--checkpoint", path("run"), "--checkpoint-every", "4"}));
  std::string bytes = read_text(path(newest()));
  bytes[bytes.size() - 100] ^= 1;
  write_text(path(newest()), bytes);
  const Process resumed = train(
      "qwen2", 20,
      {"--checkpoint", path("run"), "--resume", "-o", path("parts.genesis"), "--metrics", path("m.jsonl")});
  expect_ok(resumed);
  EXPECT_NE(resumed.err.find("step-000000012.genesis"), std::string::npos) << resumed.err;
  EXPECT_EQ(
      parse_json_text(read_text(path("m.jsonl")).substr(0, read_text(path("m.jsonl")).find('\n')))["step"],
      9);
  EXPECT_EQ(read_text(path("whole.genesis")), read_text(path("parts.genesis")));
}

// A damaged checkpoint of a later step does not displace those written after it was skipped.
TEST_F(Checkpoints, ADamagedOneDoesNotCountAmongThoseToKeep) {
  expect_ok(train("qwen2", 12, {"--checkpoint", path("run"), "--checkpoint-every", "4"}));
  fs::resize_file(path(newest()), 100);
  const Words more = {"--checkpoint", path("run"), "--checkpoint-every", "1", "--keep", "1", "--resume"};
  expect_ok(train("qwen2", 10, more));
  EXPECT_EQ(files_in(folder() / "run"),
            (std::set<std::string>{"step-000000010.genesis", "step-000000012.genesis"}));
  expect_ok(train("qwen2", 13, more));
  EXPECT_EQ(files_in(folder() / "run"), std::set<std::string>{"step-000000013.genesis"});
}

TEST_F(Checkpoints, AFullDiskLeavesThePreviousOne) {
  expect_ok(train("qwen2", 20, {"-o", path("whole.genesis")}));
  expect_ok(train("qwen2", 5, {"--checkpoint", path("run")}));
  const std::string before = read_text(path(newest()));
  ProcessOptions full;
  full.largest_file_bytes = before.size() / 2;
  expect_error(train("qwen2", 20, {"--checkpoint", path("run"), "--resume"}, full),
               {"step-000000020.genesis", "too low", "unchanged"});
  // Checkpoints written in parallel with steps.
  expect_error(
      train("qwen2", 20, {"--checkpoint", path("run"), "--resume", "--checkpoint-every", "6"}, full),
      {"step-000000006.genesis", "too low", "unchanged", "of 20; this run had not written a checkpoint"});
  EXPECT_EQ(files_in(folder() / "run"), std::set<std::string>{"step-000000005.genesis"});
  EXPECT_EQ(read_text(path(newest())), before);
  expect_ok(train("qwen2", 20, {"--checkpoint", path("run"), "--resume", "-o", path("parts.genesis")}));
  EXPECT_EQ(read_text(path("whole.genesis")), read_text(path("parts.genesis")));
}

TEST_F(Checkpoints, OnlyDamagedOnesAreAnErrorAndNotANewBeginning) {
  expect_ok(train("qwen2", 4, {"--checkpoint", path("run"), "--checkpoint-every", "2"}));
  for (const std::string& file : files_in(folder() / "run")) fs::resize_file(path("run/" + file), 100);
  for (const Words& words : {Words{"--resume"}, Words{}})
    expect_error(train("qwen2", 8, Words{"--checkpoint", path("run")} + words),
                 words.empty()
                     ? Words{"holds checkpoints already"}
                     : Words{"all checkpoints", "step-000000002.genesis", "step-000000004.genesis"});
  EXPECT_EQ(files_in(folder() / "run"),
            (std::set<std::string>{"step-000000002.genesis", "step-000000004.genesis"}));
}

TEST_F(Checkpoints, OfTwoRunsAtOnceAreRefusedToTheSecond) {
  expect_ok(train("qwen2", 2, {"--checkpoint", path("run")}));
  const int other = open(path("run/.lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  ASSERT_EQ(flock(other, LOCK_EX), 0);
  ASSERT_GT(write(other, "process 7 on host afar since noon\n", 34), 0);
  for (const char* mode : {"--resume", "--quiet"})
    expect_error(train("qwen2", 4, {"--checkpoint", path("run"), mode}),
                 {path("run"), "in use", "process 7 on host afar since noon", "another folder"});
  expect_ok(run_tool("genesis-run", {"info", path("run/step-000000002.genesis"), "--verify"}));
  close(other);
  expect_ok(train("qwen2", 4, {"--checkpoint", path("run"), "--resume"}));
}

TEST_F(Checkpoints, AreWrittenWhenSomeoneAsksToStop) {
  expect_ok(train("qwen2", 4000, {"-o", path("whole.genesis")}));
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const std::string before = newest();
    const Process process = train_aloud("qwen2", 4000, {"--checkpoint", path("run"), "--resume", "--json"},
                                        {.kill_once_it_says = "/4000  loss", .signal = signal});
    EXPECT_EQ(process.code, 128 + signal) << process.err;
    EXPECT_NE(newest(), before);
    const auto json = parse_json_text(process.out);
    EXPECT_NE(process.err.find("interrupted at step " + json["step"].dump() + " of 4000, saved as " +
                               path(newest())),
              std::string::npos)
        << process.err;
    EXPECT_EQ(json["checkpoint"], path(newest()));
    EXPECT_EQ(json["stopped"], signal == SIGINT ? "SIGINT" : signal == SIGTERM ? "SIGTERM" : "SIGHUP");
  }
  expect_ok(train("qwen2", 4000, {"--checkpoint", path("run"), "--resume", "-o", path("parts.genesis")}));
  EXPECT_EQ(read_text(path("whole.genesis")), read_text(path("parts.genesis")));
}

using Ends = Checkpoints;

TEST_F(Ends, OfAnInterruptedRunSayWhatIsKept) {
  const ProcessOptions options = {.kill_once_it_says = "/100000  loss", .signal = SIGINT};
  const Process kept = train_aloud("qwen2", 100000, {"-o", path("part.genesis")}, options);
  EXPECT_EQ(kept.code, 130);
  EXPECT_EQ(kept.out, "");
  EXPECT_NE(kept.err.find(", saved as " + path("part.genesis")), std::string::npos) << kept.err;
  EXPECT_TRUE(fs::exists(path("part.genesis")));
  const Process lost = train_aloud("qwen2", 100000, {}, options);
  EXPECT_EQ(lost.code, 130);
  EXPECT_NE(lost.err.find("genesis-run: warning: nothing of this run will be kept"), std::string::npos)
      << lost.err;
  EXPECT_NE(lost.err.find(" of 100000, nothing is kept"), std::string::npos) << lost.err;
}

TEST_F(Ends, OfTheTimeGivenAreSaid) {
  const Words minutes = {
      "--minutes",      "0.005", "--checkpoint", path("run"), "--eval-data", TinyModels::get().text(),
      "--eval-batches", "2"};
  const std::string said = expect_ok(train("qwen2", 100000, minutes));
  EXPECT_EQ(said.find("stopped at step "), 0u) << said;
  EXPECT_NE(said.find(" of 100000 since the 0.005 minutes are over, saved as " + path(newest())),
            std::string::npos)
      << said;
  const auto json = expect_json(train("qwen2", 100000, minutes + Words{"--resume", "--json"}));
  EXPECT_EQ(json["stopped"], "minutes");
  EXPECT_LT(json["step"], json["steps"]);
  EXPECT_TRUE(json.contains("evaluation_loss")) << json;
  EXPECT_TRUE(fs::exists(path("run/best.genesis")));
}

TEST_F(Ends, OfFewerStepsThanAreDoneAreRefused) {
  expect_ok(train("qwen2", 4, {"--checkpoint", path("run")}));
  expect_error(train("qwen2", 3, {"--checkpoint", path("run"), "--resume", "-o", path("o.genesis")}),
               {"--steps 3", "4 steps are done already"});
  EXPECT_FALSE(fs::exists(path("o.genesis")));
  expect_ok(train("qwen2", 4, {"--checkpoint", path("run"), "--resume", "-o", path("o.genesis")}));
  EXPECT_TRUE(fs::exists(path("o.genesis")));
}

// If the output cannot be written at the end, the checkpoint keeps the work.
TEST_F(Ends, WithoutRoomForTheOutputSayWhereTheWorkIs) {
  fs::create_directory(path("out"));
  const Words words =
      train_words("qwen2", 1000000,
                  {"--checkpoint", path("run"), "--checkpoint-every", "1", "-o", path("out/o.genesis")});
  std::string command = tool_path("genesis-run");
  for (const std::string& word : words) command += " '" + word + "'";
  // The folder is removed once the run has begun.
  const Process process =
      run_process({"sh", "-c",
                   command + " & until ls '" + path("run") +
                       "' 2>/dev/null | grep -q '^step'; do kill -0 $! || exit 9; sleep 0.02; done; rm -r '" +
                       path("out") + "'; kill -TERM $!; wait $!"});
  EXPECT_EQ(process.code, 1);
  for (const std::string& part : {std::string("reached step "), std::string(" of 1000000"),
                                  "kept in " + path("run"), std::string("--resume")})
    EXPECT_NE(process.err.find(part), std::string::npos) << "no '" << part << "' in: " << process.err;
  expect_ok(
      train("qwen2", 1000000,
            {"--checkpoint", path("run"), "--resume", "--minutes", "0.001", "-o", path("other.genesis")}));
}

TEST_F(Checkpoints, OfAnotherOrderOfTheDataAreNotResumedInSilence) {
  expect_ok(train("qwen2", 2, {"--checkpoint", path("run")}));
  const Process other = train("qwen2", 4, {"--checkpoint", path("run"), "--resume", "--seed", "3"});
  expect_ok(other);
  EXPECT_NE(other.err.find("--seed 0, this run does with"), std::string::npos) << other.err;
  EXPECT_EQ(train("qwen2", 6, {"--checkpoint", path("run"), "--resume", "--seed", "3"}).err, "");
}

TEST_F(Checkpoints, OfOtherDataAreNotResumedInSilence) {
  const auto resume = [&](const std::string& data, const char* steps) {
    return run_tool("genesis-run",
                    {"train", tiny("qwen2.train.genesis"), "--data", data, "--batch", "4", "--seq", "16",
                     "--steps", steps, "--quiet", "--checkpoint", path("run"), "--resume"});
  };
  expect_ok(resume(TinyModels::get().text(), "2"));
  std::string text = read_text(TinyModels::get().text());
  write_text(path("text.txt"), text);
  EXPECT_EQ(resume(path("text.txt"), "3").err, "") << "the same text in another place";
  std::replace(text.begin(), text.end(), 'e', 'o');
  write_text(path("other.txt"), text);
  const Process other = resume(path("other.txt"), "4");
  expect_ok(other);
  EXPECT_NE(other.err.find("were made of other data than " + path("other.txt")), std::string::npos)
      << other.err;
}

// A finished schedule teaches nothing more, which the run reports. Another training begins if it is requested.
TEST_F(Checkpoints, OfAFinishedScheduleBeginAnotherTraining) {
  const Words with = {"--data", TinyModels::get().text(), "--batch", "4", "--seq", "16"};
  const auto run = [&](const std::string& file, const std::string& steps, const Words& more) {
    return run_tool("genesis-run",
                    Words{"train", file, "--steps", steps, "--metrics", path("m.jsonl")} + with + more);
  };
  const auto last_rate = [&] {
    std::istringstream rows(read_text(path("m.jsonl")));
    double rate = -1;
    for (std::string line; std::getline(rows, line);) rate = parse_json_text(line)["lr"];
    fs::remove(path("m.jsonl"));
    return rate;
  };
  const Words schedule = {"--optimizer", "adamw,lr=1e-3,schedule=cosine,warmup=2,total=4"};
  const Process first =
      run(tiny("qwen2.genesis"), "4", schedule + Words{"-o", path("a.genesis"), "--checkpoint", path("run")});
  expect_ok(first);
  EXPECT_EQ(first.err.find("learning rate is 0"), std::string::npos) << first.err;
  last_rate();
  const Process over = run(path("a.genesis"), "3", {"-o", path("b.genesis")});
  expect_ok(over);
  EXPECT_NE(over.err.find("the learning rate is 0, so"), std::string::npos) << over.err;
  EXPECT_NE(over.err.find("has come to its end"), std::string::npos) << over.err;
  const Process none = run(tiny("qwen2.genesis"), "3", {"--optimizer", "sgd,lr=0", "-o", path("b.genesis")});
  EXPECT_NE(none.err.find("the learning rate is 0 from the first step on"), std::string::npos) << none.err;
  EXPECT_EQ(none.err.find("come to its end"), std::string::npos) << none.err;
  EXPECT_EQ(last_rate(), 0);
  for (const std::string& from : {path("a.genesis"), path(newest())}) {
    const Process anew = run(from, "3", {"--optimizer", "sgd,lr=0.5", "-o", path("c.genesis")});
    expect_ok(anew);
    EXPECT_EQ(anew.err.find("learning rate is 0"), std::string::npos) << anew.err;
    EXPECT_EQ(last_rate(), 0.5);
    const std::string text = expect_ok(run_tool("genesis-run", {"info", path("c.genesis")}));
    EXPECT_EQ(text.find(".m"), std::string::npos) << "AdamW's moments are gone: " << text;
  }
  expect_ok(run_tool("genesis-opt", {path("a.genesis"), "--train", "sgd,lr=0.5", "-o", path("d.genesis")}));
  expect_ok(run(path("d.genesis"), "2", {"-o", path("e.genesis")}));
  EXPECT_EQ(last_rate(), 0.5);
  expect_ok(run(path("a.genesis"), "2", {"--lora", "2", "-o", path("f.genesis")}));
}

TEST_F(Checkpoints, AreNotOverwrittenByAFreshRun) {
  expect_ok(train("qwen2", 2, {"--checkpoint", path("run")}));
  const std::string before = read_text(path(newest()));
  expect_error(train("qwen2", 2, {"--checkpoint", path("run")}), {"run", "--resume"});
  EXPECT_EQ(read_text(path(newest())), before);
}

TEST_F(Checkpoints, RunByThemselvesAsModels) {
  expect_ok(train("qwen2", 2, {"--checkpoint", path("run")}));
  const Words more = {"--prompt", "a", "--max-tokens", "3"};
  const std::string text = expect_ok(run_tool("genesis-run", Words{"generate", path(newest())} + more));
  EXPECT_EQ(expect_ok(run_tool("genesis-run", Words{"generate", path("run")} + more)), text) << "its newest";
  expect_ok(run_tool("genesis-run", Words{"generate", path("run"), "--batch", "2"} + more));
  expect_error(run_tool("genesis-run", Words{"generate", path(".")} + more), {"no checkpoint"});
}

// Covers every command that reads a model. A page is named after the file that it shows.
TEST_F(Checkpoints, OfAFolderAreTheNewestForEveryTool) {
  expect_ok(train("qwen2", 2, {"--checkpoint", path("run")}));
  const std::string folder = path("run"), file = path(newest());
  EXPECT_EQ(expect_json(run_tool("genesis-run", {"info", folder, "--json"}))["file"], file);
  const Words sizes = {"--entry", "loss", "--size", "batch=1", "--size", "seq=4"};
  for (const char* command : {"infer", "profile", "compare", "bench"}) {
    const Words more = command == std::string("bench") ? Words{"--runs", "1"} : Words{};
    expect_ok(run_tool("genesis-run", Words{command, folder} + sizes + more));
  }
  expect_ok(run_tool("genesis-opt", {folder, "--check", "cpu", "--entry", "loss"}));
  expect_ok(run_tool("genesis-opt", {folder, "--inference", "-o", path("served.genesis")}));
  expect_ok(
      run_tool("genesis-viz", {folder + "/", "--graph-only", "--compare", folder, "-o", path("page.json")}));
  EXPECT_NE(read_text(path("page.json")).find(newest().substr(4)), std::string::npos);
  for (const char* tool : {"genesis-opt", "genesis-viz"})
    expect_error(run_tool(tool, {path("."), "-o", path("none.svg")}), {path("."), "no checkpoint"});
}

// The training continues as with the file of a checkpoint, unless another training is requested.
TEST_F(Checkpoints, OfAFolderGoOnWithItsTrainingElsewhere) {
  const auto run = [&](int steps, const Words& more) {
    Words words = train_words("qwen2", steps, more);
    words[1] = path("run");
    return run_tool("genesis-run", words);
  };
  expect_ok(train("qwen2", 4, {"-o", path("whole.genesis")}));
  expect_ok(train("qwen2", 2, {"--checkpoint", path("run")}));
  const std::string file = path(newest());
  const Process parts = run(4, {"-o", path("parts.genesis"), "--checkpoint", path("other")});
  expect_ok(parts);
  EXPECT_NE(parts.err.find("the training goes on from its newest checkpoint, " + file), std::string::npos)
      << parts.err;
  EXPECT_EQ(read_text(path("whole.genesis")), read_text(path("parts.genesis")));
  const Process anew = run(2, {"-o", path("anew.genesis"), "--optimizer", "sgd,lr=0.5"});
  expect_ok(anew);
  EXPECT_NE(anew.err.find("another training begins with the weights of its newest checkpoint"),
            std::string::npos);
  expect_error(run(4, {"--checkpoint", path("run")}), {path("run"), "--resume"});
  const Process resumed = run(4, {"--checkpoint", path("run"), "--resume", "-o", path("resumed.genesis")});
  expect_ok(resumed);
  EXPECT_EQ(resumed.err.find("newest checkpoint"), std::string::npos) << resumed.err;
  EXPECT_EQ(read_text(path("whole.genesis")), read_text(path("resumed.genesis")));
}

using Bits = ToolTest;

TEST_F(Bits, AreTheSameWhateverTheThreads) {
  for (const char* model : {"gpt2", "qwen3"}) {
    std::string trained, text;
    for (const char* threads : {"1", "2", "4", "4"}) {
      expect_ok(
          run_tool("genesis-run", train_words(model, 12, {"--threads", threads, "-o", path("t.genesis")})));
      const std::string bytes = read_text(path("t.genesis"));
      if (trained.empty()) trained = bytes;
      EXPECT_EQ(bytes, trained) << model << " with " << threads << " threads";
      const std::string written = expect_ok(run_tool(
          "genesis-run", {"generate", path("t.genesis"), "--prompt", "the quick", "--seed", "9", "--top-k",
                          "50", "--top-p", "0.9", "--max-tokens", "20", "--threads", threads}));
      if (text.empty()) text = written;
      EXPECT_EQ(written, text) << model << " with " << threads << " threads";
    }
  }
}

TEST_F(Bits, DependOnTheSeed) {
  std::set<std::string> texts;
  for (const char* seed : {"1", "2", "3"})
    texts.insert(expect_ok(run_tool("genesis-run", {"generate", tiny("qwen2.genesis"), "--prompt", "a",
                                                    "--seed", seed, "--max-tokens", "20"})));
  EXPECT_EQ(texts.size(), 3u);
}

using Nonfinite = ToolTest;

TEST_F(Nonfinite, LossStopsTheRunAndTheNodeIsNamedOnRequest) {
  for (const std::string model : {"qwen2", "mlp"}) {
    const std::string hot = path(model + ".hot.genesis");
    expect_ok(run_tool("genesis-opt", {tiny(model + ".genesis"), "--train", "sgd,lr=1e30", "-o", hot}));
    const Words data = model == "mlp" ? Words{"--data", TinyModels::get().rows()}
                                      : Words{"--data", TinyModels::get().text(), "--seq", "16"};
    const Words words =
        Words{"train", hot, "--quiet", "-o", path("out.genesis"), "--checkpoint", path("run")} + data;
    expect_error(run_tool("genesis-run", words),
                 {"the loss is ", "at step ", "--find-nonfinite", "learning rate"});
    // The names are the author's, not those of passes.
    const std::string scope = model == "mlp" ? "node 'layers." : "node 'model.";
    expect_error(run_tool("genesis-run", words + Words{"--find-nonfinite"}),
                 {scope, "is the first to produce"});
    EXPECT_FALSE(fs::exists(path("out.genesis")));
    EXPECT_EQ(files_in(folder() / "run"), std::set<std::string>{});
  }
}

TEST_F(Nonfinite, InputsAreNotBlamedOnANode) {
  for (const auto& [input, what] : {std::pair{"x=full:nan", "NaN"}, std::pair{"x=full:-inf", "an infinity"}})
    expect_error(
        run_tool("genesis-run", {"infer", tiny("mlp.genesis"), "--input", input, "--find-nonfinite"}),
        {"'layers.0.linear'", "it was given one", std::string("input 'x' held ") + what});
}

TEST_F(Nonfinite, IsNotFoundWhereAllIsWell) {
  for (const char* model : {"gpt2", "qwen2", "qwen3"})
    expect_ok(run_tool("genesis-run", train_words(model, 3, {"--find-nonfinite", "--no-optimize"})));
}

}  // namespace
}  // namespace genesis::testing
