#include "executor/cuda/launch_times.h"

namespace genesis {

using cuda::check;

cuda::Event timed_event(cudaStream_t stream) {
  cuda::Event event = cuda::make_event(true);
  check(cudaEventRecord(event.get(), stream), "timing a step");
  return event;
}

double microseconds_between(const cuda::Event& begin, const cuda::Event& end) {
  float ms = 0;
  check(cudaEventElapsedTime(&ms, begin.get(), end.get()), "timing steps");
  return 1e3 * static_cast<double>(ms);
}

Timeline LaunchTimes::timeline() const {
  Timeline timeline{{{"main stream", {}}, {"stream beside it", {}}, {"stream of exchanges", {}}}};
  for (const Launch& one : launches_)
    timeline.tracks[one.stream].spans.push_back({static_cast<int32_t>(one.step),
                                                 microseconds_between(start_, one.begin),
                                                 microseconds_between(start_, one.end)});
  return timeline;
}

}  // namespace genesis
