#include "models/jobs/stop_votes.h"

#include <fmt/core.h>

#include <algorithm>
#include <sstream>
#include <utility>

namespace genesis::jobs {

StopVote StopVotes::after_step(const StopVote& mine) {
  if (world_.size() == 1) return mine;
  return ++steps_ < every_ ? StopVote() : ask(mine);
}

// Collects the votes of all ranks. Rank 0's clock decides how many steps follow before the next vote, so that all
// ranks agree.
StopVote StopVotes::ask(const StopVote& mine) {
  constexpr double kApart = 0.5;  // seconds
  const auto now = std::chrono::steady_clock::now();
  const double waited = std::chrono::duration<double>(now - std::exchange(asked_, now)).count();
  const std::vector<std::string> votes =
      world_.gather(fmt::format("{} {} {}", mine.asked, mine.time_up ? 1 : 0, waited));
  StopVote all;
  double seconds = 0;
  for (size_t rank = 0; rank < votes.size(); ++rank) {
    std::istringstream vote(votes[rank]);
    int asked = 0;
    bool time_up = false;
    double since = 0;
    vote >> asked >> time_up >> since;
    all = {std::max(all.asked, asked), all.time_up || time_up};
    if (rank == 0) seconds = since;
  }
  const double each = seconds / static_cast<double>(std::exchange(steps_, 0));
  every_ = std::clamp(static_cast<int64_t>(kApart / std::max(each, 1e-6)), int64_t{1}, 4 * every_);
  return all;
}

}  // namespace genesis::jobs
