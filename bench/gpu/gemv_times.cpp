// Times the products of decoding alone, without plan and executor: bf16, q8 and q4 weights of the layers of two models, for
// several numbers of rows of x, by each kernel, and with several launch configurations of the streaming kernel and of
// skinny_gemm. Weights are cold: runs rotate through copies that do not fit into the L2 cache, and kernels start early behind
// each other as in a decoded token.
//
//   bench_gemv_times [--models 0.5B,7B,7B/2] [--rows 1,2,4,8,32] [--formats bf16,q8,q4] [--shapes layer,qkv,...] [--check-only]
//
// Each line has: us per product, GB/s of weights and scales, their share of the copy bandwidth measured in this run, and `error`:
// the greatest difference from sums in double precision, relative to what rounding x may cost, over rows from both ends and
// between. It must be below 1. `layer` is the four products of a layer in turn. The exit status is 1 if a result is wrong.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "backends/cuda/gemm/few_rows/row_kernels.h"
#include "backends/cuda/peaks.h"
#include "backends/cuda/runtime/runtime.h"
#include "bench/common/options.h"
#include "bench/gpu/gemv_product.h"
#include "schema/core/error.h"

namespace genesis::bench {
namespace {

// The products of a token, by model name.
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
    {"7B/2",  // one of two ranks along `tensor`
     {{"qkv", {1792, 256, 256}, 3584, true, true},
      {"o", {3584}, 1792},
      {"gate_up", {9472, 9472}, 3584, true, false, false, true},
      {"down", {3584}, 9472},
      {"head", {76032}, 3584, true}}}};

const std::map<std::string, Format> kFormats = {
    {"bf16", Format::kBf16}, {"q8", Format::kQ8}, {"q4", Format::kQ4}};

// A kernel with its launch configuration. `run` returns false if it does not handle the product.
struct Variant {
  std::string name;
  std::function<bool(const Product&, int m, int64_t copy, const cuda::Launch&)> run;
  bool is_whole = true;  // it computes the whole product
};

Variant streamed(int warps, int blocks, int rows, int ring_kib, int part_bytes) {
  const cuda::WeightStream stream{warps, blocks, rows, ring_kib << 10, part_bytes};
  return {fmt::format("{} warps x {}, {} rows, {} KiB, {} B", warps, blocks, rows, ring_kib, part_bytes),
          [stream](const Product& product, int m, int64_t copy, const cuda::Launch& launch) {
            return cuda::start_streamed_gemv(product.products(m, copy), launch, stream);
          }};
}

Variant skinny_gemm(int tiles, int parts) {
  return {fmt::format("few rows, {} tiles, {} blocks", tiles, parts),
          [=](const Product& product, int m, int64_t copy, const cuda::Launch& launch) {
            if (m <= cuda::max_gemv_rows(2)) return false;
            cuda::run_skinny_gemm(product.products(m, copy), launch, {tiles, parts});
            return true;
          }};
}
Variant chosen_skinny_gemm(const std::string& name, bool asks_ahead) {
  return {name, [=](const Product& product, int m, int64_t copy, const cuda::Launch& launch) {
            if (m <= cuda::max_gemv_rows(2)) return false;
            cuda::SkinnyGemmCut cut = cuda::skinny_gemm_cut(product.shape().rows(), product.shape().k);
            cut.asks_ahead = asks_ahead;
            cuda::run_skinny_gemm(product.products(m, copy), launch, cut);
            return true;
          }};
}

std::vector<Variant> bf16_variants() {
  std::vector<Variant> variants = {
      {"prefetched",
       [](const Product& product, int m, int64_t copy, const cuda::Launch& launch) {
         if (m > cuda::max_gemv_rows(2)) return false;
         return cuda::start_prefetched_gemv(product.products(m, copy), launch);
       }},
      {"library, one weight",
       [](const Product& product, int m, int64_t copy, const cuda::Launch& launch) {
         if (m <= cuda::max_gemv_rows(2)) return false;
         product.run_library(m, copy, launch);
         return true;
       },
       false},
      {"library, each weight, swiglu",
       [](const Product& product, int m, int64_t copy, const cuda::Launch& launch) {
         if (m <= cuda::max_gemv_rows(2)) return false;
         if (!product.run_decomposed(m, launch, copy)) product.run_library(m, copy, launch);
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
         const cuda::RowProducts products = product.products(m, copy);
         return cuda::why_no_quantized_gemv(products).empty() && cuda::start_quantized_gemv(products, launch);
       }}};
  for (const int part : {1024, 2048}) {
    variants.push_back(streamed(8, 1, 4, 96, part));
    variants.push_back(streamed(8, 1, 2, 96, part));
    variants.push_back(streamed(16, 1, 2, 96, part));
    variants.push_back(streamed(8, 2, 2, 48, part));
    variants.push_back(streamed(4, 2, 4, 48, part));
  }
  variants.push_back(streamed(8, 1, 4, 64, 1024));
  variants.push_back(streamed(8, 1, 4, 176, 2048));
  variants.push_back(streamed(16, 1, 4, 176, 2048));
  variants.push_back(streamed(4, 4, 2, 24, 1024));
  return variants;
}

class Stopwatch {
 public:
  Stopwatch() : stream_(cuda::make_stream()) {
    launch_.stream = stream_.get();
    launch_.multiprocessors = cuda::current_chip().multiprocessors;
    launch_.can_use_pdl = cuda::code_has_pdl();
  }

  // Runs the variant and returns true if it handles the product; then y is written.
  bool run_once(const Variant& variant, const Product& product, int m) {
    product.poison();
    launch_.early = false;
    const bool taken = variant.run(product, m, 0, launch_);
    cuda::check(cudaGetLastError(), "starting a kernel");
    cuda::wait_for(stream_.get(), "running a kernel");
    return taken;
  }

  // Returns the microseconds for one pass over `products` with cold weights: the best of several rounds of a captured graph.
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
