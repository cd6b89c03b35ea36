#include "executor/cuda/cuda_calls.h"

#include <utility>

#include "backends/cuda/kernels.h"
#include "backends/cuda/runtime/graph_choice.h"
#include "backends/cuda/runtime/graph_loop.h"
#include "backends/cuda/runtime/runtime.h"
#include "backends/loop_body.h"
#include "executor/cuda/independent_inputs.h"
#include "executor/runtime/loop_places.h"
#include "schema/core/error.h"
#include "schema/ops/tensor/loop.h"

namespace genesis {

using cuda::check;

namespace {

std::vector<cuda::LoopCopy> copies_of(const std::vector<LoopPlaces::Move>& moves) {
  std::vector<cuda::LoopCopy> copies;
  for (const LoopPlaces::Move& move : moves) copies.push_back({move.to, move.from, move.bytes, move.is_row});
  return copies;
}

cuda::LoopControl control_of(const LoopPlaces& at, const cuda::Launch& launch) {
  return {.condition = reinterpret_cast<const bool*>(at.condition),
          .goes_on = reinterpret_cast<const bool*>(at.goes_on),
          .most = reinterpret_cast<const int64_t*>(at.most),
          .number = reinterpret_cast<int64_t*>(at.number),
          .count = reinterpret_cast<int64_t*>(at.count),
          .rows = at.rows,
          .fault = launch.fault};
}

}  // namespace

cuda::GraphExec capture_graph(cudaStream_t stream, const std::function<void()>& body) {
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), "beginning a capture");
  cudaGraph_t graph = nullptr;
  try {
    body();
  } catch (...) {
    cudaStreamEndCapture(stream, &graph);
    if (graph) cudaGraphDestroy(graph);
    cudaGetLastError();
    throw;
  }
  check(cudaStreamEndCapture(stream, &graph), "ending a capture");
  return cuda::make_graph(graph);
}

class CudaCalls::Loop final : public LoopBody {
 public:
  Loop(const Step& loop, const Plan& body, const RunnerOptions& options, cudaStream_t stream,
       cuda::DeviceFault* fault, int32_t first)
      : loop_(loop), body_(body), calls_(body, options, stream, fault, first) {
    for (cuda::Launch& launch : calls_.launches_) launch.can_use_pdl = false;  // see capture_loop()
  }

  const CudaCalls& calls() const { return calls_; }

  void place(const PlanMemory& memory) {
    alone_.reset();
    at_ = place_loop(loop_, body_, memory, memory.arena + loop_.scratch_offset);
    calls_.place(at_.body);
  }

  void run(const KernelContext& c) const override {
    const cuda::Launch& launch = cuda::launch_of(c);
    if (cuda::is_captured(launch.stream)) return capture(launch);
    if (!alone_) alone_ = capture_alone(launch);
    cuda::launch(alone_.get(), launch.stream);
  }

 private:
  void capture(const cuda::Launch& launch) const {
    cuda::copy_all(launch, copies_of(at_.before), nullptr);
    const auto copy = [&](const std::vector<LoopPlaces::Move>& moves) {
      return [this, copies = copies_of(moves)](const cuda::Launch& inside) {
        cuda::copy_all(inside, copies, reinterpret_cast<const int64_t*>(at_.number));
      };
    };
    cuda::capture_loop(launch, control_of(at_, launch),
                       {.run = [this](const cuda::Launch& inside) { start_all(inside.stream); },
                        .finish = copy(at_.kept),
                        .pass_on = copy(at_.carried)});
  }

  void start_all(cudaStream_t stream) const {
    for (size_t step = 0; step < calls_.all().size(); ++step)
      calls_.on_stream(step, stream, /*early=*/false, [&](const cuda::Launch&) { calls_.start(step); });
  }

  cuda::GraphExec capture_alone(const cuda::Launch& launch) const {
    const cuda::Stream stream = cuda::make_stream();
    cuda::Launch own = launch;
    own.stream = stream.get();
    return capture_graph(stream.get(), [&] { capture(own); });
  }

  const Step& loop_;
  const Plan& body_;
  mutable CudaCalls calls_;
  LoopPlaces at_;
  mutable cuda::GraphExec alone_;  // the loop by itself, made when it first starts outside of a capture
};

CudaCalls::CudaCalls(const Plan& plan, const RunnerOptions& options, cudaStream_t stream,
                     cuda::DeviceFault* fault, int32_t first)
    : plan_(plan),
      calls_(make_step_calls(plan, cuda::kernels_for, options.disabled_kernels)),
      launches_(calls_.size()),
      first_(first),
      end_(first + static_cast<int32_t>(calls_.size())) {
  const std::vector<uint64_t> independent = independent_inputs(plan);
  const bool can_use_pdl = cuda::code_has_pdl();
  for (size_t i = 0; i < calls_.size(); ++i) {
    launches_[i] = {.stream = stream,
                    .fault = {fault, first + static_cast<int32_t>(i)},
                    .multiprocessors = cuda::current_chip().multiprocessors,
                    .can_use_pdl = can_use_pdl,
                    .independent = independent[i]};
    calls_[i].context.launch = &launches_[i];
    calls_[i].context.fault = &host_fault_;
    calls_[i].context.collectives = options.collectives.get();
    if (is<ops::Loop>(*calls_[i].step->op)) add_loop(i, options, fault);
  }
}

CudaCalls::~CudaCalls() = default;

void CudaCalls::add_loop(size_t step, const RunnerOptions& options, cuda::DeviceFault* fault) {
  StepCall& call = calls_[step];
  const auto loop = std::make_shared<Loop>(*call.step, body_of(plan_, *call.step), options,
                                           launches_[step].stream, fault, end_);
  end_ = loop->calls().end();
  call.prepared = loop;
  call.context.prepared_ptr = static_cast<const LoopBody*>(loop.get());
  loops_.push_back(loop);
}

const StepCall& CudaCalls::numbered(int32_t number) const {
  const auto own = static_cast<size_t>(number - first_);
  if (own < calls_.size()) return calls_[own];
  for (const auto& loop : loops_)
    if (number < loop->calls().end()) return loop->calls().numbered(number);
  fail("a kernel of entry point '{}' reports a fault of step {}, which it does not have", plan_.entry,
       number);
}

void CudaCalls::place(const PlanMemory& memory) {
  for (StepCall& call : calls_) {
    for (size_t k = 0; k < call.inputs.size(); ++k)
      call.inputs[k].data = memory.resolve(call.step->inputs[k]);
    for (size_t k = 0; k < call.outputs.size(); ++k)
      call.outputs[k].data = memory.resolve(call.step->outputs[k]);
    call.context.scratch = memory.arena + call.step->scratch_offset;
  }
  for (const auto& loop : loops_) loop->place(memory);
}

void CudaCalls::start(size_t step) const {
  const StepCall& call = calls_[step];
  call();
  if (const cudaError_t status = cudaGetLastError(); status != cudaSuccess)
    fail("{} in entry point '{}': CUDA refused to start it: {} ({}){}", description(call), plan_.entry,
         cudaGetErrorString(status), cudaGetErrorName(status),
         cuda::is_lost() ? ", which may come from a node before it" : "");
}

}  // namespace genesis
