// What a rewrite gains and what it costs on a target, in seconds: the one currency in which passes compare the two.
// Targets state what a launch and a byte take (schema/graph/target.h).
#pragma once

#include <cstddef>

#include "schema/graph/target.h"

namespace genesis::passes {

// What a run gains when one step does the work of `steps`: the launches of all but one.
inline double seconds_saved_by_one_step_for(const Target& target, size_t steps) {
  return steps < 2 ? 0 : static_cast<double>(steps - 1) * target.launch_seconds;
}

// What it takes to read or write so many bytes of memory.
inline double seconds_to_move(const Target& target, int64_t bytes) {
  return static_cast<double>(bytes) / target.bytes_per_second;
}

// What so many exchanges between ranks take, in which each rank sends `bytes` altogether.
inline double seconds_to_exchange(const Target& target, int exchanges, double bytes) {
  return exchanges * target.exchange_seconds + bytes / target.exchanged_per_second;
}

}  // namespace genesis::passes
