// Tests runs in which a launcher started one process and the tool starts the ranks: a shell of mpirun or srun.
#include "tests/distributed/runs/rank_runs.h"

namespace genesis::testing {
namespace {

using LaunchersOfOneRank = RankRuns;

// mpirun refuses to start inside another mpirun unless the environment hides the outer one.
TEST_F(LaunchersOfOneRank, MpirunLeavesTheRanksToTheTool) {
  expect_ok(run_ranks(1, sharing(2)));
  EXPECT_EQ(newest_step(), 2);
}

// Ranks on GPUs meet over MPI and need no address. Without GPUs the run ends with a message about them.
TEST_F(LaunchersOfOneRank, RanksOfMpirunOnGpusNeedNoAddress) {
  const Process process = run_ranks(2, sharing(2, {"--device", "cuda"}));
  EXPECT_FALSE(process.timed_out);
  EXPECT_EQ(process.err.find("MASTER_ADDR"), std::string::npos) << process.err;
  EXPECT_TRUE(process.code == 0 || process.err.find("no device 'cuda") != std::string::npos) << process.err;
}

// There is no srun here, with which Open MPI's mpirun would start its ranks.
TEST_F(LaunchersOfOneRank, SrunLeavesTheRanksToTheTool) {
  const ProcessOptions shell = {.environment = {"SLURM_JOB_ID=77", "SLURM_JOBID=77", "SLURM_STEP_ID=0",
                                                "SLURM_STEPID=0", "SLURM_NODELIST=n1",
                                                "SLURM_TASKS_PER_NODE=1", "SLURM_PROCID=0", "SLURM_NTASKS=1",
                                                "SLURM_LOCALID=0", "PMI_RANK=0", "PMI_SIZE=1"}};
  expect_ok(run_process(Words{tool_path("genesis-run")} + sharing(2), shell));
  EXPECT_EQ(newest_step(), 2);
}

}  // namespace
}  // namespace genesis::testing
