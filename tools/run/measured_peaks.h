// Measures the limits of a session's device again until no timed work exceeds them. A disturbed measurement is too
// low, and the shares computed from it would be above 100%.
#pragma once

#include "executor/runtime/peaks.h"
#include "executor/session.h"

namespace genesis::tools {

inline constexpr const char* kFasterThanLimits =
    "; faster than the limits that were measured: something else kept this machine busy while they were, or "
    "a cache served what is counted as memory";

// Measures at most five times, until `hold(peaks)` says that the limits are high enough for the timed work.
template <class Hold>
DevicePeaks measured_peaks(Session& session, const Hold& hold) {
  DevicePeaks peaks = session.measure_peaks();
  for (int again = 0; again < 4 && !hold(peaks); ++again) peaks.take_larger(session.measure_peaks());
  return peaks;
}

}  // namespace genesis::tools
