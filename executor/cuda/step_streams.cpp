#include "executor/cuda/step_streams.h"
#include "schema/graph/cost_model.h"

#include <algorithm>

namespace genesis {
namespace {

// The target's speeds per microsecond and its fixed costs in microseconds. All times below are in microseconds.
struct Times {
  explicit Times(const StreamSpeeds& speeds)
      : rates{speeds.bytes_per_second / 1e6, speeds.flops_per_second / 1e6},
        link{0, speeds.exchanged_per_second / 1e6},
        shortest(1e6 * speeds.shortest_seconds),
        filling(1e6 * speeds.filling_seconds),
        switching(1e6 * speeds.switching_seconds),
        worthwhile(1e6 * speeds.worthwhile_seconds) {}

  Rates rates;
  Link link;
  double shortest, filling, switching, worthwhile;
};

double work_of(const Step& step, const Times& times) {
  const Cost cost = cost_of(step);
  return step.op->info.collective ? exchange_time(times.link, 1, cost.bytes) : time_of(cost, times.rates);
}

class Assigner {
 public:
  Assigner(const Plan& plan, const StepGraph& graph, const StreamSpeeds& speeds)
      : graph_(graph), times_(speeds), count_(plan.steps.size()), predecessors_(count_), finish_(count_, 0) {
    for (const Step& step : plan.steps) {
      const double work = work_of(step, times_);
      const bool exchanges = step.op->info.collective;
      exchanges_.push_back(exchanges);
      durations_.push_back(std::max(work, times_.shortest));
      work_before_.push_back(work_before_.back() + (exchanges ? 0 : work));
    }
    for (size_t i = 0; i < count_; ++i)
      for (int32_t next : graph.successors[i])
        predecessors_[static_cast<size_t>(next)].push_back(static_cast<int32_t>(i));
    streams_ = StepStreams::one_line(count_);
    waited_.fill(StepStreams::kNoWaits);
  }

  StepStreams run() {
    for (size_t i = 0; i < count_; ++i) place(i);
    for (size_t i = 0; i < count_; ++i) find_waits(i);
    return std::move(streams_);
  }

 private:
  uint8_t stream_of(int32_t step) const { return streams_.stream[static_cast<size_t>(step)]; }

  // Returns when `step` could start on this stream: all steps it waits for are done, and waits between streams have taken effect.
  double ready(size_t step, uint8_t stream) const {
    double at = 0;
    for (int32_t earlier : predecessors_[step])
      at = std::max(
          at, finish_[static_cast<size_t>(earlier)] + (stream_of(earlier) == stream ? 0 : times_.switching));
    return at;
  }

  double end_of(size_t step, uint8_t stream) const {
    return std::max(busy_[stream], ready(step, stream)) + durations_[step];
  }

  size_t first_that_waits(size_t step) const {
    const auto& next = graph_.successors[step];
    return next.empty() ? count_ : static_cast<size_t>(next.front());
  }

  // Returns the time of the main stream's work between `step` and the first step that waits for it.
  double work_beside(size_t step) const {
    return work_before_[first_that_waits(step)] - work_before_[step + 1];
  }

  // Returns true if other work can run at the same time: the steps between the last one that `step` waits for and the first that
  // waits for `step`. They must take longer than the shortest kernel, since such kernels follow each other on one stream faster
  // than one stream waits for another.
  bool has_cover(size_t step) const {
    const auto& before = predecessors_[step];
    const size_t begin = before.empty() ? 0 : static_cast<size_t>(before.back()) + 1;
    const double own = work_before_[step + 1] - work_before_[step];
    return work_before_[first_that_waits(step)] - work_before_[begin] - own >= times_.shortest;
  }

  bool gains_aside(size_t step) const {
    const double beside = work_beside(step);
    const double waiting_here =
        end_of(step, StepStreams::kMain) + beside;  // when the first step that waits can start
    const double waiting_there =
        std::max(busy_[StepStreams::kMain] + beside, end_of(step, StepStreams::kAside) + times_.switching);
    return durations_[step] <= times_.filling && has_cover(step) &&
           waiting_there + times_.worthwhile <= waiting_here;
  }

  // Returns true if other work can run during an exchange, before the first step that needs its result. Otherwise the exchange
  // runs on the main stream, where no stream has to wait for another. An example are the all-reduces behind every layer of a
  // tensor-parallel model.
  bool can_hide(size_t exchange) const {
    for (const int32_t next : graph_.successors[exchange])
      if (!exchanges_[static_cast<size_t>(next)])
        return work_before_[static_cast<size_t>(next)] - work_before_[exchange + 1] >= times_.shortest;
    return true;
  }

  void place(size_t step) {
    const uint8_t stream = exchanges_[step] && can_hide(step) ? StepStreams::kExchange
                           : gains_aside(step)                ? StepStreams::kAside
                                                              : StepStreams::kMain;
    finish_[step] = busy_[stream] = end_of(step, stream);
    streams_.stream[step] = stream;
  }

  void find_waits(size_t step) {
    const uint8_t mine = streams_.stream[step];
    StepStreams::Waits latest = StepStreams::kNoWaits;
    if (mine != StepStreams::kMain && streams_.last[mine] == StepStreams::kNothing)
      latest[StepStreams::kMain] = StepStreams::kBegin;
    for (int32_t earlier : predecessors_[step])
      if (const uint8_t other = stream_of(earlier); other != mine)
        latest[other] = std::max(latest[other], earlier);
    if (mine != StepStreams::kMain) streams_.last[mine] = static_cast<int32_t>(step);
    for (size_t other = 0; other < StepStreams::kStreams; ++other)
      if (latest[other] > waited_[mine][other])
        streams_.waits_for[step][other] = waited_[mine][other] = latest[other];
  }

  const StepGraph& graph_;
  const Times times_;
  const size_t count_;
  std::vector<bool> exchanges_;                        // by step
  std::vector<double> durations_, work_before_ = {0};  // by step
  std::vector<std::vector<int32_t>> predecessors_;
  std::vector<double> finish_;
  std::array<double, StepStreams::kStreams> busy_{};  // by stream: the end of its work so far
  std::array<StepStreams::Waits, StepStreams::kStreams>
      waited_;  // by stream: last steps of others waited for
  StepStreams streams_;
};

}  // namespace

double least_microseconds(const Step& step, const StreamSpeeds& speeds) {
  const Times times(speeds);
  return std::max(work_of(step, times), times.shortest);
}

StepStreams assign_streams(const Plan& plan, const StepGraph& graph, const StreamSpeeds& speeds) {
  return Assigner(plan, graph, speeds).run();
}

}  // namespace genesis
