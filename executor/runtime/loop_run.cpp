#include "executor/runtime/loop_run.h"

#include <algorithm>
#include <cstring>

namespace genesis {
namespace {

void copy_bytes(std::byte* to, const std::byte* from, int64_t bytes) {
  if (bytes > 0 && to != from) std::memcpy(to, from, static_cast<size_t>(bytes));
}

}  // namespace

const Plan& body_of(const Plan& plan, const Step& loop) {
  const std::string entry = from_attributes<ops::Loop>(loop.attributes).entry;
  const auto body = std::ranges::find(plan.bodies, entry, &Plan::entry);
  if (body == plan.bodies.end())
    fail("the plan of '{}' has no plan of '{}', which node '{}' runs", plan.entry, entry, loop.authored);
  return *body;
}

LoopRun::LoopRun(const Step& loop, const Plan& body, std::unique_ptr<Runner> runner)
    : body_(body),
      carried_(loop.outputs.size()),
      at_(loop_memory(body.arena_bytes, loop.output_types)),
      runner_(std::move(runner)) {}

void LoopRun::bind(const PlanMemory& memory, std::byte* scratch) {
  scratch_ = scratch;
  memory_ = memory;
  memory_.arena = scratch + at_.arena;
  memory_.inputs.assign(body_.inputs.size(), nullptr);  // each step binds its own
  memory_.inputs[0] = scratch + at_.step;
  runner_->bind(memory_);
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

void LoopRun::run_steps(const KernelContext& c) const {
  std::vector<std::byte*> current;
  for (size_t i = 0; i < carried_; ++i) current.push_back(static_cast<std::byte*>(c.inputs[i + 2].data));
  for (size_t i = carried_ + 2; i < c.inputs.size(); ++i)
    memory_.inputs[i - 1] = static_cast<std::byte*>(c.inputs[i].data);
  const int64_t most = *c.input(1).as<const int64_t>();
  bool goes_on = *c.input(0).as<const bool>();
  for (int64_t number = 0; goes_on && number < most; ++number) goes_on = run_step(number, current);
  for (size_t i = 0; i < carried_; ++i)
    copy_bytes(static_cast<std::byte*>(c.outputs[i].data), current[i], c.outputs[i].bytes());
}

// Returns whether another step follows.
bool LoopRun::run_step(int64_t number, std::vector<std::byte*>& current) const {
  std::memcpy(scratch_ + at_.step, &number, sizeof(number));
  std::ranges::copy(current, memory_.inputs.begin() + 1);
  runner_->bind_inputs(memory_);
  runner_->run({});
  runner_->wait();
  for (size_t i = 0; i < carried_; ++i) {
    const BufferRef& result = body_.outputs[i + 1].buffer;
    std::byte* const place = scratch_ + at_.carried[static_cast<size_t>(number % 2)][i];
    copy_bytes(place, memory_.resolve(result), result.bytes);
    current[i] = place;
  }
  return *reinterpret_cast<const bool*>(memory_.resolve(body_.outputs[0].buffer));
}

}  // namespace genesis
