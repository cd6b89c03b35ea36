#include "bench/gpu/gemv_product.h"

#include <algorithm>
#include <cmath>

#include "backends/cuda/kernels.h"
#include "schema/core/error.h"
#include "schema/core/float16.h"

namespace genesis::bench {

namespace {

constexpr float kEps = 1e-6f;

double uniform(uint64_t bits) { return static_cast<double>(bits & 0xffffff) / (1 << 24); }  // [0, 1)
int64_t quant_bytes(Format format, int64_t values) {
  return format == Format::kBf16 ? 2 * values : format == Format::kQ8 ? values : values / 2;
}
int64_t scale_bytes(Format format, int64_t values) { return format == Format::kBf16 ? 0 : values / 16; }

}  // namespace

Product::Product(Shape shape, Format format)
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

int64_t Product::bytes() const {
  const int64_t values = shape_.rows() * shape_.k;
  return quant_bytes(format_, values) + scale_bytes(format_, values);
}

cuda::RowProducts Product::products(int m, int64_t copy) const {
  cuda::RowProducts products{.dtype = DType::bf16,
                             .format = format_ == Format::kBf16 ? WeightFormat::kPlain
                                       : format_ == Format::kQ4 ? WeightFormat::kQ4
                                                                : WeightFormat::kQ8,
                             .m = m,
                             .k = shape_.k,
                             .lda = shape_.k,
                             .layers = static_cast<int>(shape_.n.size()),
                             .swiglu = shape_.swiglu,
                             .independent = true,
                             .has_norm = normalizes(m),
                             .eps = kEps,
                             .x = x(),
                             .norm = normalizes(m) ? gains_.get() : nullptr};
  int64_t row = 0;
  for (size_t i = 0; i < shape_.n.size(); ++i) {
    const int64_t n = shape_.n[i];
    products.layer[i] = {quants_at(copy, row), scales_at(copy, row), bias_at(row), addend(), y_at(row), n, n};
    row += n;
  }
  return products;
}

void Product::run_library(int m, int64_t copy, const cuda::Launch& launch) const {
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

bool Product::run_decomposed(int m, const cuda::Launch& launch, int64_t copy) const {
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

void Product::poison() const {
  cuda::check(cudaMemset(y_.get(), 0xff, static_cast<size_t>(kMaxRows * shape_.rows() * 2)),
              "poisoning results");
}

double Product::error(int m) {
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

Product::Forms Product::forms_of(int m) const {
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

std::unique_ptr<DecomposedLinear> Product::parts_of(const Forms& forms) {
  static const KernelNames kWithout = {"skinny_gemm"};
  return std::make_unique<DecomposedLinear>(
      cuda::kernels_for, true,
      KernelQuery{*find_op("linear"), to_attributes(forms.op), forms.inputs, forms.outputs, &kWithout});
}

void Product::workspace_for(int64_t bytes) const {
  if (bytes > workspace_bytes_) workspace_ = cuda::allocate(0, bytes), workspace_bytes_ = bytes;
}

ByteTile Product::tile_of_quants() const {
  constexpr int64_t kBytes = (16 << 20) + 256 * 37;
  const double root = std::sqrt(static_cast<double>(shape_.k));
  if (format_ == Format::kBf16)
    return ByteTile(
        kBytes, [&](uint64_t bits) { return bf16(static_cast<float>((2 * uniform(bits) - 1) * 3 / root)); });
  if (format_ == Format::kQ8)
    return ByteTile(kBytes,
                    [](uint64_t bits) { return static_cast<int8_t>(static_cast<int>(bits % 255) - 127); });
  return ByteTile(kBytes, [](uint64_t bits) { return static_cast<uint8_t>(bits >> 3); });
}

ByteTile Product::tile_of_scales() const {
  constexpr int64_t kBytes = (1 << 20) + 256 * 11;
  const double unit = 1 / ((format_ == Format::kQ4 ? 2.66 : 42) * std::sqrt(static_cast<double>(shape_.k)));
  return ByteTile(kBytes,
                  [&](uint64_t bits) { return f16(static_cast<float>((0.5 + uniform(bits)) * unit)); });
}

std::shared_ptr<std::byte> Product::upload(int64_t count, double low, double high,
                                           std::vector<float>& values) {
  std::vector<bf16> narrow;
  uint64_t state = static_cast<uint64_t>(count) * 31 + 7;
  for (int64_t i = 0; i < count; ++i) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    narrow.push_back(bf16(static_cast<float>(low + (high - low) * uniform(state >> 33))));
    values.push_back(static_cast<float>(narrow.back()));
  }
  auto memory = cuda::allocate(0, count * 2);
  cuda::check(cudaMemcpy(memory.get(), narrow.data(), narrow.size() * 2, cudaMemcpyHostToDevice),
              "filling memory");
  return memory;
}

const void* Product::quants_at(int64_t copy, int64_t row) const {
  return quants_memory_.get() + copy * quants_each_ + quant_bytes(format_, row * shape_.k);
}

const void* Product::scales_at(int64_t copy, int64_t row) const {
  return scales_memory_.get() + copy * scales_each_ + scale_bytes(format_, row * shape_.k);
}

double Product::weight(int64_t row, int64_t k) const {
  const int64_t at = row * shape_.k + k;
  if (format_ == Format::kBf16) return static_cast<float>(quants_.at<bf16>(2 * at));
  const double scale = static_cast<float>(scales_.at<f16>(at / 32 * 2));
  if (format_ == Format::kQ8) return scale * quants_.at<int8_t>(at);
  const auto byte = quants_.at<uint8_t>(at / 32 * 16 + at % 16);
  return scale * ((at % 32 < 16 ? byte & 15 : byte >> 4) - 8);
}

Product::Sum Product::sum_of(int m, int row_of_x, int64_t row) const {
  Sum sum;
  double squares = 0;
  for (int64_t k = 0; k < shape_.k; ++k) {
    double x = x_values_[static_cast<size_t>(row_of_x * shape_.k + k)];
    squares += x * x;
    if (normalizes(m)) x *= gain_values_[static_cast<size_t>(k)];
    const double term = x * weight(row, k);
    sum.value += term;
    sum.size += term * term;
  }
  const double by = normalizes(m) ? 1 / std::sqrt(squares / static_cast<double>(shape_.k) + kEps) : 1;
  sum.value *= by;
  sum.size = std::sqrt(sum.size) * by;
  if (shape_.has_bias) sum.value += bias_values_[static_cast<size_t>(row)];
  return sum;
}

Product::Expected Product::expect(int m, int row_of_x, int64_t row) const {
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
  return {static_cast<size_t>(kMaxRows * first + at), value, allowed + kOfRounding * std::abs(value) + 1e-3};
}

}  // namespace genesis::bench
