// How a process learns which rank it is, from the variables that launchers set; and ranks that are children of this process.
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

namespace genesis {
namespace {

using testing::error_of;
using Variables = std::map<std::string, std::string>;

constexpr const char* kLaunchers[] = {"OMPI_COMM_WORLD_RANK",
                                      "OMPI_COMM_WORLD_SIZE",
                                      "OMPI_COMM_WORLD_LOCAL_RANK",
                                      "OMPI_COMM_WORLD_LOCAL_SIZE",
                                      "PMI_RANK",
                                      "PMI_SIZE",
                                      "PMIX_RANK",
                                      "RANK",
                                      "WORLD_SIZE",
                                      "LOCAL_RANK",
                                      "LOCAL_WORLD_SIZE",
                                      "MASTER_ADDR",
                                      "MASTER_PORT",
                                      "SLURM_PROCID",
                                      "SLURM_NTASKS",
                                      "SLURM_LOCALID",
                                      "SLURM_STEP_ID",
                                      "SLURM_JOB_ID",
                                      "SLURM_LAUNCH_NODE_IPADDR",
                                      "MPI_LOCALRANKID",
                                      "MPI_LOCALNRANKS"};

void set_variables(const Variables& variables) {
  for (const char* name : kLaunchers) ::unsetenv(name);
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

TEST_F(FindLaunch, ReadsWhatSrunSets) {
  Variables variables = {{"SLURM_PROCID", "5"},        {"SLURM_NTASKS", "8"},
                         {"SLURM_LOCALID", "1"},       {"SLURM_STEP_ID", "0"},
                         {"SLURM_JOB_ID", "12345678"}, {"SLURM_LAUNCH_NODE_IPADDR", "10.0.0.7"}};
  const Launch launch = launch_with(variables);
  EXPECT_EQ(launch.by, Launcher::kSlurm);
  EXPECT_EQ(launch.rank, 5);
  EXPECT_EQ(launch.size, 8);
  EXPECT_EQ(launch.local_rank, 1);
  EXPECT_EQ(launch.address, "10.0.0.7:25678");
  variables["PMIX_RANK"] = "5";  // srun --mpi=pmix
  EXPECT_EQ(launch_with(variables).by, Launcher::kMpi);
  EXPECT_EQ(launch_with(variables).size, 8);
  variables.erase("PMIX_RANK"), variables.erase("SLURM_STEP_ID");  // the script of sbatch
  EXPECT_EQ(launch_with(variables).by, Launcher::kNone);
}

// What the address is, and the place on this host, matters to ranks that meet.
TEST_F(FindLaunch, RanksAreCountedWithoutAnAddress) {
  for (const Variables& variables :
       {Variables{{"RANK", "1"}, {"WORLD_SIZE", "4"}},
        Variables{{"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "4"}, {"SLURM_STEP_ID", "0"}}}) {
    EXPECT_NE(error_of([&] { launch_with(variables); }), "");
    EXPECT_EQ(find_ranks().rank, 1);
    EXPECT_EQ(find_ranks().size, 4);
  }
}

// Each child writes what it was told into a file of its own.
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
  EXPECT_EQ(run_child_ranks(3, {"/bin/sh", "-c", "[ $RANK = 1 ] && exit 7; exec sleep 100"}), 7);
  EXPECT_EQ(run_child_ranks(2, {"/bin/sh", "-c", "[ $RANK = 0 ] && kill -9 $$; exec sleep 1"}), 128 + 9);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
  EXPECT_EQ(run_child_ranks(2, {"/no/such/program"}), 127);
}

TEST_F(FindLaunch, AChildThatIsStoppedIsEnded) {
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(run_child_ranks(2, {"/bin/sh", "-c", "[ $RANK = 1 ] && kill -STOP $$; exec sleep 1"}), 128 + 9);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

TEST_F(FindLaunch, AChildThatIsContinuedInTimeGoesOn) {
  const std::string script = "[ $RANK = 1 ] && { (sleep 1; kill -CONT $$) & kill -STOP $$; }; exec sleep 0.2";
  EXPECT_EQ(run_child_ranks(2, {"/bin/sh", "-c", script}), 0);
}

}  // namespace
}  // namespace genesis
