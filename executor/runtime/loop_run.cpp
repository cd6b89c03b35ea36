#include "executor/runtime/loop_run.h"

#include <cstring>

#include "schema/ops/tensor/loop.h"

namespace genesis {
namespace {

void copy_all(const std::vector<LoopPlaces::Move>& moves, int64_t number) {
  for (const LoopPlaces::Move& move : moves)
    std::memcpy(move.to + (move.is_row ? number * move.bytes : 0), move.from,
                static_cast<size_t>(move.bytes));
}

bool bool_at(const std::byte* place) { return *reinterpret_cast<const bool*>(place); }

int64_t number_at(const std::byte* place) {
  int64_t number = 0;
  std::memcpy(&number, place, sizeof(number));
  return number;
}

}  // namespace

LoopRun::LoopRun(const Step& loop, const Plan& body, std::unique_ptr<Runner> runner)
    : loop_(loop), body_(body), runner_(std::move(runner)) {}

void LoopRun::bind(const PlanMemory& memory, std::byte* scratch) {
  at_ = place_loop(loop_, body_, memory, scratch);
  runner_->bind(at_.body);
}

void LoopRun::bind_inputs(const PlanMemory& memory, std::byte* scratch) {
  at_ = place_loop(loop_, body_, memory, scratch);
  runner_->bind_inputs(at_.body);
}

// An exception must not cross the scheduler's tasks.
void LoopRun::run(const KernelContext& c) const {
  failure_ = nullptr;
  try {
    run_steps(c);
  } catch (...) {
    failure_ = std::current_exception();
    c.fault->report("a step of the loop failed");
  }
}

void LoopRun::rethrow() const {
  if (failure_) std::rethrow_exception(failure_);
}

void LoopRun::run_steps(const KernelContext& c) const {
  copy_all(at_.before, 0);
  const int64_t most = number_at(at_.most);
  bool goes_on = bool_at(at_.condition);
  int64_t number = 0;
  for (; goes_on && number < most; ++number) {
    if (number == at_.rows) return c.fault->report(ops::kMoreStepsThanRows);
    std::memcpy(at_.number, &number, sizeof(number));
    runner_->run({});
    runner_->wait();
    goes_on = bool_at(at_.goes_on);
    copy_all(at_.kept, number);
    copy_all(at_.carried, number);
  }
  if (at_.count) std::memcpy(at_.count, &number, sizeof(number));
}

}  // namespace genesis
