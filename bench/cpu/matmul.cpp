// Times matrix products of training and decoding as shares of the limits measured in the same run: multiply-adds in registers for
// large products, read bandwidth for those with few rows. Large products are also compared with oneDNN's primitive.
// `matmul [--json FILE] [--rounds N] [--threads N]`.
#include <dlfcn.h>
#include <fmt/format.h>
#include <tbb/global_control.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "backends/cpu/gemm/gemm.h"
#include "backends/cpu/parallel/parallel.h"
#include "backends/cpu/peaks.h"
#include "bench/common/options.h"
#include "bench/common/report.h"
#include "bench/cpu/onednn_product.h"

namespace genesis::bench {
namespace {

using cpu::Gemm;
using cpu::GemmProblem;

struct Shape {
  const char* what;
  int64_t batch, m, n, k;
  bool transpose_a, transpose_b;
};

constexpr Shape kLarge[] = {
    {"square", 1, 2048, 2048, 2048, false, false},
    {"square", 1, 2048, 2048, 2048, false, true},
    {"mlp", 1, 512, 4864, 896, false, true},
    {"mlp", 1, 512, 4864, 896, false, false},
    {"y = x W^T", 1, 2048, 512, 512, false, true},
    {"dx = dy W", 1, 2048, 512, 512, false, false},
    {"dW = dy^T x", 1, 512, 512, 2048, true, false},
    {"y = x W^T", 1, 2048, 1408, 512, false, true},
    {"dx = dy W", 1, 2048, 512, 1408, false, false},
    {"dW = dy^T x", 1, 1408, 512, 2048, true, false},
    {"long sum", 1, 512, 2048, 1408, false, false},
    {"logits", 1, 2048, 8192, 512, false, true},
    {"dx of logits", 1, 2048, 512, 8192, false, false},
    {"dW of logits", 1, 8192, 512, 2048, true, false},
    {"scores", 64, 256, 256, 64, false, true},
    {"mix values", 64, 256, 64, 256, false, false},
    {"dv", 64, 256, 64, 256, true, false},
};

constexpr int64_t kWeights = int64_t{96} << 20;  // elements: larger than any cache, also in bf16
constexpr int64_t kDepth = 2048;

constexpr Shape kFewRows[] = {
    {"decode", 1, 1, kWeights / kDepth, kDepth, false, true},
    {"decode", 1, 2, kWeights / kDepth, kDepth, false, true},
    {"decode", 1, 4, kWeights / kDepth, kDepth, false, true},
    {"decode", 1, 8, kWeights / kDepth, kDepth, false, true},
    {"decode", 1, 1, kDepth, kWeights / kDepth, false, false},
    {"decode", 1, 4, kDepth, kWeights / kDepth, false, false},
};

GemmProblem problem_of(const Shape& s, DType type) {
  GemmProblem p;
  p.a = p.b = p.c = type;
  p.batch = s.batch;
  p.m = s.m;
  p.n = s.n;
  p.k = s.k;
  p.transpose_a = s.transpose_a;
  p.transpose_b = s.transpose_b;
  p.lda = s.transpose_a ? s.m : s.k;
  p.ldb = s.transpose_b ? s.k : s.n;
  p.ldc = s.n;
  p.stride_a = s.m * s.k;
  p.stride_b = s.k * s.n;
  p.stride_c = s.m * s.n;
  return p;
}

// Memory for the largest operand of any case, written by all threads so that its pages exist. 0x3f80 is 1.0 in bf16, and a pair
// of them is close to 1 in f32.
class Memory {
 public:
  explicit Memory(int64_t bytes)
      : bytes_((bytes + 4095) / 4096 * 4096), data_(new (std::align_val_t(4096)) std::byte[bytes_]) {
    cpu::parallel_ranges(bytes_ / 4096, 1, [&](int64_t first, int64_t last) {
      for (int64_t i = first * 2048; i < last * 2048; ++i) reinterpret_cast<uint16_t*>(data_)[i] = 0x3f80;
    });
  }
  Memory(const Memory&) = delete;
  ~Memory() { operator delete[](data_, std::align_val_t(4096)); }
  std::byte* data() const { return data_; }

 private:
  int64_t bytes_;
  std::byte* data_;
};

struct Case {
  Shape shape;
  DType type;
  GemmProblem problem;
  std::shared_ptr<const Gemm> gemm;
  double best_seconds = 1e30;
  std::shared_ptr<const OneDnnProduct> peer;  // for large products; null if oneDNN cannot compute it
  double peer_seconds = 1e30;

  Case(const Shape& s, DType t, const KernelNames& disabled)
      : shape(s), type(t), problem(problem_of(s, t)), gemm(Gemm::create(problem, &disabled)) {}

  double flops() const {
    return 2.0 * static_cast<double>(shape.batch * shape.m * shape.n) * static_cast<double>(shape.k);
  }
  double weight_bytes() const {
    return static_cast<double>(shape.n * shape.k) * static_cast<double>(size_of(type));
  }
  double gflops() const { return flops() / best_seconds * 1e-9; }
  double gbps() const { return weight_bytes() / best_seconds * 1e-9; }
};

// One of the CPU's implementations of a large bf16 product, e.g. `gemm.amx` or `gemm.packed`, whichever one is chosen by default.
struct ImplementationCase {
  Shape shape;
  const char* name;
  std::shared_ptr<const Gemm> gemm;
  double best_seconds = 1e30;
};

std::vector<ImplementationCase> implementations_of(std::span<const Shape> shapes) {
  std::vector<ImplementationCase> implementations;
  for (const Shape& shape : shapes) {
    const GemmProblem p = problem_of(shape, DType::bf16);
    for (const cpu::GemmImplementation& implementation : cpu::gemm_implementations())
      if (std::strcmp(implementation.name, "reference") != 0 && implementation.decline(p).empty())
        implementations.push_back({shape, implementation.name, implementation.create(p)});
  }
  return implementations;
}

struct Buffers {
  Memory a, b, c, scratch;
};

Buffers buffers_for(const std::vector<Case>& cases, const std::vector<ImplementationCase>& implementations) {
  int64_t a = 0, b = 0, c = 0, scratch = 0;
  for (const Case& one : cases) {
    const auto element = static_cast<int64_t>(size_of(one.type));
    a = std::max(a, one.shape.batch * one.shape.m * one.shape.k * element);
    b = std::max(b, one.shape.batch * one.shape.n * one.shape.k * element);
    c = std::max(c, one.shape.batch * one.shape.m * one.shape.n * element);
    scratch = std::max(scratch, one.gemm->scratch_bytes());
  }
  for (const ImplementationCase& one : implementations)
    scratch = std::max(scratch, one.gemm->scratch_bytes());
  return {Memory(a), Memory(b), Memory(c), Memory(scratch)};
}

using Clock = double (*)();  // seconds

double wall_clock() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
// Returns the processor time of this process; with one thread, other work on the machine hardly affects it.
double processor_clock() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

// Returns the time of the fastest run within `seconds`, or `best` if none was faster.
template <class Run>
double best_of(double best, double seconds, Clock now, const Run& run) {
  const double begin = now();
  do {
    const double start = now();
    run();
    best = std::min(best, now() - start);
  } while (now() - begin < seconds);
  return best;
}

void run_for(Case& one, const Buffers& memory, double seconds, Clock clock) {
  one.best_seconds = best_of(one.best_seconds, seconds, clock, [&] {
    one.gemm->run(memory.a.data(), memory.b.data(), memory.c.data(), nullptr, memory.scratch.data());
  });
}

void run_implementation_for(ImplementationCase& one, const Buffers& memory, double seconds, Clock clock) {
  one.best_seconds = best_of(one.best_seconds, seconds, clock, [&] {
    one.gemm->run(memory.a.data(), memory.b.data(), memory.c.data(), nullptr, memory.scratch.data());
  });
}

void run_peer_for(Case& one, const Buffers& memory, double seconds, Clock clock) {
  if (!one.peer) return;
  one.peer_seconds = best_of(one.peer_seconds, seconds, clock,
                             [&] { one.peer->run(memory.a.data(), memory.b.data(), memory.c.data()); });
  // OpenMP's threads spin for a while after their work, which would slow down the next measurement.
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
}

std::vector<Case> cases_of(std::span<const Shape> shapes, const KernelNames& disabled) {
  std::vector<Case> cases;
  for (const Shape& shape : shapes) {
    for (const DType type : {DType::f32, DType::bf16}) cases.emplace_back(shape, type, disabled);
  }
  return cases;
}

// Limits and products take turns, so that other work on the machine affects both.
cpu::Peaks run_rounds(int rounds, Clock clock, std::vector<Case>& large,
                      std::vector<ImplementationCase>& implementations, std::vector<Case>& few_rows) {
  const Buffers for_large = buffers_for(large, implementations), for_few = buffers_for(few_rows, {});
  cpu::Peaks best = cpu::measure_peaks();
  for (int round = 0; round < rounds; ++round) {
    for (Case& one : large) {
      run_for(one, for_large, 0.04, clock);
      run_peer_for(one, for_large, 0.04, clock);
      if (one.type == DType::f32)
        best.fma_f32_gflops = std::max(best.fma_f32_gflops, cpu::measure_fma_f32());
      else
        best.fma_bf16_gflops = std::max(best.fma_bf16_gflops, cpu::measure_fma_bf16());
    }
    for (ImplementationCase& one : implementations) run_implementation_for(one, for_large, 0.04, clock);
    for (Case& one : few_rows) run_for(one, for_few, 0.04, clock);
    const cpu::Peaks again = cpu::measure_peaks();
    best.read_gbps = std::max(best.read_gbps, again.read_gbps);
    best.copy_gbps = std::max(best.copy_gbps, again.copy_gbps);
  }
  return best;
}

std::string form_of(const Shape& s) {
  return fmt::format("{}{} x {}", s.batch > 1 ? fmt::format("{} of ", s.batch) : "",
                     s.transpose_a ? "A^T" : "A", s.transpose_b ? "B^T" : "B");
}

// Without bf16 dot products, bf16 is computed by f32 multiply-adds.
double peak_for(const Case& one, const cpu::Peaks& peaks) {
  return one.type == DType::bf16 && peaks.fma_bf16_gflops > 0 ? peaks.fma_bf16_gflops : peaks.fma_f32_gflops;
}

std::vector<Report> print_large(const std::vector<Case>& cases, const cpu::Peaks& peaks) {
  fmt::print("\n{:<14} {:<16} {:<16} {:>9} {:>7} {:>10} {:>7} {:>9}\n", "product", "form", "m x n x k",
             "f32 GF/s", "of peak", "bf16 GF/s", "of peak", "bf16/f32");
  std::vector<Report> rows;
  for (size_t i = 0; i + 1 < cases.size(); i += 2) {
    const Case &f32 = cases[i], &bf16 = cases[i + 1];
    const Shape& s = f32.shape;
    const double share_f32 = f32.gflops() / peak_for(f32, peaks),
                 share_bf16 = bf16.gflops() / peak_for(bf16, peaks);
    const double gain = bf16.gflops() / f32.gflops();
    fmt::print("{:<14} {:<16} {:<16} {:>9.0f} {:>6.1f}% {:>10.0f} {:>6.1f}% {:>8.2f}x\n", s.what, form_of(s),
               fmt::format("{}x{}x{}", s.m, s.n, s.k), f32.gflops(), 100 * share_f32, bf16.gflops(),
               100 * share_bf16, gain);
    rows.push_back({{"product", s.what},
                    {"form", form_of(s)},
                    {"batch", s.batch},
                    {"m", s.m},
                    {"n", s.n},
                    {"k", s.k},
                    {"f32_gflops", f32.gflops()},
                    {"f32_share_of_peak", share_f32},
                    {"bf16_gflops", bf16.gflops()},
                    {"bf16_share_of_peak", share_bf16},
                    {"bf16_over_f32", gain},
                    {"f32_implementation", f32.gemm->name()},
                    {"bf16_implementation", bf16.gemm->name()}});
  }
  return rows;
}

// Prints ratios; above 1, our product is faster.
std::vector<Report> print_peers(const std::vector<Case>& cases) {
  fmt::print("\n{:<14} {:<16} {:<16} {:<6} {:>9} {:>12} {:>9}  {}\n", "product", "form", "m x n x k", "type",
             "ours GF/s", "oneDNN GF/s", "ours/its", "oneDNN kernel");
  std::vector<Report> rows;
  for (const Case& one : cases) {
    if (!one.peer) continue;
    const Shape& s = one.shape;
    const double its = one.flops() / one.peer_seconds * 1e-9, ratio = one.peer_seconds / one.best_seconds;
    fmt::print("{:<14} {:<16} {:<16} {:<6} {:>9.0f} {:>12.0f} {:>8.2f}x  {}\n", s.what, form_of(s),
               fmt::format("{}x{}x{}", s.m, s.n, s.k), name_of(one.type), one.gflops(), its, ratio,
               one.peer->implementation());
    rows.push_back({{"product", s.what},
                    {"form", form_of(s)},
                    {"batch", s.batch},
                    {"m", s.m},
                    {"n", s.n},
                    {"k", s.k},
                    {"type", name_of(one.type)},
                    {"gflops", one.gflops()},
                    {"onednn_gflops", its},
                    {"ours_over_onednn", ratio},
                    {"implementation", one.gemm->name()},
                    {"onednn_implementation", one.peer->implementation()}});
  }
  if (rows.empty()) fmt::print("this build has no oneDNN (-Donednn=enabled), or it has none of these products on this CPU\n");
  return rows;
}

// Measures every implementation in the same run as the limit, so that their order in the list can be judged.
std::vector<Report> print_implementations(const std::vector<ImplementationCase>& implementations,
                                          const cpu::Peaks& peaks) {
  const double peak = peaks.fma_bf16_gflops > 0 ? peaks.fma_bf16_gflops : peaks.fma_f32_gflops;
  fmt::print("\n{:<14} {:<16} {:<16} {:<12} {:>8} {:>13}\n", "bf16 by kernel", "form", "m x n x k", "kernel",
             "TFLOP/s", "of registers");
  std::vector<Report> rows;
  for (const ImplementationCase& one : implementations) {
    const Shape& s = one.shape;
    const double gflops =
        2e-9 * static_cast<double>(s.batch * s.m * s.n) * static_cast<double>(s.k) / one.best_seconds;
    fmt::print("{:<14} {:<16} {:<16} {:<12} {:>8.2f} {:>12.1f}%\n", s.what, form_of(s),
               fmt::format("{}x{}x{}", s.m, s.n, s.k), one.name, gflops * 1e-3, 100 * gflops / peak);
    rows.push_back({{"product", s.what},
                    {"form", form_of(s)},
                    {"m", s.m},
                    {"n", s.n},
                    {"k", s.k},
                    {"way", one.name},
                    {"gflops", gflops},
                    {"share_of_peak", gflops / peak}});
  }
  return rows;
}

std::vector<Report> print_few_rows(const std::vector<Case>& cases, const cpu::Peaks& peaks) {
  fmt::print("\n{:<14} {:<16} {:<16} {:<6} {:>8} {:>13}\n", "few rows", "form", "m x n x k", "type", "GB/s",
             "of read peak");
  std::vector<Report> rows;
  for (const Case& one : cases) {
    const Shape& s = one.shape;
    const double share = one.gbps() / peaks.read_gbps;
    fmt::print("{:<14} {:<16} {:<16} {:<6} {:>8.1f} {:>12.1f}%\n", s.what, form_of(s),
               fmt::format("{}x{}x{}", s.m, s.n, s.k), name_of(one.type), one.gbps(), 100 * share);
    rows.push_back({{"form", form_of(s)},
                    {"m", s.m},
                    {"n", s.n},
                    {"k", s.k},
                    {"type", name_of(one.type)},
                    {"gbps", one.gbps()},
                    {"share_of_read", share},
                    {"implementation", one.gemm->name()}});
  }
  return rows;
}

// Sets the number of threads of oneDNN's OpenMP, whichever library that is, to that of our TBB.
void allow_threads_of_openmp(int threads) {
  const auto set = reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
  if (set) set(threads);
}

void run(int rounds, int threads, const KernelNames& disabled, const std::string& json_file) {
  std::optional<tbb::global_control> limit;
  if (threads > 0) {
    limit.emplace(tbb::global_control::max_allowed_parallelism, static_cast<size_t>(threads));
    allow_threads_of_openmp(threads);
  }
  std::vector<Case> large = cases_of(kLarge, disabled), few_rows = cases_of(kFewRows, disabled);
  for (Case& one : large) one.peer = OneDnnProduct::create(one.problem);
  std::vector<ImplementationCase> implementations = implementations_of(kLarge);
  const cpu::Peaks peaks =
      run_rounds(rounds, threads == 1 ? processor_clock : wall_clock, large, implementations, few_rows);
  fmt::print("limits, all cores: f32 {:.0f} GF/s, bf16 {:.0f} GF/s, read {:.1f} GB/s, copy {:.1f} GB/s\n",
             peaks.fma_f32_gflops, peaks.fma_bf16_gflops, peaks.read_gbps, peaks.copy_gbps);
  const Report limits = {{"fma_f32_gflops", peaks.fma_f32_gflops},
                         {"fma_bf16_gflops", peaks.fma_bf16_gflops},
                         {"read_gbps", peaks.read_gbps},
                         {"copy_gbps", peaks.copy_gbps}};
  write_report(json_file, {{"peaks", limits},
                           {"products", print_large(large, peaks)},
                           {"bf16_by_way", print_implementations(implementations, peaks)},
                           {"against_onednn", print_peers(large)},
                           {"few_rows", print_few_rows(few_rows, peaks)}});
}

}  // namespace
}  // namespace genesis::bench

int main(int argc, char** argv) {
  genesis::bench::Options options("Matrix products as shares of the limits measured in the same run.");
  std::string json_file;
  int rounds = 5, threads = 0;
  std::vector<std::string> disabled;
  options.json(json_file);
  options.rounds(rounds, "how often each case takes its turn");
  options.threads(
      threads,
      "threads for us and for oneDNN; 0: all cores; 1: products are timed in processor time, which a "
      "busy machine hardly changes");
  options.texts("--disable", disabled, "implementations to switch off, such as gemm.amx");
  options.parse(argc, argv);
  genesis::bench::run(rounds, threads, {disabled.begin(), disabled.end()}, json_file);
}
