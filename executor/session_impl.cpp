#include "executor/session_impl.h"

#include <chrono>

#include "executor/compile.h"
#include "executor/memory_report.h"
#include "executor/nonfinite_before.h"
#include "executor/session_cache.h"
#include "executor/switches.h"
#include "schema/messages/log.h"

namespace genesis {
namespace {

using Clock = std::chrono::steady_clock;
double seconds(Clock::time_point start, Clock::time_point end) {
  return std::chrono::duration<double>(end - start).count();
}

// Returns the plan that computes the values which `compiled` has prepared, without a runner.
CompiledPtr preparing(const Compiled& compiled, Plan plan) {
  auto prepared = std::make_shared<Compiled>();
  prepared->work = Model::with_tables_of(*compiled.work);
  prepared->plan = std::move(plan);
  prepared->runner_options = compiled.runner_options;
  prepared->runner_options.leaves_outputs = true;
  prepared->keeps_arena = true;
  return prepared;
}

}  // namespace

Session::Impl::Impl(std::shared_ptr<const Model> model, SessionOptions options)
    : model_(with_cache(std::move(model), options)),
      options_(resolved(std::move(options))),
      device_(open_device(options_.device, options_.threads)),
      memory_(*model_, *device_, options_.collectives),
      compiled_(static_cast<size_t>(options_.max_plans)),
      started_(*device_) {
  parse_switches(options_.disabled, device_->target());  // throws for unknown names
  if (const StateStorage all = storage_of_all(*model_, device_->target(), options_); !all.empty())
    keep_states_as(all);
}

const Model* Session::Impl::find_model(const std::string& entry) const {
  if (model_->find_entry(entry)) return model_.get();
  const auto found =
      std::ranges::find_if(more_, [&](const auto& model) { return model->find_entry(entry) != nullptr; });
  return found == more_.end() ? nullptr : found->get();
}

const Model& Session::Impl::model_of(const std::string& entry) const {
  const Model* found = find_model(entry);
  return found ? *found : *model_;
}

void Session::Impl::add_entries(const std::shared_ptr<const Model>& model) {
  if (!model) fail("Session::add_entries() was given no model");
  check_beginnings(*model_, *model);
  for (const auto& entry : model->entries())
    if (find_model(entry->name())) fail("the session has an entry point '{}' already", entry->name());
  more_.push_back(model);
}

CompiledPtr Session::Impl::compile(const std::string& entry, const Bindings& bindings) {
  const std::pair key{entry, bindings};
  if (CompiledPtr found = compiled_.find(key)) return found;
  CompiledPtr made =
      with_context([&] { return make(entry, bindings); },
                   [&] { return "while compiling entry point '" + entry + "'" + sizes_text(bindings); });
  compiled_.add(key, made);
  return made;
}

CompiledPtr Session::Impl::compile(const std::string& entry, const NamedTensors& inputs) {
  return compile(entry, bind_inputs(model_of(entry).entry(entry), inputs));
}

CompiledPtr Session::Impl::make(const std::string& entry, const Bindings& bindings) {
  auto compiled = std::make_shared<Compiled>();
  const Clock::time_point start = Clock::now();
  CompiledEntry made =
      compile_entry(model_of(entry), entry, bindings, device_->target(), options_, are_stored_);
  if (made.storage.groups.size() > kept_groups_) {
    keep_states_as(made.storage);
    are_stored_ = true;
  }
  compiled->work = std::move(made.work);
  compiled->plan = std::move(made.plan);
  compiled->runner_options = made.runner;
  compiled->prepared_tensors = std::move(made.prepared_tensors);
  if (!compiled->prepared_tensors.empty())
    compiled->prepared = preparing(*compiled, std::move(made.prepared));
  memory_.check_fits(*compiled, options_.device);
  const Clock::time_point planned = Clock::now();
  for (Compiled* each : {compiled.get(), compiled->prepared.get()})
    if (each) device_->enter([&] { each->runner = device_->make_runner(each->plan, each->runner_options); });
  log_debug("'{}': {} steps planned in {:.3f} s, their kernels made ready in {:.3f} s", entry,
            compiled->plan.steps.size(), seconds(start, planned), seconds(planned, Clock::now()));
  return compiled;
}

// All entry points share the states, so entry points compiled before are compiled again at their next run.
void Session::Impl::keep_states_as(const StateStorage& storage) {
  auto with_parts = Model::with_tables_of(*model_);
  add_parts(*with_parts, storage);
  device_->enter([&] { memory_.keep_as(*with_parts, storage, !started_.empty() ? &outlived_ : nullptr); });
  with_parts_ = std::move(with_parts);
  kept_groups_ = storage.groups.size();
  compiled_.clear();
  staged_.reset();
}

int64_t Session::Impl::arena_bytes() const {
  int64_t bytes = memory_.arena_bytes();
  compiled_.for_each([&](const Compiled& each) {
    if (each.prepared && each.prepared->arena) bytes += each.prepared->plan.arena_bytes;
  });
  return bytes;
}

void Session::Impl::prepare(Compiled& compiled) {
  if (is_prepared(compiled)) return;
  Compiled& prepared = *compiled.prepared;
  memory_.bind(prepared, {});
  device_->enter([&] {
    prepared.runner->run({});
    prepared.runner->wait();
  });
  compiled.prepared_at = states_version_;
}

void Session::Impl::execute(Compiled& compiled, const NamedTensors& inputs, const RunOptions& options) {
  prepare(compiled);
  memory_.bind(compiled, inputs);
  const std::string already =
      options.find_nonfinite ? nonfinite_before(compiled, *model_, states(), *device_) : "";
  const auto run = [&] {
    if (!compiled.plan.written_states.empty()) note_changed_states();
    device_->enter([&] {
      compiled.runner->run(options);
      compiled.runner->wait();
    });
  };
  if (already.empty()) return run();
  with_context(run, [&] { return already; });
}

void Session::Impl::start(const CompiledPtr& compiled, const NamedTensors& inputs) {
  started_.make_room(memory_.is_bound(*compiled) && is_prepared(*compiled) && !options_.find_nonfinite);
  if (options_.find_nonfinite) {
    execute(*compiled, inputs, {.find_nonfinite = true});
  } else {
    prepare(*compiled);
    memory_.bind(*compiled, inputs);
    if (!compiled->plan.written_states.empty()) note_changed_states();
    device_->enter([&] { compiled->runner->run({}); });
  }
  started_.add(compiled, inputs);
  staged_.reset();
}

void Session::Impl::stage(const CompiledPtr& compiled, const NamedTensors& inputs) {
  device_->enter([&] { compiled->runner->stage(input_addresses(compiled->plan, inputs)); });
  compiled->staged = inputs;
  staged_ = compiled;
}

NamedTensors Session::Impl::result() {
  const auto until_read = started_.size() == 1 ? std::exchange(outlived_, {}) : std::vector<DeviceMemory>();
  return started_.take_results();
}

int32_t Session::Impl::state_index(const std::string& name) const {
  const int32_t index = model_->find_state(name);
  if (index < 0) fail_no_state(*model_, name);
  return index;
}

NamedTensors Session::Impl::state_values(bool (*is_wanted)(const State&)) const {
  NamedTensors values;
  for (size_t i = 0; i < model_->states().size(); ++i)
    if (is_wanted(model_->states()[i]))
      values.emplace(model_->states()[i].name, memory_.states().copy(static_cast<int32_t>(i)));
  values.complete("the session has no state");
  return values;
}

void Session::Impl::set_states(const NamedTensors& values) {
  std::map<int32_t, Tensor> by_index;
  std::map<int32_t, Tensor> beginnings;
  for (const auto& [name, value] : values) {
    const int32_t state = state_index(name);
    const bool is_smaller = std::ranges::any_of(
        more_, [&](const auto& model) { return value.type() == model->state(state).type; });
    (is_smaller && !(value.type() == model_->state(state).type) ? beginnings : by_index)
        .emplace(state, value);
  }
  note_changed_states();
  device_->enter([&] {
    memory_.set_states(by_index);
    memory_.set_beginnings(beginnings);
  });
}

void Session::Impl::set_encoded(const std::map<int32_t, EncodedValues>& values) {
  note_changed_states();
  device_->enter([&] { memory_.set_encoded(values); });
}

// Plans depend on the size, so all entry points are compiled again at their next run.
void Session::Impl::grow_cache(int64_t positions) {
  check_idle();
  const std::shared_ptr<const Model> larger = with_longer_cache(*model_, positions, options_.mesh);
  std::vector<std::shared_ptr<const Model>> more;
  for (const auto& model : more_) more.push_back(with_longer_cache(*model, positions, options_.mesh));
  std::unique_ptr<Model> with_parts = with_parts_ ? with_caches_of(*larger, *with_parts_) : nullptr;
  compiled_.clear();
  staged_.reset();
  device_->enter([&] { memory_.resize_caches(with_parts ? *with_parts : *larger); });
  model_ = larger;
  more_ = std::move(more);
  with_parts_ = std::move(with_parts);
}

}  // namespace genesis
