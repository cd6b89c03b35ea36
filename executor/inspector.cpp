#include "executor/inspector.h"

#include "executor/runtime/device_tensors.h"
#include "executor/runtime/step_call.h"
#include "executor/session_impl.h"

namespace genesis {

void Inspector::execute(const std::string& entry, const NamedTensors& inputs, const RunOptions& options) {
  Session::Impl& session = *session_.impl_;
  const OneCall call = session.one_call();
  session.check_idle();
  session.execute(*session.compile(entry, inputs), inputs, options);
}

std::vector<std::string> Inspector::kernels(const std::string& entry, const NamedTensors& inputs) {
  Session::Impl& session = *session_.impl_;
  const OneCall call = session.one_call();
  const CompiledPtr compiled = session.compile(entry, inputs);
  std::vector<std::string> kernels =
      kernels_of(compiled->plan, session.device().target(), compiled->runner_options.disabled_kernels);
  compiled->runner->rename_kernels(kernels);
  return kernels;
}

MemoryStatistics Inspector::memory() const {
  Session::Impl& session = *session_.impl_;
  const OneCall call = session.one_call();
  const DeviceUse use = session.device().use();
  return {.arena_bytes = session.arena_bytes(),
          .state_bytes = session.states().owned_bytes(),
          .mapped_bytes = session.states().mapped_bytes(),
          .device_bytes = use.bytes,
          .device_peak_bytes = use.peak_bytes,
          .plans = session.plans(),
          .optimizer_bytes = session.states().owned_bytes(StateRole::kOptimizer)};
}

std::vector<StepTiming> Inspector::profile(const std::string& entry, const NamedTensors& inputs) {
  std::vector<StepTiming> timings;
  execute(entry, inputs, {.timings = &timings});
  return timings;
}

Timeline Inspector::timeline(const std::string& entry, const NamedTensors& inputs) {
  Timeline timeline;
  execute(entry, inputs, {.timeline = &timeline});
  return timeline;
}

double Inspector::seconds_per_run(const std::string& entry, const NamedTensors& inputs, int repeats) {
  Session::Impl& session = *session_.impl_;
  const OneCall call = session.one_call();
  session.check_idle();
  const CompiledPtr compiled = session.compile(entry, inputs);
  if (repeats < 1) fail("{} runs are to be timed: at least one is needed", repeats);
  session.prepare(*compiled);
  session.memory().bind(*compiled, inputs);
  if (!compiled->plan.written_states.empty()) session.note_changed_states();
  double seconds = 0;
  session.device().enter([&] { seconds = compiled->runner->seconds_per_run(repeats); });
  return seconds;
}

void Inspector::observe(const std::string& entry, const NamedTensors& inputs, const StepObserver& observer) {
  execute(entry, inputs, {.observer = observer});
}

std::string Inspector::explain_nonfinite(const std::string& entry, const NamedTensors& inputs) {
  Session::Impl& session = *session_.impl_;
  const OneCall call = session.one_call();
  session.check_idle();
  const CompiledPtr compiled = session.compile(entry, inputs);
  try {
    session.execute(*compiled, inputs, {.find_nonfinite = true});
  } catch (const Error& error) {
    return error.message();
  }
  return "";
}

std::vector<DeviceOutput> Inspector::run_on_device(const std::string& entry, const NamedTensors& inputs,
                                                   OutputBlocks& blocks) {
  Session::Impl& session = *session_.impl_;
  const OneCall call = session.one_call();
  session.check_idle();
  const CompiledPtr compiled = session.compile(entry, inputs);
  session.execute(*compiled, inputs,
                  {.find_nonfinite = session.options().find_nonfinite, .leaves_outputs = true});
  Device& device = session.device();
  std::vector<DeviceOutput> outputs;
  device.enter([&] {
    for (const PlanPort& port : compiled->plan.outputs) {
      const int64_t bytes = port.type.bytes();
      outputs.push_back({port.name, port.type, bytes > 0 ? blocks.take(device, bytes) : nullptr});
    }
    device.wait_for_default_stream();  // blocks that others have given back may still be read there
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (!outputs[i].memory) continue;
      const BufferRef& buffer = compiled->plan.outputs[i].buffer;
      const std::byte* from = compiled->memory.resolve(buffer);
      if (buffer.space == Space::kInput && !gpu_of(from))
        device.upload(outputs[i].memory.get(), from, outputs[i].type.bytes());
      else
        device.copy(outputs[i].memory.get(), from, outputs[i].type.bytes());
    }
    device.wait();
  });
  return outputs;
}

DeviceMemory OutputBlocks::take(Device& device, int64_t bytes) {
  const auto is_free = [](const Block& block) { return block.memory.use_count() == 1; };
  for (const Block& block : blocks_)
    if (is_free(block) && block.bytes >= bytes && block.bytes / 2 <= bytes) return block.memory;
  // Outputs that grow from call to call would otherwise leave a block of each size behind.
  std::erase_if(blocks_, [&](const Block& block) { return is_free(block) && block.bytes < bytes; });
  if (blocks_.size() >= kMaxBlocks) std::erase_if(blocks_, is_free);
  const auto allocate = [&] { return blocks_.emplace_back(Block{device.allocate(bytes), bytes}).memory; };
  try {
    return allocate();
  } catch (const Error&) {  // the memory of blocks that nobody has may be enough
    std::erase_if(blocks_, is_free);
    return allocate();
  }
}

DevicePeaks Inspector::measure_peaks() {
  Session::Impl& session = *session_.impl_;
  const OneCall call = session.one_call();
  return session.device().measure_peaks();
}

}  // namespace genesis
