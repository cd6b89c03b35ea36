#include "executor/cpu_runner.h"

#include <chrono>
#include <cmath>
#include <cstring>

#include "backends/cpu/kernels.h"
#include "executor/nonfinite.h"

namespace genesis {

std::byte* PlanMemory::resolve(const BufferRef& ref) const {
  const auto at = static_cast<size_t>(ref.index);
  std::byte* base = nullptr;
  switch (ref.space) {
    case Space::kArena:
      base = arena;
      break;
    case Space::kState:
      base = states[at];
      break;
    case Space::kConstant:
      base = constants[at];
      break;
    case Space::kInput:
      base = inputs[at];
      break;
  }
  return base ? base + ref.offset : nullptr;
}

namespace {

using Clock = std::chrono::steady_clock;

// A step with everything resolved: what remains for the run is one indirect call.
struct Call {
  const Step* step;
  void (*run)(const KernelContext&);
  KernelContext context;
  std::vector<TensorView> inputs, outputs;
  std::shared_ptr<const void> attributes, prepared;
};

class CpuRunner final : public Runner {
 public:
  explicit CpuRunner(const Plan& plan) : plan_(plan) {
    calls_.reserve(plan.steps.size());
    for (const Step& step : plan.steps)
      with_context([&] { add_call(step); }, [&] { return "while preparing node '" + step.authored + "'"; });
  }

  void bind(const PlanMemory& memory) override {
    input_views_.clear();
    for (Call& call : calls_) {
      bind_views(call.inputs, call.step->inputs, memory);
      bind_views(call.outputs, call.step->outputs, memory);
      call.context.scratch = memory.arena + call.step->scratch_offset;
    }
    copies_.clear();
    for (const StateCopy& copy : plan_.state_copies)
      copies_.push_back({memory.states[static_cast<size_t>(copy.state)], memory.resolve(copy.source),
                         static_cast<size_t>(copy.source.bytes)});
  }

  void bind_inputs(const PlanMemory& memory) override {
    for (const auto& [view, ref] : input_views_) view->data = memory.resolve(*ref);
  }

  void run(const RunOptions& options) override {
    fault_.set = false;
    if (options.timings || options.find_nonfinite || options.observer)
      run_observed(options);
    else
      run_plain();
    for (const Copy& copy : copies_) std::memcpy(copy.to, copy.from, copy.bytes);
  }

 private:
  struct Copy {
    std::byte* to;
    const std::byte* from;
    size_t bytes;
  };

  void bind_views(std::vector<TensorView>& views, const std::vector<BufferRef>& refs,
                  const PlanMemory& memory) {
    for (size_t i = 0; i < views.size(); ++i) {
      views[i].data = memory.resolve(refs[i]);
      if (refs[i].space == Space::kInput) input_views_.emplace_back(&views[i], &refs[i]);
    }
  }

  void add_call(const Step& step) {
    const KernelQuery query{*step.op, step.attributes, step.input_types, step.output_types};
    const KernelImpl& kernel = select_kernel(cpu::kernels_for(step.op->name()), query);
    Call call{.step = &step, .run = kernel.run, .context = {}, .inputs = {}, .outputs = {}};
    call.attributes = step.op->parse(step.attributes);
    if (kernel.prepare) call.prepared = kernel.prepare(query);
    for (const TensorType& type : step.input_types) call.inputs.push_back(view_of(type, nullptr));
    for (const TensorType& type : step.output_types) call.outputs.push_back(view_of(type, nullptr));
    call.context.inputs = call.inputs;
    call.context.outputs = call.outputs;
    call.context.attributes_ptr = call.attributes.get();
    call.context.prepared_ptr = call.prepared.get();
    call.context.fault = &fault_;
    calls_.push_back(std::move(call));
  }

  void run_plain() {
    for (const Call& call : calls_) {
      call.run(call.context);
      if (fault_.set.load(std::memory_order_relaxed)) report_fault(call);
    }
  }

  void run_observed(const RunOptions& options) {
    const auto begin = Clock::now();
    const auto now = [&] { return std::chrono::duration<double, std::micro>(Clock::now() - begin).count(); };
    if (options.timings) options.timings->assign(calls_.size(), {});
    for (size_t i = 0; i < calls_.size(); ++i) {
      const double start = now();
      calls_[i].run(calls_[i].context);
      if (options.timings) (*options.timings)[i] = {start, now()};
      if (fault_.set) report_fault(calls_[i]);
      if (options.find_nonfinite) check_finite(calls_[i]);
      if (options.observer) options.observer(*calls_[i].step, calls_[i].inputs, calls_[i].outputs);
    }
  }

  [[noreturn]] void report_fault(const Call& call) const {
    if (fault_.what) fail("node '{}' ({}): {}", call.step->authored, call.step->op->name(), fault_.what);
    fail("node '{}' ({}): index {} is out of range: it must be at least 0 and less than {}",
         call.step->authored, call.step->op->name(), fault_.value, fault_.limit);
  }

  static void check_finite(const Call& call) {
    for (const TensorView& view : call.outputs)
      if (const auto found = first_nonfinite(view))
        fail(
            "node '{}' ({}, '{}' after optimisation) is the first to produce {} at element {} of {}: its "
            "inputs were finite",
            call.step->authored, call.step->op->name(), call.step->name,
            found->is_nan ? "NaN" : "an infinity", found->index, call.step->output_types[0].to_string());
  }

  const Plan& plan_;
  std::vector<Call> calls_;
  std::vector<Copy> copies_;
  std::vector<std::pair<TensorView*, const BufferRef*>> input_views_;
  Fault fault_;
};

}  // namespace

std::unique_ptr<Runner> make_cpu_runner(const Plan& plan) { return std::make_unique<CpuRunner>(plan); }

}  // namespace genesis
