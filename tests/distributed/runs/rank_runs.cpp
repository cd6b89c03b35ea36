#include "tests/distributed/runs/rank_runs.h"

#include <fmt/format.h>

#include "backends/mpi/mpi_ranks.h"
#include "executor/distributed/local_launch.h"
#include "executor/training/checkpoint.h"
#include "schema/core/error.h"

namespace genesis::testing {

void RankRuns::SetUp() {
  if (const std::string why = mpi::why_missing(); !why.empty()) GTEST_SKIP() << why;
  try {
    mpirun_command(2, {});
  } catch (const Error& error) {
    GTEST_SKIP() << error.message();
  }
}

Process RankRuns::run_ranks(int ranks, const Words& words, const std::string& before,
                            const ProcessOptions& options) const {
  set_mpirun_environment();
  const Words shell = {"/bin/sh", "-c", before + "\nexec \"$@\"", "sh", tool_path("genesis-run")};
  return run_process(mpirun_command(ranks, shell + words), options);
}

std::string RankRuns::signal_to(int rank, const std::string& signal, double seconds) {
  return on_rank(rank, fmt::format("(sleep {:.3f}; kill -{} $$) <&- >/dev/null 2>&1 &", seconds, signal));
}

std::string RankRuns::on_rank(int rank, const std::string& lines) {
  return fmt::format("if [ $OMPI_COMM_WORLD_RANK = {} ]; then\n{}\nfi", rank, lines);
}

Words RankRuns::sharing(int steps, const Words& more) const {
  return train_words("qwen2", steps,
                     Words{"--mesh", "data=2", "--zero", "1", "--checkpoint", path("run")} + more);
}

int64_t RankRuns::newest_step() const {
  const auto found = find_checkpoint(path("run"));
  return found ? found->step : 0;
}

}  // namespace genesis::testing
