// Times single kernel calls of elementwise ops, casts and fused regions on tensors far larger than the caches, as ratios to the
// copy bandwidth measured in the same run, for the bytes that must move. Also times tiny calls. Prints a table, or one JSON
// object per line with --json.
#include <fmt/core.h>

#include <chrono>
#include <cstdlib>
#include <cstring>

#include "backends/cpu/fused/tile_functions.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/parallel/parallel.h"
#include "backends/kernel_table.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/elementwise/fused.h"
#include "schema/ops/elementwise/fused_program.h"

namespace genesis::bench {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// One node with its own memory.
class Bench {
 public:
  Bench(std::string_view op, const Attributes& attributes, std::vector<TensorType> inputs)
      : op_(*find_op(op)), attributes_(op_.canonical(attributes)), in_types_(std::move(inputs)) {
    out_types_ = infer_types(op_, attributes_, in_types_);
    const KernelQuery query{op_, attributes_, in_types_, out_types_};
    kernel_ = &select_kernel(cpu::kernels_for(op_.name()), query);
    if (kernel_->prepare) prepared_ = kernel_->prepare(query);
    for (const TensorType& type : in_types_) in_.push_back(view_of(type, allocate(type)));
    for (const TensorType& type : out_types_) out_.push_back(view_of(type, allocate(type)));
  }

  double bytes() const {
    int64_t sum = 0;
    for (const auto* types : {&in_types_, &out_types_})
      for (const TensorType& type : *types) sum += type.bytes();
    return static_cast<double>(sum);
  }

  double seconds_of(int calls) {
    const double start = now();
    for (int i = 0; i < calls; ++i) run();
    return (now() - start) / calls;
  }

 private:
  void run() {
    kernel_->run({.inputs = in_, .outputs = out_, .prepared_ptr = prepared_.get(), .fault = &fault_});
  }

  // Fills the memory with repeated values between -3 and 3, which also touches its pages.
  std::byte* allocate(const TensorType& type) {
    std::byte* data;
    owners_.push_back(Tensor::uninitialized(type, &data));
    const int64_t n = type.numel();
    for (int64_t i = 0; i < n; ++i) {
      const float x = static_cast<float>(i % 997) * 0.006f - 3;
      if (type.dtype == DType::f32) reinterpret_cast<float*>(data)[i] = x;
      if (type.dtype == DType::bf16) reinterpret_cast<bf16*>(data)[i] = bf16(x);
    }
    if (type.dtype != DType::f32 && type.dtype != DType::bf16)
      std::memset(data, 1, static_cast<size_t>(type.bytes()));
    return data;
  }

  const OpDef& op_;
  Attributes attributes_;
  std::vector<TensorType> in_types_, out_types_;
  const KernelImpl* kernel_;
  std::shared_ptr<const void> prepared_;
  std::vector<Tensor> owners_;
  std::vector<TensorView> in_, out_;
  Fault fault_;
};

// The limit: all cores copy 128 MiB, bypassing the cache.
class Copy {
 public:
  Copy() : from_(kBytes), to_(kBytes) {}

  double gbps() {
    const double start = now();
    cpu::parallel_chunks(kBytes / kChunk, [&](int64_t i) {
      cpu::stream_block(from_.data() + i * kChunk, to_.data() + i * kChunk, kChunk);
      cpu::finish_streams();
    });
    return 2.0 * kBytes / (now() - start) / 1e9;
  }

 private:
  static constexpr int64_t kBytes = 128 << 20, kChunk = 256 << 10;
  std::vector<std::byte> from_, to_;
};

class Table {
 public:
  Table(bool json, double seconds_per_row, std::string only)
      : json_(json), seconds_per_row_(seconds_per_row), only_(std::move(only)) {}

  bool wants(const std::string& name) const { return name.find(only_) != std::string::npos; }

  // The kernel and the copy take turns, so that disturbances affect both.
  void row(const std::string& name, Bench& bench) {
    double seconds = 1e9, limit = 0;
    const double end = now() + seconds_per_row_;
    for (int i = 0; i < 3 || now() < end; ++i) {
      seconds = std::min(seconds, bench.seconds_of(1));
      limit = std::max(limit, copy_.gbps());
    }
    const double rate = bench.bytes() / seconds / 1e9;
    if (json_)
      fmt::print(
          "{{\"name\": \"{}\", \"ms\": {:.3f}, \"gbps\": {:.2f}, \"copy_gbps\": {:.2f}, \"ratio\": "
          "{:.3f}}}\n",
          name, seconds * 1e3, rate, limit, rate / limit);
    else
      fmt::print("{:<44} {:>9.3f} ms {:>7.1f} GB/s {:>6.2f} of copy {:.1f}\n", name, seconds * 1e3, rate,
                 rate / limit, limit);
  }
  void row(const std::string& name, std::string_view op, std::vector<TensorType> inputs,
           const Attributes& attributes = {}) {
    if (!wants(name)) return;
    Bench bench(op, attributes, std::move(inputs));
    row(name, bench);
  }
  void tiny(const std::string& name, Bench& bench) {
    if (!wants(name)) return;
    bench.seconds_of(1000);
    const double nanoseconds = bench.seconds_of(100000) * 1e9;
    if (json_)
      fmt::print("{{\"name\": \"{}\", \"ns\": {:.1f}}}\n", name, nanoseconds);
    else
      fmt::print("{:<44} {:>9.1f} ns a call\n", name, nanoseconds);
  }

 private:
  bool json_;
  double seconds_per_row_;
  std::string only_;
  Copy copy_;
};

Attributes region(std::vector<std::string> body, std::vector<int64_t> outputs) {
  return to_attributes(ops::Fused{std::move(body), std::move(outputs)});
}

void run(bool json, double seconds_per_row, std::string only) {
  Table table(json, seconds_per_row, std::move(only));
  const TensorType big{DType::f32, {4096, 8192}}, half{DType::bf16, {4096, 8192}};  // 128 MiB, 64 MiB
  const TensorType row{DType::f32, {8192}}, column{DType::f32, {4096, 1}};
  Attributes to_bf16;
  to_bf16.set("dtype", DType::bf16);
  table.row("add f32", "add", {big, big});
  table.row("add bf16", "add", {half, half});
  table.row("add f32, a row", "add", {big, row});
  table.row("mul f32, a column", "mul", {big, column});
  table.row("lt f32", "lt", {big, big});
  Attributes by_tanh;
  by_tanh.set("approximate", "tanh");
  table.row("gelu f32, tanh form", "gelu", {big}, by_tanh);
  for (const char* op : {"relu", "exp", "log", "tanh", "sigmoid", "silu", "erf", "gelu", "sin"})
    table.row(std::string(op) + " f32", op, {big});
  table.row("gelu bf16", "gelu", {half});
  table.row("cast f32 to bf16", "cast", {big}, to_bf16);
  table.row("fused chain of 5, f32", "fused", {big, big},
            region({"mul %0 %1", "add %2 %0", "sigmoid %3", "mul %4 %1", "sub %5 %0"}, {6}));
  table.row("fused chain of 5 without sigmoid, f32", "fused", {big, big},
            region({"mul %0 %1", "add %2 %0", "relu %3", "mul %4 %1", "sub %5 %0"}, {6}));
  table.row("fused chain of 5 with exp, tanh and gelu, f32", "fused", {big, big},
            region({"add %0 %1", "gelu %2", "tanh %3", "mul %4 %1", "exp %5"}, {6}));
  table.row("fused chain of 5, bf16", "fused", {half, half},
            region({"mul %0 %1", "add %2 %0", "sigmoid %3", "mul %4 %1", "sub %5 %0"}, {6}));
  table.row("fused softmax of rows of 8192, f32", "fused", {big},
            region({"max %0 {axes=(1), keep_dims=true}", "sub %0 %1", "exp %2",
                    "sum %3 {axes=(1), keep_dims=true}", "div %3 %4"},
                   {5}));
  Bench tiny("add", {}, {{DType::f32, {64}}, {DType::f32, {64}}});
  table.tiny("add f32[64]", tiny);
  Bench chain("fused", region({"mul %0 %1", "add %2 %0", "sigmoid %3", "mul %4 %1", "sub %5 %0"}, {6}),
              {{DType::f32, {64}}, {DType::f32, {64}}});
  table.tiny("fused chain of 5, f32[64]", chain);
}

}  // namespace
}  // namespace genesis::bench

// bench_elementwise [--json] [seconds per row] [substring of a row's name]
int main(int argc, char** argv) {
  const bool json = argc > 1 && std::string_view(argv[1]) == "--json";
  const int first = 1 + json;
  genesis::bench::run(json, argc > first ? std::atof(argv[first]) : 0.6,
                      argc > first + 1 ? argv[first + 1] : "");
}
