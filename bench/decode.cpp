// Decoding at batch 1 as a share of the read bandwidth: every weight is read once per token, and nothing else
// counts (the KV cache is read on top). `bench_decode [--json FILE] [--rounds N]`.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "bench/peaks.h"
#include "bench/subject.h"
#include "executor/session.h"

namespace genesis::bench {
namespace {

struct Flags {
  std::string json;
  int rounds = 5, tokens = 64;
};

// The fastest token of a text of `tokens` that begins with an empty cache, and the mean over all.
struct Times {
  double best = 1e30, mean = 0;
};

Times decode(Session& session, int tokens) {
  Times times;
  for (int64_t position = 0; position < tokens; ++position) {
    const NamedTensors inputs = {{"tokens", Tensor::of<int64_t>({1, 1}, {(position * 977) % 8192})},
                                 {"position", Tensor::scalar<int64_t>(position)}};
    const Stopwatch watch;
    session.run("decode", inputs);
    const double seconds = watch.seconds();
    times.best = std::min(times.best, seconds);
    times.mean += seconds / tokens;
  }
  return times;
}

void run(const Flags& flags) {
  const std::shared_ptr<Model> model = make_subject();
  Session session(model);
  decode(session, 2);  // compiles
  // The limit and the tokens take turns, so that what else runs on the machine meets both.
  double bandwidth = 0;
  Times times{1e30, 1e30};
  for (int round = 0; round < flags.rounds; ++round) {
    bandwidth = std::max(bandwidth, measure_peaks().read_gbps);
    const Times now = decode(session, flags.tokens);
    times = {std::min(times.best, now.best), std::min(times.mean, now.mean)};
  }
  const double bytes = static_cast<double>(parameter_bytes(*model)), gbps = bytes / times.mean * 1e-9;
  fmt::print("decode of qwen2 512 x 8 layers, vocabulary 8192, batch 1, f32, positions 0 to {}\n",
             flags.tokens - 1);
  fmt::print("  {:.3f} ms a token in the mean ({:.3f} the fastest), {:.0f} tokens/s\n", times.mean * 1e3,
             times.best * 1e3, 1 / times.mean);
  fmt::print("  {:.1f} MB of weights: {:.1f} GB/s = {:.1f}% of the measured {:.1f}\n", bytes * 1e-6, gbps,
             100 * gbps / bandwidth, bandwidth);
  write_report(flags.json, {{"ms_per_token", times.mean * 1e3},
                            {"best_ms", times.best * 1e3},
                            {"weight_bytes", bytes},
                            {"gbps", gbps},
                            {"read_gbps", bandwidth},
                            {"share_of_read", gbps / bandwidth}});
}

}  // namespace
}  // namespace genesis::bench

int main(int argc, char** argv) {
  CLI::App app("Decoding at batch 1 as a share of the read bandwidth measured in the same run.");
  genesis::bench::Flags flags;
  app.add_option("--json", flags.json, "write the results to this file");
  app.add_option("--rounds", flags.rounds, "texts decoded; the fastest counts")->check(CLI::PositiveNumber);
  app.add_option("--tokens", flags.tokens, "length of a text")->check(CLI::Range(1, 1024));
  CLI11_PARSE(app, argc, argv);
  genesis::bench::run(flags);
}
