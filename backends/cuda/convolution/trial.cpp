#include "backends/cuda/convolution/trial.h"

#include <vector>

#include "backends/cuda/gemm/gemm_plain.h"
#include "backends/cuda/runtime/launch.h"

namespace genesis::cuda {

struct Trial::State {
  Stream stream = make_stream();
  Stopwatch stopwatch{stream.get()};
  Launch launch;
  std::vector<std::shared_ptr<std::byte>> buffers;
  std::vector<TensorView> inputs, outputs;
  std::byte* scratch = nullptr;
  Fault fault;

  std::byte* add(int64_t bytes) {
    buffers.push_back(try_allocate(current_device(), std::max<int64_t>(bytes, 16)));
    return buffers.back().get();
  }
  // Zeros would run faster than real data.
  bool add(const TensorType& type, std::vector<TensorView>& to) {
    std::byte* data = add(type.bytes());
    if (data && is_float(type.dtype)) fill_with_noise(data, type.dtype, type.numel(), stream.get());
    to.push_back(view_of(type, data));
    return data != nullptr;
  }
  bool add_all(const KernelQuery& query, int64_t scratch_bytes) {
    launch.stream = stream.get();
    launch.multiprocessors = current_chip().multiprocessors;
    for (const TensorType& type : query.inputs)
      if (!add(type, inputs)) return false;
    for (const TensorType& type : query.outputs)
      if (!add(type, outputs)) return false;
    scratch = add(scratch_bytes);
    return scratch != nullptr;
  }
};

Trial::Trial(const KernelQuery& query, int64_t scratch_bytes) {
  auto made = std::make_unique<State>();
  if (made->add_all(query, scratch_bytes)) state_ = std::move(made);
}

Trial::~Trial() {
  if (state_) try_wait_for(state_->stream.get());
}

float Trial::ms(const std::function<bool(const KernelContext&)>& start, float best) {
  if (!state_) return kNeverMs;
  const KernelContext context{.inputs = state_->inputs,
                              .outputs = state_->outputs,
                              .scratch = state_->scratch,
                              .fault = &state_->fault,
                              .launch = &state_->launch};
  return state_->stopwatch.time([&] { return start(context); }, best);
}

}  // namespace genesis::cuda
