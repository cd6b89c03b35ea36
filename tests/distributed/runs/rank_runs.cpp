#include "tests/distributed/runs/rank_runs.h"

#include <fmt/format.h>

#include "executor/distributed/local_launch.h"
#include "executor/training/checkpoint.h"
#include "tests/distributed/why_no_ranks.h"

namespace genesis::testing {

void RankRuns::SetUp() {
  if (const std::string why = why_no_ranks(); !why.empty()) GTEST_SKIP() << why;
}

Process RankRuns::run_ranks(int ranks, const Words& words, const std::string& before,
                            const ProcessOptions& options) const {
  set_mpirun_environment();
  const Words shell = {"/bin/sh", "-c", before + "\nexec \"$@\"", "sh", tool_path("genesis-run")};
  return run_process(mpirun_command(ranks, shell + words), options);
}

std::string RankRuns::signal_to(int rank, const std::string& signal, const std::string& wait) {
  return on_rank(rank, fmt::format("({}; kill -{} $$) <&- >/dev/null 2>&1 &", wait, signal));
}

std::string RankRuns::until(const std::string& condition) {
  return fmt::format("until {}; do kill -0 $$ || exit; sleep 0.02; done", condition);
}

std::string RankRuns::newer_than(int64_t step) const {
  return fmt::format(
      "ls {} | awk '/^step-[0-9]*.genesis$/ && $0 > \"step-{:09}.genesis\" {{found = 1}} END {{exit "
      "!found}}'",
      path("run"), step);
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
