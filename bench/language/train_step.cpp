// Measures a whole training step as a share of the machine's f32 arithmetic, counted in model FLOPs: what the mathematics needs,
// without recomputation. `bench_train_step [--json FILE] [--rounds N] [--threads N]`.
//
// Model FLOPs of a step: 6 x (elements of all matrices in products: linear layers and the head; the embedding lookup counts
// nothing) x tokens, for the forward product and the two of the backward pass; plus for causal attention 3 x (2 products x 2
// FLOPs x batch x seq^2 / 2 x hidden) per layer.
//
// The measurement with one thread uses processor time, for the step and for the limit: other work on the machine hardly affects
// it.
#include <fmt/format.h>
#include <tbb/task_arena.h>
#include <time.h>

#include <algorithm>

#include "backends/cpu/peaks.h"
#include "bench/common/options.h"
#include "bench/common/report.h"
#include "bench/common/subject.h"
#include "executor/session.h"

namespace genesis::bench {
namespace {

constexpr int64_t kBatch = 8, kSeq = 256, kHidden = 512, kLayers = 8, kVocabulary = 8192;

struct Flags {
  std::string json;
  int rounds = 5, threads = 0;
};

double model_flops(const Model& model) {
  const auto tokens = static_cast<double>(kBatch * kSeq);
  const double products = 6 * static_cast<double>(product_parameters(model)) * tokens;
  const double attention = 3 * 2 * 2 * tokens * double(kSeq) / 2 * double(kHidden) * double(kLayers);
  return products + attention;
}

double processor_seconds() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

NamedTensors make_batch() {
  return {{"tokens", random_tokens({kBatch, kSeq}, kVocabulary, 1)},
          {"targets", random_tokens({kBatch, kSeq}, kVocabulary, 2)}};
}

struct Result {
  double seconds = 1e30, peak_gflops = 0;
};

// The limit and the step take turns, so that other work on the machine affects both.
Result run_on_all_cores(Session& session, int rounds) {
  const NamedTensors batch = make_batch();
  session.run("train_step", batch);  // touches all memory
  Result best;
  for (int round = 0; round < rounds; ++round) {
    for (int i = 0; i < 10; ++i) best.peak_gflops = std::max(best.peak_gflops, cpu::measure_fma_f32());
    const Stopwatch watch;
    session.run("train_step", batch);
    best.seconds = std::min(best.seconds, watch.seconds());
  }
  return best;
}

// Measures the limit and the step in the processor time of one thread.
Result run_on_one_core(const std::shared_ptr<Model>& model) {
  Session session(model, {.threads = 1});
  const NamedTensors batch = make_batch();
  session.run("train_step", batch);
  Result best;
  tbb::task_arena(1).execute([&] {
    for (int i = 0; i < 30; ++i) {
      const Stopwatch watch;
      const double before = processor_seconds(), gflops = cpu::measure_fma_f32();
      const double used = processor_seconds() - before;
      best.peak_gflops = std::max(best.peak_gflops, gflops * watch.seconds() / used);
    }
  });
  for (int i = 0; i < 2; ++i) {
    const double before = processor_seconds();
    session.run("train_step", batch);
    best.seconds = std::min(best.seconds, processor_seconds() - before);
  }
  return best;
}

Report report_of(const char* what, const Result& result, double flops) {
  const double gflops = flops / result.seconds * 1e-9, tokens = double(kBatch * kSeq) / result.seconds;
  fmt::print("  {}: {:.3f} s, {:.0f} tokens/s, {:.0f} GFLOP/s = {:.1f}% of the measured {:.0f}\n", what,
             result.seconds, tokens, gflops, 100 * gflops / result.peak_gflops, result.peak_gflops);
  return {{"seconds", result.seconds},
          {"tokens_per_second", tokens},
          {"gflops", gflops},
          {"peak_gflops", result.peak_gflops},
          {"share_of_peak", gflops / result.peak_gflops}};
}

void run(const Flags& flags) {
  std::shared_ptr<Model> model = make_subject();
  add_training(*model);
  const double flops = model_flops(*model);
  fmt::print(
      "train_step of qwen2 512 x 8 layers, {} x {} tokens, vocabulary {}, f32, AdamW: {:.1f} model GFLOP\n",
      kBatch, kSeq, kVocabulary, flops * 1e-9);
  const Result one = run_on_one_core(model);
  Session session(model, {.threads = flags.threads});
  const Plan& plan = session.plan("train_step", make_batch());
  Report report = report_of("all cores", run_on_all_cores(session, flags.rounds), flops);
  report.add("one_core", report_of("one thread, in processor time", one, flops));
  const double ratio = double(plan.arena_bytes) / double(plan.lower_bound_bytes);
  fmt::print("  {} steps in the plan; arena {:.2f} MiB, lower bound {:.2f} MiB, ratio {:.4f}\n",
             plan.steps.size(), double(plan.arena_bytes) / (1 << 20),
             double(plan.lower_bound_bytes) / (1 << 20), ratio);
  report.add("model_gflop", flops * 1e-9);
  report.add("arena_bytes", plan.arena_bytes);
  report.add("lower_bound_bytes", plan.lower_bound_bytes);
  report.add("arena_ratio", ratio);
  write_report(flags.json, report);
}

}  // namespace
}  // namespace genesis::bench

int main(int argc, char** argv) {
  genesis::bench::Options options(
      "A step of training as a share of the f32 arithmetic measured in the same run.");
  genesis::bench::Flags flags;
  options.json(flags.json);
  options.rounds(flags.rounds, "steps measured");
  options.threads(flags.threads, "0: all cores (the limit is always of all cores)");
  options.parse(argc, argv);
  genesis::bench::run(flags);
}
