// Estimates what a rewrite gains and costs on a target in seconds, the unit in which passes compare the two. The target states
// the time of a launch and of a byte (schema/graph/target.h).
#pragma once

#include <cstddef>

#include "schema/graph/target.h"

namespace genesis::passes {

// Returns the time saved if one step replaces `steps` steps: all launches but one.
inline double seconds_saved_by_one_step_for(const Target& target, size_t steps) {
  return steps < 2 ? 0 : static_cast<double>(steps - 1) * target.launch_seconds;
}

// Returns the time to read or write `bytes` of memory.
inline double seconds_to_move(const Target& target, int64_t bytes) {
  return static_cast<double>(bytes) / target.bytes_per_second;
}

// Returns the time of `exchanges` exchanges between ranks in which each rank sends `bytes` in total.
inline double seconds_to_exchange(const Target& target, int exchanges, double bytes) {
  return exchanges * target.exchange_seconds + bytes / target.exchanged_per_second;
}

}  // namespace genesis::passes
