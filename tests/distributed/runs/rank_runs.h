// Runs training with the tool on several ranks started by mpirun, of which single ones can be made to fail.
#pragma once

#include <string>

#include "tests/tools/tool_test.h"

namespace genesis::testing {

// Gives every test a folder of its own. Tests are skipped without MPI.
class RankRuns : public ToolTest {
 protected:
  void SetUp() override;

  // Runs genesis-run with these words on this many ranks of this host. Each process first runs `before`, which is
  // lines of a shell script, and then becomes the rank.
  Process run_ranks(int ranks, const Words& words, const std::string& before = "",
                    const ProcessOptions& options = {}) const;
  // Returns lines of a shell script that send the rank a signal after `wait`, a command such as until(...).
  static std::string signal_to(int rank, const std::string& signal, const std::string& wait);
  // Returns a command that waits until `condition`, another command, succeeds.
  static std::string until(const std::string& condition);
  // Returns a command that succeeds if there is a checkpoint of a later step.
  std::string newer_than(int64_t step) const;
  // Returns lines of a shell script that run the given lines on one rank only.
  static std::string on_rank(int rank, const std::string& lines);

  // Returns words for two ranks that shard the optimizer's states, with checkpoints in run/.
  Words sharing(int steps, const Words& more = {}) const;
  // Returns the step of the newest intact checkpoint; 0 if there is none.
  int64_t newest_step() const;
};

}  // namespace genesis::testing
