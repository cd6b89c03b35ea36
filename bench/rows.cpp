// Row kernels and optimizer updates on tensors larger than the caches, as shares of the bandwidth measured in
// the same run, counting only the bytes that must move: each input read once, each result written once.
// `bench_rows [--json FILE] [--rounds N]`.
#include <fmt/format.h>
#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "backends/cpu/kernels.h"
#include "bench/peaks.h"
#include "schema/ops/loss.h"
#include "schema/ops/norm.h"
#include "schema/ops/optimizer.h"
#include "schema/ops/softmax.h"

namespace genesis::bench {
namespace {

// Pages of their own, written by all threads so that they exist, with small numbers that differ.
class Memory {
 public:
  explicit Memory(const TensorType& type) : bytes_((type.bytes() + kPage) / kPage * kPage) {
    data_ = new (std::align_val_t(kPage)) std::byte[static_cast<size_t>(bytes_)];
    tbb::parallel_for(tbb::blocked_range<int64_t>(0, bytes_ / kPage), [&](const auto& range) {
      for (int64_t page = range.begin(); page < range.end(); ++page) fill(type.dtype, page);
    });
  }
  Memory(Memory&& other) noexcept : bytes_(other.bytes_), data_(std::exchange(other.data_, nullptr)) {}
  ~Memory() { operator delete[](data_, std::align_val_t(kPage)); }
  std::byte* data() const { return data_; }

 private:
  static constexpr int64_t kPage = 4096;

  void fill(DType dtype, int64_t page) {
    std::byte* at = data_ + page * kPage;
    dispatch(dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      for (size_t i = 0; i < kPage / sizeof(T); ++i) {
        const auto step = static_cast<float>((static_cast<size_t>(page) * 7 + i * 37) % 64);
        const T value = is_float(dtype) ? T(step / 32) : T(step);  // classes, steps: integers below 64
        std::memcpy(at + i * sizeof(T), &value, sizeof(T));
      }
    });
  }

  int64_t bytes_;
  std::byte* data_ = nullptr;
};

enum class Limit { kCopy, kRead };

// One op on tensors of its own.
class Case {
 public:
  Case(std::string what, const char* op, Attributes attributes, std::vector<TensorType> inputs, Limit limit)
      : what_(std::move(what)),
        op_(find_op(op)),
        attributes_(std::move(attributes)),
        types_(std::move(inputs)),
        limit_(limit) {
    result_types_ = infer_types(*op_, attributes_, types_);
    const KernelQuery query{*op_, attributes_, types_, result_types_};
    kernel_ = &select_kernel(cpu::kernels_for(op), query);
    parsed_ = op_->parse(attributes_);
    scratch_bytes_ = kernel_->scratch_bytes ? kernel_->scratch_bytes(query) : 0;
    if (kernel_->prepare) prepared_ = kernel_->prepare(query);
    for (const auto* types : {&types_, &result_types_})
      for (const TensorType& type : *types) bytes_ += type.bytes();
  }

  // Best of the runs that fit in the time; memory is held only meanwhile.
  void run_for(double seconds) {
    std::vector<Memory> memory;
    std::vector<TensorView> in, out;
    for (const TensorType& type : types_) in.push_back(view_of(type, memory.emplace_back(type).data()));
    for (const TensorType& type : result_types_)
      out.push_back(view_of(type, memory.emplace_back(type).data()));
    const Memory scratch({DType::u8, {scratch_bytes_}});
    Fault fault;
    const KernelContext context{.inputs = in,
                                .outputs = out,
                                .attributes_ptr = parsed_.get(),
                                .prepared_ptr = prepared_.get(),
                                .scratch = scratch.data(),
                                .fault = &fault};
    const auto now = [] { return std::chrono::steady_clock::now(); };
    const auto begin = now();
    do {
      const auto start = now();
      kernel_->run(context);
      best_seconds_ = std::min(best_seconds_, std::chrono::duration<double>(now() - start).count());
    } while (std::chrono::duration<double>(now() - begin).count() < seconds);
  }

  const std::string& what() const { return what_; }
  std::string type() const { return types_[0].to_string(); }
  double gbps() const { return static_cast<double>(bytes_) / best_seconds_ * 1e-9; }
  double share(const Peaks& peaks) const {
    return gbps() / (limit_ == Limit::kCopy ? peaks.copy_gbps : peaks.read_gbps);
  }
  const char* limit() const { return limit_ == Limit::kCopy ? "copy" : "read"; }

 private:
  std::string what_;
  const OpDef* op_;
  Attributes attributes_;
  std::vector<TensorType> types_, result_types_;
  Limit limit_;
  const KernelImpl* kernel_;
  std::shared_ptr<const void> parsed_, prepared_;
  int64_t scratch_bytes_ = 0, bytes_ = 0;
  double best_seconds_ = 1e30;
};

void add_rows(std::vector<Case>& cases, DType dtype, int64_t rows, int64_t n) {
  const TensorType x{dtype, {rows, n}}, w{DType::f32, {n}};
  const auto add = [&](const char* op, Attributes attributes, std::vector<TensorType> inputs) {
    cases.emplace_back(op, op, std::move(attributes), std::move(inputs), Limit::kCopy);
  };
  add("softmax", to_attributes(ops::Softmax{1}), {x});
  add("softmax_grad", to_attributes(ops::SoftmaxGrad{.axis = 1}), {x, x});
  add("log_softmax", to_attributes(ops::LogSoftmax{1}), {x});
  add("layer_norm", to_attributes(ops::LayerNorm{.has_weight = true, .has_bias = true}), {x, w, w});
  add("layer_norm_grad",
      to_attributes(ops::LayerNormGrad{.has_weight = true, .want_weight = true, .want_bias = true}),
      {x, x, w});
  add("rms_norm", to_attributes(ops::RmsNorm{.has_weight = true}), {x, w});
  add("rms_norm_grad", to_attributes(ops::RmsNormGrad{.has_weight = true, .want_weight = true}), {x, x, w});
}

void add_cross_entropy(std::vector<Case>& cases, DType dtype, int64_t rows, int64_t classes) {
  const TensorType logits{dtype, {rows, classes}}, target{DType::i64, {rows}}, lse{DType::f32, {rows}};
  ops::CrossEntropy forward;
  forward.with_lse = true;
  cases.emplace_back("cross_entropy", "cross_entropy", to_attributes(forward),
                     std::vector<TensorType>{logits, target}, Limit::kRead);
  cases.emplace_back("cross_entropy_grad", "cross_entropy_grad", to_attributes(ops::CrossEntropyGrad{}),
                     std::vector<TensorType>{logits, target, lse, {DType::f32, {}}}, Limit::kCopy);
}

void add_optimizers(std::vector<Case>& cases, DType dtype, int64_t n) {
  const TensorType p{dtype, {n}}, m{DType::f32, {n}}, lr{DType::f32, {}}, step{DType::i64, {}};
  const std::vector<TensorType> adam = {p, p, m, m, lr, step}, lion = {p, p, m, lr};
  cases.emplace_back("adamw", "adam_update", to_attributes(ops::AdamUpdate{.weight_decay = 0.1}), adam,
                     Limit::kCopy);
  cases.emplace_back("lion", "lion_update", to_attributes(ops::LionUpdate{}), lion, Limit::kCopy);
  cases.emplace_back("sum_squares", "sum_squares", Attributes{}, std::vector<TensorType>{p}, Limit::kRead);
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (DType dtype : {DType::f32, DType::bf16}) {
    for (int64_t n : {1024, 4096}) add_rows(cases, dtype, (int64_t{1} << 25) / n, n);
    add_cross_entropy(cases, dtype, 4096, 8192);
    add_cross_entropy(cases, dtype, 256, 151936);
    add_optimizers(cases, dtype, int64_t{1} << 24);
  }
  return cases;
}

// Limits and ops take turns, so that what else runs on the machine meets both.
Peaks run_rounds(int rounds, std::vector<Case>& cases) {
  Peaks best;
  for (int round = 0; round < rounds; ++round) {
    const Peaks peaks = measure_peaks();
    best.read_gbps = std::max(best.read_gbps, peaks.read_gbps);
    best.copy_gbps = std::max(best.copy_gbps, peaks.copy_gbps);
    for (Case& one : cases) one.run_for(0.1);
  }
  return best;
}

int run(int rounds, const std::string& json_file) {
  std::vector<Case> cases = all_cases();
  const Peaks peaks = run_rounds(rounds, cases);
  fmt::print("limits, all cores: read {:.1f} GB/s, copy {:.1f} GB/s\n", peaks.read_gbps, peaks.copy_gbps);
  fmt::print("\n{:<20} {:<18} {:>8} {:>17}\n", "op", "first input", "GB/s", "of bandwidth");
  nlohmann::json rows = nlohmann::json::array();
  for (const Case& one : cases) {
    fmt::print("{:<20} {:<18} {:>8.1f} {:>10.1f}% {}\n", one.what(), one.type(), one.gbps(),
               100 * one.share(peaks), one.limit());
    rows.push_back({{"op", one.what()},
                    {"type", one.type()},
                    {"gbps", one.gbps()},
                    {"limit", one.limit()},
                    {"share", one.share(peaks)}});
  }
  if (json_file.empty()) return 0;
  const nlohmann::json report = {{"peaks", {{"read_gbps", peaks.read_gbps}, {"copy_gbps", peaks.copy_gbps}}},
                                 {"rows", rows}};
  std::ofstream file(json_file);
  file << report.dump(2) << '\n';
  return file.good() ? 0 : 1;
}

}  // namespace
}  // namespace genesis::bench

int main(int argc, char** argv) {
  CLI::App app("Row kernels as shares of the bandwidth measured in the same run.");
  std::string json_file;
  int rounds = 5;
  app.add_option("--json", json_file, "write the results to this file");
  app.add_option("--rounds", rounds, "how often each case takes its turn")->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  return genesis::bench::run(rounds, json_file);
}
