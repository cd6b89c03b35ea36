#include "executor/cuda/stream_order.h"

namespace genesis {

using cuda::check;

namespace {

cuda::Event recorded(cudaStream_t stream) {
  cuda::Event event = cuda::make_event(false);
  check(cudaEventRecord(event.get(), stream), "ordering streams");
  return event;
}

void wait_on(cudaStream_t stream, const cuda::Event& event) {
  check(cudaStreamWaitEvent(stream, event.get()), "ordering streams");
}

std::vector<bool> awaited_steps(const StepStreams& streams) {
  std::vector<bool> awaited(streams.stream.size(), false);
  for (const StepStreams::Waits& waits : streams.waits_for)
    for (const int32_t step : waits)
      if (step >= 0) awaited[static_cast<size_t>(step)] = true;
  return awaited;
}

}  // namespace

// An exchange has few thread blocks. Without priority it would wait for all running kernels.
void PlanStreams::prepare(const StepStreams& streams) {
  for (size_t s = 1; s < StepStreams::kStreams; ++s)
    if (streams.last[s] >= 0 && !beside_[s])
      beside_[s] = cuda::make_stream(s == StepStreams::kExchange ? cuda::StreamPriority::kFirst
                                                                 : cuda::StreamPriority::kUsual);
}

StreamOrder::StreamOrder(const StepStreams& assigned, const PlanStreams& streams)
    : assigned_(assigned),
      streams_(streams),
      begin_(recorded(streams.at(StepStreams::kMain))),
      awaited_(awaited_steps(assigned)),
      done_(awaited_.size()) {}

void StreamOrder::wait_before(size_t step) const {
  const cudaStream_t stream = streams_.at(assigned_.stream[step]);
  for (const int32_t earlier : assigned_.waits_for[step])
    if (earlier != StepStreams::kNothing)
      wait_on(stream, earlier == StepStreams::kBegin ? begin_ : done_[static_cast<size_t>(earlier)]);
}

void StreamOrder::launched(size_t first, size_t end) {
  for (size_t step = first; step < end; ++step)
    if (awaited_[step]) done_[step] = recorded(streams_.at(assigned_.stream[first]));
}

void StreamOrder::join() {
  for (uint8_t s = 1; s < StepStreams::kStreams; ++s)
    if (assigned_.last[s] >= 0)
      wait_on(streams_.at(StepStreams::kMain), ends_.emplace_back(recorded(streams_.at(s))));
}

}  // namespace genesis
