// Times single kernel calls of attention, its gradient, decoding from a KV cache, rope and swiglu, as ratios to the FMA peak or
// the copy bandwidth measured in the same run. Prints a table, or JSON with --json. Causal attention counts as half of the FLOPs.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <random>

#include "backends/cpu/kernels.h"
#include "backends/cpu/peaks.h"
#include "backends/kernel_table.h"
#include "schema/ops/nn/attention.h"

namespace genesis::bench {
namespace {

// One node with its memory, run without a graph.
class NodeRunner {
 public:
  NodeRunner(std::string_view op, const Attributes& attributes, std::vector<TensorType> inputs)
      : op_(*find_op(op)), attributes_(op_.canonical(attributes)), in_types_(std::move(inputs)) {
    out_types_ = infer_types(op_, attributes_, in_types_);
    const KernelQuery query{op_, attributes_, in_types_, out_types_};
    kernel_ = &select_kernel(cpu::kernels_for(op_.name()), query);
    parsed_ = op_.parse(attributes_);
    if (kernel_->prepare) prepared_ = kernel_->prepare(query);
    for (const TensorType& type : in_types_) in_.push_back(view_of(type, allocate(type.bytes())));
    for (const TensorType& type : out_types_) out_.push_back(view_of(type, allocate(type.bytes())));
    scratch_ = allocate(kernel_->scratch_bytes ? kernel_->scratch_bytes(query) : 0);
    for (TensorView& view : in_) fill(view);
  }

  void run() {
    kernel_->run({.inputs = in_,
                  .outputs = out_,
                  .attributes_ptr = parsed_.get(),
                  .prepared_ptr = prepared_.get(),
                  .scratch = scratch_,
                  .fault = &fault_});
  }

  std::vector<TensorView>& inputs() { return in_; }

 private:
  std::byte* allocate(int64_t bytes) {
    Tensor owner = Tensor::uninitialized({DType::u8, {bytes + 64}}, &memory_);
    owners_.push_back(owner);
    return memory_ + (64 - reinterpret_cast<uintptr_t>(memory_) % 64) % 64;
  }

  static void fill(TensorView& view) {
    std::mt19937 random(7);
    std::normal_distribution<float> normal;
    for (int64_t i = 0; i < view.numel(); ++i) {
      if (view.dtype == DType::f32) view.as<float>()[i] = normal(random);
      if (view.dtype == DType::bf16) view.as<bf16>()[i] = bf16(normal(random));
      if (view.dtype == DType::i64) view.as<int64_t>()[i] = i;
    }
  }

  const OpDef& op_;
  Attributes attributes_;
  std::vector<TensorType> in_types_, out_types_;
  const KernelImpl* kernel_;
  std::shared_ptr<const void> parsed_, prepared_;
  std::vector<TensorView> in_, out_;
  std::vector<Tensor> owners_;
  std::byte *memory_ = nullptr, *scratch_ = nullptr;
  Fault fault_;
};

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Returns the best of many calls, since other processes may use the machine.
double best_seconds(NodeRunner& node) {
  double best = 1e9, end = now() + 0.6;
  for (int i = 0; i < 3 || now() < end; ++i) {
    const double start = now();
    node.run();
    best = std::min(best, now() - start);
  }
  return best;
}

struct Shape4 {
  int64_t batch, queries, keys, heads, key_heads, size;
};

struct Row {
  std::string name, unit;
  double seconds, rate, ratio;
};

class Table {
 public:
  explicit Table(bool json) : json_(json), peaks_(cpu::measure_peaks()) {}

  void flops(const std::string& name, NodeRunner& node, double flops) {
    for (int i = 0; i < 5; ++i)
      peaks_.fma_f32_gflops = std::max(peaks_.fma_f32_gflops, cpu::measure_fma_f32());
    add(name, "GFLOP/s", best_seconds(node), flops, peaks_.fma_f32_gflops);
  }
  void read(const std::string& name, NodeRunner& node, double bytes) {
    add(name, "GB/s read", best_seconds(node), bytes, peaks_.read_gbps);
  }
  void copy(const std::string& name, NodeRunner& node, double bytes) {
    add(name, "GB/s", best_seconds(node), bytes, peaks_.copy_gbps);
  }

 private:
  void add(const std::string& name, const std::string& unit, double seconds, double work, double limit) {
    const double rate = work / seconds * 1e-9;
    if (json_)
      fmt::print(
          "{{\"name\": \"{}\", \"ms\": {:.4f}, \"rate\": {:.1f}, \"unit\": \"{}\", \"limit\": {:.1f}, "
          "\"ratio\": {:.3f}}}\n",
          name, seconds * 1e3, rate, unit, limit, rate / limit);
    else
      fmt::print("{:<58} {:>9.3f} ms {:>8.1f} {:<10} {:>6.2f} of {:.0f}\n", name, seconds * 1e3, rate, unit,
                 rate / limit, limit);
  }

  bool json_;
  cpu::Peaks peaks_;
};

std::vector<TensorType> qkv(const Shape4& s, DType dtype) {
  return {{dtype, {s.batch, s.queries, s.heads, s.size}},
          {dtype, {s.batch, s.keys, s.key_heads, s.size}},
          {dtype, {s.batch, s.keys, s.key_heads, s.size}}};
}

std::string name_of_case(const char* what, const Shape4& s, DType dtype, bool causal) {
  return fmt::format("{} {} b{} q{} k{} h{}/{} d{}{}", what, name_of(dtype), s.batch, s.queries, s.keys,
                     s.heads, s.key_heads, s.size, causal ? " causal" : "");
}

void bench_forward(Table& table, const Shape4& s, DType dtype, bool causal) {
  ops::Attention op;
  op.causal = causal;
  op.with_lse = true;
  NodeRunner node("attention", to_attributes(op), qkv(s, dtype));
  const double flops = 4.0 * s.batch * s.heads * s.queries * s.keys * s.size;
  table.flops(name_of_case("attention", s, dtype, causal), node, causal ? flops / 2 : flops);
}

void bench_backward(Table& table, const Shape4& s, DType dtype, bool causal) {
  ops::AttentionGrad op;
  op.causal = causal;
  std::vector<TensorType> types = qkv(s, dtype);
  types.push_back(types[0]);
  types.push_back({DType::f32, {s.batch, s.heads, s.queries}});
  types.push_back(types[0]);
  NodeRunner node("attention_grad", to_attributes(op), types);
  const double flops = 10.0 * s.batch * s.heads * s.queries * s.keys * s.size;
  table.flops(name_of_case("attention_grad", s, dtype, causal), node, causal ? flops / 2 : flops);
}

void bench_decode(Table& table, const Shape4& s, DType dtype) {
  ops::Attention op;
  op.causal = true;
  NodeRunner node("attention", to_attributes(op), qkv(s, dtype));
  const double bytes = 2.0 * s.batch * s.keys * s.key_heads * s.size * static_cast<double>(size_of(dtype));
  table.read(name_of_case("decode", s, dtype, true), node, bytes);
}

void bench_rope(Table& table, const Shape4& s, RopeKind kind) {
  ops::Rope op;
  op.kind = kind;
  NodeRunner node("rope", to_attributes(op), {qkv(s, DType::f32)[0], {DType::i64, {s.queries}}});
  const double bytes = 8.0 * s.batch * s.queries * s.heads * s.size;
  table.copy(fmt::format("rope {} b{} t{} h{} d{}", EnumNames<RopeKind>::names[static_cast<size_t>(kind)],
                         s.batch, s.queries, s.heads, s.size),
             node, bytes);
}

void bench_swiglu(Table& table, int64_t n) {
  const TensorType type{DType::f32, {n}};
  NodeRunner forward("swiglu", {}, {type, type}), backward("swiglu_grad", {}, {type, type, type});
  table.copy(fmt::format("swiglu f32 {}", n), forward, 12.0 * n);
  table.copy(fmt::format("swiglu_grad f32 {}", n), backward, 20.0 * n);
}

}  // namespace
}  // namespace genesis::bench

int main(int argc, char** argv) {
  using namespace genesis;
  using namespace genesis::bench;
  Table table(argc > 1 && std::strcmp(argv[1], "--json") == 0);
  const Shape4 training{8, 256, 256, 8, 8, 64}, longer{1, 2048, 2048, 14, 2, 64},
      wide{1, 1024, 1024, 16, 8, 128};
  for (const Shape4& s : {training, longer, wide}) {
    bench_forward(table, s, DType::f32, true);
    bench_backward(table, s, DType::f32, true);
  }
  bench_forward(table, training, DType::f32, false);
  bench_backward(table, training, DType::f32, false);
  bench_forward(table, training, DType::bf16, true);
  bench_backward(table, training, DType::bf16, true);
  bench_decode(table, {1, 1, 4096, 8, 8, 64}, DType::f32);
  bench_decode(table, {1, 1, 256, 8, 8, 64}, DType::f32);
  bench_decode(table, {1, 1, 4096, 14, 2, 64}, DType::f32);
  bench_decode(table, {1, 1, 4096, 14, 2, 64}, DType::bf16);
  bench_decode(table, {4, 1, 16384, 8, 8, 128}, DType::f32);
  bench_rope(table, {8, 256, 256, 8, 8, 64}, RopeKind::kHalf);
  bench_rope(table, {8, 256, 256, 8, 8, 64}, RopeKind::kInterleaved);
  bench_rope(table, {16, 1024, 256, 32, 8, 64}, RopeKind::kHalf);
  bench_swiglu(table, 16 << 20);
  bench_swiglu(table, 2048 * 1408);
}
