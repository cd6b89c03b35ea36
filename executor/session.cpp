#include "executor/session.h"

#include <tbb/global_control.h>
#include <tbb/info.h>
#include <tbb/task_arena.h>

#include <algorithm>

#include "backends/cpu/kernels.h"
#include "executor/aligned_memory.h"
#include "executor/cpu_runner.h"
#include "executor/environment.h"
#include "executor/nonfinite.h"
#include "executor/state_memory.h"
#include "passes/bind.h"
#include "passes/make_plan.h"
#include "passes/pipelines.h"

namespace genesis {
namespace {

constexpr int kMaxThreads = 1024;

// The cores this process may use: fewer than the machine has under taskset or in a container.
int default_threads() { return std::max(1, tbb::info::default_concurrency()); }

int checked_threads(int threads) {
  if (threads < 0 || threads > kMaxThreads)
    fail("--threads {}: expected 0 (all cores) or a number of threads up to {}", threads, kMaxThreads);
  return threads == 0 ? default_threads() : threads;
}

// TBB starts no more threads than there are cores unless it is told to.
std::unique_ptr<tbb::global_control> allow_threads(int threads) {
  if (threads <= default_threads()) return nullptr;
  return std::make_unique<tbb::global_control>(tbb::global_control::max_allowed_parallelism,
                                               static_cast<size_t>(threads));
}

// An entry point made ready for one set of sizes.
struct Compiled {
  std::unique_ptr<Model> work;  // owns the constants that folding made
  Plan plan;
  std::unique_ptr<Runner> runner;
  PlanMemory memory;
  int64_t generation = -1;  // of the session's memory when the runner was last bound
};

}  // namespace

class Session::Impl {
 public:
  Impl(std::shared_ptr<const Model> model, SessionOptions options)
      : model_(std::move(model)),
        options_(std::move(options)),
        states_(*model_),
        more_threads_(allow_threads(checked_threads(options_.threads))),
        tasks_(checked_threads(options_.threads)) {
    const std::set<std::string>& disabled = environment().disabled;
    options_.disabled_passes.insert(disabled.begin(), disabled.end());
    passes::check_pass_names({options_.disabled_passes.begin(), options_.disabled_passes.end()});
    if (options_.device != "cpu") fail("no device '{}' here: this build knows 'cpu'", options_.device);
  }

  const Model& model() const { return *model_; }
  StateMemory& states() { return states_; }

  Compiled& compile(const std::string& entry, const Bindings& bindings) {
    auto& slot = compiled_[{entry, bindings}];
    if (!slot)
      slot = with_context([&] { return make(entry, bindings); },
                          [&] { return "while compiling entry point '" + entry + "'"; });
    return *slot;
  }

  void execute(Compiled& compiled, const NamedTensors& inputs, const RunOptions& options) {
    point_at_memory(compiled, inputs);
    const std::string already = options.find_nonfinite ? nonfinite_before(compiled) : "";
    const auto run = [&] { tasks_.execute([&] { compiled.runner->run(options); }); };
    if (already.empty()) return run();
    with_context(run, [&] { return already; });
  }

  NamedTensors outputs(const Compiled& compiled) const {
    NamedTensors results;
    for (const PlanPort& port : compiled.plan.outputs)
      results.emplace(port.name, Tensor::copy_of(port.type, compiled.memory.resolve(port.buffer)));
    return results;
  }

  int32_t state_index(const std::string& name) const {
    const int32_t index = model_->find_state(name);
    if (index < 0) fail("the model has no state '{}'; `genesis-run info FILE --states` lists them", name);
    return index;
  }

  void set_state(int32_t index, const Tensor& value) {
    generation_ += states_.make_writable(index);
    states_.set(index, value);
  }

  MemoryStatistics memory() const { return {arena_bytes_, states_.owned_bytes(), states_.mapped_bytes()}; }
  const SessionOptions& options() const { return options_; }

 private:
  // Which inputs and states hold NaN or infinity before a run: the nodes that read them are not to blame.
  std::string nonfinite_before(const Compiled& compiled) const {
    std::string text;
    const auto look = [&](const char* kind, const std::string& name, const TensorType& type,
                          const std::byte* data) {
      const auto found = first_nonfinite(view_of(type, const_cast<std::byte*>(data)));
      if (!found) return;
      text += fmt::format("{}{} '{}' held {} at element {}", text.empty() ? "before the run " : ", ", kind,
                          name, name_of(*found), found->index);
    };
    for (size_t i = 0; i < compiled.plan.inputs.size(); ++i)
      look("input", compiled.plan.inputs[i].name, compiled.plan.inputs[i].type, compiled.memory.inputs[i]);
    for (size_t i = 0; i < compiled.memory.states.size(); ++i)
      if (compiled.memory.states[i])
        look("state", model_->states()[i].name, model_->states()[i].type, compiled.memory.states[i]);
    return text;
  }

  std::unique_ptr<Compiled> make(const std::string& entry, const Bindings& bindings) {
    auto compiled = std::make_unique<Compiled>();
    compiled->work = Model::with_tables_of(*model_);
    const Graph authored = copy_graph(model_->entry(entry), *compiled->work);
    const Graph graph = optimise(passes::bind(authored, bindings));
    compiled->plan = passes::make_plan(graph, cpu::cpu_target(), plan_options());
    compiled->plan.bindings = bindings;
    tasks_.execute([&] { compiled->runner = make_cpu_runner(compiled->plan); });
    return compiled;
  }

  passes::PlanOptions plan_options() const {
    const auto on = [&](bool option, std::string_view name) {
      return option && !options_.disabled_passes.contains(std::string(name));
    };
    return {.in_place = on(options_.in_place, passes::kInPlaceSwitch),
            .schedule = on(options_.schedule, passes::kOrderSwitch),
            .reuse = on(options_.reuse_memory, passes::kReuseSwitch)};
  }

  Graph optimise(Graph bound) const {
    if (!options_.optimise) return bound;
    const Target target = cpu::cpu_target();
    passes::PassContext context;
    context.target = &target;
    passes::PipelineOptions options;
    options.disabled.insert(options_.disabled_passes.begin(), options_.disabled_passes.end());
    if (!environment().dump_folder.empty())
      options.on_change = passes::dump_to_folder(environment().dump_folder);
    return passes::run_passes(bound, passes::pipeline_for(bound), context, options);
  }

  void point_at_memory(Compiled& compiled, const NamedTensors& inputs) {
    prepare_memory(compiled);
    compiled.memory.inputs.clear();
    for (const PlanPort& port : compiled.plan.inputs)
      compiled.memory.inputs.push_back(const_cast<std::byte*>(inputs.at(port.name).data()));
    if (compiled.generation == generation_) return compiled.runner->bind_inputs(compiled.memory);
    bind_tables(compiled);
    compiled.runner->bind(compiled.memory);
    compiled.generation = generation_;
  }

  // Makes the arena large enough and the written states writable; any new address means binding again.
  void prepare_memory(const Compiled& compiled) {
    if (compiled.generation == generation_) return;
    if (compiled.plan.arena_bytes > arena_bytes_ || !arena_) {
      arena_.reset();
      arena_ = allocate_memory(compiled.plan.arena_bytes);
      arena_bytes_ = compiled.plan.arena_bytes;
      ++generation_;
    }
    for (int32_t state : compiled.plan.written_states) generation_ += states_.make_writable(state);
  }

  void bind_tables(Compiled& compiled) {
    compiled.memory.arena = arena_.get();
    compiled.memory.states.assign(model_->states().size(), nullptr);
    const auto touch = [&](const BufferRef& ref) {
      if (ref.space == Space::kState)
        compiled.memory.states[static_cast<size_t>(ref.index)] = states_.data(ref.index);
    };
    for (const Step& step : compiled.plan.steps) {
      for (const BufferRef& ref : step.inputs) touch(ref);
      for (const BufferRef& ref : step.outputs) touch(ref);
    }
    for (const PlanPort& port : compiled.plan.outputs) touch(port.buffer);
    for (int32_t state : compiled.plan.written_states) touch({Space::kState, state});
    compiled.memory.constants.clear();
    for (const NamedTensor& row : compiled.work->tensors())
      compiled.memory.constants.push_back(const_cast<std::byte*>(row.tensor.data()));
  }

  std::shared_ptr<const Model> model_;
  SessionOptions options_;
  StateMemory states_;
  AlignedMemory arena_;
  int64_t arena_bytes_ = 0;
  int64_t generation_ = 0;  // counts changes of any address but the inputs'
  std::map<std::pair<std::string, Bindings>, std::unique_ptr<Compiled>> compiled_;
  std::unique_ptr<tbb::global_control> more_threads_;
  tbb::task_arena tasks_;
};

Session::Session(std::shared_ptr<const Model> model, SessionOptions options)
    : impl_(std::make_unique<Impl>(std::move(model), std::move(options))) {}
Session::~Session() = default;
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;

const Model& Session::model() const { return impl_->model(); }

NamedTensors Session::run(const std::string& entry, const NamedTensors& inputs) {
  Compiled& compiled = impl_->compile(entry, bind_inputs(model().entry(entry), inputs));
  impl_->execute(compiled, inputs, {.find_nonfinite = impl_->options().find_nonfinite});
  return impl_->outputs(compiled);
}

const Plan& Session::plan(const std::string& entry, const Bindings& bindings) {
  return impl_->compile(entry, bindings).plan;
}

std::vector<StepTiming> Session::profile(const std::string& entry, const NamedTensors& inputs) {
  Compiled& compiled = impl_->compile(entry, bind_inputs(model().entry(entry), inputs));
  std::vector<StepTiming> timings;
  impl_->execute(compiled, inputs, {.timings = &timings});
  return timings;
}

void Session::observe(const std::string& entry, const NamedTensors& inputs, const StepObserver& observer) {
  Compiled& compiled = impl_->compile(entry, bind_inputs(model().entry(entry), inputs));
  impl_->execute(compiled, inputs, {.observer = observer});
}

const Plan& Session::plan_for(const std::string& entry, const NamedTensors& inputs) {
  return impl_->compile(entry, bind_inputs(model().entry(entry), inputs)).plan;
}

Tensor Session::state(const std::string& name) const {
  return impl_->states().copy(impl_->state_index(name));
}

void Session::set_state(const std::string& name, const Tensor& value) {
  impl_->set_state(impl_->state_index(name), value);
}

void Session::reset_states(StateRole role) {
  for (size_t i = 0; i < model().states().size(); ++i)
    if (model().states()[i].role == role) impl_->states().reset(static_cast<int32_t>(i));
}

MemoryStatistics Session::memory() const { return impl_->memory(); }

}  // namespace genesis
