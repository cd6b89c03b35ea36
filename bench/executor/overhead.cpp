// Measures the executor's cost per step: a chain of 1,000 dependent ops on 16 elements, run by a Session without passes, against
// direct calls of the same kernels on the same sizes. `bench_overhead [--json FILE] [--rounds N]`.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "backends/cpu/kernels.h"
#include "backends/kernel_table.h"
#include "bench/common/options.h"
#include "bench/common/report.h"
#include "bench/common/subject.h"
#include "builder/genesis.h"
#include "executor/session.h"

namespace genesis::bench {
namespace {

constexpr int64_t kSteps = 1000, kElements = 16;

// Neighboring ops differ, so that only the executor connects them.
std::unique_ptr<Model> make_chain() {
  auto model = std::make_unique<Model>();
  GraphBuilder g(*model, "chain");
  const Value w = g.input("w", DType::f32, {1, 1});
  Value x = g.input("x", DType::f32, {kElements, 1});
  for (int64_t i = 0; i < kSteps / 4; ++i) x = matmul(sigmoid(x) + x, w), x = relu(x);
  g.output("y", x);
  return model;
}

// One step of the plan on its own memory.
class DirectCall {
 public:
  explicit DirectCall(const Step& step) {
    const KernelQuery query{*step.op, step.attributes, step.input_types, step.output_types};
    const KernelImpl& kernel = select_kernel(cpu::kernels_for(step.op->name()), query);
    run_ = kernel.run;
    attributes_ = step.op->parse(step.attributes);
    if (kernel.prepare) prepared_ = kernel.prepare(query);
    scratch_.resize(static_cast<size_t>(kernel.scratch_bytes ? kernel.scratch_bytes(query) : 0) + 64);
    const uintptr_t past_a_line = reinterpret_cast<uintptr_t>(scratch_.data()) % 64;
    context_.scratch = scratch_.data() + (64 - past_a_line) % 64;
    for (size_t i = 0; i < step.input_types.size(); ++i)
      inputs_.push_back(view_of(step.input_types[i], data_[i].data()));
    outputs_.push_back(view_of(step.output_types[0], data_[3].data()));
  }
  void operator()(Fault& fault) {
    context_.inputs = inputs_;
    context_.outputs = outputs_;
    context_.attributes_ptr = attributes_.get();
    context_.prepared_ptr = prepared_.get();
    context_.fault = &fault;
    run_(context_);
  }

 private:
  void (*run_)(const KernelContext&) = nullptr;
  std::shared_ptr<const void> attributes_, prepared_;
  std::vector<TensorView> inputs_, outputs_;
  std::vector<std::byte> scratch_;
  alignas(64) std::array<std::array<float, kElements>, 4> data_{};
  KernelContext context_;
};

void run(const std::string& json_file, int rounds) {
  const std::shared_ptr<Model> model = make_chain();
  Session session(model, {.optimize = false});
  const NamedTensors inputs = {
      {"w", Tensor::of<float>({1, 1}, {0.5f})},
      {"x", Tensor::of<float>({kElements, 1}, std::vector<float>(size_t{kElements}, 1.0f))}};
  const Plan& plan = session.plan("chain", inputs);
  std::vector<DirectCall> calls(plan.steps.begin(), plan.steps.end());
  Fault fault;
  double in_session = 1e30, direct = 1e30;
  for (int round = 0; round < rounds; ++round) {
    const Stopwatch session_watch;
    session.run("chain", inputs);
    in_session = std::min(in_session, session_watch.seconds());
    const Stopwatch direct_watch;
    for (DirectCall& call : calls) call(fault);
    direct = std::min(direct, direct_watch.seconds());
  }
  const auto us = [&](double seconds) { return seconds * 1e6 / double(plan.steps.size()); };
  fmt::print("a chain of {} ops on {} elements: {:.3f} us a step, kernels alone {:.3f}: overhead {:.3f} us\n",
             plan.steps.size(), kElements, us(in_session), us(direct), us(in_session - direct));
  write_report(json_file, {{"steps", plan.steps.size()},
                           {"us_per_step", us(in_session)},
                           {"kernel_us", us(direct)},
                           {"overhead_us", us(in_session - direct)}});
}

}  // namespace
}  // namespace genesis::bench

int main(int argc, char** argv) {
  genesis::bench::Options options("The executor's cost per step.");
  std::string json_file;
  int rounds = 2000;
  options.json(json_file);
  options.rounds(rounds, "runs of the chain; the fastest counts");
  options.parse(argc, argv);
  genesis::bench::run(json_file, rounds);
}
