#include "executor/runtime/roofline.h"

#include <map>
#include <utility>

namespace genesis {
namespace {

// Bytes of one operand, and how many bytes are touched between two uses of it.
struct Touch {
  double bytes = 0;
  int64_t distance = 0;
};

// Walks a plan as if it ran repeatedly, and finds for each operand how many bytes were touched since its last use.
class Distances {
 public:
  explicit Distances(const Plan& plan) {
    for (const Step& step : plan.steps) touches(step);
  }

  std::vector<Touch> touches(const Step& step) {
    std::vector<Touch> all;
    int64_t arena = 0;
    for (const auto* refs : {&step.inputs, &step.outputs})
      for (const BufferRef& ref : *refs) arena += ref.space == Space::kArena ? ref.bytes : 0;
    for (const auto* refs : {&step.inputs, &step.outputs})
      for (const BufferRef& ref : *refs) {
        clock_ += ref.bytes;
        auto [last, fresh] = last_.try_emplace({ref.space, ref.index}, 0);
        const int64_t distance = ref.space == Space::kArena ? arena : clock_ - last->second;
        if (ref.space != Space::kArena) last->second = clock_;
        all.push_back({static_cast<double>(ref.bytes), distance});
      }
    return all;
  }

 private:
  int64_t clock_ = 0;  // bytes touched so far
  std::map<std::pair<Space, int32_t>, int64_t> last_;
};

// Every byte passes through the nearest memory level; a byte from a farther level passes through that level too.
double memory_microseconds(const std::vector<Touch>& touches, const DevicePeaks& peaks) {
  double least = 0;
  for (const Touch& at : touches) {
    double bytes = 0;
    for (const Touch& other : touches) bytes += other.distance >= at.distance ? other.bytes : 0;
    least = std::max(least, bytes / peaks.gbps(at.distance));
  }
  return least / 1e3;
}

double step_microseconds(const Step& step, std::vector<Touch> touches, const DevicePeaks& peaks) {
  const Cost cost = cost_of(step);
  if (cost.depends_on_data) return 0;
  double whole = 0;
  for (const Touch& touch : touches) whole += touch.bytes;
  if (cost.bytes < whole)
    touches = {{cost.bytes, static_cast<int64_t>(cost.bytes)}};  // it is unknown which bytes
  const bool low = multiplies_low_precision(step.input_types);
  const Rates rates = {.flops = 1e3 * (low ? peaks.low_gflops : peaks.f32_gflops)};
  return std::max(memory_microseconds(touches, peaks), arithmetic_time(cost.flops, rates));
}

}  // namespace

void DevicePeaks::take_larger(const DevicePeaks& other) {
  f32_gflops = std::max(f32_gflops, other.f32_gflops);
  low_gflops = std::max(low_gflops, other.low_gflops);
  copy_gbps = std::max(copy_gbps, other.copy_gbps);
  read_gbps = std::max(read_gbps, other.read_gbps);
  for (size_t i = 0; i < std::min(caches.size(), other.caches.size()); ++i)
    caches[i].gbps = std::max(caches[i].gbps, other.caches[i].gbps);
}

std::vector<double> least_microseconds(const Plan& plan, const DevicePeaks& peaks) {
  Distances distances(plan);  // walks the plan once, as the previous run
  std::vector<double> least;
  for (const Step& step : plan.steps)
    least.push_back(step_microseconds(step, distances.touches(step), peaks));
  return least;
}

}  // namespace genesis
