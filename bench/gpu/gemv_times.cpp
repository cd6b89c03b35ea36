// The products of decoding alone, without plan and executor: bf16, q8 and q4 weights of the layers of two models, for some
// rows of x, by each kernel and each way in which the streaming one, or the one for few rows, can be laid over the chip. Weights are cold: runs
// rotate through copies that the second-level cache cannot hold, and kernels start early behind each other as in a token.
//
//   bench_gemv_times [--models 0.5B,7B,7B/2] [--rows 1,2,4,8,32] [--formats bf16,q8,q4] [--shapes layer,qkv,...] [--check-only]
//
// Each line: us a product, GB/s of weights and scales, their share of what copying reaches in this run, and `error`: the
// greatest difference from sums in double precision over what bytes of x may cost, of rows from both ends and between; it
// must be below 1. `layer` is the four products of a layer in turn. Ends with 1 when a result is wrong.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <vector>

#include "backends/common/product_parts.h"
#include "backends/cuda/gemm/gemv_prefetch/gemv_prefetch.h"
#include "backends/cuda/gemm/quantized_stream/quantized_gemv_stream.h"
#include "backends/cuda/gemm/skinny/skinny_gemm.h"
#include "backends/cuda/gemm_list.h"
#include "backends/cuda/kernels.h"
#include "backends/cuda/peaks.h"
#include "backends/cuda/runtime/runtime.h"
#include "bench/options.h"
#include "schema/core/error.h"
#include "schema/core/float16.h"

namespace genesis::bench {
namespace {

using cuda::QuantizedGemv;

struct Shape {
  std::string name;
  std::vector<int64_t> n;
  int64_t k;
  bool has_norm = false, has_bias = false, has_addend = false, swiglu = false;

  int64_t rows() const {
    int64_t sum = 0;
    for (const int64_t each : n) sum += each;
    return sum;
  }
};

const std::map<std::string, std::vector<Shape>> kModels = {
    {"0.5B",
     {{"qkv", {896, 128, 128}, 896, true, true},
      {"o", {896}, 896, false, false, true},
      {"gate_up", {4864, 4864}, 896, true, false, false, true},
      {"down", {896}, 4864, false, false, true},
      {"head", {151936}, 896, true}}},
    {"7B",
     {{"qkv", {3584, 512, 512}, 3584, true, true},
      {"o", {3584}, 3584, false, false, true},
      {"gate_up", {18944, 18944}, 3584, true, false, false, true},
      {"down", {3584}, 18944, false, false, true},
      {"head", {152064}, 3584, true}}},
    {"7B/2",  // as one of two ranks along `tensor` has it
     {{"qkv", {1792, 256, 256}, 3584, true, true},
      {"o", {3584}, 1792},
      {"gate_up", {9472, 9472}, 3584, true, false, false, true},
      {"down", {3584}, 9472},
      {"head", {76032}, 3584, true}}}};
constexpr int kMaxRows = 32;
constexpr float kEps = 1e-6f;

// Bytes that memory is filled with, one after the other again and again.
class Tile {
 public:
  template <class Make>
  Tile(int64_t bytes, const Make& make) : bytes_(static_cast<size_t>(bytes)) {
    uint64_t state = 88172645463325252ull;
    using Value = decltype(make(state));
    for (size_t i = 0; i + sizeof(Value) <= bytes_.size(); i += sizeof(Value)) {
      state = state * 6364136223846793005ull + 1442695040888963407ull;
      const Value value = make(state >> 33);
      std::memcpy(bytes_.data() + i, &value, sizeof(value));
    }
  }
  void fill(std::byte* device, int64_t bytes) const {
    const auto size = static_cast<int64_t>(bytes_.size());
    for (int64_t at = 0; at < bytes; at += size)
      cuda::check(cudaMemcpy(device + at, bytes_.data(), static_cast<size_t>(std::min(size, bytes - at)),
                             cudaMemcpyHostToDevice),
                  "filling memory");
  }
  template <class Value>
  Value at(int64_t byte) const {
    Value value;
    std::memcpy(&value, bytes_.data() + static_cast<size_t>(byte) % bytes_.size(), sizeof(value));
    return value;
  }

 private:
  std::vector<std::byte> bytes_;
};

double uniform(uint64_t bits) { return static_cast<double>(bits & 0xffffff) / (1 << 24); }  // [0, 1)

enum class Format { kBf16, kQ8, kQ4 };
const std::map<std::string, Format> kFormats = {
    {"bf16", Format::kBf16}, {"q8", Format::kQ8}, {"q4", Format::kQ4}};

int64_t quant_bytes(Format format, int64_t values) {
  return format == Format::kBf16 ? 2 * values : format == Format::kQ8 ? values : values / 2;
}
int64_t scale_bytes(Format format, int64_t values) { return format == Format::kBf16 ? 0 : values / 16; }

// One product's memory: `copies` of its weights, and one of everything else.
class Product {
 public:
  Product(Shape shape, Format format)
      : shape_(std::move(shape)), format_(format), quants_(tile_of_quants()), scales_(tile_of_scales()) {
    constexpr int64_t kCold = 200 << 20;
    copies_ = std::clamp<int64_t>((kCold + bytes() - 1) / bytes(), 2, 256);
    const int64_t values = shape_.rows() * shape_.k;
    quants_each_ = round_up(quant_bytes(format, values));
    scales_each_ = round_up(scale_bytes(format, values));
    quants_memory_ = cuda::allocate(0, quants_each_ * copies_);
    scales_memory_ = cuda::allocate(0, scales_each_ * copies_ + 256);
    for (int64_t i = 0; i < copies_; ++i) {
      quants_.fill(quants_memory_.get() + i * quants_each_, quants_each_);
      scales_.fill(scales_memory_.get() + i * scales_each_, scales_each_);
    }
    x_ = upload(kMaxRows * shape_.k, -1, 1, x_values_);
    gains_ = upload(shape_.k, 0.5, 1.5, gain_values_);
    bias_ = upload(shape_.rows(), -1, 1, bias_values_);
    addend_ = upload(kMaxRows * shape_.rows(), -1, 1, addend_values_);
    y_ = cuda::allocate(0, kMaxRows * shape_.rows() * 2);
  }

  const Shape& shape() const { return shape_; }
  int64_t copies() const { return copies_; }
  int64_t bytes() const {
    const int64_t values = shape_.rows() * shape_.k;
    return quant_bytes(format_, values) + scale_bytes(format_, values);
  }

  QuantizedGemv gemv(int m, int64_t copy) const {
    QuantizedGemv gemv{.format = format_ == Format::kQ4 ? WeightFormat::kQ4 : WeightFormat::kQ8,
                       .m = m,
                       .layers = static_cast<int>(shape_.n.size()),
                       .k = shape_.k,
                       .swiglu = shape_.swiglu,
                       .independent = true,
                       .norm = normalises(m) ? gains_.get() : nullptr,
                       .eps = kEps};
    int64_t row = 0;
    for (size_t i = 0; i < shape_.n.size(); ++i) {
      gemv.layer[i] = {quants_at(copy, row), scales_at(copy, row), bias_at(row), addend(), y_at(row),
                       shape_.n[i]};
      row += shape_.n[i];
    }
    return gemv;
  }
  // All of it in one start, of bf16 weights.
  cuda::Gemv bf16_gemv(int m, int64_t copy) const {
    cuda::Gemv gemv;
    gemv.m = m, gemv.k = gemv.lda = shape_.k;
    gemv.splits = cuda::gemv_splits(DType::bf16, shape_.k);
    gemv.layers = static_cast<int>(shape_.n.size());
    gemv.independent = true;
    int64_t row = 0;
    for (int i = 0; i < gemv.layers; ++i) {
      const int64_t n = shape_.n[static_cast<size_t>(i)];
      gemv.layer[i] = {quants_at(copy, row), bias_at(row), addend(), y_at(row), n, n, 0};
      row += n;
    }
    return gemv;
  }
  void run_skinny_gemm(int m, int64_t copy, const cuda::Launch& launch, cuda::SkinnyGemmCut cut) const {
    cuda::run_skinny_gemm(DType::bf16, shape_.swiglu, bf16_gemv(m, copy), x_.get(), launch, cut);
  }
  // Its first weight by a product of matrices, without norm and swiglu.
  void run_library(int m, int64_t copy, const cuda::Launch& launch) const {
    cuda::GemmProblem problem{.in = DType::bf16,
                              .out = DType::bf16,
                              .m = m,
                              .n = shape_.rows(),
                              .k = shape_.k,
                              .lda = shape_.k,
                              .ldb = shape_.k,
                              .ldc = shape_.rows(),
                              .transpose_b = true,
                              .accumulate = shape_.has_addend};
    static const KernelNames kNoGemv = {"gemm.gemv", "gemm.gemv_prefetch"};
    auto& made = libraries_[m];
    if (!made) made = cuda::create_gemm(problem, &kNoGemv);
    workspace_for(cuda::gemm_workspace_bytes(problem, &kNoGemv));
    made->run({.a = x_.get(),
               .b = quants_at(copy, 0),
               .c = y_.get(),
               .addend = addend(),
               .workspace = workspace_.get(),
               .stream = launch.stream});
  }
  // What a model does without skinny_gemm: a library's product a weight, then swiglu. False: it is one weight.
  bool run_parts(int m, const cuda::Launch& launch, int64_t copy) const {
    if (shape_.n.size() == 1) return false;
    auto& made = parts_[m];
    const Forms forms = forms_of(m);
    if (!made) made = parts_of(forms);
    workspace_for(made->scratch_bytes());
    std::vector<TensorView> inputs, outputs;
    const auto add = [](std::vector<TensorView>& to, const TensorType& type, const void* at) {
      to.push_back(view_of(type, const_cast<void*>(at)));
    };
    add(inputs, forms.inputs[0], x());
    const size_t weights = shape_.n.size();
    int64_t row = 0;
    for (size_t i = 0; i < weights; row += shape_.n[i++]) {
      add(inputs, forms.inputs[1 + i], quants_at(copy, row));
      if (i < forms.outputs.size()) add(outputs, forms.outputs[i], y_at(row));
    }
    row = 0;
    for (size_t i = 0; shape_.has_bias && i < weights; row += shape_.n[i++])
      add(inputs, forms.inputs[1 + weights + i], bias_at(row));
    made->run({.inputs = inputs, .outputs = outputs, .scratch = workspace_.get(), .launch = &launch});
    return true;
  }
  // By a GEMV, with the norm where that has one.
  void run_bf16(int m, int64_t copy, const cuda::Launch& launch, cuda::StartGemv kernel) const {
    cuda::Gemv gemv = bf16_gemv(m, copy);
    if (normalises(m)) gemv.norm = gains_.get(), gemv.eps = kEps;
    const cuda::GemvStart start{launch.stream, launch.can_use_pdl, launch.early};
    if (!kernel(DType::bf16, shape_.swiglu, gemv, x_.get(), start)) fail("no kernel for {}", shape_.name);
  }
  const void* x() const { return x_.get(); }

  void poison() const {
    cuda::check(cudaMemset(y_.get(), 0xff, static_cast<size_t>(kMaxRows * shape_.rows() * 2)),
                "poisoning results");
  }
  // The greatest error over what is allowed.
  double error(int m) {
    std::vector<bf16> y(static_cast<size_t>(kMaxRows * shape_.rows()));
    cuda::check(cudaMemcpy(y.data(), y_.get(), y.size() * 2, cudaMemcpyDeviceToHost), "reading results");
    std::vector<Expected>& expected = expected_[m];
    const int64_t results = shape_.swiglu ? shape_.n[0] : shape_.rows();
    if (expected.empty())
      for (int row_of_x = 0; row_of_x < m; ++row_of_x)
        for (int64_t row = 0; row < results; row += row < 40 || row > results - 40 ? 1 : results / 50 + 1)
          expected.push_back(expect(m, row_of_x, row));
    double worst = 0;
    for (const Expected& e : expected) {
      const double error = std::abs(static_cast<float>(y[e.at]) - e.value) / e.allowed;
      worst = error <= worst ? worst : std::isnan(error) ? 1e9 : error;
    }
    return worst;
  }

 private:
  struct Sum {
    double value = 0, size = 0;  // size: the root of the squares of what was summed
  };
  struct Expected {
    size_t at;  // in y
    double value, allowed;
  };

  // The product as a node's types.
  struct Forms {
    ops::Linear op;
    std::vector<TensorType> inputs, outputs;
  };
  Forms forms_of(int m) const {
    Forms forms{{.weights = static_cast<int64_t>(shape_.n.size()),
                 .epilogue = shape_.swiglu ? ops::LinearEpilogue::kSwiglu : ops::LinearEpilogue::kNone},
                {{DType::bf16, {m, shape_.k}}},
                {}};
    for (const int64_t n : shape_.n) forms.inputs.push_back({DType::bf16, {n, shape_.k}});
    for (const int64_t n : shape_.n)
      if (shape_.has_bias) forms.inputs.push_back({DType::bf16, {n}});
    for (const int64_t n : shape_.n)
      if (!shape_.swiglu || forms.outputs.empty()) forms.outputs.push_back({DType::bf16, {m, n}});
    return forms;
  }
  static std::unique_ptr<LinearParts> parts_of(const Forms& forms) {
    static const KernelNames kWithout = {"skinny_gemm"};
    return std::make_unique<LinearParts>(
        cuda::kernels_for, true,
        KernelQuery{*find_op("linear"), to_attributes(forms.op), forms.inputs, forms.outputs, &kWithout});
  }
  void workspace_for(int64_t bytes) const {
    if (bytes > workspace_bytes_) workspace_ = cuda::allocate(0, bytes), workspace_bytes_ = bytes;
  }

  static int64_t round_up(int64_t bytes) { return (bytes + 255) / 256 * 256; }
  // bf16 needs a norm in its kernel, which one row has.
  bool normalises(int m) const { return shape_.has_norm && m == 1; }

  Tile tile_of_quants() const {
    constexpr int64_t kBytes = (16 << 20) + 256 * 37;
    const double root = std::sqrt(static_cast<double>(shape_.k));
    if (format_ == Format::kBf16)
      return Tile(kBytes, [&](uint64_t bits) {
        return bf16(static_cast<float>((2 * uniform(bits) - 1) * 3 / root));
      });
    if (format_ == Format::kQ8)
      return Tile(kBytes,
                  [](uint64_t bits) { return static_cast<int8_t>(static_cast<int>(bits % 255) - 127); });
    return Tile(kBytes, [](uint64_t bits) { return static_cast<uint8_t>(bits >> 3); });
  }
  Tile tile_of_scales() const {
    constexpr int64_t kBytes = (1 << 20) + 256 * 11;
    const double unit = 1 / ((format_ == Format::kQ4 ? 2.66 : 42) * std::sqrt(static_cast<double>(shape_.k)));
    return Tile(kBytes, [&](uint64_t bits) { return f16(static_cast<float>((0.5 + uniform(bits)) * unit)); });
  }
  static std::shared_ptr<std::byte> upload(int64_t count, double low, double high,
                                           std::vector<float>& values) {
    std::vector<bf16> narrow;
    uint64_t state = static_cast<uint64_t>(count) * 31 + 7;
    for (int64_t i = 0; i < count; ++i) {
      state = state * 6364136223846793005ull + 1442695040888963407ull;
      narrow.push_back(bf16(static_cast<float>(low + (high - low) * uniform(state >> 33))));
      values.push_back(static_cast<float>(narrow.back()));
    }
    const auto memory = cuda::allocate(0, count * 2);
    cuda::check(cudaMemcpy(memory.get(), narrow.data(), narrow.size() * 2, cudaMemcpyHostToDevice),
                "filling memory");
    return memory;
  }

  const void* quants_at(int64_t copy, int64_t row) const {
    return quants_memory_.get() + copy * quants_each_ + quant_bytes(format_, row * shape_.k);
  }
  const void* scales_at(int64_t copy, int64_t row) const {
    return scales_memory_.get() + copy * scales_each_ + scale_bytes(format_, row * shape_.k);
  }
  const void* bias_at(int64_t row) const { return shape_.has_bias ? bias_.get() + 2 * row : nullptr; }
  const void* addend() const { return shape_.has_addend ? addend_.get() : nullptr; }
  void* y_at(int64_t row) const { return y_.get() + 2 * kMaxRows * row; }

  double weight(int64_t row, int64_t k) const {
    const int64_t at = row * shape_.k + k;
    if (format_ == Format::kBf16) return static_cast<float>(quants_.at<bf16>(2 * at));
    const double scale = static_cast<float>(scales_.at<f16>(at / 32 * 2));
    if (format_ == Format::kQ8) return scale * quants_.at<int8_t>(at);
    const auto byte = quants_.at<uint8_t>(at / 32 * 16 + at % 16);
    return scale * ((at % 32 < 16 ? byte & 15 : byte >> 4) - 8);
  }

  Sum sum_of(int m, int row_of_x, int64_t row) const {
    Sum sum;
    double squares = 0;
    for (int64_t k = 0; k < shape_.k; ++k) {
      double x = x_values_[static_cast<size_t>(row_of_x * shape_.k + k)];
      squares += x * x;
      if (normalises(m)) x *= gain_values_[static_cast<size_t>(k)];
      const double term = x * weight(row, k);
      sum.value += term;
      sum.size += term * term;
    }
    const double by = normalises(m) ? 1 / std::sqrt(squares / static_cast<double>(shape_.k) + kEps) : 1;
    sum.value *= by;
    sum.size = std::sqrt(sum.size) * by;
    if (shape_.has_bias) sum.value += bias_values_[static_cast<size_t>(row)];
    return sum;
  }

  Expected expect(int m, int row_of_x, int64_t row) const {
    int64_t layer_row = row, first = 0, n = shape_.n[0];
    for (size_t i = 0; !shape_.swiglu && layer_row >= n; n = shape_.n[++i]) layer_row -= n, first += n;
    const Sum sum = sum_of(m, row_of_x, row);
    constexpr double kOfBytes = 0.02, kOfRounding = 1.0 / 128;
    double value = sum.value, allowed = kOfBytes * sum.size;
    if (shape_.swiglu) {
      const Sum up = sum_of(m, row_of_x, row + n);
      const double gate = value / (1 + std::exp(-value));
      allowed = 1.2 * allowed * std::abs(up.value) + kOfBytes * up.size * std::abs(gate);
      value = gate * up.value;
    }
    const int64_t at = row_of_x * n + layer_row;
    if (shape_.has_addend) value += addend_values_[static_cast<size_t>(at)];
    return {static_cast<size_t>(kMaxRows * first + at), value,
            allowed + kOfRounding * std::abs(value) + 1e-3};
  }

  Shape shape_;
  Format format_;
  Tile quants_, scales_;
  int64_t copies_ = 0, quants_each_ = 0, scales_each_ = 0;
  std::shared_ptr<std::byte> quants_memory_, scales_memory_, x_, gains_, bias_, addend_, y_;
  std::map<int, std::vector<Expected>> expected_;  // by rows of x
  mutable std::map<int, std::shared_ptr<const cuda::Gemm>> libraries_;
  mutable std::map<int, std::unique_ptr<LinearParts>> parts_;
  mutable std::shared_ptr<std::byte> workspace_;
  mutable int64_t workspace_bytes_ = 0;
  std::vector<float> x_values_, gain_values_, bias_values_, addend_values_;
};

// A kernel and how it is laid over the chip. False: it does not take the product.
struct Variant {
  std::string name;
  std::function<bool(const Product&, int m, int64_t copy, const cuda::Launch&)> run;
  bool is_whole = true;  // it computes all of the product
};

Variant streamed(int warps, int blocks, int ring_kib, int part_bytes) {
  const cuda::WeightStream stream{warps, blocks, ring_kib << 10, part_bytes};
  return {fmt::format("{} warps x {}, {} KiB, {} B", warps, blocks, ring_kib, part_bytes),
          [stream](const Product& product, int m, int64_t copy, const cuda::Launch& launch) {
            return cuda::try_streamed_quantized_gemv(DType::bf16, product.gemv(m, copy), product.x(), launch,
                                                     stream);
          }};
}

Variant skinny_gemm(int tiles, int parts) {
  return {fmt::format("few rows, {} tiles, {} blocks", tiles, parts),
          [=](const Product& product, int m, int64_t copy, const cuda::Launch& launch) {
            if (m <= cuda::kMaxGemvRows) return false;
            product.run_skinny_gemm(m, copy, launch, {tiles, parts});
            return true;
          }};
}
Variant chosen_skinny_gemm(const std::string& name, bool asks_ahead) {
  return {name, [=](const Product& product, int m, int64_t copy, const cuda::Launch& launch) {
            if (m <= cuda::kMaxGemvRows) return false;
            cuda::SkinnyGemmCut cut = cuda::skinny_gemm_cut(product.shape().rows(), product.shape().k);
            cut.asks_ahead = asks_ahead;
            product.run_skinny_gemm(m, copy, launch, cut);
            return true;
          }};
}

std::vector<Variant> bf16_variants() {
  std::vector<Variant> variants = {
      {"prefetched",
       [](const Product& product, int m, int64_t copy, const cuda::Launch& launch) {
         if (m > cuda::kMaxGemvRows) return false;
         product.run_bf16(m, copy, launch, cuda::start_prefetched_gemv);
         return true;
       }},
      {"library, one weight",
       [](const Product& product, int m, int64_t copy, const cuda::Launch& launch) {
         if (m <= cuda::kMaxGemvRows) return false;
         product.run_library(m, copy, launch);
         return true;
       },
       false},
      {"library, each weight, swiglu",
       [](const Product& product, int m, int64_t copy, const cuda::Launch& launch) {
         if (m <= cuda::kMaxGemvRows) return false;
         if (!product.run_parts(m, launch, copy)) product.run_library(m, copy, launch);
         return true;
       }},
      chosen_skinny_gemm("few rows, as chosen", true),
      chosen_skinny_gemm("few rows, chosen, not ahead", false)};
  for (const int tiles : {2, 4})
    for (const int parts : {1, 2, 4, 8}) variants.push_back(skinny_gemm(tiles, parts));
  return variants;
}

std::vector<Variant> variants_of(Format format) {
  if (format == Format::kBf16) return bf16_variants();
  std::vector<Variant> variants = {
      {"plain", [](const Product& product, int m, int64_t copy, const cuda::Launch& launch) {
         if (cuda::why_no_quantized_gemv(m, product.shape().k)) return false;
         cuda::run_plain_quantized_gemv(DType::bf16, product.gemv(m, copy), product.x(), launch);
         return true;
       }}};
  for (const int part : {1024, 2048}) {
    variants.push_back(streamed(8, 1, 96, part));
    variants.push_back(streamed(4, 2, 48, part));
  }
  variants.push_back(streamed(8, 1, 64, 1024));
  variants.push_back(streamed(8, 1, 176, 2048));
  variants.push_back(streamed(16, 1, 176, 2048));
  return variants;
}

class Stopwatch {
 public:
  Stopwatch() : stream_(cuda::make_stream()) {
    launch_.stream = stream_.get();
    launch_.multiprocessors = cuda::current_chip().multiprocessors;
    launch_.can_use_pdl = cuda::code_has_pdl();
  }

  // Whether the variant takes it; y is there then.
  bool run_once(const Variant& variant, const Product& product, int m) {
    product.poison();
    launch_.early = false;
    const bool taken = variant.run(product, m, 0, launch_);
    cuda::check(cudaGetLastError(), "starting a kernel");
    cuda::wait_for(stream_.get(), "running a kernel");
    return taken;
  }

  // Microseconds for all of `products` once, cold, the best of several rounds of a captured graph.
  double microseconds(const Variant& variant, const std::vector<Product*>& products, int m) {
    int64_t most = 0, bytes = 0;
    for (Product* product : products) most = std::max(most, product->copies()), bytes += product->bytes();
    const int64_t times = std::clamp<int64_t>((int64_t{4} << 30) / bytes / most, 1, 16) * most;
    cuda::check(cudaStreamBeginCapture(stream_.get(), cudaStreamCaptureModeThreadLocal), "capturing");
    launch_.early = false;
    for (int64_t i = 0; i < times; ++i)
      for (Product* product : products) {
        variant.run(*product, m, i % product->copies(), launch_);
        launch_.early = launch_.can_use_pdl;
      }
    cudaGraph_t captured = nullptr;
    cuda::check(cudaStreamEndCapture(stream_.get(), &captured), "capturing");
    const cuda::GraphExec graph = cuda::make_graph(captured);
    const cuda::Event begin = cuda::make_event(true), end = cuda::make_event(true);
    double best = 0;
    for (int round = 0; round < 5; ++round) {
      cuda::check(cudaEventRecord(begin.get(), stream_.get()), "timing");
      cuda::launch(graph.get(), stream_.get());
      cuda::check(cudaEventRecord(end.get(), stream_.get()), "timing");
      cuda::wait_for(end.get(), "timing");
      float ms = 0;
      cuda::check(cudaEventElapsedTime(&ms, begin.get(), end.get()), "timing");
      const double us = 1e3 * static_cast<double>(ms) / static_cast<double>(times);
      if (round > 0) best = best == 0 ? us : std::min(best, us);
    }
    return best;
  }

 private:
  cuda::Stream stream_;
  cuda::Launch launch_;
};

struct Wanted {
  std::vector<std::string> models = {"0.5B", "7B"}, formats = {"bf16", "q8", "q4"},
                           shapes = {"layer", "qkv", "o", "gate_up", "down", "head"};
  std::vector<int> rows = {1, 2, 4, 8};
  bool check_only = false;

  bool wants(const std::string& shape) const {
    return std::find(shapes.begin(), shapes.end(), shape) != shapes.end();
  }
};

class Bench {
 public:
  explicit Bench(Wanted wanted) : wanted_(std::move(wanted)) {
    if (!wanted_.check_only) copy_gbps_ = cuda::measure_peaks().copy_gbps;
    if (!wanted_.check_only) fmt::print("copying: {:.0f} GB/s\n", copy_gbps_);
  }

  bool run() {
    for (const std::string& model : wanted_.models)
      for (const std::string& format : wanted_.formats) {
        std::vector<Product> products;
        for (const Shape& shape : kModels.at(model))
          if (wanted_.wants(shape.name) || wanted_.wants("layer"))
            products.emplace_back(shape, kFormats.at(format));
        for (const int m : wanted_.rows) run(model, format, products, m);
      }
    return right_;
  }

 private:
  void run(const std::string& model, const std::string& format, std::vector<Product>& products, int m) {
    const std::vector<Variant> variants = variants_of(kFormats.at(format));
    std::vector<Product*> layer;
    for (Product& product : products) {
      if (product.shape().name != "head") layer.push_back(&product);
      if (!wanted_.wants(product.shape().name)) continue;
      for (const Variant& variant : variants)
        run({model, product.shape().name, format}, variant, {&product}, m);
    }
    if (wanted_.wants("layer") && !wanted_.check_only)
      for (const Variant& variant : variants) run({model, "layer", format}, variant, layer, m);
  }

  void run(const std::array<std::string, 3>& names, const Variant& variant,
           const std::vector<Product*>& products, int m) {
    double error = 0;
    int64_t bytes = 0;
    for (Product* product : products) {
      if (!watch_.run_once(variant, *product, m)) return;
      if (products.size() == 1 && variant.is_whole) error = product->error(m);
      bytes += product->bytes();
    }
    right_ = right_ && error < 1;
    fmt::print("{:5} {:8} {:5} rows {:2}  {:34}", names[0], names[1], names[2], m, variant.name);
    if (!wanted_.check_only) {
      const double us = watch_.microseconds(variant, products, m),
                   gbps = 1e-3 * static_cast<double>(bytes) / us;
      fmt::print("  {:8.2f} us  {:6.0f} GB/s  {:5.1f}%", us, gbps, 100 * gbps / copy_gbps_);
    }
    fmt::print("  error {:.2f}{}\n", error, error < 1 ? "" : "  WRONG");
    std::fflush(stdout);
  }

  Wanted wanted_;
  Stopwatch watch_;
  double copy_gbps_ = 0;
  bool right_ = true;
};

int run(int argc, char** argv) {
  Wanted wanted;
  Options options("times the GEMVs of decoding");
  options.texts("--models", wanted.models, "", {"0.5B", "7B", "7B/2"});
  options.texts("--formats", wanted.formats, "", {"bf16", "q8", "q4"});
  options.texts("--shapes", wanted.shapes, "");
  options.numbers("--rows", wanted.rows, "", 1, kMaxRows);
  options.flag("--check-only", wanted.check_only, "");
  options.parse(argc, argv);
  cuda::open_chip(0);
  return Bench(wanted).run() ? 0 : 1;
}

}  // namespace
}  // namespace genesis::bench

int main(int argc, char** argv) {
  try {
    return genesis::bench::run(argc, argv);
  } catch (const genesis::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  }
}
