#include "executor/cuda/step_streams.h"

#include <algorithm>

#include "executor/runtime/cost.h"

namespace genesis {
namespace {

// Microseconds, of a large GPU; only ratios matter.
constexpr double kBytesPerUs = 2.5e6, kFlopsPerUs = 5e8;
constexpr double kShortest = 2.5;   // any kernel of a captured graph, its start included
constexpr double kSmall = 8;        // what takes longer fills the chip by itself
constexpr double kOtherStream = 1;  // what waiting for the other stream takes longer than for one's own
constexpr double kWorthWhile = 1;   // what must be gained

double work_of(const Step& step) {
  const Cost cost = cost_of(step);
  return std::max(cost.bytes / kBytesPerUs, cost.flops / kFlopsPerUs);
}

class Assigner {
 public:
  Assigner(const Plan& plan, const StepGraph& graph)
      : graph_(graph), count_(plan.steps.size()), predecessors_(count_), finish_(count_, 0) {
    for (const Step& step : plan.steps) {
      exchanges_.push_back(step.op->info.collective);
      const double work = work_of(step);
      durations_.push_back(std::max(work, kShortest));
      work_before_.push_back(work_before_.back() + work);
    }
    for (size_t i = 0; i < count_; ++i)
      for (int32_t next : graph.successors[i])
        predecessors_[static_cast<size_t>(next)].push_back(static_cast<int32_t>(i));
    has_exchanges_ = std::find(exchanges_.begin(), exchanges_.end(), true) != exchanges_.end();
    streams_.aside.assign(count_, false);
    streams_.waits_for.assign(count_, StepStreams::kNothing);
  }

  StepStreams run() {
    for (size_t i = 0; i < count_; ++i) place(i);
    for (size_t i = 0; i < count_; ++i) find_wait(i);
    return std::move(streams_);
  }

 private:
  bool is_aside(int32_t step) const { return streams_.aside[static_cast<size_t>(step)]; }

  // When all that `step` waits for is done, if it runs on the first or the second stream.
  double ready(size_t step, bool aside) const {
    double at = 0;
    for (int32_t earlier : predecessors_[step])
      at = std::max(at,
                    finish_[static_cast<size_t>(earlier)] + (is_aside(earlier) == aside ? 0 : kOtherStream));
    return at;
  }

  size_t first_that_waits(size_t step) const {
    const auto& next = graph_.successors[step];
    return next.empty() ? count_ : static_cast<size_t>(next.front());
  }

  // What the first stream does between `step` and the first step that waits for it.
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

  void place(size_t step) {
    const double here = std::max(busy_[0], ready(step, false)) + durations_[step];
    const double there = std::max(busy_[1], ready(step, true)) + durations_[step];
    const double beside = work_beside(step);
    const double waiting_here = here + beside;  // when the first step that waits for this one can start
    const double waiting_there = std::max(busy_[0] + beside, there + kOtherStream);
    const bool gains =
        durations_[step] <= kSmall && has_cover(step) && waiting_there + kWorthWhile <= waiting_here;
    const bool aside = has_exchanges_ ? exchanges_[step] : gains;
    streams_.aside[step] = aside;
    finish_[step] = busy_[aside] = aside ? there : here;
  }

  void find_wait(size_t step) {
    const bool aside = streams_.aside[step];
    const bool first = aside && streams_.last_aside == StepStreams::kNothing;
    int32_t latest = first ? StepStreams::kBegin : StepStreams::kNothing;
    for (int32_t earlier : predecessors_[step])
      if (is_aside(earlier) != aside) latest = std::max(latest, earlier);
    if (aside) streams_.last_aside = static_cast<int32_t>(step);
    if (latest > waited_[aside]) streams_.waits_for[step] = waited_[aside] = latest;
  }

  const StepGraph& graph_;
  const size_t count_;
  std::vector<double> durations_, work_before_ = {0};  // by step
  std::vector<bool> exchanges_;                        // by step: whether it is one with other ranks
  bool has_exchanges_ = false;
  std::vector<std::vector<int32_t>> predecessors_;
  std::vector<double> finish_;
  double busy_[2] = {0, 0};                                             // until when, by stream
  int32_t waited_[2] = {StepStreams::kNothing, StepStreams::kNothing};  // by stream: for a step of the other
  StepStreams streams_;
};

}  // namespace

double least_microseconds(const Step& step) { return std::max(work_of(step), kShortest); }

StepStreams assign_streams(const Plan& plan, const StepGraph& graph) { return Assigner(plan, graph).run(); }

}  // namespace genesis
