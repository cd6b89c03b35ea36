// Tests how a process learns its rank from the variables that launchers set, and ranks that are child processes.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include "executor/distributed/child_ranks.h"
#include "executor/distributed/launch.h"
#include "executor/distributed/local_launch.h"
#include "executor/distributed/world.h"
#include "tests/error_of.h"
#include "tests/sanitized.h"

namespace genesis {
namespace {

using testing::error_of;
using Variables = std::map<std::string, std::string>;

void set_variables(const Variables& variables) {
  ::setenv("OMPI_COMM_WORLD_SIZE", "1", 1);  // makes variables of Open MPI go too
  forget_launchers();
  for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
}

Launch launch_with(const Variables& variables) {
  set_variables(variables);
  return find_launch();
}

class FindLaunch : public ::testing::Test {
  void TearDown() override { set_variables({}); }
};

TEST_F(FindLaunch, WithoutALauncherThereIsOneRank) {
  const Launch launch = launch_with({});
  EXPECT_EQ(launch.by, Launcher::kNone);
  EXPECT_EQ(launch.size, 1);
  EXPECT_TRUE(must_launch_ranks(Mesh::parse("data=2")));
  EXPECT_FALSE(must_launch_ranks(Mesh::parse("data=1")));
  EXPECT_EQ(error_of([] { start_world(Mesh::parse("data=2,tensor=2"), "cpu"); }),
            "mesh 'data=2,tensor=2' has 4 ranks, and this process stands alone: start them with mpirun -n 4 "
            "or srun -n 4");
}

TEST_F(FindLaunch, ReadsWhatMpirunSets) {
  const Launch launch = launch_with({{"OMPI_COMM_WORLD_RANK", "3"},
                                     {"OMPI_COMM_WORLD_SIZE", "8"},
                                     {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                     {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}});
  EXPECT_EQ(launch.by, Launcher::kMpi);
  EXPECT_EQ(launch.rank, 3);
  EXPECT_EQ(launch.size, 8);
  EXPECT_EQ(launch.local_rank, 1);
  EXPECT_FALSE(launch.is_one_host);
  EXPECT_EQ(error_of([] { start_world(Mesh::parse("data=4"), "cpu"); }),
            "mesh 'data=4' has 4 ranks, but mpirun started 8: give --mesh sizes whose product is 8");
}

TEST_F(FindLaunch, ReadsWhatTorchrunSets) {
  Variables variables = {{"RANK", "1"},
                         {"WORLD_SIZE", "2"},
                         {"LOCAL_RANK", "1"},
                         {"LOCAL_WORLD_SIZE", "2"},
                         {"MASTER_ADDR", "127.0.0.1"},
                         {"MASTER_PORT", "29500"}};
  const Launch launch = launch_with(variables);
  EXPECT_EQ(launch.by, Launcher::kVariables);
  EXPECT_EQ(launch.rank, 1);
  EXPECT_EQ(launch.address, "127.0.0.1:29500");
  EXPECT_TRUE(launch.is_one_host);
  EXPECT_NE(error_of([] {
              start_world(Mesh::parse("data=2"), "cpu");
            }).find("ranks on CPUs exchange data over MPI"),
            std::string::npos);
  variables.erase("MASTER_ADDR");
  EXPECT_NE(error_of([&] { launch_with(variables); }).find("MASTER_ADDR"), std::string::npos);
  variables["WORLD_SIZE"] = "two";
  EXPECT_EQ(error_of([&] { launch_with(variables); }), "WORLD_SIZE is 'two', expected a whole number from 1");
  variables["WORLD_SIZE"] = "1";
  EXPECT_EQ(launch_with({{"RANK", "0"}, {"WORLD_SIZE", "1"}}).size, 1);
  variables["WORLD_SIZE"] = "2", variables["RANK"] = "2", variables["MASTER_ADDR"] = "a";
  EXPECT_NE(error_of([&] { launch_with(variables); }).find("rank 2 of 2"), std::string::npos);
}

// Returns the variables of rank 5 of 8 on two hosts.
Variables of_srun() {
  return {
      {"SLURM_PROCID", "5"},        {"SLURM_NTASKS", "8"},         {"SLURM_LOCALID", "1"},
      {"SLURM_STEP_ID", "0"},       {"SLURM_STEP_NUM_NODES", "2"}, {"SLURM_STEP_NODELIST", "n[007-008]-ib"},
      {"SLURM_JOB_ID", "12345678"}, {"SLURM_NODEID", "1"},         {"SLURM_LAUNCH_NODE_IPADDR", "10.0.0.7"}};
}

Variables with(Variables variables, const Variables& more) {
  for (const auto& [name, value] : more) variables[name] = value;
  return variables;
}

TEST_F(FindLaunch, ReadsWhatSrunSets) {
  Variables variables = of_srun();
  const Launch launch = launch_with(variables);
  EXPECT_EQ(launch.by, Launcher::kSlurm);
  EXPECT_EQ(launch.mpi, MpiRanks::kNone);
  EXPECT_EQ(launch.rank, 5);
  EXPECT_EQ(launch.size, 8);
  EXPECT_EQ(launch.local_rank, 1);
  EXPECT_FALSE(launch.is_one_host);
  variables.erase("SLURM_STEP_ID");  // like in a script of sbatch
  EXPECT_EQ(launch_with(variables).by, Launcher::kNone);
}

// The address is not that of the host where srun was called.
TEST_F(FindLaunch, RanksOfSrunMeetAtTheFirstHostOfTheirStep) {
  const std::string first = launch_with(of_srun()).address;
  EXPECT_EQ(first.substr(0, first.find(':')), "n007-ib");
  EXPECT_NE(launch_with(with(of_srun(), {{"SLURM_STEP_ID", "1"}})).address, first)
      << "another step of the job";
  EXPECT_NE(launch_with(with(of_srun(), {{"SLURM_JOB_ID", "12345679"}})).address, first) << "another job";
  EXPECT_EQ(launch_with(with(of_srun(), {{"MASTER_ADDR", "10.0.0.9"}, {"MASTER_PORT", "29500"}})).address,
            "10.0.0.9:29500");
  const Launch one_host = launch_with(with(of_srun(), {{"SLURM_STEP_NUM_NODES", "1"}}));
  EXPECT_TRUE(one_host.is_one_host);
  EXPECT_EQ(one_host.address.substr(0, one_host.address.find(':')), "127.0.0.1");
  EXPECT_NE(error_of([] {
              launch_with(with(of_srun(), {{"SLURM_STEP_NODELIST", "n[1"}}));
            }).find("SLURM_STEP_NODELIST is 'n[1', expected names of hosts"),
            std::string::npos);
}

// salloc's own shell has numbers beyond an int, and one task, whatever the job was given.
TEST_F(FindLaunch, AShellOfSallocIsOneRank) {
  const Launch launch = launch_with({{"SLURM_PROCID", "0"},
                                     {"SLURM_NTASKS", "8"},
                                     {"SLURM_STEP_NUM_TASKS", "1"},
                                     {"SLURM_LOCALID", "0"},
                                     {"SLURM_STEP_ID", "4294967290"},
                                     {"SLURM_JOB_ID", "4294967291"}});
  EXPECT_EQ(launch.size, 1);
  EXPECT_TRUE(must_launch_ranks(Mesh::parse("data=2")));
}

TEST_F(FindLaunch, RanksOfSrunMayHaveMpi) {
  const Launch launch = launch_with(with(of_srun(), {{"PMIX_RANK", "5"}}));  // set by srun --mpi=pmix
  EXPECT_EQ(launch.by, Launcher::kSlurm);
  EXPECT_EQ(launch.mpi, MpiRanks::kExpected);
  EXPECT_EQ(launch.size, 8);
  EXPECT_NE(launch.address, "");
  const Variables pmi2 = {{"PMI_RANK", "5"}, {"PMI_SIZE", "8"}};
  EXPECT_EQ(launch_with(with(of_srun(), pmi2)).mpi, MpiRanks::kPerhaps);
  // These are ranks of an mpirun that srun started once on each host.
  const Launch within = launch_with(with(of_srun(), {{"PMI_RANK", "9"}, {"PMI_SIZE", "64"}}));
  EXPECT_EQ(within.by, Launcher::kMpi);
  EXPECT_EQ(within.size, 64);
  // srun started one torchrun on each host.
  const Launch torchrun = launch_with(with(with(of_srun(), pmi2), {{"RANK", "41"},
                                                                   {"WORLD_SIZE", "64"},
                                                                   {"LOCAL_RANK", "1"},
                                                                   {"MASTER_ADDR", "a"},
                                                                   {"MASTER_PORT", "1"}}));
  EXPECT_EQ(torchrun.by, Launcher::kVariables);
  EXPECT_EQ(torchrun.rank, 41);
}

// The PMI that srun speaks by default means nothing to an MPI library that supports only PMIx.
TEST_F(FindLaunch, RanksOnGpusOfSrunDoWithoutMpi) {
  Variables two = {{"PMI_RANK", "0"},      {"PMI_SIZE", "2"},
                   {"SLURM_STEP_ID", "0"}, {"SLURM_JOB_ID", "77"},
                   {"SLURM_PROCID", "0"},  {"SLURM_NTASKS", "2"},
                   {"SLURM_LOCALID", "0"}, {"MASTER_ADDR", "nowhere.invalid"}};
  set_variables(two);
  const std::string error = error_of([] { start_world(Mesh::parse("data=2"), "cuda"); });
  EXPECT_EQ(error.find("MPI knows"), std::string::npos) << error;
  EXPECT_NE(error.find("nowhere.invalid"), std::string::npos) << error;
}

// The launcher has started one process, and the mesh has more ranks. This process starts them, and they do not belong
// to the launcher.
TEST_F(FindLaunch, ALauncherOfOneRankDoesNotCount) {
  const Mesh mesh = Mesh::parse("data=2");
  const Variables single[] = {
      {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "1"}, {"SLURM_LOCALID", "0"}, {"SLURM_STEP_ID", "0"}},
      {{"RANK", "0"}, {"WORLD_SIZE", "1"}},
      {{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}, {"OMPI_UNIVERSE_SIZE", "1"}},
      {{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}}};
  for (const Variables& variables : single) {
    set_variables(variables);
    EXPECT_TRUE(must_launch_ranks(mesh)) << variables.begin()->first;
    forget_launchers();
    for (const auto& [name, value] : variables) EXPECT_EQ(std::getenv(name.c_str()), nullptr) << name;
  }
  EXPECT_FALSE((launch_with({{"RANK", "0"}, {"WORLD_SIZE", "1"}}), must_launch_ranks(Mesh::parse("data=1"))));
}

TEST_F(FindLaunch, WhatUsersSetOfOpenMpiStays) {
  const Variables set = {{"OMPI_COMM_WORLD_SIZE", "1"},
                         {"OMPI_MCA_orte_hnp_uri", "1.0;tcp://10.0.0.7:1"},
                         {"OMPI_MCA_btl", "self,tcp"},
                         {"OMPI_ALLOW_RUN_AS_ROOT", "1"}};
  set_variables(set);
  forget_launchers();
  EXPECT_EQ(std::getenv("OMPI_MCA_orte_hnp_uri"), nullptr);
  EXPECT_STREQ(std::getenv("OMPI_MCA_btl"), "self,tcp");
  EXPECT_STREQ(std::getenv("OMPI_ALLOW_RUN_AS_ROOT"), "1");
  ::unsetenv("OMPI_MCA_btl"), ::unsetenv("OMPI_ALLOW_RUN_AS_ROOT");
}

// srun --gpus-per-task=1 shows each rank only its own GPU.
TEST_F(FindLaunch, ARankTakesTheOnlyGpuThatItSees) {
  const Launch launch = launch_with(of_srun());
  EXPECT_EQ(gpu_of(launch, 1), 0);
  EXPECT_EQ(gpu_of(launch, 8), 1);
  EXPECT_EQ(gpu_of(launch, 0), 1);
}

// The address and the rank's place on its host only matter to ranks that meet.
TEST_F(FindLaunch, RanksAreCountedWithoutAnAddress) {
  for (const Variables& variables :
       {Variables{{"RANK", "1"}, {"WORLD_SIZE", "4"}},
        Variables{{"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "4"}, {"SLURM_STEP_ID", "0"}}}) {
    EXPECT_NE(error_of([&] { launch_with(variables); }), "");
    EXPECT_EQ(find_ranks().rank, 1);
    EXPECT_EQ(find_ranks().size, 4);
  }
}

// Each child writes its variables to a file of its own.
TEST_F(FindLaunch, ChildrenKnowWhoTheyAre) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("ranks." + std::to_string(::getpid()));
  std::filesystem::create_directory(folder);
  const std::string script =
      "echo $RANK $WORLD_SIZE $LOCAL_RANK $MASTER_ADDR > " + folder.string() + "/$RANK";
  EXPECT_EQ(run_child_ranks(3, {"/bin/sh", "-c", script}), 0);
  for (int rank = 0; rank < 3; ++rank) {
    std::ifstream in(folder / std::to_string(rank));
    std::string line;
    std::getline(in, line);
    EXPECT_EQ(line, std::to_string(rank) + " 3 " + std::to_string(rank) + " 127.0.0.1");
  }
  std::filesystem::remove_all(folder);
}

TEST_F(FindLaunch, AChildThatFailsDecidesTheCodeAndEndsTheOthers) {
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(run_child_ranks(3, {"/bin/sh", "-c", "[ $RANK = 1 ] && exit 7; exec sleep 1000"}), 7);
  EXPECT_EQ(run_child_ranks(2, {"/bin/sh", "-c", "[ $RANK = 0 ] && kill -9 $$; exec sleep 1"}), 128 + 9);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::duration<double>(testing::kHangs));
  EXPECT_EQ(run_child_ranks(2, {"/no/such/program"}), 127);
}

TEST_F(FindLaunch, AChildThatIsStoppedIsEnded) {
  EXPECT_EQ(run_child_ranks(2, {"/bin/sh", "-c", "[ $RANK = 1 ] && kill -STOP $$; exec sleep 1"}), 128 + 9);
}

TEST_F(FindLaunch, AChildThatIsContinuedInTimeGoesOn) {
  const std::string script = "[ $RANK = 1 ] && { (sleep 1; kill -CONT $$) & kill -STOP $$; }; exec sleep 0.2";
  EXPECT_EQ(run_child_ranks(2, {"/bin/sh", "-c", script}), 0);
}

}  // namespace
}  // namespace genesis
