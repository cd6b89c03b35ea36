#include "passes/distribution/pipeline/schedule.h"

#include <algorithm>
#include <tuple>

namespace genesis::passes {
namespace {

class Scheduler {
 public:
  Scheduler(const StageDurations& durations, int64_t micro_batches)
      : durations_(durations),
        stages_(std::ssize(durations.forward)),
        micro_batches_(micro_batches),
        lines_(static_cast<size_t>(stages_)),
        forward_end_(static_cast<size_t>(stages_ * micro_batches), kNotYet),
        backward_end_(forward_end_) {}

  PipelineSchedule run() {
    for (int64_t stage = 0; stage < stages_; ++stage) add_line(stage);
    std::vector<size_t> next(lines_.size(), 0);
    std::vector<double> free(lines_.size(), 0);
    for (bool goes_on = true; goes_on;) {
      goes_on = false;
      for (size_t s = 0; s < lines_.size(); ++s)
        for (; next[s] < lines_[s].size() && ready(lines_[s][next[s]]) != kNotYet; ++next[s], goes_on = true)
          free[s] = place(lines_[s][next[s]], free[s]);
    }
    return result();
  }

 private:
  static constexpr double kNotYet = -1;

  // Adds the blocks of a stage in order.
  void add_line(int64_t stage) {
    std::vector<PipelineBlock>& line = lines_[static_cast<size_t>(stage)];
    const bool has_backward = !durations_.backward.empty();
    const int64_t ahead = has_backward ? std::min(micro_batches_, stages_ - 1 - stage) : micro_batches_;
    for (int64_t m = 0; m < ahead; ++m) line.push_back({stage, m});
    if (!has_backward) return;
    for (int64_t m = 0; m < micro_batches_; ++m) {
      if (m + ahead < micro_batches_) line.push_back({stage, m + ahead});
      line.push_back({stage, m, true});
    }
  }

  double& end_of(bool is_backward, int64_t stage, int64_t micro_batch) {
    return (is_backward ? backward_end_
                        : forward_end_)[static_cast<size_t>(stage * micro_batches_ + micro_batch)];
  }

  // Returns when the input from the neighboring stage is ready; kNotYet if that block has not been placed.
  double ready(const PipelineBlock& block) {
    const auto [stage, m, is_backward, start, end] = block;
    if (!is_backward) return stage == 0 ? 0 : end_of(false, stage - 1, m);
    return stage == stages_ - 1 ? end_of(false, stage, m) : end_of(true, stage + 1, m);
  }

  double place(PipelineBlock& block, double free) {
    const auto stage = static_cast<size_t>(block.stage);
    block.start = std::max(free, ready(block));
    block.end = block.start + (block.is_backward ? durations_.backward : durations_.forward)[stage];
    return end_of(block.is_backward, block.stage, block.micro_batch) = block.end;
  }

  PipelineSchedule result() const {
    PipelineSchedule schedule;
    double work = 0;
    for (const auto& line : lines_)
      for (const PipelineBlock& block : line) {
        schedule.blocks.push_back(block);
        schedule.span = std::max(schedule.span, block.end);
        work += block.end - block.start;
      }
    std::stable_sort(schedule.blocks.begin(), schedule.blocks.end(), [](const auto& a, const auto& b) {
      return std::tie(a.start, a.stage) < std::tie(b.start, b.stage);
    });
    if (schedule.span > 0) schedule.bubble = 1 - work / (static_cast<double>(stages_) * schedule.span);
    return schedule;
  }

  const StageDurations& durations_;
  const int64_t stages_, micro_batches_;
  std::vector<std::vector<PipelineBlock>> lines_;   // by stage
  std::vector<double> forward_end_, backward_end_;  // by stage and micro-batch
};

}  // namespace

PipelineSchedule one_forward_one_backward(const StageDurations& durations, int64_t micro_batches) {
  return Scheduler(durations, micro_batches).run();
}

}  // namespace genesis::passes
