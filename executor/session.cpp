#include "executor/session.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "executor/compile.h"
#include "executor/memory_report.h"
#include "executor/nonfinite_before.h"
#include "executor/one_call.h"
#include "executor/plan_buffers.h"
#include "executor/recently_used.h"
#include "executor/runtime/device.h"
#include "executor/runtime/step_call.h"
#include "executor/session_cache.h"
#include "executor/started_runs.h"
#include "executor/state_dict.h"
#include "executor/states/state_memory.h"
#include "executor/states/state_snapshot.h"
#include "executor/switches.h"
#include "schema/messages/log.h"

namespace genesis {
namespace {

using Clock = std::chrono::steady_clock;
double seconds(Clock::time_point start, Clock::time_point end) {
  return std::chrono::duration<double>(end - start).count();
}

}  // namespace

class Session::Impl {
 public:
  Impl(std::shared_ptr<const Model> model, SessionOptions options)
      : model_(with_cache(std::move(model), options)),
        options_(resolved(std::move(options))),
        device_(open_device(options_.device, options_.threads)),
        states_(*model_, *device_, options_.collectives),
        compiled_(static_cast<size_t>(options_.max_plans)),
        started_(*device_) {
    parse_switches(options_.disabled, device_->target());  // throws for unknown names
    if (const StateStorage all = storage_of_all(*model_, device_->target(), options_); !all.empty())
      keep_states_as(all);
  }

  // Marks the session as busy during one call.
  OneCall one_call() { return OneCall(busy_); }

  const Model& model() const { return *model_; }
  StateMemory& states() { return states_; }
  Device& device() { return *device_; }

  CompiledPtr compile(const std::string& entry, const Bindings& bindings) {
    const std::pair key{entry, bindings};
    if (CompiledPtr found = compiled_.find(key)) return found;
    CompiledPtr made =
        with_context([&] { return make(entry, bindings); },
                     [&] { return "while compiling entry point '" + entry + "'" + sizes_text(bindings); });
    compiled_.add(key, made);
    return made;
  }
  CompiledPtr compile(const std::string& entry, const NamedTensors& inputs) {
    return compile(entry, bind_inputs(model_->entry(entry), inputs));
  }

  void execute(Compiled& compiled, const NamedTensors& inputs, const RunOptions& options) {
    point_at_memory(compiled, inputs);
    std::string already =
        options.find_nonfinite ? nonfinite_before(compiled, *model_, states_, *device_) : "";
    const auto run = [&] {
      device_->enter([&] {
        compiled.runner->run(options);
        compiled.runner->wait();
      });
    };
    if (already.empty()) return run();
    with_context(run, [&] { return already; });
  }

  void check_idle() const { started_.check_empty(); }

  void start(const CompiledPtr& compiled, const NamedTensors& inputs) {
    started_.make_room(compiled->generation == generation_ && !options_.find_nonfinite);
    if (options_.find_nonfinite) {
      execute(*compiled, inputs, {.find_nonfinite = true});
    } else {
      point_at_memory(*compiled, inputs);
      device_->enter([&] { compiled->runner->run({}); });
    }
    started_.add(compiled, inputs);
    staged_.reset();
  }

  void stage(const CompiledPtr& compiled, const NamedTensors& inputs) {
    device_->enter([&] { compiled->runner->stage(addresses(compiled->plan, inputs)); });
    compiled->staged = inputs;
    staged_ = compiled;
  }

  NamedTensors result() {
    const auto until_read = started_.size() == 1 ? std::exchange(outlived_, {}) : std::vector<DeviceMemory>();
    return started_.take_results();
  }

  bool is_asynchronous() const { return device_->is_asynchronous(); }

  double time(Compiled& compiled, const NamedTensors& inputs, int repeats) {
    if (repeats < 1) fail("{} runs are to be timed: at least one is needed", repeats);
    point_at_memory(compiled, inputs);
    double seconds = 0;
    device_->enter([&] { seconds = compiled.runner->seconds_per_run(repeats); });
    return seconds;
  }

  int32_t state_index(const std::string& name) const {
    const int32_t index = model_->find_state(name);
    if (index < 0) fail_no_state(*model_, name);
    return index;
  }

  void set_state(int32_t index, const Tensor& value) {
    device_->enter([&] {
      generation_ += states_.make_writable(index);
      states_.set(index, value);
    });
  }

  // Plans depend on the size, so all entry points are compiled again at their next run.
  void grow_cache(int64_t positions) {
    check_idle();
    const std::shared_ptr<const Model> larger = with_longer_cache(*model_, positions, options_.mesh);
    std::unique_ptr<Model> with_parts = with_parts_ ? with_caches_of(*larger, *with_parts_) : nullptr;
    compiled_.clear();
    staged_.reset();
    device_->enter([&] { states_.resize(with_parts ? *with_parts : *larger); });
    model_ = larger;
    with_parts_ = std::move(with_parts);
  }

  NamedTensors state_values(bool (*is_wanted)(const State&)) const {
    NamedTensors values;
    for (size_t i = 0; i < model_->states().size(); ++i)
      if (is_wanted(model_->states()[i]))
        values.emplace(model_->states()[i].name, states_.copy(static_cast<int32_t>(i)));
    values.complete("the session has no state");
    return values;
  }

  // `values` has been checked. Allocation comes first, since it is the only step that can fail.
  void set_states(const NamedTensors& values) {
    std::vector<int32_t> indices;
    for (const auto& [name, value] : values) indices.push_back(model_->find_state(name));
    device_->enter([&] {
      generation_ += states_.make_writable(indices);
      for (const auto& [name, value] : values) states_.set(model_->find_state(name), value);
    });
  }

  void set_encoded(const std::map<int32_t, EncodedValues>& values) {
    device_->enter([&] { generation_ += states_.set_encoded(values); });
  }

  MemoryStatistics memory() const {
    const DeviceUse use = device_->use();
    return {arena_bytes_, states_.owned_bytes(), states_.mapped_bytes(),
            use.bytes,    use.peak_bytes,        static_cast<int64_t>(compiled_.size()),
            states_.owned_bytes(StateRole::kOptimizer)};
  }
  DevicePeaks measure_peaks() { return device_->measure_peaks(); }
  const SessionOptions& options() const { return options_; }

  std::vector<std::string> kernels(const std::string& entry, const NamedTensors& inputs) {
    const CompiledPtr compiled = compile(entry, inputs);
    std::vector<std::string> kernels =
        kernels_of(compiled->plan, device_->target(), compiled->runner_options.disabled_kernels);
    compiled->runner->rename_kernels(kernels);
    return kernels;
  }

 private:
  static std::vector<std::byte*> addresses(const Plan& plan, const NamedTensors& inputs) {
    std::vector<std::byte*> at;
    for (const PlanPort& port : plan.inputs)
      at.push_back(const_cast<std::byte*>(inputs.at(port.name).data()));
    return at;
  }

  CompiledPtr make(const std::string& entry, const Bindings& bindings) {
    auto compiled = std::make_shared<Compiled>();
    const Clock::time_point start = Clock::now();
    CompiledEntry made = compile_entry(*model_, entry, bindings, device_->target(), options_, are_stored_);
    if (made.storage.groups.size() > kept_groups_) {
      keep_states_as(made.storage);
      are_stored_ = true;
    }
    compiled->work = std::move(made.work);
    compiled->plan = std::move(made.plan);
    compiled->runner_options = made.runner;
    check_fits(*compiled);
    const Clock::time_point planned = Clock::now();
    device_->enter(
        [&] { compiled->runner = device_->make_runner(compiled->plan, compiled->runner_options); });
    log_debug("'{}': {} steps planned in {:.3f} s, their kernels made ready in {:.3f} s", entry,
              compiled->plan.steps.size(), seconds(start, planned), seconds(planned, Clock::now()));
    return compiled;
  }

  // All entry points share the states, so entry points compiled before are compiled again at their next run.
  void keep_states_as(const StateStorage& storage) {
    auto with_parts = Model::with_tables_of(*model_);
    add_parts(*with_parts, storage);
    device_->enter([&] { states_.keep_as(*with_parts, storage, !started_.empty() ? &outlived_ : nullptr); });
    with_parts_ = std::move(with_parts);
    kept_groups_ = storage.groups.size();
    ++generation_;
    compiled_.clear();
    staged_.reset();
  }

  void point_at_memory(Compiled& compiled, const NamedTensors& inputs) {
    const Clock::time_point start = Clock::now();
    prepare_memory(compiled);
    compiled.memory.inputs = addresses(compiled.plan, inputs);
    if (compiled.generation == generation_) return compiled.runner->bind_inputs(compiled.memory);
    bind_tables(compiled);
    compiled.runner->bind(compiled.memory);
    compiled.generation = generation_;
    log_debug("'{}': memory made ready in {:.3f} s", compiled.plan.entry, seconds(start, Clock::now()));
  }

  // Makes the arena large enough and the written states writable. A new address means that plans must be bound again.
  void prepare_memory(const Compiled& compiled) {
    if (compiled.generation == generation_) return;
    if (compiled.plan.arena_bytes > arena_bytes_ || !arena_) {
      arena_.reset();
      arena_ = device_->allocate(compiled.plan.arena_bytes);
      arena_bytes_ = compiled.plan.arena_bytes;
      ++generation_;
    }
    std::vector<int32_t> states = compiled.plan.written_states;
    if (!device_->reads_host_memory())
      for_each_buffer(compiled.plan, [&](const BufferRef& ref) {
        if (ref.space == Space::kState) states.push_back(ref.index);
      });
    generation_ += states_.make_writable(states);
  }

  void bind_tables(Compiled& compiled) {
    compiled.memory.arena = arena_.get();
    compiled.memory.states.assign(compiled.work->states().size(), nullptr);
    compiled.memory.constants.assign(compiled.work->tensors().size(), nullptr);
    for_each_buffer(compiled.plan, [&](const BufferRef& ref) {
      const auto at = static_cast<size_t>(ref.index);
      if (ref.space == Space::kState) compiled.memory.states[at] = states_.data(ref.index);
      if (ref.space == Space::kConstant && !compiled.memory.constants[at])
        compiled.memory.constants[at] = constant(compiled, ref.index);
    });
  }

  std::byte* constant(Compiled& compiled, int32_t index) {
    const Tensor& tensor = compiled.work->tensors()[static_cast<size_t>(index)].tensor;
    if (device_->reads_host_memory()) return const_cast<std::byte*>(tensor.data());
    compiled.constants.resize(compiled.work->tensors().size());
    DeviceMemory& memory = compiled.constants[static_cast<size_t>(index)];
    if (!memory) {
      memory = device_->allocate(tensor.bytes());
      device_->upload(memory.get(), tensor.data(), tensor.bytes());
    }
    return memory.get();
  }

  // Returns true if the state needs memory of its own. On the host, a state that is only read stays in its file, and a cache
  // takes memory as it fills.
  bool takes_memory(const Compiled& compiled, int32_t state) const {
    if (!device_->reads_host_memory()) return true;
    const auto& written = compiled.plan.written_states;
    return compiled.work->state(state).role != StateRole::kCache &&
           std::ranges::binary_search(written, state);
  }

  // Checks before anything is allocated that the run fits, so that the error can say what would help.
  void check_fits(const Compiled& compiled) const {
    const Plan& plan = compiled.plan;
    const std::optional<int64_t> free = device_->free_bytes();
    if (!free) return;
    MemoryNeed need{.arena = std::max<int64_t>(0, plan.arena_bytes - arena_bytes_)};
    std::set<std::pair<Space, int32_t>> seen;
    for_each_buffer(plan, [&](const BufferRef& ref) {
      if (!seen.emplace(ref.space, ref.index).second) return;
      if (ref.space == Space::kState && takes_memory(compiled, ref.index))
        need.states += states_.missing_bytes(ref.index);
      if (ref.space == Space::kConstant && !device_->reads_host_memory()) need.constants += ref.bytes;
    });
    if (need.total() > *free) fail_too_little_memory(options_.device, need, *free, plan);
  }

  std::shared_ptr<const Model> model_;
  SessionOptions options_;
  std::shared_ptr<Device> device_;
  StateMemory states_;
  DeviceMemory arena_;
  int64_t arena_bytes_ = 0;
  int64_t generation_ = 0;  // counts address changes, except those of inputs
  RecentlyUsed<std::pair<std::string, Bindings>, Compiled> compiled_;
  std::unique_ptr<Model> with_parts_;  // the model's tables with the parts, once states are kept in parts
  size_t kept_groups_ = 0;             // number of stored groups: encoded states, shards, then weights
  bool are_stored_ = false;
  std::vector<DeviceMemory> outlived_;  // old state memory that outputs of the started run may lie in
  StartedRuns started_;
  CompiledPtr staged_;  // the next run, if it was staged
  std::atomic<bool> busy_ = false;
};

Session::Session(std::shared_ptr<const Model> model, SessionOptions options) {
  if (!model) fail("a Session was given no model");
  impl_ = std::make_unique<Impl>(std::move(model), std::move(options));
}
Session::~Session() = default;
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;

const Model& Session::model() const { return impl_->model(); }
const std::string& Session::device() const { return impl_->options().device; }

NamedTensors Session::run(const std::string& entry, const NamedTensors& inputs) {
  const OneCall call = impl_->one_call();
  impl_->check_idle();
  impl_->start(impl_->compile(entry, inputs), inputs);
  return impl_->result();
}

void Session::start(const std::string& entry, const NamedTensors& inputs) {
  const OneCall call = impl_->one_call();
  impl_->start(impl_->compile(entry, inputs), inputs);
}

void Session::stage(const std::string& entry, const NamedTensors& inputs) {
  const OneCall call = impl_->one_call();
  impl_->stage(impl_->compile(entry, inputs), inputs);
}

NamedTensors Session::result() {
  const OneCall call = impl_->one_call();
  return impl_->result();
}

bool Session::is_asynchronous() const { return impl_->is_asynchronous(); }

std::string Session::explain_nonfinite(const std::string& entry, const NamedTensors& inputs) {
  const OneCall call = impl_->one_call();
  impl_->check_idle();
  const CompiledPtr compiled = impl_->compile(entry, inputs);
  try {
    impl_->execute(*compiled, inputs, {.find_nonfinite = true});
  } catch (const Error& error) {
    return error.message();
  }
  return "";
}

Plan Session::plan(const std::string& entry, const Bindings& sizes) {
  const OneCall call = impl_->one_call();
  return impl_->compile(entry, sizes)->plan;
}

Bindings Session::sizes_of(const std::string& entry, const NamedTensors& inputs) const {
  return bind_inputs(model().entry(entry), inputs);
}

std::vector<StepTiming> Session::profile(const std::string& entry, const NamedTensors& inputs) {
  const OneCall call = impl_->one_call();
  impl_->check_idle();
  std::vector<StepTiming> timings;
  impl_->execute(*impl_->compile(entry, inputs), inputs, {.timings = &timings});
  return timings;
}

Timeline Session::timeline(const std::string& entry, const NamedTensors& inputs) {
  const OneCall call = impl_->one_call();
  impl_->check_idle();
  Timeline timeline;
  impl_->execute(*impl_->compile(entry, inputs), inputs, {.timeline = &timeline});
  return timeline;
}

double Session::seconds_per_run(const std::string& entry, const NamedTensors& inputs, int repeats) {
  const OneCall call = impl_->one_call();
  impl_->check_idle();
  return impl_->time(*impl_->compile(entry, inputs), inputs, repeats);
}

void Session::observe(const std::string& entry, const NamedTensors& inputs, const StepObserver& observer) {
  const OneCall call = impl_->one_call();
  impl_->check_idle();
  impl_->execute(*impl_->compile(entry, inputs), inputs, {.observer = observer});
}

std::vector<std::string> Session::kernels(const std::string& entry, const NamedTensors& inputs) {
  const OneCall call = impl_->one_call();
  return impl_->kernels(entry, inputs);
}

Tensor Session::state(const std::string& name) const {
  const OneCall call = impl_->one_call();
  return impl_->states().copy(impl_->state_index(name));
}

void Session::set_state(const std::string& name, const Tensor& value) {
  const OneCall call = impl_->one_call();
  impl_->set_state(impl_->state_index(name), value);
}

NamedTensors Session::states_that(bool (*is_wanted)(const State&)) const {
  const OneCall call = impl_->one_call();
  return impl_->state_values(is_wanted);
}

void Session::put_states(const NamedTensors& values) {
  const OneCall call = impl_->one_call();
  impl_->set_states(values);
}

std::map<int32_t, EncodedValues> Session::encoded_values() const {
  const OneCall call = impl_->one_call();
  return impl_->states().encoded();
}

void Session::put_encoded(const std::map<int32_t, EncodedValues>& values) {
  const OneCall call = impl_->one_call();
  impl_->set_encoded(values);
}

bool Session::shares_states() const { return impl_->states().shares(); }

void Session::take_part_in_gather() const {
  const OneCall call = impl_->one_call();
  for (int32_t i = 0; i < static_cast<int32_t>(model().states().size()); ++i)
    if (is_kept(model().state(i)) && impl_->states().is_shared(i)) static_cast<void>(impl_->states().copy(i));
}

void Session::reset_states(StateRole role) {
  const OneCall call = impl_->one_call();
  for (size_t i = 0; i < model().states().size(); ++i)
    if (model().states()[i].role == role) impl_->states().reset(static_cast<int32_t>(i));
}

void Session::grow_cache(int64_t positions) {
  const OneCall call = impl_->one_call();
  impl_->grow_cache(positions);
}

std::unique_ptr<StateSnapshot> Session::make_state_snapshot() {
  const SessionOptions& options = impl_->options();
  StateShards shards;
  if (options.mesh.ranks() > 1)
    shards = divide_states(model(), impl_->states().storage(), options.mesh, options.rank);
  return std::make_unique<StateSnapshot>(model(), impl_->states(), impl_->device(), std::move(shards));
}

MemoryStatistics Session::memory() const {
  const OneCall call = impl_->one_call();
  return impl_->memory();
}

DevicePeaks Session::measure_peaks() {
  const OneCall call = impl_->one_call();
  return impl_->measure_peaks();
}

}  // namespace genesis
