#include "executor/session_memory.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "executor/plan_buffers.h"
#include "executor/runtime/aligned_memory.h"
#include "executor/runtime/device_tensors.h"
#include "schema/core/take_pages.h"
#include "schema/messages/log.h"

namespace genesis {

std::vector<std::byte*> input_addresses(const Plan& plan, const NamedTensors& inputs) {
  std::vector<std::byte*> at;
  for (const PlanPort& port : plan.inputs) at.push_back(const_cast<std::byte*>(inputs.at(port.name).data()));
  return at;
}

void SessionMemory::check_places(const Plan& plan, const std::vector<std::byte*>& inputs) const {
  for (size_t i = 0; i < inputs.size(); ++i)
    if (const auto gpu = gpu_of(inputs[i]); gpu && *gpu != device_.gpu())
      fail(
          "input '{}' of entry point '{}' is in the memory of GPU {}, but the session runs on {}: copy it to "
          "the host first",
          plan.inputs[i].name, plan.entry, *gpu,
          device_.gpu() < 0 ? "the CPU" : "GPU " + std::to_string(device_.gpu()));
}

void SessionMemory::bind(Compiled& compiled, const NamedTensors& inputs) {
  const auto start = std::chrono::steady_clock::now();
  prepare(compiled);
  compiled.memory.inputs = input_addresses(compiled.plan, inputs);
  check_places(compiled.plan, compiled.memory.inputs);
  if (is_bound(compiled)) return compiled.runner->bind_inputs(compiled.memory);
  bind_tables(compiled);
  compiled.runner->bind(compiled.memory);
  compiled.generation = generation_;
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  log_debug("'{}': memory made ready in {:.3f} s", compiled.plan.entry, took.count());
}

void SessionMemory::prepare_arena(Compiled& compiled) {
  const int64_t bytes = compiled.plan.arena_bytes;
  if (compiled.keeps_arena) {
    if (compiled.arena) return;
    compiled.arena = device_.allocate(bytes);
    if (!device_.reads_host_memory()) return;
    // A system may have to look for large pages, or clear them slowly: at six times the cost in a virtual machine.
    use_small_pages(compiled.arena.get(), bytes);
    take_pages(compiled.arena.get(), bytes);
    return;
  }
  if (bytes <= arena_bytes_ && arena_) return;
  arena_.reset();
  arena_ = device_.allocate(bytes);
  arena_bytes_ = bytes;
  ++generation_;
}

// Makes the arena large enough and the written states writable. A new address means that plans must be bound again.
void SessionMemory::prepare(Compiled& compiled) {
  if (is_bound(compiled)) return;
  prepare_arena(compiled);
  std::vector<int32_t> states = compiled.plan.written_states;
  if (!device_.reads_host_memory())
    for_each_buffer(compiled.plan, [&](const BufferRef& ref) {
      if (ref.space == Space::kState) states.push_back(ref.index);
    });
  generation_ += states_.make_writable(states);
}

void SessionMemory::bind_tables(Compiled& compiled) {
  compiled.memory.arena = compiled.keeps_arena ? compiled.arena.get() : arena_.get();
  compiled.memory.states.assign(compiled.work->states().size(), nullptr);
  compiled.memory.constants.assign(compiled.work->tensors().size(), nullptr);
  for (size_t i = 0; i < compiled.prepared_tensors.size(); ++i)
    compiled.memory.constants[static_cast<size_t>(compiled.prepared_tensors[i])] =
        compiled.prepared->memory.resolve(compiled.prepared->plan.outputs[i].buffer);
  for_each_buffer(compiled.plan, [&](const BufferRef& ref) {
    const auto at = static_cast<size_t>(ref.index);
    if (ref.space == Space::kState) compiled.memory.states[at] = states_.data(ref.index);
    if (ref.space == Space::kConstant && !compiled.memory.constants[at])
      compiled.memory.constants[at] = constant(compiled, ref.index);
  });
}

std::byte* SessionMemory::constant(Compiled& compiled, int32_t index) {
  const Tensor& tensor = compiled.work->tensors()[static_cast<size_t>(index)].tensor;
  if (device_.reads_host_memory()) return const_cast<std::byte*>(tensor.data());
  compiled.constants.resize(compiled.work->tensors().size());
  DeviceMemory& memory = compiled.constants[static_cast<size_t>(index)];
  if (!memory) {
    memory = device_.allocate(tensor.bytes());
    device_.upload(memory.get(), tensor.data(), tensor.bytes());
  }
  return memory.get();
}

// Returns true if the state needs memory of its own. On the host, a state that is only read stays in its file, and a cache takes
// memory as it fills.
bool SessionMemory::takes_memory(const Compiled& compiled, int32_t state) const {
  if (!device_.reads_host_memory()) return true;
  const auto& written = compiled.plan.written_states;
  return compiled.work->state(state).role != StateRole::kCache && std::ranges::binary_search(written, state);
}

// Adds what the entry point would still have to allocate. `states` are those that count already: plans share them, but not
// constants.
void SessionMemory::add_need(const Compiled& compiled, std::set<int32_t>& states, MemoryNeed& need) const {
  const int64_t bytes = compiled.plan.arena_bytes;
  need.arena += compiled.keeps_arena ? bytes : std::max<int64_t>(0, bytes - arena_bytes_);
  std::set<int32_t> constants;
  for_each_buffer(compiled.plan, [&](const BufferRef& ref) {
    if (ref.space == Space::kState && states.insert(ref.index).second && takes_memory(compiled, ref.index))
      need.states += states_.missing_bytes(ref.index);
    if (ref.space != Space::kConstant || !constants.insert(ref.index).second) return;
    const bool is_prepared =
        std::ranges::find(compiled.prepared_tensors, ref.index) != compiled.prepared_tensors.end();
    if (!device_.reads_host_memory() && !is_prepared) need.constants += ref.bytes;
  });
}

void SessionMemory::check_fits(const Compiled& compiled, const std::string& device_name) const {
  const Plan& plan = compiled.plan;
  const std::optional<int64_t> free = device_.free_bytes();
  if (!free) return;
  MemoryNeed need;
  std::set<int32_t> states;
  add_need(compiled, states, need);
  if (compiled.prepared) add_need(*compiled.prepared, states, need);
  if (need.total() > *free) fail_too_little_memory(device_name, need, *free, plan);
}

void SessionMemory::set_states(const std::map<int32_t, Tensor>& values) {
  std::vector<int32_t> states;
  for (const auto& [state, value] : values) states.push_back(state);
  generation_ += states_.make_writable(states);
  for (const auto& [state, value] : values) states_.set(state, value);
}

void SessionMemory::set_beginnings(const std::map<int32_t, Tensor>& values) {
  for (const auto& [state, value] : values) {
    generation_ += states_.make_writable(state) ? 1 : 0;
    device_.upload(states_.data(state), value.data(), value.bytes());
  }
}

void SessionMemory::set_encoded(const std::map<int32_t, EncodedValues>& values) {
  generation_ += states_.set_encoded(values);
}

void SessionMemory::keep_as(const Model& tables, const StateStorage& storage,
                            std::vector<DeviceMemory>* outlived) {
  states_.keep_as(tables, storage, outlived);
  ++generation_;
}

void SessionMemory::place_caches(const std::map<int32_t, DeviceMemory>& memory) {
  for (const auto& [state, at] : memory) states_.place(state, at);
  ++generation_;
}

void SessionMemory::resize_caches(const Model& tables) { states_.resize(tables); }

}  // namespace genesis
