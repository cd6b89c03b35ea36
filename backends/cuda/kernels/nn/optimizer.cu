// Optimizer updates and sums of squares. Kernels take tables of tensors as parameters, so that one launch serves one
// parameter or all of them: a block has a chunk of one tensor. Sums are computed chunk by chunk, and the chunks are
// added in order.
#include "backends/cuda/rows/coded_update.h"
#include "backends/cuda/rows/optimizer_update.h"
#include "backends/cuda/rows/rows.h"
#include "schema/core/checked_size.h"
#include "schema/ops/nn/optimizer.h"

namespace genesis::cuda {
namespace {

constexpr int kMaxTensors = 330;  // per launch: 32 KB of kernel parameters hold no more
constexpr int kMaxCodedTensors = 240;

template <template <class> class RuleOf, class T, int kMax>
void launch_updates(const KernelContext& c, const UpdateTable<kMax>& table, bool aligned) {
  constexpr int kWidest = std::is_same_v<T, double> ? 2 : 4;
  if (aligned)
    start(c, update_kernel<RuleOf, T, kWidest, kMax>, table.chunks, kThreads, 0, table);
  else
    start(c, update_kernel<RuleOf, T, 1, kMax>, table.chunks, kThreads, 0, table);
}

template <template <class> class RuleOf, int kMax>
void launch_updates(const KernelContext& c, const UpdateTable<kMax>& table, DType dtype, bool aligned) {
  dispatch_float(dtype,
                 [&](auto tag) { launch_updates<RuleOf, typename decltype(tag)::type>(c, table, aligned); });
}

bool is_aligned(const UpdateTensor& t) {
  bool aligned = true;
  for (const void* p :
       {t.p, t.lower, t.g, t.m, t.v, static_cast<const void*>(t.p_out), static_cast<const void*>(t.lower_out),
        static_cast<const void*>(t.m_out), static_cast<const void*>(t.v_out)})
    aligned = aligned && reinterpret_cast<uintptr_t>(p) % 16 == 0;
  return aligned;
}

// Updates the parameter in input 0 with its gradient in input 1.
template <template <class> class RuleOf>
void run_update(const KernelContext& c, const UpdateOptions& options, UpdateTensor t) {
  t.p = c.input(0).data;
  t.g = c.input(1).data;
  t.gradient_dtype = c.input(1).dtype;
  t.p_out = c.output(0).data;
  if (c.outputs.size() > 1) t.m_out = c.output(1).data;
  t.n = c.input(0).numel();
  UpdateTable<1> table;
  table.options = options;
  table.add(t);
  launch_updates<RuleOf>(c, table, c.input(0).dtype, is_aligned(t));
}

// Launches whenever a table of parameters is full, and once at the end. `tensor_of` returns the k-th of `count`.
template <int kMax, class Tensor = UpdateTensor, class Launch, class TensorOf>
void run_tables(const UpdateOptions& options, int64_t count, const Launch& launch,
                const TensorOf& tensor_of) {
  UpdateTable<kMax, Tensor> table;
  table.options = options;
  bool aligned = true;
  const auto flush = [&] {
    launch(table, aligned);
    table.count = table.chunks = 0;
    aligned = true;
  };
  for (int64_t k = 0; k < count; ++k) {
    const Tensor tensor = tensor_of(k);
    if (table.full() || table.chunks + tensor.chunks() > std::numeric_limits<int32_t>::max()) flush();
    aligned = aligned && is_aligned(tensor);
    table.add(tensor);
  }
  flush();
}

UpdateOptions sgd_options(const KernelContext& c, const ops::SgdUpdate& op) {
  UpdateOptions o;
  o.lr = DeviceScalar::of(c.input(op.lr()));
  o.step = DeviceScalar::of(c.input(op.step()));
  if (op.has_scale) o.scale = DeviceScalar::of(c.inputs.back());
  o.beta1 = op.momentum;
  o.dampening = op.dampening;
  o.nesterov = op.nesterov;
  o.skip_nonfinite = op.skip_nonfinite;
  return o;
}

template <template <class> class RuleOf, int kMax>
void run_sgd(const KernelContext& c, const ops::SgdUpdate& op) {
  run_tables<kMax>(
      sgd_options(c, op), op.parameters,
      [&](const UpdateTable<kMax>& table, bool aligned) {
        launch_updates<RuleOf>(c, table, c.input(0).dtype, aligned);
      },
      [&](int64_t k) {
        const auto i = static_cast<int>(k), n = static_cast<int>(op.parameters);
        const TensorView& g = c.input(op.gradient(k));
        UpdateTensor t{.p = c.input(i).data, .g = g.data, .p_out = c.output(i).data, .n = g.numel()};
        t.weight_decay = op.weight_decay, t.gradient_dtype = g.dtype;
        if (op.momentum != 0) t.m = c.input(op.buffer(k)).data, t.m_out = c.output(n + i).data;
        return t;
      });
}

// A single parameter gets a small table, because the table is copied to the device with every launch.
template <template <class> class RuleOf>
void run_sgd(const KernelContext& c, const ops::SgdUpdate& op) {
  op.parameters == 1 ? run_sgd<RuleOf, 1>(c, op) : run_sgd<RuleOf, kMaxTensors>(c, op);
}

void run_sgd(const KernelContext& c) {
  const auto& op = c.attributes<ops::SgdUpdate>();
  op.momentum == 0 ? run_sgd<SgdRule>(c, op) : run_sgd<MomentumRule>(c, op);
}

std::optional<std::string> sgd_declines(const KernelQuery& query) {
  const auto op = from_attributes<ops::SgdUpdate>(query.attributes);
  for (int64_t k = 1; k < op.parameters; ++k)
    if (query.inputs[static_cast<size_t>(k)].dtype != query.inputs[0].dtype)
      return "the parameters differ in dtype";
  return std::nullopt;
}

void run_lion(const KernelContext& c) {
  const auto& op = c.attributes<ops::LionUpdate>();
  UpdateOptions o;
  o.lr = DeviceScalar::of(c.input(3));
  if (c.num_inputs() > 4) o.scale = DeviceScalar::of(c.input(4));
  o.beta1 = op.beta1;
  o.beta2 = op.beta2;
  o.skip_nonfinite = op.skip_nonfinite;
  run_update<LionRule>(c, o, {.m = c.input(2).data, .weight_decay = op.weight_decay});
}

// --- Adam: all parameters of a node at once

UpdateOptions adam_options(const KernelContext& c, const ops::AdamUpdate& op) {
  UpdateOptions o;
  o.lr = DeviceScalar::of(c.input(0));
  o.step = DeviceScalar::of(c.input(1));
  if (op.has_scale) o.scale = DeviceScalar::of(c.input(2));
  o.beta1 = op.beta1;
  o.beta2 = op.beta2;
  o.log_beta1 = std::log(op.beta1);
  o.log_beta2 = std::log(op.beta2);
  o.eps = op.eps;
  o.decoupled = op.decoupled;
  o.skip_nonfinite = op.skip_nonfinite;
  return o;
}

// Returns the table entry of parameter k, which starts `at` elements after the beginning of holder i.
UpdateTensor adam_tensor(const KernelContext& c, const ops::AdamUpdate& op, int k, int i, int64_t at) {
  const auto in = [&](int input) { return static_cast<const std::byte*>(c.input(input).data); };
  const auto out = [&](int input) { return static_cast<std::byte*>(c.output(op.output_of(input)).data); };
  const TensorView& g = c.input(op.gradient(k));
  const int64_t bytes = at * static_cast<int64_t>(sizeof(uint16_t));  // 0 without halves
  return {.p = in(op.holder(i)) + bytes,
          .lower = op.is_halved() ? in(op.lower(i)) + bytes : nullptr,
          .g = g.data,
          .m = in(op.m(k)),
          .v = in(op.v(k)),
          .p_out = out(op.holder(i)) + bytes,
          .lower_out = op.is_halved() ? out(op.lower(i)) + bytes : nullptr,
          .m_out = out(op.m(k)),
          .v_out = out(op.v(k)),
          .n = g.numel(),
          .weight_decay = op.weight_decays[static_cast<size_t>(k)],
          .gradient_dtype = g.dtype};
}

// Returns the table entries of all parameters in turn.
class AdamTensors {
 public:
  AdamTensors(const KernelContext& c, const ops::AdamUpdate& op) : c_(c), op_(op) {}

  UpdateTensor next() {
    if (held_ == op_.held_by(holder_)) ++holder_, held_ = at_ = 0;
    const UpdateTensor tensor = adam_tensor(c_, op_, parameter_++, holder_, at_);
    ++held_, at_ += tensor.n;
    return tensor;
  }

 private:
  const KernelContext& c_;
  const ops::AdamUpdate& op_;
  int parameter_ = 0, holder_ = 0;
  int64_t held_ = 0, at_ = 0;  // parameters before the next one in its holder, and their elements
};

template <int kMax>
void run_adam(const KernelContext& c, const ops::AdamUpdate& op) {
  AdamTensors tensors(c, op);
  run_tables<kMax>(
      adam_options(c, op), op.num_parameters(),
      [&](const UpdateTable<kMax>& table, bool aligned) {
        if (op.is_halved())
          launch_updates<AdamRule, Halves>(c, table, aligned);
        else
          launch_updates<AdamRule>(c, table, c.input(op.holder(0)).dtype, aligned);
      },
      [&](int64_t) { return tensors.next(); });
}

template <class T, int kMax>
void launch_coded_updates(const KernelContext& c, const UpdateTable<kMax, CodedUpdateTensor>& table,
                          bool aligned) {
  constexpr int kWidest = std::is_same_v<T, float> ? 4 : 8;
  if (aligned)
    start(c, coded_update_kernel<T, kWidest, kMax>, table.chunks, kThreads, 0, table);
  else
    start(c, coded_update_kernel<T, 1, kMax>, table.chunks, kThreads, 0, table);
}

CodedUpdateTensor with_scales(const KernelContext& c, const ops::AdamUpdate& op, int k,
                              const UpdateTensor& t) {
  const int m = op.m_scales(k), v = op.v_scales(k);
  return {t, c.input(m).as<const float>(), c.input(v).as<const float>(),
          c.output(op.output_of(m)).as<float>(), c.output(op.output_of(v)).as<float>()};
}

template <int kMax>
void run_coded_adam(const KernelContext& c, const ops::AdamUpdate& op) {
  AdamTensors tensors(c, op);
  run_tables<kMax, CodedUpdateTensor>(
      adam_options(c, op), op.num_parameters(),
      [&](const UpdateTable<kMax, CodedUpdateTensor>& table, bool aligned) {
        const DType dtype = c.input(op.holder(0)).dtype;
        if (op.is_halved())
          launch_coded_updates<Halves>(c, table, aligned);
        else if (dtype == DType::f32)
          launch_coded_updates<float>(c, table, aligned);
        else if (dtype == DType::bf16)
          launch_coded_updates<__nv_bfloat16>(c, table, aligned);
        else
          launch_coded_updates<__half>(c, table, aligned);
      },
      [&](int64_t k) { return with_scales(c, op, static_cast<int>(k), tensors.next()); });
}

// A single parameter gets a small table, because the table is copied to the device with every launch.
void run_adam(const KernelContext& c) {
  const auto& op = c.attributes<ops::AdamUpdate>();
  const bool one = op.num_parameters() == 1;
  if (op.has_codes()) return one ? run_coded_adam<1>(c, op) : run_coded_adam<kMaxCodedTensors>(c, op);
  return one ? run_adam<1>(c, op) : run_adam<kMaxTensors>(c, op);
}

std::optional<std::string> adam_declines(const KernelQuery& query) {
  const auto op = from_attributes<ops::AdamUpdate>(query.attributes);
  const auto dtype = [&](int i) { return query.inputs[static_cast<size_t>(op.holder(i))].dtype; };
  for (int i = 0; i < op.num_holders(); ++i)
    if (dtype(i) != dtype(0)) return "the parameters differ in dtype";
  return std::nullopt;
}

// --- sums of squares

constexpr int64_t kSumChunk = 64 << 10;  // elements per block
constexpr int kMaxSummed = 1024;         // tensors per launch

struct SummedTensor {
  const void* x = nullptr;
  int64_t n = 0;
  DType dtype = DType::f32;
  int32_t first_chunk = 0;
};

template <int kMax>
struct SumTable {
  double* partial = nullptr;  // one per chunk
  int32_t count = 0, chunks = 0;
  SummedTensor tensors[kMax];
};

template <class T, int N>
__device__ double sum_chunk(const SummedTensor& t, int64_t first, int64_t last) {
  using W = wide_t<T>;
  const T* x = static_cast<const T*>(t.x);
  const int64_t packed = last / N * N;
  W sums[N] = {};
#pragma unroll 4
  for (int64_t i = first + static_cast<int64_t>(threadIdx.x) * N; i < packed; i += kThreads * N) {
    const Pack<T, N> p = *reinterpret_cast<const Pack<T, N>*>(x + i);
#pragma unroll
    for (int j = 0; j < N; ++j) sums[j] += widen(p.at[j]) * widen(p.at[j]);
  }
  if (const int64_t i = packed + threadIdx.x; i < last) sums[0] += widen(x[i]) * widen(x[i]);
  double sum = 0;
#pragma unroll
  for (int j = 0; j < N; ++j) sum += static_cast<double>(sums[j]);
  return sum;
}

template <class T>
__device__ double sum_chunk(const SummedTensor& t, int64_t first, int64_t last) {
  if (reinterpret_cast<uintptr_t>(t.x) % 16 == 0) return sum_chunk<T, 16 / sizeof(T)>(t, first, last);
  return sum_chunk<T, 1>(t, first, last);
}

template <int kMax>
__global__ void __launch_bounds__(kThreads) squares_kernel(const __grid_constant__ SumTable<kMax> table) {
  const SummedTensor& t = entry_of_block(table.tensors, table.count);
  const int64_t first = (blockIdx.x - t.first_chunk) * kSumChunk, last = min(t.n, first + kSumChunk);
  double sum = 0;
  if (t.dtype == DType::f32)
    sum = sum_chunk<float>(t, first, last);
  else if (t.dtype == DType::bf16)
    sum = sum_chunk<__nv_bfloat16>(t, first, last);
  else if (t.dtype == DType::f16)
    sum = sum_chunk<__half>(t, first, last);
  else
    sum = sum_chunk<double>(t, first, last);
  sum = reduce_group(sum, kThreads, Add{});
  if (threadIdx.x == 0) table.partial[blockIdx.x] = sum;
}

template <class W>
__global__ void __launch_bounds__(1024) add_partials_kernel(const double* partial, int64_t n, W* y) {
  double sum = 0;
  for (int64_t i = threadIdx.x; i < n; i += blockDim.x) sum += partial[i];
  sum = reduce_group(sum, static_cast<int>(blockDim.x), Add{});
  if (threadIdx.x == 0) *y = static_cast<W>(sum);
}

int64_t sum_chunks(std::span<const TensorType> inputs) {
  int64_t chunks = 0;
  for (const TensorType& x : inputs) chunks += blocks_for(x.numel(), kSumChunk);
  return chunks;
}

int64_t sum_scratch(const KernelQuery& query) {
  return (CheckedSize(sum_chunks(query.inputs)) * sizeof(double)).value();
}

// Writes the sums of all chunks, and returns how many there are.
template <int kMax>
int64_t sum_all_chunks(const KernelContext& c, double* partial) {
  int64_t chunks = 0;
  SumTable<kMax> table;
  const auto flush = [&] {
    table.partial = partial + chunks;
    start(c, squares_kernel<kMax>, table.chunks, kThreads, 0, table);
    chunks += table.chunks;
    table.count = table.chunks = 0;
  };
  for (const TensorView& x : c.inputs) {
    if (x.numel() == 0) continue;
    if (table.count == kMax) flush();
    table.tensors[table.count++] = {x.data, x.numel(), x.dtype, table.chunks};
    table.chunks += static_cast<int32_t>(blocks_for(x.numel(), kSumChunk));
  }
  flush();
  return chunks;
}

// One tensor gets a small table, because the table is copied to the device with every launch.
void run_sum_squares(const KernelContext& c) {
  auto* partial = reinterpret_cast<double*>(c.scratch);
  const int64_t chunks =
      c.inputs.size() == 1 ? sum_all_chunks<1>(c, partial) : sum_all_chunks<kMaxSummed>(c, partial);
  if (c.output().dtype == DType::f64)
    start(c, add_partials_kernel<double>, 1, 1024, 0, partial, chunks, c.output().as<double>());
  else
    start(c, add_partials_kernel<float>, 1, 1024, 0, partial, chunks, c.output().as<float>());
}

constexpr OpKernel kOps[] = {
    {"sgd_update", {.name = "one_pass", .run = run_sgd, .can_run = sgd_declines}},
    {"adam_update", {.name = "one_launch", .run = run_adam, .can_run = adam_declines}},
    {"lion_update", {.name = "one_pass", .run = run_lion}},
    {"sum_squares", {.name = "chunks", .run = run_sum_squares, .scratch_bytes = sum_scratch}}};

}  // namespace

std::span<const OpKernel> optimizer_kernels() { return kOps; }

}  // namespace genesis::cuda
