#include "executor/cuda/step_streams.h"

#include <algorithm>

#include "executor/runtime/cost.h"

namespace genesis {
namespace {

// Microseconds, of a large GPU; only ratios matter.
constexpr double kBytesPerUs = 2.5e6, kFlopsPerUs = 5e8;
constexpr double kExchangedPerUs = 2e5;  // bytes, between ranks
constexpr double kShortest = 2.5;        // any kernel of a captured graph, its start included
constexpr double kSmall = 8;             // what takes longer fills the chip by itself
constexpr double kOtherStream = 1;       // what waiting for the other stream takes longer than for one's own
constexpr double kWorthWhile = 1;        // what must be gained

double work_of(const Step& step) {
  const Cost cost = cost_of(step);
  if (step.op->info.collective) return cost.bytes / kExchangedPerUs;
  return std::max(cost.bytes / kBytesPerUs, cost.flops / kFlopsPerUs);
}

class Assigner {
 public:
  Assigner(const Plan& plan, const StepGraph& graph)
      : graph_(graph), count_(plan.steps.size()), predecessors_(count_), finish_(count_, 0) {
    for (const Step& step : plan.steps) {
      const double work = work_of(step);
      const bool exchanges = step.op->info.collective;
      exchanges_.push_back(exchanges);
      durations_.push_back(std::max(work, kShortest));
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

  // When all that `step` waits for is done, if it runs on this stream.
  double ready(size_t step, uint8_t stream) const {
    double at = 0;
    for (int32_t earlier : predecessors_[step])
      at = std::max(
          at, finish_[static_cast<size_t>(earlier)] + (stream_of(earlier) == stream ? 0 : kOtherStream));
    return at;
  }

  double end_of(size_t step, uint8_t stream) const {
    return std::max(busy_[stream], ready(step, stream)) + durations_[step];
  }

  size_t first_that_waits(size_t step) const {
    const auto& next = graph_.successors[step];
    return next.empty() ? count_ : static_cast<size_t>(next.front());
  }

  // What the main stream does between `step` and the first step that waits for it.
  double work_beside(size_t step) const {
    return work_before_[first_that_waits(step)] - work_before_[step + 1];
  }

  // Whether there is work to hide behind at all, after the last step that `step` waits for. Kernels that are
  // over at once follow each other faster than streams wait for each other.
  bool has_cover(size_t step) const {
    const auto& before = predecessors_[step];
    const size_t begin = before.empty() ? 0 : static_cast<size_t>(before.back()) + 1;
    const double own = work_before_[step + 1] - work_before_[step];
    return work_before_[first_that_waits(step)] - work_before_[begin] - own >= kShortest;
  }

  bool gains_aside(size_t step) const {
    const double beside = work_beside(step);
    const double waiting_here =
        end_of(step, StepStreams::kMain) + beside;  // when the first that waits can start
    const double waiting_there =
        std::max(busy_[StepStreams::kMain] + beside, end_of(step, StepStreams::kAside) + kOtherStream);
    return durations_[step] <= kSmall && has_cover(step) && waiting_there + kWorthWhile <= waiting_here;
  }

  // Whether work that does not wait for an exchange can hide it. Else it goes where nobody waits for another stream, as the
  // sums behind every layer that ranks share.
  bool can_hide(size_t exchange) const {
    for (const int32_t next : graph_.successors[exchange])
      if (!exchanges_[static_cast<size_t>(next)])
        return work_before_[static_cast<size_t>(next)] - work_before_[exchange + 1] >= kShortest;
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
  const size_t count_;
  std::vector<bool> exchanges_;                        // by step
  std::vector<double> durations_, work_before_ = {0};  // by step
  std::vector<std::vector<int32_t>> predecessors_;
  std::vector<double> finish_;
  std::array<double, StepStreams::kStreams> busy_{};              // until when, by stream
  std::array<StepStreams::Waits, StepStreams::kStreams> waited_;  // by stream: for which steps of the others
  StepStreams streams_;
};

}  // namespace

double least_microseconds(const Step& step) { return std::max(work_of(step), kShortest); }

StepStreams assign_streams(const Plan& plan, const StepGraph& graph) { return Assigner(plan, graph).run(); }

}  // namespace genesis
