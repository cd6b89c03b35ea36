// Training runs of the tool on several ranks that mpirun starts, of which single ones can be made to fail.
#pragma once

#include <string>

#include "tests/tools/tool_test.h"

namespace genesis::testing {

// A folder of its own for every test; skipped where there is no MPI.
class RankRuns : public ToolTest {
 protected:
  void SetUp() override;

  // genesis-run with these words on so many ranks of this host. Each runs `before`, lines of a shell, in the process that
  // then becomes the rank.
  Process run_ranks(int ranks, const Words& words, const std::string& before = "",
                    const ProcessOptions& options = {}) const;
  // Lines of a shell: after so many seconds the rank gets the signal.
  static std::string signal_to(int rank, const std::string& signal, double seconds);
  // The same lines, on one rank alone.
  static std::string on_rank(int rank, const std::string& lines);

  // Two ranks that share the optimizer's states, with checkpoints in run/.
  Words sharing(int steps, const Words& more = {}) const;
  // The step of the newest checkpoint that is whole; 0: there is none.
  int64_t newest_step() const;
};

}  // namespace genesis::testing
