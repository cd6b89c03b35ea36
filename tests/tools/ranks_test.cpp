// Tests training on several ranks that the tool starts by itself, and checkpoints continued with another number of
// ranks.
#include "executor/distributed/local_launch.h"
#include "schema/file/json_text.h"
#include "tests/distributed/why_no_ranks.h"
#include "tests/tools/tool_test.h"

namespace genesis::testing {
namespace {

class SharingRanks : public ToolTest {
 protected:
  void SetUp() override {
    ToolTest::SetUp();
    if (const std::string why = why_no_ranks(); !why.empty()) GTEST_SKIP() << why;
  }
  std::vector<double> losses(const Words& more) const {
    const std::string metrics = path("metrics.jsonl");
    expect_ok(run_tool("genesis-run", train_words("qwen2", 6, more + Words{"--metrics", metrics})));
    std::vector<double> losses;
    std::istringstream rows(read_text(metrics));
    for (std::string line; std::getline(rows, line);) losses.push_back(parse_json_text(line)["loss"]);
    std::filesystem::remove(metrics);
    return losses;
  }
  Process train(const std::string& mesh, const std::string& zero, int steps, const Words& more) const {
    return run_tool("genesis-run", train_words("qwen2", steps, more + Words{"--mesh", mesh, "--zero", zero}));
  }
};

// Starts on two ranks and continues on four, with sharded and with full states: the same file results.
TEST_F(SharingRanks, GoOnWithAnotherNumberOfThem) {
  for (const std::string zero : {"0", "1", "2", "3"}) {
    const Words keep = {"--checkpoint", path("run" + zero)};
    expect_ok(train("data=2", zero, 3, keep));
    const std::set<std::string> two = {"step-000000003.genesis", "step-000000003.parts",
                                       "step-000000003.parts/rank-0.genesis",
                                       "step-000000003.parts/rank-1.genesis"};
    EXPECT_EQ(files_in(path("run" + zero)), two);
    const Words more = {"--checkpoint-every", "2", "--resume", "-o", path(zero + ".genesis")};
    expect_ok(train("data=4", zero, 7, keep + more));
    std::set<std::string> left;
    for (const std::string step : {"step-000000006", "step-000000007"}) {
      left.insert({step + ".genesis", step + ".parts"});
      for (int rank = 0; rank < 4; ++rank) left.insert(fmt::format("{}.parts/rank-{}.genesis", step, rank));
    }
    EXPECT_EQ(files_in(path("run" + zero)), left);
  }
  for (const char* shared : {"1", "2", "3"})
    EXPECT_TRUE(read_text(path(std::string(shared) + ".genesis")) == read_text(path("0.genesis"))) << shared;
}

TEST_F(SharingRanks, KeepTheirPartOfTheOptimizer) {
  const auto bytes = [](const std::string& zero, const char* of = "optimizer_bytes") {
    const nlohmann::json json = expect_json(run_tool(
        "genesis-opt", {tiny("qwen2.train.genesis"), "--check", "cpu", "--entry", "train_step", "--size",
                        "batch=4", "--size", "seq=16", "--mesh", "data=2", "--zero", zero, "--json"}));
    return json["entries"][0][of].get<int64_t>();
  };
  for (const char* stage : {"1", "2", "3"}) EXPECT_EQ(bytes(stage) * 2, bytes("0"));
  EXPECT_LT(bytes("3", "state_bytes"), bytes("2", "state_bytes"));
}

// Ranks along "data" shard the slices of ranks along "tensor". Two other ranks continue from the checkpoint of four.
TEST_F(SharingRanks, ShareSlices) {
  const Words keep = {"--checkpoint", path("run")};
  const std::vector<double> alone = losses({}),
                            shared = losses(keep + Words{"--mesh", "data=2,tensor=2", "--zero", "3"});
  ASSERT_EQ(shared.size(), alone.size());
  for (size_t i = 0; i < alone.size(); ++i) EXPECT_NEAR(shared[i], alone[i], 1e-5 * alone[i]);
  EXPECT_TRUE(files_in(path("run")).contains("step-000000006.parts/rank-3.genesis"));
  expect_ok(train("tensor=2", "0", 8, keep + Words{"--resume", "-o", path("after.genesis")}));
}

// Reports the memory and exchanges of each of 32 ranks without starting any.
TEST_F(SharingRanks, SayWhatRanksOfTwoAxesTake) {
  const auto row = [](const std::string& zero) {
    return expect_json(
        run_tool("genesis-opt",
                 {tiny("qwen2.train.genesis"), "--check", "cpu", "--entry", "train_step", "--size", "batch=8",
                  "--size", "seq=16", "--mesh", "data=8,tensor=4", "--zero", zero, "--json"}))["entries"][0];
  };
  const nlohmann::json whole = row("0"), shared = row("3");
  EXPECT_EQ(shared["optimizer_bytes"].get<int64_t>() * 8, whole["optimizer_bytes"].get<int64_t>());
  EXPECT_LT(shared["state_bytes"].get<int64_t>() * 4, whole["state_bytes"].get<int64_t>());
}

TEST_F(SharingRanks, ArePredicted) {
  const auto ms = [](const std::string& mesh, const std::string& batch) {
    const nlohmann::json json = expect_json(run_tool(
        "genesis-opt",
        {tiny("qwen2.train.genesis"), "--check", "cpu", "--entry", "train_step", "--size", "batch=" + batch,
         "--size", "seq=16", "--mesh", mesh, "--chip", "h100", "--links", "300,40,4", "--json"}));
    return json["entries"][0]["predicted"]["ms"].get<double>();
  };
  EXPECT_LT(ms("data=2", "8"), ms("data=1024", "4096"));
  const Process wrong = run_tool(
      "genesis-opt", {tiny("qwen2.train.genesis"), "--check", "cpu", "--entry", "train_step", "--size",
                      "batch=4", "--size", "seq=16", "--chip", "h100", "--links", "300,40"});
  EXPECT_NE(wrong.err.find("expected GB/s beside each other"), std::string::npos) << wrong.err;
}

TEST_F(SharingRanks, RefuseOtherDataOfTheSameName) {
  for (const char* rank : {"0", "1"}) {
    std::filesystem::create_directory(path(rank));
    write_text(path(std::string(rank) + "/text.txt"), std::string(1000, *rank));
  }
  const std::string command = "cd " + path("$OMPI_COMM_WORLD_RANK") + " && exec " + tool_path("genesis-run") +
                              " train " + tiny("qwen2.train.genesis") +
                              " --data text.txt --mesh data=2 --batch 4 --seq 16 --steps 1 --quiet";
  set_mpirun_environment();
  const Process process = run_process(mpirun_command(2, {"sh", "-c", command}));
  EXPECT_NE(process.code, 0);
  EXPECT_NE(process.err.find("the content of the data differs between ranks"), std::string::npos)
      << process.err;
}

// The line is in a place that three sample batches would not show.
TEST_F(SharingRanks, RefuseDataThatDiffersInOneLine) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += fmt::format("line {} of the text\n", i);
  for (const char* rank : {"0", "1"}) {
    std::filesystem::create_directory(path(rank));
    std::string mine = text;
    if (*rank == '1') mine.replace(mine.find("line 777"), 8, "LINE 777");
    write_text(path(std::string(rank) + "/text.txt"), mine);
  }
  const std::string command = "cd " + path("$OMPI_COMM_WORLD_RANK") + " && exec " + tool_path("genesis-run") +
                              " train " + tiny("qwen2.train.genesis") +
                              " --data text.txt --mesh data=2 --batch 4 --seq 16 --steps 1 --quiet";
  set_mpirun_environment();
  const Process process = run_process(mpirun_command(2, {"sh", "-c", command}));
  EXPECT_NE(process.code, 0);
  EXPECT_NE(process.err.find("the content of the data differs between ranks"), std::string::npos)
      << process.err;
}

// Several ranks that share nothing cause a warning, not an error.
TEST_F(ToolTest, RanksWithoutAMeshAreToldOf) {
  const Words variables[] = {{"OMPI_COMM_WORLD_SIZE=2", "OMPI_COMM_WORLD_RANK=0"},
                             {"RANK=0", "WORLD_SIZE=2"},
                             {"SLURM_STEP_ID=0", "SLURM_PROCID=0", "SLURM_NTASKS=2"}};
  const Words alone = {tool_path("genesis-run"), "generate", tiny("qwen2.genesis"), "--prompt", "a",
                       "--max-tokens",           "1"};
  for (const Words& some : variables) {
    const Process process = run_process(Words{"env"} + some + alone);
    expect_ok(process);
    EXPECT_NE(process.err.find("--mesh tensor=2 shares the work"), std::string::npos)
        << some[0] << process.err;
  }
}

TEST_F(ToolTest, RanksThatWouldWriteTheSameAreRefused) {
  expect_error(
      run_tool("genesis-run", {"generate", tiny("qwen2.genesis"), "--prompt", "a", "--mesh", "data=2"}),
      {"--mesh data=2", "give --mesh tensor=2"});
  expect_error(run_tool("genesis-run", {"generate", tiny("qwen2.train.genesis"), "--prompt", "a", "--mesh",
                                        "pipeline=2"}),
               {"--mesh pipeline=2", "nothing trains", "give --mesh tensor=2"});
}

// Two ranks that compute the layers together write the same as one rank, and only rank 0 writes.
TEST_F(SharingRanks, WriteTextTogether) {
  write_text(path("prompts.txt"), "In the beginning\nGod\n");
  const auto written = [&](const Words& more) {
    return expect_ok(
        run_tool("genesis-run", Words{"generate", tiny("qwen2.genesis"), "--prompts", path("prompts.txt"),
                                      "--temperature", "0", "--max-tokens", "12"} +
                                    more));
  };
  const Words together = {"--mesh", "tensor=2"}, at_once = {"--batch", "2"};
  EXPECT_EQ(written(together), written({}));
  EXPECT_EQ(written(together + at_once), written(at_once));
}

// The weights have 16 bits, and each rank has a shard of them.
TEST_F(SharingRanks, MeasureTogether) {
  expect_ok(run_tool("genesis-opt", {tiny("qwen2.genesis"), "--cast", "bf16", "-o", path("cast.genesis")}));
  const auto measured = [&](const Words& more) {
    return expect_json(
        run_tool("genesis-run", Words{"bench", path("cast.genesis"), "--entry", "forward", "--size",
                                      "batch=2", "--size", "seq=8", "--runs", "4", "--json"} +
                                    more));
  };
  const nlohmann::json together = measured({"--mesh", "tensor=2"});
  EXPECT_EQ(together["runs"], 4);
  EXPECT_GT(together["state_bytes"], 0);
}

// Evaluates a model that fits no single device, including the checkpoint of a training with sharded weights.
TEST_F(SharingRanks, EvaluateTogether) {
  expect_ok(train("data=2", "3", 2, {"--checkpoint", path("run")}));
  write_text(path("text.txt"), "In the beginning God created the heaven and the earth.");
  const auto evaluated = [&](const Words& more) {
    return expect_json(
        run_tool("genesis-run", Words{"eval", path("run"), "--data", path("text.txt"), "--compare",
                                      tiny("qwen2.genesis"), "--seq", "16", "--json"} +
                                    more));
  };
  const nlohmann::json alone = evaluated({}), together = evaluated({"--mesh", "tensor=2"});
  EXPECT_NEAR(together["loss"].get<double>(), alone["loss"].get<double>(), 1e-5);
  EXPECT_NEAR(together["loss_difference"].get<double>(), alone["loss_difference"].get<double>(), 1e-5);
  EXPECT_EQ(together["tokens"], alone["tokens"]);
  expect_error(run_tool("genesis-run", {"eval", path("run"), "--data", path("text.txt"), "--mesh", "data=2"}),
               {"--mesh data=2", "give --mesh tensor=2"});
}

TEST_F(SharingRanks, MeasureWhatTheyShare) {
  const auto measured = [&](const char* command, const char* zero) {
    return expect_json(run_tool("genesis-run", {command, tiny("qwen2.train.genesis"), "--entry", "train_step",
                                                "--size", "batch=4", "--size", "seq=8", "--mesh", "data=2",
                                                "--zero", zero, "--runs", "1", "--device", "cpu", "--json"}));
  };
  const auto states = [&](const char* zero) { return measured("bench", zero)["state_bytes"].get<int64_t>(); };
  EXPECT_LT(states("1"), states("0"));
  EXPECT_LT(states("3"), states("1"));
  measured("profile", "3");
}

// --size counts over all ranks, as in training and in --check.
TEST_F(SharingRanks, MeasureTheirPartOfABatch) {
  const auto sized = [&](const char* command, const char* size) {
    return Words{command,    tiny("qwen2.train.genesis"),
                 "--entry",  "train_step",
                 "--size",   size,
                 "--size",   "seq=8",
                 "--mesh",   "data=2",
                 "--device", "cpu",
                 "--runs",   "2",
                 "--json"};
  };
  const nlohmann::json check = expect_json(
      run_tool("genesis-opt", {tiny("qwen2.train.genesis"), "--check", "cpu", "--entry", "train_step",
                               "--size", "batch=4", "--size", "seq=8", "--mesh", "data=2", "--json"}));
  for (const char* command : {"bench", "profile"}) {
    const nlohmann::json json = expect_json(run_tool("genesis-run", sized(command, "batch=4")));
    EXPECT_EQ(json["arena_bytes"], check["entries"][0]["arena_bytes"]) << command;
    if (json.contains("tokens_per_second")) {
      EXPECT_NEAR(json["tokens_per_second"].get<double>(), 4 * 8 / json["median_ms"].get<double>() * 1e3, 1);
    }
    const Process refused = run_tool("genesis-run", sized(command, "batch=5"));
    EXPECT_NE(refused.code, 0);
    EXPECT_NE(refused.err.find("batch=5 cannot be shared by 2 ranks along 'data': take 4 or 6"),
              std::string::npos)
        << refused.err;
  }
}

// Each stage has layers and their states. With two ranks per stage, each also has a shard of the batch.
TEST_F(SharingRanks, TrainAsStagesOfAPipeline) {
  const std::vector<double> alone = losses({});
  ASSERT_EQ(alone.size(), 6u);
  for (const char* mesh : {"pipeline=2", "data=2,pipeline=2"}) {
    const std::vector<double> stages = losses({"--mesh", mesh});
    ASSERT_EQ(stages.size(), alone.size());
    for (size_t i = 0; i < alone.size(); ++i) EXPECT_NEAR(stages[i], alone[i], 1e-5 * alone[i]) << mesh;
  }
}

// The ranks compute layers together and shard the tokens between layers, over MPI.
TEST_F(SharingRanks, TrainOnPartsOfTheTokens) {
  const std::vector<double> alone = losses({});
  for (const Words& more : {Words{"--mesh", "tensor=2"},
                            {"--mesh", "data=2,tensor=2"},
                            {"--mesh", "tensor=2", "--memory-budget", "1GiB"}}) {
    const std::vector<double> together = losses(more);
    ASSERT_EQ(together.size(), alone.size());
    for (size_t i = 0; i < alone.size(); ++i)
      EXPECT_NEAR(together[i], alone[i], 1e-5 * alone[i]) << more[1] << more.size();
  }
  const auto exchanges = [](const Words& more) {
    return expect_json(run_tool(
        "genesis-opt",
        Words{tiny("qwen2.train.genesis"), "--memory-budget", "1GiB", "--check", "cpu", "--entry",
              "train_step", "--size", "batch=4", "--size", "seq=16", "--mesh", "tensor=2", "--json"} +
            more))["entries"][0];
  };
  const nlohmann::json parts = exchanges({}), whole = exchanges({"--disable", "shard_sequence"});
  EXPECT_LT(parts["arena_bytes"], whole["arena_bytes"]);
  EXPECT_GT(parts["exchanged"]["tensor"]["calls"], whole["exchanged"]["tensor"]["calls"]);
}

TEST_F(SharingRanks, SayWhatStagesDo) {
  const Words check = {"--check", "cpu", "--entry", "train_step", "--size", "batch=4", "--size", "seq=16"};
  const auto row = [&](const Words& more) {
    return expect_json(
        run_tool("genesis-opt", Words{tiny("qwen2.train.genesis")} + check + more))["entries"][0];
  };
  const nlohmann::json alone = row({"--json"}), stages = row({"--mesh", "pipeline=2", "--json"});
  ASSERT_EQ(stages["stages"].size(), 2u);
  const nlohmann::json &first = stages["stages"][0], &last = stages["stages"][1];
  EXPECT_NEAR(first["flops_share"].get<double>() + last["flops_share"].get<double>(), 1, 1e-12);
  EXPECT_NEAR(stages["bubble"].get<double>(), 0.5, 0.1);  // with one micro-batch each stage waits for the other
  const auto bytes = [](const nlohmann::json& of) { return of["state_bytes"].get<int64_t>(); };
  EXPECT_LT(bytes(first), bytes(alone));
  EXPECT_NEAR(bytes(first) + bytes(last), bytes(alone), 64);  // single numbers are on both
  expect_error(
      run_tool("genesis-opt", Words{tiny("qwen2.train.genesis")} + check + Words{"--mesh", "pipeline=50"}),
      {"50 ranks along 'pipeline' cannot share", "or fewer"});
  expect_error(run_tool("genesis-opt",
                        Words{tiny("qwen2.train.genesis")} + check + Words{"--mesh", "pipeline=2,tensor=2"}),
               {"do not go together yet"});
  expect_error(run_tool("genesis-opt", Words{tiny("qwen2.train.genesis")} + check +
                                           Words{"--mesh", "pipeline=2", "--chip", "h100"}),
               {"how long stages of a pipeline wait"});
}

// Ranks with different tasks would wait for each other forever, or learn nonsense, so their tasks are compared.
TEST_F(SharingRanks, AreComparedBeforeTheyWork) {
  const auto train = [&](const std::string& first, const std::string& second) {
    set_mpirun_environment();
    const std::string common = tool_path("genesis-run") + " train " + tiny("qwen2.train.genesis") +
                               " --data " + TinyModels::get().text() +
                               " --batch 4 --seq 16 --steps 2 --quiet --device cpu";
    const std::string command = "if [ $OMPI_COMM_WORLD_RANK = 0 ]; then more='" + first + "'; else more='" +
                                second + "'; fi; exec " + common + " $more";
    return run_process(mpirun_command(2, {"sh", "-c", command}));
  };
  const auto expect_named = [&](const char* first, const char* second, const char* what) {
    const Process process = train(first, second);
    EXPECT_NE(process.code, 0);
    EXPECT_FALSE(process.timed_out);
    EXPECT_NE(process.err.find(std::string(what) + " differs between ranks"), std::string::npos)
        << first << " / " << second << ": " << process.err;
  };
  expect_named("--mesh data=2", "--mesh tensor=2", "the mesh");
  expect_named("--mesh pipeline=2", "--mesh data=2", "the mesh");
  expect_named("--mesh data=2 --no-optimize", "--mesh data=2", "how plans are made");
  expect_named("--mesh tensor=2", "--mesh tensor=2 --disable shard_sequence", "how plans are made");
  expect_error(run_tool("genesis-run",
                        {"generate", tiny("qwen2.genesis"), "--prompt", "a", "--mesh", "tensor=1000000"}),
               {"1000000 ranks", "mpirun"});
}

// All ranks find the error.
TEST_F(SharingRanks, SayOnceWhatIsWrongWithTheirCommand) {
  const Process process =
      run_tool("genesis-run", train_words("qwen2", 2, {"--mesh", "data=2", "--max-skipped", "3"}));
  EXPECT_EQ(process.code, 2);
  const std::string said = "--max-skipped does nothing";
  const size_t first = process.err.find(said);
  ASSERT_NE(first, std::string::npos) << process.err;
  EXPECT_EQ(process.err.find(said, first + 1), std::string::npos) << process.err;
}

TEST_F(SharingRanks, SayThatZeroNeedsRanksAlongData) {
  const std::string said = "--zero 2 does nothing with --mesh tensor=2", train = tiny("qwen2.train.genesis");
  const Process along_tensor = this->train("tensor=2", "2", 1, {}),
                along_data = this->train("data=2", "2", 1, {});
  for (const Process* process : {&along_tensor, &along_data}) expect_ok(*process);
  EXPECT_NE(along_tensor.err.find(said), std::string::npos) << along_tensor.err;
  EXPECT_EQ(along_data.err.find("does nothing"), std::string::npos) << along_data.err;
  const Words mesh = {"--size", "batch=4", "--size", "seq=16", "--mesh", "tensor=2", "--zero", "2"};
  for (const Process& process :
       {run_tool("genesis-opt", Words{train, "--check", "cpu", "--entry", "train_step"} + mesh),
        run_tool("genesis-viz", Words{train, "--entry", "train_step", "-o", path("page.html")} + mesh)})
    EXPECT_NE(process.err.find(said), std::string::npos) << process.err;
}

// A copy of a tool in another folder, with its modules beside it as when it is installed.
class CopiedTool : public SharingRanks {
 protected:
  std::string copy_into(const std::string& folder) const {
    const fs::path from = GENESIS_BUILD_ROOT, to = path(folder);
    for (const char* part : {"tools", "backends/mpi"}) fs::create_directories(to / part);
    for (const char* file :
         {"tools/genesis-run", "backends/mpi/libgenesis_mpi.so", "backends/mpi/libgenesis_loopback.so"})
      fs::copy(from / file, to / file);
    for (const auto& entry : fs::directory_iterator(from))
      if (entry.path().filename().string().starts_with("libgenesis.so") && entry.is_regular_file())
        fs::copy(entry.path(), to / entry.path().filename(), fs::copy_options::copy_symlinks);
    return to.string();
  }
  Process train_by(const std::string& folder) const {
    // The environment of the test may name the folder of the built library.
    return run_process(Words{"/usr/bin/env", "-u", "LD_LIBRARY_PATH", folder + "/tools/genesis-run"} +
                       train_words("qwen2", 1, {"--mesh", "data=2"}));
  }
};

// mpirun listens while the ranks run: only on the loopback interface, or the user is warned.
TEST_F(CopiedTool, ListensNowhereElseInSilence) {
  const std::string whole = copy_into("whole"), blank = copy_into("a blank"), broken = copy_into("broken");
  fs::remove(broken + "/backends/mpi/libgenesis_loopback.so");
  const Process quiet = train_by(whole), warned = train_by(blank), refused = train_by(broken);
  for (const Process* process : {&quiet, &warned}) expect_ok(*process);
  EXPECT_EQ(quiet.err.find("interfaces"), std::string::npos) << quiet.err;
  EXPECT_NE(warned.err.find("listens on all interfaces"), std::string::npos) << warned.err;
  expect_error(refused, {"libgenesis_loopback.so", "on all interfaces", "install Genesis again"});
}

// mpirun makes a rank's stdout a terminal, but the output is still bytes.
TEST_F(SharingRanks, WriteTheBytesOfOneProcess) {
  const Words words = {"generate", tiny("qwen2.genesis"), "--prompt", "a",      "--max-tokens",
                       "40",       "--temperature",       "1.5",      "--seed", "4"};
  const std::string alone = expect_ok(run_tool("genesis-run", words));
  EXPECT_NE(
      std::find_if(alone.begin(), alone.end(), [](char c) { return static_cast<unsigned char>(c) > 127; }),
      alone.end())
      << "nothing here tells bytes from what a terminal is given";
  EXPECT_EQ(expect_ok(run_tool("genesis-run", words + Words{"--mesh", "tensor=2"})), alone);
}

// Frozen weights are quantized, and each rank has a slice of them. Adapters are trained.
TEST_F(SharingRanks, KeepWeightsInBlocks) {
  Words build = {"qwen2", "-o", path("m.genesis"), "--quiet"};
  for (const char* setting : {"hidden_size=128", "intermediate_size=192", "num_hidden_layers=1"})
    build = build + Words{"--set", setting};
  expect_ok(run_tool("genesis-build", build));
  expect_ok(run_tool("genesis-opt", {path("m.genesis"), "--quantize", "q8", "-o", path("q8.genesis")}));
  const auto train = [&](const std::string& steps, const Words& more) {
    return run_tool("genesis-run",
                    Words{"train", path("q8.genesis"), "--lora", "4", "--data", TinyModels::get().text(),
                          "--batch", "2", "--seq", "16", "--steps", steps, "--quiet"} +
                        more);
  };
  expect_ok(train("3", {"-o", path("alone.genesis")}));
  expect_ok(train("2", {"--mesh", "tensor=2", "--checkpoint", path("run"), "--checkpoint-every", "1"}));
  expect_ok(train(
      "3", {"--mesh", "tensor=2", "--checkpoint", path("run"), "--resume", "-o", path("shared.genesis")}));
  const auto loss = [&](const char* file) {
    return expect_json(run_tool("genesis-run", {"eval", path(file), "--data", TinyModels::get().text(),
                                                "--seq", "16", "--json"}))["loss"]
        .get<double>();
  };
  EXPECT_NEAR(loss("shared.genesis"), loss("alone.genesis"), 1e-4);
  EXPECT_NEAR(static_cast<double>(fs::file_size(path("shared.genesis"))),
              static_cast<double>(fs::file_size(path("alone.genesis"))), 4096);
}

// mpirun kills its processes a few seconds after a signal of its own; a step takes longer.
TEST_F(SharingRanks, AreAskedToStopAndKeepTheirWork) {
  std::string text;
  for (int i = 0; i < 40000; ++i) text += "the cat sat on the mat ";
  write_text(path("long.txt"), text);
  const Words words = {"train",        tiny("qwen2.train.genesis"),
                       "--data",       path("long.txt"),
                       "--batch",      "2048",
                       "--seq",        "64",
                       "--steps",      "1000",
                       "--mesh",       "data=2",
                       "--device",     "cpu",
                       "--checkpoint", path("run")};
  const Process process = run_tool("genesis-run", words,
                                   {.kill_once_it_says = "1/1000  loss",
                                    .signal = SIGINT,
                                    .environment = {"OMPI_MCA_odls_base_sigkill_timeout=1"}});
  EXPECT_EQ(process.code, 128 + SIGINT) << process.err;
  EXPECT_FALSE(process.timed_out);
  EXPECT_NE(process.err.find("interrupted at step "), std::string::npos) << process.err;
  EXPECT_EQ(process.err.find("nothing is kept"), std::string::npos) << process.err;
  for (const char* once : {"stopping after this step", "interrupted at step "})
    EXPECT_EQ(process.err.find(once), process.err.rfind(once)) << process.err;
  expect_ok(run_tool("genesis-run", {"generate", path("run"), "--prompt", "a", "--max-tokens", "1"}));
}

// A killed run leaves its files; the next run removes them, and its own.
TEST_F(SharingRanks, LeaveNoFilesOfMpiBehind) {
  const fs::path folder = path("tmp");
  fs::create_directory(folder);
  const std::vector<std::string> environment = {"TMPDIR=" + folder.string()};
  const auto run = [&](int steps, ProcessOptions options) {
    options.environment = environment;
    Words words = train_words("qwen2", steps, {"--mesh", "data=2", "--device", "cpu"});
    std::erase(words, "--quiet");
    return run_tool("genesis-run", words, options);
  };
  run(1000000, {.kill_once_it_says = "/1000000  loss"});
  EXPECT_FALSE(fs::is_empty(folder));
  expect_ok(run(1, {}));
  EXPECT_TRUE(fs::is_empty(folder));
}

// nohup starts programs in this way.
TEST_F(SharingRanks, GoOnAfterASignalThatIsIgnored) {
  const std::string command = "trap '' HUP; exec " + tool_path("genesis-run") + " train " +
                              tiny("qwen2.train.genesis") + " --data " + TinyModels::get().text() +
                              " --batch 8 --seq 32 --steps 100 --device cpu --mesh data=2 -o " +
                              path("o.genesis");
  const Process process =
      run_process({"sh", "-c", command}, {.kill_once_it_says = "1/100  loss", .signal = SIGHUP});
  EXPECT_EQ(process.code, 0) << process.err;
  EXPECT_EQ(process.err.find("interrupted"), std::string::npos) << process.err;
  EXPECT_TRUE(fs::exists(path("o.genesis")));
}

TEST_F(SharingRanks, SayWhichAxisCannotBeCut) {
  const Process process =
      run_tool("genesis-run", {"generate", tiny("qwen2.genesis"), "--prompt", "a", "--mesh", "tensor=3"});
  EXPECT_NE(process.code, 0);
  EXPECT_NE(process.err.find("3 ranks along 'tensor' cannot share any layer of this model"),
            std::string::npos)
      << process.err;
}

}  // namespace
}  // namespace genesis::testing
