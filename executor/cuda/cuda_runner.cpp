#include "executor/cuda/cuda_runner.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "backends/common/sampling.h"
#include "backends/cuda/runtime/launch.h"
#include "backends/cuda/runtime/runtime.h"
#include "executor/cuda/cuda_calls.h"
#include "executor/cuda/cuda_inspect.h"
#include "executor/cuda/cuda_progress.h"
#include "executor/cuda/cuda_transfers.h"
#include "executor/cuda/launch_times.h"
#include "executor/cuda/planned_exchanges.h"
#include "executor/cuda/planned_joins.h"
#include "executor/cuda/step_streams.h"
#include "executor/cuda/stream_order.h"
#include "schema/core/error.h"
#include "schema/messages/log.h"
#include "schema/ops/nn/attention.h"
#include "schema/ops/tensor/loop.h"

namespace genesis {
namespace {

using cuda::check;
using cuda::DeviceFault;

class CudaRunner final : public Runner {
 public:
  CudaRunner(const Plan& plan, const RunnerOptions& options, const StreamSpeeds& speeds, int device,
             cudaStream_t stream)
      : plan_(plan),
        options_(options),
        speeds_(speeds),
        device_(device),
        stream_(stream),
        inputs_(plan, device),
        outputs_(plan, options.leaves_outputs),
        fault_(cuda::allocate_pinned(sizeof(DeviceFault))),
        calls_(plan, options, stream, device_fault()),
        inspector_(device, stream),
        streams_(stream),
        joins_(plan, options.disabled_kernels, device),
        progress_(plan, speeds) {
    *device_fault() = {};
  }

  void rename_kernels(std::vector<std::string>& kernels) const override { joins_.rename_kernels(kernels); }

  void bind(const PlanMemory& memory) override {
    memory_ = memory;
    host_inputs_ = memory.inputs;
    place(inputs_.addresses(host_inputs_));
  }

  void bind_inputs(const PlanMemory& memory) override {
    host_inputs_ = memory.inputs;
    std::vector<std::byte*> inputs = inputs_.addresses(host_inputs_);
    if (inputs == memory_.inputs) return;
    if (under_way_ != UnderWay::kNothing) cuda::wait_for(stream_, "moving inputs");
    place(std::move(inputs));
  }

  void stage(const std::vector<std::byte*>& inputs) override {
    naming_nodes([&] { inputs_.stage(inputs); });
  }

  void run(const RunOptions& options) override {
    naming_nodes([&] {
      inputs_.bring(host_inputs_, stream_);
      if (options.timings || options.find_nonfinite || options.observer)
        run_observed(options);
      else if (options.timeline)
        run_on_streams(*options.timeline);
      else
        run_graph();
      outputs_.fetch(memory_, stream_, options.leaves_outputs);
    });
  }

  double seconds_per_run(int repeats) override {
    run({});  // uploads the inputs, captures the graph
    wait();
    const cuda::Event start = cuda::make_event(true), end = cuda::make_event(true);
    check(cudaEventRecord(start.get(), stream_), "timing runs");
    under_way_ = UnderWay::kManyRuns;
    for (int i = 0; i < repeats; ++i) cuda::launch(graph_.get(), stream_);
    check(cudaEventRecord(end.get(), stream_), "timing runs");
    wait();
    float ms = 0;
    check(cudaEventElapsedTime(&ms, start.get(), end.get()), "timing runs");
    return 1e-3 * static_cast<double>(ms) / repeats;
  }

  void wait() override {
    naming_nodes([&] { outputs_.wait(stream_); });
    if (!outputs_.are_under_way()) {
      under_way_ = UnderWay::kNothing;
      inputs_.runs_are_done();
    }
    check_ranks(options_.collectives.get(), plan_);
    report_fault();
  }

  bool keeps_outputs() const override { return outputs_.has_all(); }
  const std::byte* output(size_t index) const override { return outputs_.at(index); }

 private:
  DeviceFault* device_fault() const { return reinterpret_cast<DeviceFault*>(fault_.get()); }

  // Lets the steps read the inputs at these addresses, and everything else in the plan's memory.
  void place(std::vector<std::byte*> inputs) {
    graph_.reset();
    memory_.inputs = std::move(inputs);
    calls_.place(memory_);
  }

  // The work that the stream has been given since the host last waited for it.
  enum class UnderWay { kNothing, kOneRun, kManyRuns, kSteps };

  void run_graph() {
    if (!graph_) capture();
    const bool runs = under_way_ == UnderWay::kOneRun || under_way_ == UnderWay::kManyRuns;
    under_way_ = runs ? UnderWay::kManyRuns : UnderWay::kOneRun;
    if (!runs) {
      progress_.begin_run();
      joins_.begin_run();
    }
    cuda::launch(graph_.get(), stream_);
  }

  // Runs `body` and adds to its Error where the run was, once. CUDA reports a kernel's error in whichever call comes next, and
  // all device memory is lost with it.
  template <class Body>
  void naming_nodes(const Body& body) {
    try {
      body();
    } catch (Error& error) {
      if (!cuda::is_lost()) throw;
      const UnderWay lost = std::exchange(under_way_, UnderWay::kNothing);
      if (lost == UnderWay::kNothing) throw;
      error.add_context(where(lost));
      cuda::remember_loss(error.message());
      throw;
    }
  }

  std::string where(UnderWay lost) const {
    const std::string entry = "entry point '" + plan_.entry + "'";
    if (lost == UnderWay::kManyRuns && joins_.has_some())
      return "in one of several runs of " + entry + " that follow each other";
    if (lost == UnderWay::kSteps) return "in " + entry + ", whose nodes were started one by one";
    const std::vector<size_t> steps = joins_.narrowed(progress_.under_way());
    if (steps.empty()) return "in " + entry;
    if (steps.size() == 1) return "in " + description(calls_.all()[steps[0]]) + " of " + entry;
    std::string names;
    for (size_t step : steps) names += (names.empty() ? "" : ", ") + description(calls_.all()[step]);
    return "in one of these, which were under way in " + entry + ": " + names;
  }

  void capture() {
    const auto begin = std::chrono::steady_clock::now();
    const StepStreams streams = streams_of_plan();
    joins_.load(calls_.all(), streams, calls_.launches());
    tell_ranks(streams);
    std::optional<StreamOrder> order;  // lives until the capture ends
    graph_ = capture_graph(stream_, [&] {
      start_captured(streams, order);
      finish_steps();
    });
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    log_debug("'{}': captured in {:.3f} s", plan_.entry, took.count());
  }

  // Makes the launches of all steps the nodes of the graph that is being captured.
  void start_captured(const StepStreams& streams, std::optional<StreamOrder>& order) {
    progress_.begin_capture(streams);
    streams_.prepare(streams);
    order.emplace(streams, streams_);
    bool has_begun[StepStreams::kStreams] = {};
    for_launches([&](size_t first, size_t end) {
      const uint8_t number = streams.stream[first];
      // A kernel launched early waits only for the one kernel before it in its stream. The first step is not early, since copies
      // of inputs precede it.
      const bool early = calls_.launches()[first].can_use_pdl &&
                         streams.waits_for[first] == StepStreams::kNoWaits &&
                         std::exchange(has_begun[number], true);
      order->wait_before(first);
      launch(first, streams_.at(number), early);
      progress_.captured(first, end, streams_.at(number));
      order->launched(first, end);
    });
    order->join();
  }

  // Runs the steps on the streams that a captured graph has as branches, but without the graph: nodes inside a graph cannot be
  // timed.
  void run_on_streams(Timeline& timeline) {
    if (!graph_) capture();  // decides which steps are joined
    joins_.begin_run();
    under_way_ = UnderWay::kSteps;
    const StepStreams streams = streams_of_plan();
    tell_ranks(streams);
    LaunchTimes times(stream_);
    start_timed(streams, times);
    finish_steps();
    cuda::wait_for(stream_, "timing steps");
    timeline = times.timeline();
  }

  // Launches all steps with events around each launch. No kernel is launched early, since an event lies before it.
  void start_timed(const StepStreams& streams, LaunchTimes& times) {
    streams_.prepare(streams);
    StreamOrder order(streams, streams_);
    for_launches([&](size_t first, size_t end) {
      const uint8_t number = streams.stream[first];
      order.wait_before(first);
      times.begin(first, number, streams_.at(number));
      launch(first, streams_.at(number), /*early=*/false);
      times.end(streams_.at(number));
      order.launched(first, end);
    });
    order.join();
  }

  // Calls visit(first, end) for the steps of each launch, in the plan's order: one step, or several joined ones.
  template <class Visit>
  void for_launches(const Visit& visit) const {
    for (size_t first = 0, end = 0; first < plan_.steps.size(); first = end) {
      const JoinedSteps* joined = joins_.from(first);
      end = joined ? joined->steps().end : first + 1;
      visit(first, end);
    }
  }

  // Launches the step, or the joined steps that begin with it, on a stream. Other launches of the step use the main stream.
  void launch(size_t first, cudaStream_t stream, bool early) {
    calls_.on_stream(first, stream, early, [&](const cuda::Launch& launch) {
      if (const JoinedSteps* joined = joins_.from(first))
        start(*joined, launch);
      else
        calls_.start(first);
    });
  }

  void tell_ranks(const StepStreams& streams) {
    if (options_.collectives && options_.peer_memory)
      plan_exchanges(*options_.collectives, calls_.all(), streams, speeds_);
  }

  StepStreams streams_of_plan() const {
    if (options_.side_stream) return assign_streams(plan_, make_step_graph(plan_), speeds_);
    return StepStreams::one_line(plan_.steps.size());
  }

  void start(const JoinedSteps& joined, const cuda::Launch& launch) {
    const StepRange& steps = joined.steps();
    joined.start(launch);
    if (const cudaError_t status = cudaGetLastError(); status != cudaSuccess)
      fail(
          "nodes '{}' to '{}' in entry point '{}': CUDA refused to start the kernel that does them all: {} "
          "({}); --disable {} starts one for each",
          plan_.steps[steps.first].authored, plan_.steps[steps.end - 1].authored, plan_.entry,
          cudaGetErrorString(status), cudaGetErrorName(status), joined.implementation());
  }

  // Enqueues the state updates that could not happen in place, behind all steps.
  void finish_steps() {
    for (const StateCopy& copy : plan_.state_copies)
      check(cudaMemcpyAsync(memory_.states[static_cast<size_t>(copy.state)], memory_.resolve(copy.source),
                            static_cast<size_t>(copy.source.bytes), cudaMemcpyDeviceToDevice, stream_),
            "updating a state");
  }

  // Returns the fault of the run that has just been waited for. If a later run is under way, it fails with the same one: the fault may
  // be that run's, and otherwise its loops ended at it and its kernels could not report another.
  DeviceFault take_fault() {
    const DeviceFault fault = *device_fault();
    if (!fault.set) return std::exchange(fault_of_next_, {});
    if (outputs_.are_under_way()) {
      cuda::wait_for(stream_, "running");
      fault_of_next_ = fault;
    }
    *device_fault() = {};
    return fault;
  }

  // Kernels report faults before any state is copied, but in-place updates may have happened.
  void report_fault() {
    const DeviceFault fault = take_fault();
    if (!fault.set) return;
    const Step& step = *calls_.numbered(fault.step).step;
    Fault report;
    if (is<ops::Loop>(*step.op))  // the only index of a loop is that of its rows
      report.report(ops::kMoreStepsThanRows);
    else if (fault.set == 2)
      report.report("integer division by zero");
    else if (fault.set == 3)
      report.report(kNanLogit);
    else if (fault.set == 4)
      report.report(ops::kFallingStarts);
    else
      report.report(fault.value, fault.limit);
    fail_on_data(step, report);
  }

  // Runs the steps one by one, without the graph.
  void run_observed(const RunOptions& options) {
    std::vector<cuda::Event> events;
    const auto mark = [&] {
      if (options.timings) events.push_back(timed_event(stream_));
    };
    mark();
    for (size_t i = 0; i < plan_.steps.size(); ++i) {
      const StepCall& call = calls_.all()[i];
      const bool were_finite = !options.find_nonfinite || inspector_.first_bad(call.inputs) == std::nullopt;
      under_way_ = UnderWay::kSteps;
      calls_.start(i);
      mark();
      if (options.find_nonfinite || options.observer) look(call, were_finite, options);
    }
    finish_steps();
    if (options.timings) read_timings(events, *options.timings);
  }

  void read_timings(const std::vector<cuda::Event>& events, std::vector<StepTiming>& timings) {
    cuda::wait_for(stream_, "timing steps");
    timings.clear();
    const auto at = [&](size_t i) { return microseconds_between(events[0], events[i]); };
    for (size_t i = 0; i + 1 < events.size(); ++i) timings.push_back({at(i), at(i + 1)});
  }

  void look(const StepCall& call, bool inputs_were_finite, const RunOptions& options) {
    with_context([&] { cuda::wait_for(stream_, "running a step"); }, [&] { return description(call); });
    if (options.find_nonfinite)
      if (const auto found = inspector_.first_bad(call.outputs);
          found && (found->second.is_nan || makes_infinities(*call.step, inputs_were_finite)))
        fail_on_nonfinite(call, *found, inputs_were_finite);
    if (options.observer) {
      const auto in = inspector_.host_copies(call.inputs), out = inspector_.host_copies(call.outputs);
      options.observer(*call.step, in.views, out.views);
    }
  }

  [[noreturn]] void fail_on_nonfinite(const StepCall& call, const std::pair<size_t, Nonfinite>& found,
                                      bool inputs_were_finite) const {
    const auto in = inspector_.host_copies(call.inputs), out = inspector_.host_copies(call.outputs);
    genesis::fail_on_nonfinite(plan_, *call.step, found.first, found.second, inputs_were_finite, in.views,
                               out.views);
  }

  const Plan& plan_;
  const RunnerOptions options_;
  const StreamSpeeds speeds_;
  int device_;
  cudaStream_t stream_;
  InputBuffers inputs_;
  OutputBuffers outputs_;
  std::shared_ptr<std::byte> fault_;  // pinned: kernels write there only if something is wrong
  DeviceFault fault_of_next_ = {};    // the run that is waited for next fails with it
  CudaCalls calls_;
  PlanMemory memory_;
  CudaInspector inspector_;
  std::vector<std::byte*> host_inputs_;
  PlanStreams streams_;
  PlannedJoins joins_;
  CudaProgress progress_;
  UnderWay under_way_ = UnderWay::kNothing;
  cuda::GraphExec graph_;
};

}  // namespace

std::unique_ptr<Runner> make_cuda_runner(const Plan& plan, const RunnerOptions& options,
                                         const StreamSpeeds& speeds, int device, void* stream) {
  return std::make_unique<CudaRunner>(plan, options, speeds, device, static_cast<cudaStream_t>(stream));
}

}  // namespace genesis
