// Optimizer updates and sums of squares, in one pass over memory. Arithmetic is f32 (f64 for an f64 parameter) whatever the
// dtypes of parameter and gradient: other dtypes pass through small buffers in the L1 cache.
#include "backends/cpu/kernels/nn/optimizer_job.h"

#include "backends/cpu/simd/highway_targets.h"
#include "schema/core/checked_size.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/nn/optimizer.cpp"
#include <hwy/foreach_target.h>  // must precede highway.h
#include <hwy/highway.h>

#include "backends/cpu/kernels/nn/optimizer_rules-inl.h"
#include "backends/cpu/simd/row_reduce-inl.h"

HWY_BEFORE_NAMESPACE();
namespace genesis::cpu::HWY_NAMESPACE {

constexpr int64_t kChunk = 512;  // elements that pass through the buffers at a time

template <class From, class To>
void convert(const From* from, int64_t n, To* to) {
  each_vector(n, [&](int64_t i, auto part) { store(load(from + i, part), to + i, part); });
}

// Returns elements [at, at + n) as f32: in place, or converted into `buffer`.
const float* as_f32(const void* data, DType dtype, int64_t at, int64_t n, float* buffer) {
  if (dtype == DType::f32) return static_cast<const float*>(data) + at;
  if (dtype == DType::f64)
    for (int64_t i = 0; i < n; ++i) buffer[i] = static_cast<float>(static_cast<const double*>(data)[at + i]);
  else if (dtype == DType::bf16)
    convert(static_cast<const bf16*>(data) + at, n, buffer);
  else
    convert(static_cast<const f16*>(data) + at, n, buffer);
  return buffer;
}

// Returns the memory for the f32 results of elements from `at` on: in place, or `buffer`, which put_back() then converts.
float* memory_for_results(void* data, DType dtype, int64_t at, float* buffer) {
  return dtype == DType::f32 ? static_cast<float*>(data) + at : buffer;
}
void put_back(const float* buffer, DType dtype, int64_t at, int64_t n, void* data) {
  if (dtype == DType::bf16) convert(buffer, n, static_cast<bf16*>(data) + at);
  if (dtype == DType::f16) convert(buffer, n, static_cast<f16*>(data) + at);
}

template <bool kM, bool kV>
void update_chunk(const auto& rule, const UpdateJob& job, int64_t at, int64_t n) {
  HWY_ALIGN float p_buffer[kChunk], g_buffer[kChunk];
  const float* p = as_f32(job.p, job.dtype, at, n, p_buffer);
  const float* g = as_f32(job.g, job.gradient_dtype, at, n, g_buffer);
  float* p_out = memory_for_results(job.p_out, job.dtype, at, p_buffer);
  const Vec zero = hn::Zero(kF32);
  each_vector(n, [&](int64_t i, auto part) {
    UpdatedElement<Number> s{load(p + i, part), load(g + i, part), zero, zero};
    if constexpr (kM) s.m = load(static_cast<const float*>(job.m) + at + i, part);
    if constexpr (kV) s.v = load(static_cast<const float*>(job.v) + at + i, part);
    rule(s);
    store(s.p.v, p_out + i, part);
    if constexpr (kM) store(s.m.v, static_cast<float*>(job.m_out) + at + i, part);
    if constexpr (kV) store(s.v.v, static_cast<float*>(job.v_out) + at + i, part);
  });
  put_back(p_buffer, job.dtype, at, n, job.p_out);
}

double element_of(const void* data, DType dtype, int64_t i) {
  return dispatch(dtype, [&](auto tag) {
    return static_cast<double>(static_cast<const typename decltype(tag)::type*>(data)[i]);
  });
}

template <bool kM, bool kV>
void update_f64(const auto& rule, const UpdateJob& job, int64_t at, int64_t n) {
  for (int64_t i = at; i < at + n; ++i) {
    UpdatedElement<double> s{static_cast<const double*>(job.p)[i], element_of(job.g, job.gradient_dtype, i),
                             0, 0};
    if constexpr (kM) s.m = static_cast<const double*>(job.m)[i];
    if constexpr (kV) s.v = static_cast<const double*>(job.v)[i];
    rule(s);
    static_cast<double*>(job.p_out)[i] = s.p;
    if constexpr (kM) static_cast<double*>(job.m_out)[i] = s.m;
    if constexpr (kV) static_cast<double*>(job.v_out)[i] = s.v;
  }
}

template <template <class> class Rule, bool kM, bool kV>
void run_rule(const UpdateJob& job, int64_t first, int64_t last) {
  for (int64_t at = first; at < last; at += kChunk) {
    const int64_t n = std::min(kChunk, last - at);
    if (job.dtype == DType::f64)
      update_f64<kM, kV>(Rule<double>(job), job, at, n);
    else
      update_chunk<kM, kV>(Rule<Number>(job), job, at, n);
  }
}

// Writes the codes of a block and their scale.
template <auto kEncode>
void encode_block(const float* values, uint8_t* codes, float* scale) {
  int32_t greatest = 0;
  for (int64_t i = 0; i < kMomentBlock; ++i)
    greatest = std::max(greatest, bits_of_moment(values[i]) & 0x7fffffff);
  *scale = moment_of_bits(greatest);
  const float inverse = inverse_moment_scale(*scale);
  for (int64_t i = 0; i < kMomentBlock; ++i) codes[i] = kEncode(values[i], inverse);
}

// Decodes the moments of each block among elements [first, last), updates it and encodes the new ones.
void update_codes(const UpdateJob& whole, int64_t first, int64_t last) {
  HWY_ALIGN float m[kMomentBlock], v[kMomentBlock];
  UpdateJob job = whole;
  job.m = job.m_out = m;
  job.v = job.v_out = v;
  for (int64_t at = first; at < last; at += kMomentBlock) {
    const CodedMoment old_m = whole.coded_m.from(at), old_v = whole.coded_v.from(at);
    for (int64_t i = 0; i < kMomentBlock; ++i) m[i] = decode_m(old_m.codes[i], *old_m.scales);
    for (int64_t i = 0; i < kMomentBlock; ++i) v[i] = decode_v(old_v.codes[i], *old_v.scales);
    const auto moved = [at](const void* data, DType dtype) {
      return static_cast<const std::byte*>(data) + at * static_cast<int64_t>(size_of(dtype));
    };
    job.p = moved(whole.p, whole.dtype);
    job.g = moved(whole.g, whole.gradient_dtype);
    job.p_out = const_cast<std::byte*>(moved(whole.p_out, whole.dtype));
    update_chunk<true, true>(AdamRule<Number>(job), job, 0, kMomentBlock);
    encode_block<encode_m>(m, old_m.codes_out, old_m.scales_out);
    encode_block<encode_v>(v, old_v.codes_out, old_v.scales_out);
  }
}

// Updates elements [first, last).
void update_range(const UpdateJob& job, int64_t first, int64_t last) {
  if (job.coded_m.codes) return update_codes(job, first, last);
  if (job.rule == UpdateRule::kAdam) return run_rule<AdamRule, true, true>(job, first, last);
  if (job.rule == UpdateRule::kLion) return run_rule<LionRule, true, false>(job, first, last);
  if (job.m) return run_rule<SgdRule, true, false>(job, first, last);
  run_rule<SgdRule, false, false>(job, first, last);
}

// Returns the sum of squares. Blocks are summed in f32 lanes and added in f64.
double sum_squares(const void* data, DType dtype, int64_t first, int64_t last) {
  constexpr int64_t kBlock = 4 * kChunk;
  HWY_ALIGN float buffer[kBlock];
  double sum = 0;
  if (dtype == DType::f64) {
    for (int64_t i = first; i < last; ++i) sum += std::pow(static_cast<const double*>(data)[i], 2);
    return sum;
  }
  for (int64_t at = first; at < last; at += kBlock) {
    const int64_t n = std::min(kBlock, last - at);
    const float* x = as_f32(data, dtype, at, n, buffer);
    sum += sum_row(n, [&](int64_t i, auto part) {
      const Vec v = load(x + i, part);
      return hn::Mul(v, v);
    });
  }
  return sum;
}

}  // namespace genesis::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <bit>
#include <cmath>
#include <cstring>
#include <initializer_list>
#include <numeric>
#include <span>

#include "backends/cpu/parallel/parallel.h"
#include "backends/kernel.h"
#include "schema/core/halves.h"
#include "schema/ops/nn/optimizer.h"

namespace genesis::cpu {

HWY_EXPORT(update_range);
HWY_EXPORT(sum_squares);

namespace {

constexpr int64_t kUnit = 4096;           // elements; work is split at multiples of it
constexpr int64_t kSumChunk = 256 << 10;  // elements of one partial sum

double real_scalar(const TensorView& x) { return x.dtype == DType::f64 ? *x.as<double>() : *x.as<float>(); }
double step_of(const TensorView& x) {
  return static_cast<double>(x.dtype == DType::i64 ? *x.as<int64_t>() : *x.as<int32_t>());
}

// Skips an update: outputs are copies of inputs. In a plan that updates in place there is nothing to do.
void keep(const TensorView& from, const TensorView& to) {
  if (from.data != to.data) std::memcpy(to.data, from.data, static_cast<size_t>(from.bytes()));
}
void keep(const KernelContext& c, std::initializer_list<int> inputs) {
  int output = 0;
  for (int input : inputs) keep(c.input(input), c.output(output++));
}

void run_job(const UpdateJob& job) {
  parallel_rows((job.n + kUnit - 1) / kUnit, kUnit * 20, [&](int64_t first, int64_t last) {
    HWY_DYNAMIC_DISPATCH(update_range)(job, first * kUnit, std::min(job.n, last * kUnit));
  });
}

// Runs an update whose parameter is input 0 and whose gradient is input 1.
void run_update(const KernelContext& c, UpdateJob& job) {
  job.dtype = c.input(0).dtype;
  job.gradient_dtype = c.input(1).dtype;
  job.p = c.input(0).data;
  job.g = c.input(1).data;
  job.n = c.input(0).numel();
  job.p_out = c.output(0).data;
  if (c.outputs.size() > 1) job.m_out = c.output(1).data;
  run_job(job);
}

void run_sgd_job(UpdateJob& job, const KernelContext& c, const ops::SgdUpdate& op, int k) {
  const TensorView &parameter = c.input(k), &gradient = c.input(op.gradient(k));
  job.dtype = parameter.dtype;
  job.gradient_dtype = gradient.dtype;
  job.p = parameter.data;
  job.g = gradient.data;
  job.n = parameter.numel();
  job.p_out = c.output(k).data;
  if (op.momentum != 0) {
    job.m = c.input(op.buffer(k)).data;
    job.m_out = c.output(static_cast<int>(op.parameters) + k).data;
  }
  run_job(job);
}

void sgd_update(const KernelContext& c) {
  const auto& op = c.attributes<ops::SgdUpdate>();
  UpdateJob job{.rule = UpdateRule::kSgd, .lr = real_scalar(c.input(op.lr()))};
  if (op.has_scale) job.scale = real_scalar(c.inputs.back());
  if (op.skip_nonfinite && !std::isfinite(job.scale)) {
    for (const InPlace pair : op.in_place({}, {})) keep(c.input(pair.input), c.output(pair.output));
    return;
  }
  job.weight_decay = op.weight_decay;
  job.beta1 = op.momentum;
  job.dampening = op.dampening;
  job.nesterov = op.nesterov;
  job.first_step = step_of(c.input(op.step())) == 1;
  for (int k = 0; k < op.parameters; ++k) run_sgd_job(job, c, op, k);
}

// A parameter kept as two halves, and the destination of the new halves.
struct HalvedParameter {
  const uint16_t *upper, *lower;
  uint16_t *upper_out, *lower_out;
};

// Joins, updates and splits the parameter again, one unit at a time.
void run_halves_job(const UpdateJob& whole, const HalvedParameter& p) {
  parallel_rows((whole.n + kUnit - 1) / kUnit, kUnit * 20, [&](int64_t first, int64_t last) {
    alignas(64) float buffer[kUnit];
    for (int64_t unit = first; unit < last; ++unit) {
      const int64_t at = unit * kUnit, n = std::min(kUnit, whole.n - at);
      const auto moved = [at](const void* data, DType dtype) {
        return static_cast<const std::byte*>(data) + at * static_cast<int64_t>(size_of(dtype));
      };
      UpdateJob job = whole;
      job.p = job.p_out = buffer;
      job.g = moved(whole.g, whole.gradient_dtype);
      if (whole.coded_m.codes) {
        job.coded_m = whole.coded_m.from(at);
        job.coded_v = whole.coded_v.from(at);
      } else {
        job.m = moved(whole.m, DType::f32);
        job.v = moved(whole.v, DType::f32);
        job.m_out = const_cast<std::byte*>(moved(whole.m_out, DType::f32));
        job.v_out = const_cast<std::byte*>(moved(whole.v_out, DType::f32));
      }
      for (int64_t i = 0; i < n; ++i)
        buffer[i] = std::bit_cast<float>(join_halves({p.upper[at + i], p.lower[at + i]}));
      HWY_DYNAMIC_DISPATCH(update_range)(job, 0, n);
      for (int64_t i = 0; i < n; ++i) {
        const Halves halves = split_halves(std::bit_cast<uint32_t>(buffer[i]));
        p.upper_out[at + i] = halves.upper;
        p.lower_out[at + i] = halves.lower;
      }
    }
  });
}

// Returns the fields of the job that all parameters of the node share.
UpdateJob adam_job(const KernelContext& c, const ops::AdamUpdate& op) {
  UpdateJob job{.rule = UpdateRule::kAdam, .lr = real_scalar(c.input(0))};
  const double step = step_of(c.input(1));
  if (op.has_scale) job.scale = real_scalar(c.input(2));
  job.beta1 = op.beta1;
  job.beta2 = op.beta2;
  job.eps = op.eps;
  job.step_size = job.lr / (1 - std::pow(op.beta1, step));
  job.inverse_root_correction = 1 / std::sqrt(1 - std::pow(op.beta2, step));
  return job;
}

CodedMoment coded_moment(const KernelContext& c, const ops::AdamUpdate& op, int codes, int scales) {
  return {c.input(codes).as<const uint8_t>(), c.input(scales).as<const float>(),
          c.output(op.output_of(codes)).as<uint8_t>(), c.output(op.output_of(scales)).as<float>()};
}

// Sets all operands of parameter k except the parameter itself.
void set_operands(UpdateJob& job, const KernelContext& c, const ops::AdamUpdate& op, int k) {
  const TensorView& gradient = c.input(op.gradient(k));
  const double weight_decay = op.weight_decays[static_cast<size_t>(k)];
  job.g = gradient.data;
  job.gradient_dtype = gradient.dtype;
  job.n = gradient.numel();
  if (op.has_codes()) {
    job.coded_m = coded_moment(c, op, op.m(k), op.m_scales(k));
    job.coded_v = coded_moment(c, op, op.v(k), op.v_scales(k));
  } else {
    job.m = c.input(op.m(k)).data;
    job.v = c.input(op.v(k)).data;
    job.m_out = c.output(op.output_of(op.m(k))).data;
    job.v_out = c.output(op.output_of(op.v(k))).data;
  }
  job.shrink = op.decoupled ? 1 - job.lr * weight_decay : 1;
  job.weight_decay = op.decoupled ? 0 : weight_decay;
}

// Updates the parameter that begins at element `at` of holder i.
void run_adam_job(UpdateJob& job, const KernelContext& c, const ops::AdamUpdate& op, int i, int64_t at) {
  const TensorView &from = c.input(op.holder(i)), &to = c.output(op.output_of(op.holder(i)));
  if (op.is_halved()) {
    const TensorView &from_lower = c.input(op.lower(i)), &to_lower = c.output(op.output_of(op.lower(i)));
    return run_halves_job(job, {from.as<const uint16_t>() + at, from_lower.as<const uint16_t>() + at,
                                to.as<uint16_t>() + at, to_lower.as<uint16_t>() + at});
  }
  job.dtype = from.dtype;
  job.p = from.data;
  job.p_out = to.data;
  run_job(job);
}

void adam_update(const KernelContext& c) {
  const auto& op = c.attributes<ops::AdamUpdate>();
  UpdateJob job = adam_job(c, op);
  if (op.skip_nonfinite && !std::isfinite(job.scale)) {
    for (const InPlace pair : op.in_place()) keep(c.input(pair.input), c.output(pair.output));
    return;
  }
  int k = 0;
  for (int i = 0; i < op.num_holders(); ++i) {
    int64_t at = 0;
    for (int64_t held = 0; held < op.held_by(i); ++held, ++k, at += job.n) {
      set_operands(job, c, op, k);
      run_adam_job(job, c, op, i, at);
    }
  }
}

void lion_update(const KernelContext& c) {
  const auto& op = c.attributes<ops::LionUpdate>();
  UpdateJob job{.rule = UpdateRule::kLion, .m = c.input(2).data, .lr = real_scalar(c.input(3))};
  if (c.num_inputs() > 4) job.scale = real_scalar(c.input(4));
  if (op.skip_nonfinite && !std::isfinite(job.scale)) return keep(c, {0, 2});
  job.shrink = 1 - job.lr * op.weight_decay;
  job.beta1 = op.beta1;
  job.beta2 = op.beta2;
  run_update(c, job);
}

int64_t sum_chunks(int64_t n) { return (n + kSumChunk - 1) / kSumChunk; }

// Scratch memory holds the partial sums of all tensors.
int64_t sum_squares_scratch(const KernelQuery& query) {
  CheckedSize chunks = 0;
  for (const TensorType& x : query.inputs) chunks += sum_chunks(x.numel());
  return (chunks * sizeof(double)).value();
}

// Returns the sum of squares of chunk `i`, numbered through all tensors.
double sum_squares_of_chunk(std::span<const TensorView> tensors, int64_t i) {
  const TensorView* x = tensors.data();
  for (; i >= sum_chunks(x->numel()); ++x) i -= sum_chunks(x->numel());
  return HWY_DYNAMIC_DISPATCH(sum_squares)(x->data, x->dtype, i * kSumChunk,
                                           std::min(x->numel(), (i + 1) * kSumChunk));
}

// Distributes the chunks of all tensors to the threads at once: most tensors of a model are too small for many threads. The
// chunks of each tensor are added up before those of the next.
void sum_squares(const KernelContext& c) {
  auto* partial = reinterpret_cast<double*>(c.scratch);
  int64_t chunks = 0;
  for (const TensorView& x : c.inputs) chunks += sum_chunks(x.numel());
  parallel_chunks(chunks, [&](int64_t i) { partial[i] = sum_squares_of_chunk(c.inputs, i); });
  double sum = 0;
  for (const TensorView& x : c.inputs) {
    double* end = partial + sum_chunks(x.numel());
    sum += std::accumulate(partial, end, 0.0);
    partial = end;
  }
  if (c.output().dtype == DType::f64)
    *c.output().as<double>() = sum;
  else
    *c.output().as<float>() = static_cast<float>(sum);
}

constexpr OpKernel kKernels[] = {
    {"sgd_update", {.name = "one_pass", .run = sgd_update}},
    {"adam_update", {.name = "one_by_one", .run = adam_update}},
    {"lion_update", {.name = "one_pass", .run = lion_update}},
    {"sum_squares", {.name = "one_pass", .run = sum_squares, .scratch_bytes = sum_squares_scratch}}};

}  // namespace

std::span<const OpKernel> optimizer_kernels() { return kKernels; }

}  // namespace genesis::cpu
#endif
