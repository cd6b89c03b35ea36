// First tries a list of packings by peaks, which costs little. Then runs two kinds of workers, because each often solves easily
// what is hard for the other: ejection if there is slack, valleys if the packing must be perfect.
#include "passes/memory/offsets/offset_search.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <span>
#include <vector>

#include "passes/memory/offsets/ejection_search.h"
#include "passes/memory/offsets/peak_packing.h"
#include "passes/memory/offsets/search_tools.h"
#include "passes/memory/offsets/valley_search.h"
#include "schema/core/parallel.h"

namespace genesis::passes {
namespace {

constexpr int kWorkers = 4;
constexpr int64_t kPeakShare = 4;  // packing by peaks may take 1 / kPeakShare of the budget
constexpr int64_t kFirstRound = 10'000'000, kLongestRound = 400'000'000;  // units of work per worker

// Returns the height at the fraction `share` of the way from the target to just below the best known height.
int64_t ceiling_at(int64_t target, int64_t height, double share) {
  return target + static_cast<int64_t>(static_cast<double>(height - 1 - target) * share);
}

class Worker {
 public:
  virtual ~Worker() = default;
  // Lowers `best` until the work of this round is used up or the target is reached.
  virtual void run(int64_t target, WorkMeter& meter, Solution& best) = 0;
};

class EjectionWorker : public Worker {
 public:
  EjectionWorker(const Problem& problem, const ConflictGraph& conflicts, uint64_t seed)
      : problem_(problem), search_(problem, conflicts, seed) {}

  void run(int64_t target, WorkMeter& meter, Solution& best) override {
    while (best.height > target) {
      const int64_t ceiling = ceiling_at(target, best.height, 0.97);
      if (ceiling != search_.ceiling()) search_.aim(best, ceiling, meter);
      if (!search_.run(meter)) return;
      const int64_t height = height_of(problem_, search_.offsets());
      if (height >= best.height) return;  // no gain; the meter does not run between gains
      best = {search_.offsets(), height};
    }
  }

 private:
  const Problem& problem_;
  EjectionSearch search_;
};

// Makes short descents, aimed in turn at the target and at heights that are easier to reach; later descents are longer.
class ValleyWorker : public Worker {
 public:
  ValleyWorker(const Problem& problem, uint64_t seed) : problem_(problem), search_(problem, seed) {}

  void run(int64_t target, WorkMeter& meter, Solution& best) override {
    constexpr std::array<double, 4> kShares = {0.0, 0.25, 0.5, 0.9};
    while (best.height > target && meter.left() > 0) {
      const int64_t ceiling = ceiling_at(target, best.height, kShares[descents_ % kShares.size()]);
      if (search_.solve(ceiling, node_limit_, meter))
        best = {search_.offsets(), height_of(problem_, search_.offsets())};
      if (++descents_ % 48 == 0 && node_limit_ < 1'000'000) node_limit_ *= 2;
    }
  }

 private:
  const Problem& problem_;
  ValleySearch search_;
  int64_t node_limit_ = 2000;
  size_t descents_ = 0;
};

// Runs all workers for one round, each from the same best solution. The lowest result wins, and among equal ones that of the
// worker with the lowest number. A worker that reaches the target only stops workers with higher numbers, which could not have
// won.
void run_round(std::span<const std::unique_ptr<Worker>> workers, int64_t target, int64_t work,
               WorkMeter::Deadline deadline, Solution& best) {
  std::atomic<int> winner{static_cast<int>(workers.size())};
  std::vector<Solution> results(workers.size(), best);
  const auto run_worker = [&](int worker) {
    WorkMeter meter(work, deadline, winner, worker);
    workers[worker]->run(target, meter, results[worker]);
    if (results[worker].height > target) return;
    for (int other = winner; worker < other && !winner.compare_exchange_weak(other, worker);) {
    }
  };
  in_parallel(static_cast<int64_t>(workers.size()), 1,
              [&](int64_t worker, int64_t) { run_worker(static_cast<int>(worker)); });
  for (Solution& result : results)
    if (result.height < best.height) best = std::move(result);
}

}  // namespace

int64_t improve_by_search(const Problem& problem, int64_t target, const SearchLimits& limits,
                          Solution& best) {
  int64_t for_peaks = limits.budget / kPeakShare;
  int64_t used = for_peaks;
  if (auto packed = pack_by_peaks(problem, target, for_peaks)) best = std::move(*packed);
  used -= for_peaks;
  if (best.height <= target) return used;
  const ConflictGraph conflicts(problem);
  std::vector<std::unique_ptr<Worker>> workers;
  for (uint64_t worker = 0; worker < kWorkers; worker += 2) {
    workers.push_back(std::make_unique<ValleyWorker>(problem, worker));
    workers.push_back(std::make_unique<EjectionWorker>(problem, conflicts, worker));
  }
  for (int64_t round = kFirstRound; best.height > target && used < limits.budget;
       round = std::min(round * 2, kLongestRound)) {
    if (std::chrono::steady_clock::now() > limits.deadline) break;
    const int64_t work = std::min(round, (limits.budget - used) / kWorkers + 1);
    run_round(workers, target, work, limits.deadline, best);
    used += work * kWorkers;
  }
  return used;
}

}  // namespace genesis::passes
