// Measures decoding at batch 1 as a share of the read bandwidth: every weight is read once per token, and only these bytes count
// (the KV cache is read in addition). `bench_decode [--json FILE] [--rounds N]`. Both the bandwidth and the decoding are the best
// of many windows of a few milliseconds that take turns: whole reads of an array, and single positions of the text.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "backends/cpu/peaks.h"
#include "bench/common/options.h"
#include "bench/common/report.h"
#include "bench/common/subject.h"
#include "executor/session.h"

namespace genesis::bench {
namespace {

struct Flags {
  std::string json;
  int rounds = 20, tokens = 64;
};

// Returns the seconds of each position of a text that begins with an empty cache.
std::vector<double> decode(Session& session, int tokens) {
  std::vector<double> seconds;
  for (int64_t position = 0; position < tokens; ++position) {
    const NamedTensors inputs = {{"tokens", Tensor::of<int64_t>({1, 1}, {(position * 977) % 8192})},
                                 {"position", Tensor::of<int64_t>({1}, {position})}};
    const Stopwatch watch;
    session.run("decode", inputs);
    seconds.push_back(watch.seconds());
  }
  return seconds;
}

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

void run(const Flags& flags) {
  const std::shared_ptr<Model> model = make_subject();
  Session session(model);
  decode(session, 2);  // compiles
  const cpu::ReadMeter meter;
  double bandwidth = 0, best_text = 1e30;
  std::vector<double> best(static_cast<size_t>(flags.tokens), 1e30);
  for (int round = 0; round < flags.rounds; ++round) {
    for (int i = 0; i < 4; ++i) bandwidth = std::max(bandwidth, meter.gbps());
    const std::vector<double> now = decode(session, flags.tokens);
    best_text = std::min(best_text, mean(now));
    for (size_t i = 0; i < best.size(); ++i) best[i] = std::min(best[i], now[i]);
  }
  const double token = mean(best);
  const double bytes = static_cast<double>(parameter_bytes(*model)), gbps = bytes / token * 1e-9;
  fmt::print("decode of qwen2 512 x 8 layers, vocabulary 8192, batch 1, f32, positions 0 to {}\n",
             flags.tokens - 1);
  fmt::print("  {:.3f} ms a token, {:.0f} tokens/s; in the fastest text {:.3f} ms\n", token * 1e3, 1 / token,
             best_text * 1e3);
  fmt::print("  {:.1f} MB of weights: {:.1f} GB/s = {:.1f}% of the measured {:.1f}\n", bytes * 1e-6, gbps,
             100 * gbps / bandwidth, bandwidth);
  write_report(flags.json, {{"ms_per_token", token * 1e3},
                            {"ms_per_token_of_best_text", best_text * 1e3},
                            {"weight_bytes", bytes},
                            {"gbps", gbps},
                            {"read_gbps", bandwidth},
                            {"share_of_read", gbps / bandwidth}});
}

}  // namespace
}  // namespace genesis::bench

int main(int argc, char** argv) {
  genesis::bench::Options options(
      "Decoding at batch 1 as a share of the read bandwidth measured in the same run.");
  genesis::bench::Flags flags;
  options.json(flags.json);
  options.rounds(flags.rounds, "texts decoded; of each position the fastest counts");
  options.number("--tokens", flags.tokens, "length of a text", 1, 1024);
  options.parse(argc, argv);
  genesis::bench::run(flags);
}
