#include "executor/cpu/cpu_runner.h"

#include <tbb/task_arena.h>
#include <tbb/task_group.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <map>

#include "backends/collectives.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/parallel/work_trace.h"
#include "executor/runtime/loop_run.h"
#include "executor/runtime/nonfinite.h"
#include "executor/runtime/step_call.h"
#include "executor/runtime/step_graph.h"
#include "schema/core/task_edges.h"
#include "schema/ops/tensor/loop.h"

namespace genesis {

namespace {

using Clock = std::chrono::steady_clock;

class CpuRunner final : public Runner {
 public:
  CpuRunner(const Plan& plan, const RunnerOptions& options, const Target& target)
      : plan_(plan),
        collectives_(options.collectives),
        calls_(make_step_calls(plan, cpu::kernels_for, options.disabled_kernels)),
        graph_(make_step_graph(plan, target)),
        faults_(plan.steps.size()),
        waiting_(plan.steps.size()) {
    for (size_t i = 0; i < calls_.size(); ++i) {
      calls_[i].context.fault = &faults_[i];
      calls_[i].context.collectives = collectives_.get();
      if (is<ops::Loop>(*calls_[i].step->op)) add_loop(i, options, target);
    }
  }

  void bind(const PlanMemory& memory) override {
    input_views_.clear();
    for (StepCall& call : calls_) {
      bind_views(call.inputs, call.step->inputs, memory);
      bind_views(call.outputs, call.step->outputs, memory);
      call.context.scratch = memory.arena + call.step->scratch_offset;
    }
    for (const auto& [i, loop] : loops_) loop->bind(memory, calls_[i].context.scratch);
    copies_.clear();
    for (const StateCopy& copy : plan_.state_copies)
      copies_.push_back({memory.states[static_cast<size_t>(copy.state)], memory.resolve(copy.source),
                         static_cast<size_t>(copy.source.bytes)});
  }

  void bind_inputs(const PlanMemory& memory) override {
    for (const auto& [view, ref] : input_views_) view->data = memory.resolve(*ref);
    for (const auto& [i, loop] : loops_) loop->bind_inputs(memory, calls_[i].context.scratch);
  }

  void run(const RunOptions& options) override {
    if (stopped_.exchange(false))
      for (Fault& fault : faults_) fault.set = false;
    failed_exchange_ = -1;
    if (options.timings || options.find_nonfinite || options.observer)
      run_observed(options);
    else if (options.timeline)
      run_traced(*options.timeline);
    else
      run_unseen();
    if (stopped_) report_first_fault();
    const int64_t exchange = failed_exchange_;
    check_ranks(collectives_.get(), plan_,
                exchange < 0 ? nullptr : &plan_.steps[static_cast<size_t>(exchange)]);
    for (const Copy& copy : copies_) std::memcpy(copy.to, copy.from, copy.bytes);
  }

  void wait() override {}

  double seconds_per_run(int repeats) override {
    const auto start = Clock::now();
    for (int i = 0; i < repeats; ++i) run({});
    return std::chrono::duration<double>(Clock::now() - start).count() / repeats;
  }

 private:
  struct Copy {
    std::byte* to;
    const std::byte* from;
    size_t bytes;
  };

  void add_loop(size_t i, const RunnerOptions& options, const Target& target) {
    StepCall& call = calls_[i];
    const Plan& body = body_of(plan_, *call.step);
    const auto loop =
        std::make_shared<LoopRun>(*call.step, body, std::make_unique<CpuRunner>(body, options, target));
    call.prepared = loop;
    call.context.prepared_ptr = static_cast<const LoopBody*>(loop.get());
    loops_.emplace(i, loop);
  }

  void bind_views(std::vector<TensorView>& views, const std::vector<BufferRef>& refs,
                  const PlanMemory& memory) {
    for (size_t i = 0; i < views.size(); ++i) {
      views[i].data = memory.resolve(refs[i]);
      if (refs[i].space == Space::kInput) input_views_.emplace_back(&views[i], &refs[i]);
    }
  }

  void run_unseen() {
    if (tbb::this_task_arena::max_concurrency() == 1)
      run_in_order();
    else
      run_when_ready();
  }

  void run_traced(Timeline& timeline) {
    cpu::WorkTrace trace;
    trace_ = &trace;
    try {
      run_unseen();
    } catch (...) {
      trace_ = nullptr;
      throw;
    }
    trace_ = nullptr;
    timeline = timeline_of(trace);
  }

  static Timeline timeline_of(const cpu::WorkTrace& trace) {
    Timeline timeline;
    for (const auto& spans : trace.spans()) {
      Timeline::Track track{fmt::format("thread {}", timeline.tracks.size()), {}};
      for (const auto& span : spans) track.spans.push_back({span.step, span.start_us, span.end_us});
      timeline.tracks.push_back(std::move(track));
    }
    return timeline;
  }

  void execute(size_t i) {
    if (trace_)
      trace_->run(static_cast<int32_t>(i), [&] { calls_[i](); });
    else
      calls_[i]();
    if (faults_[i].set.load(std::memory_order_relaxed)) stopped_.store(true, std::memory_order_relaxed);
    if (collectives_ && calls_[i].step->op->info.collective && !collectives_->failure().empty())
      stop_at_exchange(i);
  }

  void stop_at_exchange(size_t i) {
    int64_t none = -1;
    failed_exchange_.compare_exchange_strong(none, static_cast<int64_t>(i));
    stopped_.store(true, std::memory_order_relaxed);
  }

  void run_in_order() {
    for (size_t i = 0; i < calls_.size() && !stopped_.load(std::memory_order_relaxed); ++i) execute(i);
  }

  // Starts every step as soon as the steps it waits for are done. Results do not depend on scheduling: a step reads and writes
  // the same bytes whenever and wherever it runs.
  void run_when_ready() {
    for (size_t i = 0; i < waiting_.size(); ++i)
      waiting_[i].store(graph_.waits[i], std::memory_order_relaxed);
    tbb::task_group tasks;
    std::vector<int32_t> ready;
    for (size_t i = 0; i < waiting_.size(); ++i)
      if (graph_.waits[i] == 0) ready.push_back(static_cast<int32_t>(i));
    for (size_t i = 1; i < ready.size(); ++i) start(tasks, ready[i]);
    if (!ready.empty()) run_chain(tasks, ready[0]);
    tasks.wait();
    take_over(&tasks);
  }

  void start(tbb::task_group& tasks, int32_t step) {
    void* const edge = &waiting_[static_cast<size_t>(step)];
    hand_over(edge);
    tasks.run([this, &tasks, step, edge]() GENESIS_TASK_BODY {
      take_over(edge);
      run_chain(tasks, step);
      hand_over(&tasks);
    });
  }

  // Runs a step, then the steps that it made ready: tiny ones on this thread, larger ones as new tasks. If no tiny step is ready,
  // one of the larger steps runs on this thread too.
  void run_chain(tbb::task_group& tasks, int32_t first) {
    constexpr size_t kMax = 64;
    std::array<int32_t, kMax> tiny;  // used as a stack
    size_t count = 0;
    int32_t next = first;
    while (next >= 0) {
      if (!stopped_.load(std::memory_order_relaxed)) execute(static_cast<size_t>(next));
      const auto& successors = graph_.successors[static_cast<size_t>(next)];
      next = -1;
      for (int32_t successor : successors) {
        const auto at = static_cast<size_t>(successor);
        if (waiting_[at].fetch_sub(1, std::memory_order_acq_rel) != 1) continue;
        if (graph_.tiny[at] && count < kMax)
          tiny[count++] = successor;
        else if (next < 0)
          next = successor;
        else
          start(tasks, successor);
      }
      if (count == 0) continue;
      if (next >= 0) start(tasks, next);
      next = tiny[--count];
    }
  }

  void run_observed(const RunOptions& options) {
    const auto begin = Clock::now();
    const auto now = [&] { return std::chrono::duration<double, std::micro>(Clock::now() - begin).count(); };
    if (options.timings) options.timings->assign(calls_.size(), {});
    for (size_t i = 0; i < calls_.size(); ++i) {
      const bool were_finite = !options.find_nonfinite || all_finite(calls_[i].inputs);
      const double start = now();
      execute(i);
      if (options.timings) (*options.timings)[i] = {start, now()};
      if (stopped_) return;
      if (options.find_nonfinite) check_finite(calls_[i], were_finite);
      if (options.observer) options.observer(*calls_[i].step, calls_[i].inputs, calls_[i].outputs);
    }
  }

  // Reports the first fault in the plan's order, whichever thread saw one first.
  void report_first_fault() const {
    for (size_t i = 0; i < faults_.size(); ++i) {
      if (!faults_[i].set) continue;
      if (const auto loop = loops_.find(i); loop != loops_.end()) loop->second->rethrow();
      fail_on_data(*calls_[i].step, faults_[i]);
    }
  }

  static bool all_finite(const std::vector<TensorView>& views) {
    return std::ranges::none_of(views,
                                [](const TensorView& view) { return first_nonfinite(view).has_value(); });
  }

  void check_finite(const StepCall& call, bool inputs_were_finite) const {
    const bool infinities_too = makes_infinities(*call.step, inputs_were_finite);
    for (size_t i = 0; i < call.outputs.size(); ++i)
      if (const auto found = first_nonfinite(call.outputs[i], infinities_too))
        fail_on_nonfinite(plan_, *call.step, i, *found, inputs_were_finite, call.inputs, call.outputs);
  }

  const Plan& plan_;
  const std::shared_ptr<Collectives> collectives_;
  std::vector<StepCall> calls_;
  std::vector<Copy> copies_;
  std::vector<std::pair<TensorView*, const BufferRef*>> input_views_;
  std::map<size_t, std::shared_ptr<LoopRun>> loops_;  // by step
  StepGraph graph_;
  cpu::WorkTrace* trace_ = nullptr;            // null unless the current run is traced
  std::vector<Fault> faults_;                  // by step
  std::vector<std::atomic<int32_t>> waiting_;  // by step: number of its predecessors not yet done in this run
  std::atomic<bool> stopped_ = false;          // a step reported a fault, or ranks failed: skip the others
  std::atomic<int64_t> failed_exchange_ = -1;  // first step in which this rank saw that ranks failed
};

}  // namespace

std::unique_ptr<Runner> make_cpu_runner(const Plan& plan, const RunnerOptions& options,
                                        const Target& target) {
  return std::make_unique<CpuRunner>(plan, options, target);
}

}  // namespace genesis
