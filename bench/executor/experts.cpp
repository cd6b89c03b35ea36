// Times the grouped products of experts, and their gradients, as shares of one dense product of the same FLOPs on the same device.
// Rows are spread unevenly, expert e has a share that grows with e, unless --even. `bench_experts [--device D] [--dtype T] [--rows N]
// [--experts N] [--n N] [--k N] [--even] [--rounds N] [--json FILE]`.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "bench/common/options.h"
#include "bench/common/report.h"
#include "builder/genesis.h"
#include "executor/session.h"
#include "schema/ops/nn/grouped_matmul.h"

namespace genesis::bench {
namespace {

struct Sizes {
  std::string device = "cpu", dtype = "bf16";
  int64_t rows = 4096, experts = 16, n = 768, k = 2048;
  bool even = false;
};

// Returns the first row of each expert.
std::vector<int64_t> offsets_of(const Sizes& s) {
  std::vector<int64_t> offsets = {0};
  const int64_t all = s.experts * (s.experts + 3) / 2;
  for (int64_t e = 0, before = 0; e < s.experts; ++e) {
    before += e + 2;
    offsets.push_back(s.even ? s.rows * (e + 1) / s.experts : s.rows * before / all);
  }
  return offsets;
}

// The entries return one row each, so that the time is that of the product.
std::unique_ptr<Model> make_model(const Sizes& s) {
  auto model = std::make_unique<Model>();
  const Scope scope(*model, 1, *parse_dtype(s.dtype));
  const Parameter x = scope.parameter("x", {s.rows, s.k}, init::normal()),
                  dy = scope.parameter("dy", {s.rows, s.n}, init::normal()),
                  weights = scope.parameter("weights", {s.experts, s.n, s.k}, init::normal()),
                  dense = scope.parameter("dense", {s.n, s.k}, init::normal());
  const auto entry = [&](const char* name, auto&& product) {
    GraphBuilder g(*model, name);
    const Value offsets = g.input("offsets", DType::i64, {s.experts + 1});
    const Value y = product(g.graph(), offsets), first = slice(y, 0, 0, 1);
    g.output("y", y.rank() == 3 ? slice(first, 1, 0, 1) : first);
  };
  entry("forward", [&](Graph& g, Value at) { return grouped_matmul(x.in(g), weights.in(g), at); });
  entry("dx", [&](Graph& g, Value at) { return grouped_matmul(dy.in(g), weights.in(g), at, false); });
  entry("dw", [&](Graph& g, Value at) { return emit(ops::GroupedMatmulGrad{}, {dy.in(g), x.in(g), at}); });
  entry("dense forward", [&](Graph& g, Value) { return linear(x.in(g), dense.in(g)); });
  entry("dense dx", [&](Graph& g, Value) { return matmul(dy.in(g), dense.in(g)); });
  entry("dense dw", [&](Graph& g, Value) { return matmul(dy.in(g), x.in(g), true); });
  return model;
}

double milliseconds(Session& session, const std::string& entry, const NamedTensors& inputs, int rounds) {
  double best = 1e30;
  for (int i = 0; i < rounds + 2; ++i) {
    const auto start = std::chrono::steady_clock::now();
    session.run(entry, inputs);
    best = std::min(
        best, std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

int run(int argc, char** argv) {
  Sizes s;
  std::string json;
  int rounds = 10;
  Options options("Times grouped products beside one dense product of the same FLOPs.");
  options.text("--device", s.device, "cpu, cuda or cuda:N");
  options.text("--dtype", s.dtype, "f32, bf16 or f16");
  options.number("--rows", s.rows, "rows of all experts together");
  options.number("--experts", s.experts, "number of experts");
  options.number("--n", s.n, "outputs of an expert");
  options.number("--k", s.k, "inputs of an expert");
  options.flag("--even", s.even, "all experts have equally many rows");
  options.rounds(rounds, "runs, of which the fastest counts");
  options.json(json);
  options.parse(argc, argv);
  Session session(std::shared_ptr<const Model>(make_model(s)), {.device = s.device});
  const std::vector<int64_t> at = offsets_of(s);
  const NamedTensors inputs = {{"offsets", Tensor::of<int64_t>({std::ssize(at)}, at)}};
  Report report;
  for (const char* entry : {"forward", "dx", "dw"}) {
    const double grouped = milliseconds(session, entry, inputs, rounds),
                 dense = milliseconds(session, fmt::format("dense {}", entry), inputs, rounds);
    fmt::print("{:8} grouped {:8.3f} ms  dense {:8.3f} ms  share {:.3f}\n", entry, grouped, dense,
               dense / grouped);
    report.add(entry, Report{{"grouped_ms", grouped}, {"dense_ms", dense}, {"share", dense / grouped}});
  }
  write_report(json, report);
  return 0;
}

}  // namespace
}  // namespace genesis::bench

int main(int argc, char** argv) { return genesis::bench::run(argc, argv); }
