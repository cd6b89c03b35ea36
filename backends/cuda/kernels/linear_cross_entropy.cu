// linear_cross_entropy on CUDA, in blocks of rows: logits = x weight^T into scratch, in the dtype of x; then
// one kernel that makes each row's loss and, in place of its logits, the gradient over them, reading the row
// from memory once where a block can hold it (logit_rows.h), else twice; then dx = dlogits weight and dweight
// += dlogits^T x, in f32. Blocks follow one another, so dweight is added up in one order.
#include "backends/cuda/exponential.h"
#include "backends/cuda/gemm.h"
#include "backends/cuda/logit_rows.h"
#include "schema/ops/loss.h"

namespace genesis::cuda {
namespace {

constexpr int kRowThreads = 512, kRowWarps = kRowThreads / 32;
// Elements of logits at a time: dweight is read and written once per block of rows, so blocks should be
// large.
constexpr int64_t kBlockElements = 320 << 20;
constexpr int64_t kRowStep = 128, kMostRows = 8192;

int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// Neighbouring classes. The library's fast 16-bit kernels want sizes that are multiples of 8, which a
// vocabulary need not be (50257): the classes beyond the last multiple are a range of their own.
struct Classes {
  int64_t first, count;
};

struct Products {
  std::shared_ptr<const Gemm> logits, dx, dweight;
};

// How the rows are cut, by shape alone.
struct Blocks {
  DType dtype, wide, dx;
  int64_t rows = 0, hidden = 0, classes = 0, each = 1;
  int64_t ld = 0;  // of logits: rows start where fast loads can
  bool gradients = false;

  // The few first, so that what they add to dx is rounded while it is small.
  std::vector<Classes> ranges() const {
    constexpr int64_t kFast = 64, kWorthwhile = 1024;
    const int64_t whole = classes / kFast * kFast;
    if (element() != 2 || classes % 8 == 0 || classes < kWorthwhile) return {{0, classes}};
    return {{whole, classes - whole}, {0, whole}};
  }

  int64_t count() const { return classes == 0 ? 0 : (rows + each - 1) / each; }
  int64_t rows_in(int64_t block) const { return std::min(each, rows - block * each); }
  int64_t element() const { return static_cast<int64_t>(size_of(dtype)); }
  int64_t logits_bytes() const { return round_up(std::min(each, rows) * ld * element(), 256); }
  int64_t loss_bytes() const { return round_up((rows + 1) * 8, 256); }  // of each row; and the denominator
};

Blocks cut(const KernelQuery& query) {
  Blocks b;
  b.dtype = query.inputs[0].dtype;
  b.wide = query.outputs[0].dtype;
  b.classes = query.inputs[1].shape[0].value();
  b.hidden = query.inputs[1].shape[1].value();
  b.rows = query.inputs[2].numel();
  b.ld = round_up(b.classes, 64);
  b.gradients = query.outputs.size() > 1;
  b.dx = b.gradients ? query.outputs[1].dtype : b.dtype;
  const int64_t most =
      std::clamp(kBlockElements / std::max<int64_t>(b.ld, 1) / kRowStep * kRowStep, kRowStep, kMostRows);
  const int64_t count = std::max<int64_t>(1, (b.rows + most - 1) / most);
  b.each = std::max(kRowStep, round_up((b.rows + count - 1) / count, kRowStep));
  return b;
}

GemmProblem logits_problem(const Blocks& b, int64_t rows, int64_t classes) {
  return {.in = b.dtype,
          .out = b.dtype,
          .m = rows,
          .n = classes,
          .k = b.hidden,
          .lda = b.hidden,
          .ldb = b.hidden,
          .ldc = b.ld,
          .transpose_b = true};
}
GemmProblem dx_problem(const Blocks& b, int64_t rows, int64_t classes, bool accumulate) {
  return {.in = b.dtype,
          .out = b.dx,
          .m = rows,
          .n = b.hidden,
          .k = classes,
          .lda = b.ld,
          .ldb = b.hidden,
          .ldc = b.hidden,
          .accumulate = accumulate};
}
GemmProblem dweight_problem(const Blocks& b, int64_t rows, int64_t classes, bool accumulate) {
  return {.in = b.dtype,
          .out = b.wide,
          .m = classes,
          .n = b.hidden,
          .k = rows,
          .lda = b.ld,
          .ldb = b.hidden,
          .ldc = b.hidden,
          .transpose_a = true,
          .accumulate = accumulate};
}

// What is made once per step of a plan: the products of the first block, of those between, and of the last,
// by range of classes.
struct Prepared {
  Blocks blocks;
  std::vector<Classes> ranges;
  std::vector<Products> first, middle, last;

  const std::vector<Products>& products(int64_t block) const {
    return block == 0 ? first : block + 1 == blocks.count() ? last : middle;
  }
};

std::vector<Products> products_of(const Blocks& b, int64_t rows, bool accumulate) {
  std::vector<Products> all;
  for (const Classes& range : b.ranges()) {
    Products& products = all.emplace_back();
    products.logits = Gemm::create(logits_problem(b, rows, range.count));
    if (!b.gradients) continue;
    products.dx = Gemm::create(dx_problem(b, rows, range.count, all.size() > 1));
    products.dweight = Gemm::create(dweight_problem(b, rows, range.count, accumulate));
  }
  return all;
}

std::shared_ptr<const void> prepare(const KernelQuery& query) {
  auto prepared = std::make_shared<Prepared>();
  const Blocks& b = prepared->blocks = cut(query);
  prepared->ranges = b.ranges();
  const int64_t count = b.count();
  if (count > 0) prepared->first = products_of(b, b.rows_in(0), false);
  if (count > 2) prepared->middle = products_of(b, b.each, true);
  if (count > 1) prepared->last = products_of(b, b.rows_in(count - 1), true);
  return prepared;
}

int64_t workspace_bytes(const Blocks& b, int64_t rows) {
  int64_t most = 0;
  for (const Classes& range : b.ranges())
    most = std::max({most, gemm_workspace_bytes(logits_problem(b, rows, range.count)),
                     gemm_workspace_bytes(dx_problem(b, rows, range.count, true)),
                     gemm_workspace_bytes(dweight_problem(b, rows, range.count, true))});
  return most;
}

int64_t scratch_bytes(const KernelQuery& query) {
  const Blocks b = cut(query);
  if (b.count() == 0) return b.loss_bytes();
  return b.logits_bytes() + b.loss_bytes() +
         std::max(workspace_bytes(b, b.rows_in(0)), workspace_bytes(b, b.rows_in(b.count() - 1)));
}

// --- device

constexpr int kTotalThreads = 1024;

// The sum of one number of each thread, in one order, in the first thread.
__device__ double sum_of_block(double x, double* shared) {
  shared[threadIdx.x] = x;
  for (int half = kTotalThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) shared[threadIdx.x] += shared[threadIdx.x + half];
  }
  return threadIdx.x == 0 ? shared[0] : 0;
}

// What a mean divides by: the rows that count. Targets that cannot be are reported here.
__global__ void __launch_bounds__(kTotalThreads)
    count_targets(Targets targets, int64_t rows, FaultReport fault, double* denominator) {
  __shared__ double shared[kTotalThreads];
  double count = 0;
  for (int64_t row = threadIdx.x; row < rows; row += kTotalThreads) {
    const int64_t at = targets[row];
    if (targets.counts(at))
      count += 1;
    else if (at != targets.ignore_index)
      fault(at, targets.classes);
  }
  const double sum = sum_of_block(count, shared);
  if (threadIdx.x == 0) *denominator = sum;
}

template <class W>
__global__ void __launch_bounds__(kTotalThreads)
    add_losses(const double* row_loss, int64_t rows, const double* denominator, W* loss) {
  __shared__ double shared[kTotalThreads];
  double mine = 0;
  for (int64_t row = threadIdx.x; row < rows; row += kTotalThreads) mine += row_loss[row];
  const double sum = sum_of_block(mine, shared);
  if (threadIdx.x == 0) *loss = static_cast<W>(denominator ? sum / *denominator : sum);
}

template <class W>
struct MaxSum {
  W max, sum;  // sum of exp(x - max)
};

// NaN wins.
template <class W>
__device__ W larger(W a, W b) {
  return a > b || a != a ? a : b;
}

template <class T>
__device__ MaxSum<wide_t<T>> merged(MaxSum<wide_t<T>> a, MaxSum<wide_t<T>> b) {
  using W = wide_t<T>;
  const W max = larger(a.max, b.max), shift = max == W(-INFINITY) ? W(0) : max;
  return {max, a.sum * exponential<T>(a.max - shift) + b.sum * exponential<T>(b.max - shift)};
}

// combine(a, b) over the block, the same in every thread.
template <class V, class Combine>
__device__ V over_block(V mine, V (&shared)[kRowWarps], const Combine& combine) {
#pragma unroll
  for (int far = 16; far > 0; far /= 2) {
    V other = mine;
    static_assert(sizeof(V) % 4 == 0);
#pragma unroll
    for (unsigned i = 0; i < sizeof(V) / 4; ++i)
      reinterpret_cast<int*>(&other)[i] =
          __shfl_down_sync(0xffffffffu, reinterpret_cast<int*>(&mine)[i], far);
    mine = combine(mine, other);
  }
  __syncthreads();
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = mine;
  __syncthreads();
  V total = shared[0];
  for (int w = 1; w < kRowWarps; ++w) total = combine(total, shared[w]);
  return total;
}

// f16 has no small numbers: gradients over logits are kept this many times larger, and not divided by the
// rows, until they have become dx and dweight, which are f32.
constexpr double kF16Boost = 1024;

// Where no row counts the gradients are zeros, as they are, and the factor is infinite.
struct ScaleGradients {
  float* values;
  const double* denominator;
  __device__ void operator()(int64_t i) const {
    if (denominator && *denominator == 0) return;
    values[i] *= static_cast<float>((denominator ? 1 / *denominator : 1) / kF16Boost);
  }
};

// A block per row: its loss, and the gradient in place of its logits.
template <class T, int N, bool kGradients>
__global__ void __launch_bounds__(kRowThreads) finish_rows(RowsArguments a, T* logits) {
  using W = wide_t<T>;
  __shared__ MaxSum<W> shared[kRowWarps];
  __shared__ W shared_sums[kRowWarps];
  const int64_t row = a.first + blockIdx.x, classes = a.targets.classes, at = a.targets[row];
  T* x = logits + static_cast<int64_t>(blockIdx.x) * a.ld;
  auto* packs = reinterpret_cast<Pack<T, N>*>(x);
  const int64_t whole = classes / N;
  const bool counts = a.targets.counts(at);
  if (!counts) {
    if (threadIdx.x == 0) a.row_loss[row] = 0;
    if (kGradients)
      for (int64_t i = threadIdx.x; i < classes; i += kRowThreads) x[i] = narrow<T>(W(0));
    return;
  }
  MaxSum<W> mine{W(-INFINITY), W(0)};
  const auto take = [&](const auto& values, int n) {
    W max = mine.max;
    for (int k = 0; k < n; ++k) max = larger(max, widen(values[k]));
    const W shift = max == W(-INFINITY) ? W(0) : max;
    W sum = mine.sum * exponential<T>(mine.max - shift);
    for (int k = 0; k < n; ++k) sum += exponential<T>(widen(values[k]) - shift);
    mine = {max, sum};
  };
#pragma unroll 4
  for (int64_t i = threadIdx.x; i < whole; i += kRowThreads) {
    const Pack<T, N> pack = packs[i];
    take(pack.at, N);
  }
  for (int64_t i = whole * N + threadIdx.x; i < classes; i += kRowThreads) take(x + i, 1);
  const W target = widen(x[at]);
  const MaxSum<W> total = over_block(mine, shared, merged<T>);  // all have read x[at] when it returns
  const W log_sum = log(total.sum), lse = total.max + log_sum;

  const double mean = a.denominator ? 1 / *a.denominator : 1, g = a.boost > 0 ? a.boost : mean;
  const double share = a.smoothing / static_cast<double>(classes);
  const W scale = static_cast<W>(g), low = static_cast<W>(g * share),
          high = static_cast<W>(g * (1 - a.smoothing));
  W spread = 0;
  const auto put = [&](T& value, int64_t i) {
    const W v = widen(value);
    spread += total.max - v;
    if (kGradients) value = narrow<T>(scale * exponential<T>(v - lse) - low - (i == at ? high : W(0)));
  };
  if (kGradients || a.smoothing != 0) {
#pragma unroll 4
    for (int64_t i = threadIdx.x; i < whole; i += kRowThreads) {
      Pack<T, N> pack = packs[i];
#pragma unroll
      for (int k = 0; k < N; ++k) put(pack.at[k], i * N + k);
      if (kGradients) packs[i] = pack;
    }
    for (int64_t i = whole * N + threadIdx.x; i < classes; i += kRowThreads) put(x[i], i);
  }
  if (a.smoothing != 0) spread = over_block(spread, shared_sums, [](W p, W q) { return p + q; });
  if (threadIdx.x != 0) return;
  double loss =
      (1 - a.smoothing) * (static_cast<double>(log_sum) - (static_cast<double>(target) - total.max));
  if (a.smoothing != 0)
    loss += share * (static_cast<double>(spread) + static_cast<double>(classes) * log_sum);
  a.row_loss[row] = loss;
}

template <class T, int N>
void start_rows(const KernelContext& c, const RowsArguments& a, bool gradients, int64_t rows, T* logits) {
  if constexpr (!std::is_same_v<T, double>)
    if (gradients && try_held_rows(c, a, rows, logits)) return;
  if (gradients)
    start(c, finish_rows<T, N, true>, rows, kRowThreads, 0, a, logits);
  else
    start(c, finish_rows<T, N, false>, rows, kRowThreads, 0, a, logits);
}

void run(const KernelContext& c) {
  const auto& op = c.attributes<ops::LinearCrossEntropy>();
  const auto& prepared = c.prepared<Prepared>();
  const Blocks& b = prepared.blocks;
  const auto stream = launch_of(c).stream;
  std::byte *logits = c.scratch, *losses = c.scratch + (b.count() == 0 ? 0 : b.logits_bytes());
  std::byte* workspace = losses + b.loss_bytes();
  auto* row_loss = reinterpret_cast<double*>(losses);
  double* denominator = row_loss + b.rows;
  const Targets targets{c.input(2).data, c.input(2).dtype == DType::i32, b.classes, op.ignore_index};
  const double boost = b.gradients && b.dtype == DType::f16 ? kF16Boost : 0;
  const double* divisor = op.reduction == Reduction::kMean ? denominator : nullptr;
  start(c, count_targets, 1, kTotalThreads, 0, targets, b.rows, launch_of(c).fault, denominator);
  if (b.count() == 0) {
    cudaMemsetAsync(row_loss, 0, static_cast<size_t>(b.rows * 8), stream);
    if (b.gradients)
      for (int i = 1; i < 3; ++i)
        cudaMemsetAsync(c.output(i).data, 0, static_cast<size_t>(c.output(i).bytes()), stream);
  }
  for (int64_t block = 0; block < b.count(); ++block) {
    const int64_t first = block * b.each, offset = first * b.hidden * b.element();
    const std::vector<Products>& products = prepared.products(block);
    const std::byte* x = c.input(0).as<std::byte>() + offset;
    const std::byte* weight = c.input(1).as<std::byte>();
    for (size_t r = 0; r < products.size(); ++r) {
      const int64_t from = prepared.ranges[r].first;
      products[r].logits->run({.a = x,
                               .b = weight + from * b.hidden * b.element(),
                               .c = logits + from * b.element(),
                               .workspace = workspace,
                               .stream = stream});
    }
    const RowsArguments arguments{targets, first, b.ld, op.label_smoothing, divisor, row_loss, boost};
    dispatch_float(b.dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      start_rows<T, 16 / sizeof(T)>(c, arguments, b.gradients, b.rows_in(block),
                                    reinterpret_cast<T*>(logits));
    });
    if (!b.gradients) continue;
    std::byte* dx = c.output(1).as<std::byte>() + first * b.hidden * static_cast<int64_t>(size_of(b.dx));
    for (size_t r = 0; r < products.size(); ++r) {
      const int64_t from = prepared.ranges[r].first;
      const std::byte* dlogits = logits + from * b.element();
      products[r].dx->run({.a = dlogits,
                           .b = weight + from * b.hidden * b.element(),
                           .c = dx,
                           .workspace = workspace,
                           .stream = stream});
      products[r].dweight->run(
          {.a = dlogits,
           .b = x,
           .c = c.output(2).as<std::byte>() + from * b.hidden * static_cast<int64_t>(size_of(b.wide)),
           .workspace = workspace,
           .stream = stream});
    }
  }
  if (boost > 0 && b.count() > 0)
    for (int i : {1, 2}) for_each(c, c.output(i).numel(), ScaleGradients{c.output(i).as<float>(), divisor});
  if (b.wide == DType::f64)
    start(c, add_losses<double>, 1, kTotalThreads, 0, row_loss, b.rows, divisor, c.output().as<double>());
  else
    start(c, add_losses<float>, 1, kTotalThreads, 0, row_loss, b.rows, divisor, c.output().as<float>());
}

constexpr KernelImpl kLinearCrossEntropy[] = {
    {.name = "row blocks", .run = run, .scratch_bytes = scratch_bytes, .prepare = prepare}};
constexpr OpKernels kOps[] = {{"linear_cross_entropy", kLinearCrossEntropy}};

}  // namespace

std::span<const OpKernels> linear_cross_entropy_kernels() { return kOps; }

}  // namespace genesis::cuda
