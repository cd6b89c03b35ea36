#include "executor/cuda_runner.h"

#include <spdlog/spdlog.h>

#include <chrono>
#include <utility>

#include "backends/cuda/find_nonfinite.h"
#include "backends/cuda/kernels.h"
#include "backends/cuda/launch.h"
#include "backends/cuda/runtime.h"
#include "executor/cuda_chain.h"
#include "executor/cuda_transfers.h"
#include "executor/settled_inputs.h"
#include "executor/step_call.h"
#include "executor/step_streams.h"
#include "schema/error.h"

namespace genesis {
namespace {

using cuda::check;
using cuda::DeviceFault;

class CudaRunner final : public Runner {
 public:
  CudaRunner(const Plan& plan, int device, cudaStream_t stream)
      : plan_(plan),
        device_(device),
        stream_(stream),
        calls_(make_step_calls(plan, cuda::kernels_for)),
        inputs_(plan, device),
        outputs_(plan),
        fault_(cuda::allocate_pinned(sizeof(DeviceFault))),
        launches_(calls_.size()),
        chains_(make_cuda_chains(plan, device)) {
    *device_fault() = {};
    const std::vector<uint64_t> settled = settled_inputs(plan);
    const bool can_start_early = cuda::code_can_start_early();
    for (size_t i = 0; i < calls_.size(); ++i) {
      launches_[i] = {.stream = stream_,
                      .fault = {device_fault(), static_cast<int32_t>(i)},
                      .multiprocessors = cuda::current_chip().multiprocessors,
                      .can_start_early = can_start_early,
                      .settled = settled[i]};
      calls_[i].context.launch = &launches_[i];
      calls_[i].context.fault = &host_fault_;
    }
  }

  void bind(const PlanMemory& memory) override {
    graph_.reset();
    memory_ = memory;
    memory_.inputs = inputs_.addresses();
    for (StepCall& call : calls_) {
      for (size_t k = 0; k < call.inputs.size(); ++k)
        call.inputs[k].data = memory_.resolve(call.step->inputs[k]);
      for (size_t k = 0; k < call.outputs.size(); ++k)
        call.outputs[k].data = memory_.resolve(call.step->outputs[k]);
      call.context.scratch = memory_.arena + call.step->scratch_offset;
    }
    bind_inputs(memory);
  }

  void bind_inputs(const PlanMemory& memory) override { host_inputs_ = memory.inputs; }

  void stage(const std::vector<std::byte*>& inputs) override { inputs_.stage(inputs); }

  void run(const RunOptions& options) override {
    inputs_.bring(host_inputs_, stream_);
    if (options.timings || options.find_nonfinite || options.observer)
      run_observed(options);
    else
      run_graph();
    outputs_.fetch(memory_, stream_);
  }

  double seconds_per_run(int repeats) override {
    run({});  // uploads the inputs, captures
    const cuda::Event start = cuda::make_event(true), end = cuda::make_event(true);
    check(cudaEventRecord(start.get(), stream_), "timing runs");
    for (int i = 0; i < repeats; ++i) cuda::launch(graph_.get(), stream_);
    check(cudaEventRecord(end.get(), stream_), "timing runs");
    wait();
    float ms = 0;
    check(cudaEventElapsedTime(&ms, start.get(), end.get()), "timing runs");
    return 1e-3 * static_cast<double>(ms) / repeats;
  }

  void wait() override {
    with_context([&] { cuda::wait_for(stream_, "running"); },
                 [&] {
                   return "in entry point '" + plan_.entry +
                          "', started as a whole; --find-nonfinite runs it node by node and names the one";
                 });
    inputs_.runs_are_done();
    report_fault();
  }

  const std::byte* output(size_t index) const override { return outputs_.at(index); }

 private:
  DeviceFault* device_fault() const { return reinterpret_cast<DeviceFault*>(fault_.get()); }

  void run_graph() {
    if (!graph_) capture();
    cuda::launch(graph_.get(), stream_);
  }

  void capture() {
    const auto begin = std::chrono::steady_clock::now();
    std::erase_if(chains_, [&](CudaChain& chain) { return !chain.load(calls_, stream_); });
    check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeRelaxed), "beginning a capture");
    cudaGraph_t graph = nullptr;
    std::vector<cuda::Event> order;
    try {
      order = start_on_streams();
      finish_steps();
    } catch (...) {
      for (cuda::Launch& launch : launches_) launch.stream = stream_, launch.early = false;
      cudaStreamEndCapture(stream_, &graph);
      if (graph) cudaGraphDestroy(graph);
      cudaGetLastError();
      throw;
    }
    check(cudaStreamEndCapture(stream_, &graph), "ending a capture");
    graph_ = cuda::make_graph(graph);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    spdlog::debug("'{}': captured in {:.3f} s", plan_.entry, took.count());
  }

  // Captured events become edges of the graph.
  std::vector<cuda::Event> start_on_streams() {
    const StepStreams streams = streams_of_plan();
    std::vector<cuda::Event> done(calls_.size() + 1);  // behind each step; the last: before all of them
    if (streams.last_aside >= 0) {
      if (!side_) side_ = cuda::make_stream();
      done.back() = recorded(stream_);
    }
    std::vector<bool> awaited(calls_.size(), false);
    for (int32_t step : streams.waits_for)
      if (step >= 0) awaited[static_cast<size_t>(step)] = true;
    bool has_begun[2] = {};  // each stream
    for (size_t i = 0, end = 0; i < calls_.size(); i = end) {
      const CudaChain* chain = chain_from(i, streams);
      end = chain ? chain->end() : i + 1;
      const cudaStream_t stream = launches_[i].stream = streams.aside[i] ? side_.get() : stream_;
      // The one kernel ahead is all that an early one waits for. The first has copies of inputs ahead.
      launches_[i].early = launches_[i].can_start_early && streams.waits_for[i] == StepStreams::kNothing &&
                           std::exchange(has_begun[streams.aside[i]], true);
      if (const int32_t step = streams.waits_for[i]; step != StepStreams::kNothing)
        wait_on(stream, step == StepStreams::kBegin ? done.back() : done[static_cast<size_t>(step)]);
      if (chain)
        start(*chain, i);
      else
        start(calls_[i]);
      launches_[i].stream = stream_;
      launches_[i].early = false;
      for (size_t k = i; k < end; ++k)
        if (awaited[k]) done[k] = recorded(stream);
    }
    if (streams.last_aside >= 0) wait_on(stream_, done.emplace_back(recorded(side_.get())));
    return done;  // to be kept until the capture ends
  }

  // The chain that begins with a step, unless streams part its steps.
  const CudaChain* chain_from(size_t step, const StepStreams& streams) const {
    for (const CudaChain& chain : chains_) {
      if (chain.first() != step) continue;
      for (size_t i = step; i < chain.end(); ++i)
        if (streams.aside[i] || (i > step && streams.waits_for[i] != StepStreams::kNothing)) return nullptr;
      return &chain;
    }
    return nullptr;
  }

  StepStreams streams_of_plan() const {
    if (!plan_.one_stream) return assign_streams(plan_, make_step_graph(plan_));
    return {.aside = std::vector<bool>(calls_.size(), false),
            .waits_for = std::vector<int32_t>(calls_.size(), StepStreams::kNothing)};
  }

  static cuda::Event recorded(cudaStream_t stream) {
    cuda::Event event = cuda::make_event(false);
    check(cudaEventRecord(event.get(), stream), "ordering streams");
    return event;
  }

  static void wait_on(cudaStream_t stream, const cuda::Event& event) {
    check(cudaStreamWaitEvent(stream, event.get()), "ordering streams");
  }

  void start(const StepCall& call) {
    call();
    if (const cudaError_t status = cudaGetLastError(); status != cudaSuccess)
      fail("node '{}' ({}, kernel '{}') in entry point '{}': CUDA refused to start it: {} ({})",
           call.step->authored, call.step->op->name(), call.implementation, plan_.entry,
           cudaGetErrorString(status), cudaGetErrorName(status));
  }

  void start(const CudaChain& chain, size_t first) {
    chain.start(launches_[first]);
    if (const cudaError_t status = cudaGetLastError(); status != cudaSuccess)
      fail(
          "nodes '{}' to '{}' in entry point '{}': CUDA refused to start the kernel that does them all: {} "
          "({}); --disable step_chains starts one for each",
          calls_[first].step->authored, calls_[chain.end() - 1].step->authored, plan_.entry,
          cudaGetErrorString(status), cudaGetErrorName(status));
  }

  // What follows the steps: updates that could not happen in place.
  void finish_steps() {
    for (const StateCopy& copy : plan_.state_copies)
      check(cudaMemcpyAsync(memory_.states[static_cast<size_t>(copy.state)], memory_.resolve(copy.source),
                            static_cast<size_t>(copy.source.bytes), cudaMemcpyDeviceToDevice, stream_),
            "updating a state");
  }

  // Kernels report before any state is copied, but in-place updates may have happened.
  void report_fault() {
    const DeviceFault fault = *device_fault();
    if (!fault.set) return;
    *device_fault() = {};
    Fault report;
    if (fault.set == 2)
      report.report("integer division by zero");
    else
      report.report(fault.value, fault.limit);
    fail_on_data(*calls_[static_cast<size_t>(fault.step)].step, report);
  }

  // Step by step, outside the graph.
  void run_observed(const RunOptions& options) {
    std::vector<cuda::Event> events;
    const auto mark = [&] {
      if (!options.timings) return;
      events.push_back(cuda::make_event(true));
      check(cudaEventRecord(events.back().get(), stream_), "timing a step");
    };
    mark();
    for (const StepCall& call : calls_) {
      const bool were_finite = !options.find_nonfinite || first_bad(call.inputs) == std::nullopt;
      start(call);
      mark();
      if (options.find_nonfinite || options.observer) look(call, were_finite, options);
    }
    finish_steps();
    if (options.timings) read_timings(events, *options.timings);
  }

  void read_timings(const std::vector<cuda::Event>& events, std::vector<StepTiming>& timings) {
    cuda::wait_for(stream_, "timing steps");
    timings.clear();
    const auto at = [&](size_t i) {
      float ms = 0;
      check(cudaEventElapsedTime(&ms, events[0].get(), events[i].get()), "timing steps");
      return 1e3 * static_cast<double>(ms);
    };
    for (size_t i = 0; i + 1 < events.size(); ++i) timings.push_back({at(i), at(i + 1)});
  }

  // A step's buffers on the host.
  struct HostCopies {
    std::vector<std::vector<std::byte>> memory;
    std::vector<TensorView> views;
  };
  HostCopies host_copies(const std::vector<TensorView>& views) const {
    HostCopies copies;
    for (const TensorView& view : views) {
      copies.memory.emplace_back(static_cast<size_t>(view.bytes()));
      if (view.bytes() > 0)
        check(cudaMemcpyAsync(copies.memory.back().data(), view.data, static_cast<size_t>(view.bytes()),
                              cudaMemcpyDeviceToHost, stream_),
              "reading a step's data");
      copies.views.push_back(view);
      copies.views.back().data = copies.memory.back().data();
    }
    cuda::wait_for(stream_, "running a step");
    return copies;
  }

  // Tensors are searched where they lie; only the places found come to the host.
  std::optional<std::pair<size_t, Nonfinite>> first_bad(const std::vector<TensorView>& views) {
    std::vector<uint64_t> firsts(views.size());
    const auto bytes = static_cast<int64_t>(firsts.size() * sizeof(uint64_t));
    if (bytes > first_bytes_) firsts_ = cuda::allocate(device_, first_bytes_ = bytes);
    auto* on_device = reinterpret_cast<uint64_t*>(firsts_.get());
    for (size_t i = 0; i < views.size(); ++i) cuda::find_nonfinite(stream_, views[i], on_device + i);
    check(cudaGetLastError(), "looking for values that are not finite");
    if (bytes > 0)
      check(cudaMemcpyAsync(firsts.data(), on_device, static_cast<size_t>(bytes), cudaMemcpyDeviceToHost,
                            stream_),
            "looking for values that are not finite");
    cuda::wait_for(stream_, "running a step");
    for (size_t i = 0; i < firsts.size(); ++i)
      if (firsts[i] != cuda::kAllFinite) return std::pair{i, element(views[i], firsts[i])};
    return std::nullopt;
  }

  Nonfinite element(const TensorView& view, uint64_t index) const {
    TensorView one = view;
    one.rank = 0;
    one.data = view.as<std::byte>() + index * size_of(view.dtype);
    const HostCopies copy = host_copies({one});
    return {static_cast<int64_t>(index), first_nonfinite(copy.views[0])->is_nan};
  }

  void look(const StepCall& call, bool inputs_were_finite, const RunOptions& options) {
    with_context([&] { cuda::wait_for(stream_, "running a step"); },
                 [&] {
                   return fmt::format("node '{}' ({}, kernel '{}')", call.step->authored,
                                      call.step->op->name(), call.implementation);
                 });
    if (options.find_nonfinite)
      if (const auto found = first_bad(call.outputs))
        fail_on_nonfinite(*call.step, found->first, found->second, inputs_were_finite);
    if (options.observer) {
      const HostCopies in = host_copies(call.inputs), out = host_copies(call.outputs);
      options.observer(*call.step, in.views, out.views);
    }
  }

  const Plan& plan_;
  int device_;
  cudaStream_t stream_;
  std::vector<StepCall> calls_;
  InputBuffers inputs_;
  OutputBuffers outputs_;
  std::shared_ptr<std::byte> fault_;    // pinned: kernels write there when something is wrong, which is never
  std::vector<cuda::Launch> launches_;  // by step
  Fault host_fault_;                    // unused by CUDA kernels, which report through their launch
  PlanMemory memory_;
  std::shared_ptr<std::byte> firsts_;  // of find_nonfinite, made when first asked for
  int64_t first_bytes_ = 0;
  std::vector<std::byte*> host_inputs_;
  cuda::Stream side_;  // of captures only: in a graph it is a branch
  std::vector<CudaChain> chains_;
  cuda::GraphExec graph_;
};

}  // namespace

std::unique_ptr<Runner> make_cuda_runner(const Plan& plan, int device, void* stream) {
  return std::make_unique<CudaRunner>(plan, device, static_cast<cudaStream_t>(stream));
}

}  // namespace genesis
