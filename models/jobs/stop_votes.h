// Decides when the ranks of a job stop: all together, as soon as one of them votes for it. A vote takes as long as all ranks need
// to meet, so they vote about twice a second and not at every step.
#pragma once

#include <chrono>
#include <cstdint>

#include "executor/distributed/world.h"
#include "models/jobs/train_settings.h"

namespace genesis::jobs {

class StopVotes {
 public:
  explicit StopVotes(World& world) : world_(world) {}
  // All ranks call it after every step. Returns the reasons of all ranks, the largest `asked` among them; none while no vote is
  // due.
  StopVote after_step(const StopVote& mine);

 private:
  StopVote ask(const StopVote& mine);

  World& world_;
  std::chrono::steady_clock::time_point asked_ = std::chrono::steady_clock::now();
  int64_t every_ = 1, steps_ = 0;  // every_: steps between votes; steps_: steps since the last vote
};

}  // namespace genesis::jobs
