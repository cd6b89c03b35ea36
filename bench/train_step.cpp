// A whole step of training as a share of the machine's f32 arithmetic, counted in model FLOPs: what the
// mathematics needs, whatever was recomputed. `bench_train_step [--json FILE] [--rounds N] [--threads N]`.
//
// Model FLOPs of a step: 6 x (elements of every matrix that a product multiplies: all linear layers and the
// head; the embedding's lookup counts nothing) x tokens, for the forward product and the two of the backward
// pass; and for causal attention 3 x (2 products x 2 FLOPs x batch x seq^2 / 2 x hidden) per layer.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "bench/peaks.h"
#include "bench/subject.h"
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

void run(const Flags& flags) {
  std::shared_ptr<Model> model = make_subject();
  add_training(*model);
  const double flops = model_flops(*model);
  Session session(model, {.threads = flags.threads});
  const NamedTensors batch = {{"tokens", random_tokens({kBatch, kSeq}, kVocabulary, 1)},
                              {"targets", random_tokens({kBatch, kSeq}, kVocabulary, 2)}};
  const Plan& plan = session.plan_for("train_step", batch);
  session.run("train_step", batch);  // touches all memory
  // The limit and the step take turns, so that what else runs on the machine meets both.
  double peak = 0, best = 1e30;
  for (int round = 0; round < flags.rounds; ++round) {
    for (int i = 0; i < 10; ++i) peak = std::max(peak, measure_fma_f32());
    const Stopwatch watch;
    session.run("train_step", batch);
    best = std::min(best, watch.seconds());
  }
  const double gflops = flops / best * 1e-9, tokens_per_second = double(kBatch * kSeq) / best;
  const double ratio = double(plan.arena_bytes) / double(plan.lower_bound_bytes);
  fmt::print(
      "train_step of qwen2 512 x 8 layers, {} x {} tokens, vocabulary {}, f32, AdamW, {} steps in the plan\n",
      kBatch, kSeq, kVocabulary, plan.steps.size());
  fmt::print(
      "  {:.3f} s, {:.0f} tokens/s, {:.1f} model GFLOP at {:.0f} GFLOP/s = {:.1f}% of the measured {:.0f}\n",
      best, tokens_per_second, flops * 1e-9, gflops, 100 * gflops / peak, peak);
  fmt::print("  arena {:.2f} MiB, lower bound {:.2f} MiB, ratio {:.4f}\n",
             double(plan.arena_bytes) / (1 << 20), double(plan.lower_bound_bytes) / (1 << 20), ratio);
  write_report(flags.json, {{"seconds", best},
                            {"tokens_per_second", tokens_per_second},
                            {"model_gflop", flops * 1e-9},
                            {"gflops", gflops},
                            {"peak_gflops", peak},
                            {"share_of_peak", gflops / peak},
                            {"arena_bytes", plan.arena_bytes},
                            {"lower_bound_bytes", plan.lower_bound_bytes},
                            {"arena_ratio", ratio}});
}

}  // namespace
}  // namespace genesis::bench

int main(int argc, char** argv) {
  CLI::App app("A step of training as a share of the f32 arithmetic measured in the same run.");
  genesis::bench::Flags flags;
  app.add_option("--json", flags.json, "write the results to this file");
  app.add_option("--rounds", flags.rounds, "steps measured")->check(CLI::PositiveNumber);
  app.add_option("--threads", flags.threads, "0: all cores (the limit is always of all cores)");
  CLI11_PARSE(app, argc, argv);
  genesis::bench::run(flags);
}
