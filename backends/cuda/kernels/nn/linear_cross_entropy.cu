// linear_cross_entropy on CUDA, in blocks of rows: logits = x weight^T into scratch, in the dtype of x; then
// one kernel that makes each row's loss and, in place of its logits, the gradient over them, reading the row
// from memory once where a block can hold it (logit_rows.h), else twice (streamed_logit_rows.h); then dx =
// dlogits weight and dweight += dlogits^T x, in f32. Training in bf16 on Hopper chips has no such kernel: the
// product itself makes all but a factor of each row (logit_exponentials.h). Blocks follow one another, so
// dweight is added up in one order.
#include "backends/cuda/gemm/gemm.h"
#include "backends/cuda/hopper/logit_exponentials.h"
#include "backends/cuda/rows/streamed_logit_rows.h"
#include "schema/core/checked_size.h"
#include "schema/ops/nn/loss.h"

namespace genesis::cuda {
namespace {

// Elements of logits at a time: dweight is read and written once per block of rows, so blocks should be
// large.
constexpr int64_t kBlockElements = 320 << 20;
constexpr int64_t kRowStep = 128, kMaxRows = 8192;

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
  bool exponentials = false;  // may do without logits

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
  int64_t logits_bytes() const {
    return (CheckedSize(std::min(each, rows)) * ld * element()).rounded_up(256).value();
  }
  int64_t loss_bytes() const { return ((CheckedSize(rows) + 1) * 8).rounded_up(256).value(); }  // of each row; and the denominator
  ExponentialShape exponential_shape() const {
    return {.rows = rows, .hidden = hidden, .classes = classes, .each = std::min(each, rows), .ld = ld};
  }
  int64_t exponential_bytes() const {
    return exponentials ? round_up(exponential_scratch_bytes(exponential_shape()), 256) : 0;
  }
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
      std::clamp(kBlockElements / std::max<int64_t>(b.ld, 1) / kRowStep * kRowStep, kRowStep, kMaxRows);
  const int64_t count = std::max<int64_t>(1, (b.rows + most - 1) / most);
  b.each = std::max(kRowStep, round_up((b.rows + count - 1) / count, kRowStep));
  b.exponentials = b.gradients && b.dtype == DType::bf16 && exponentials_fit(b.exponential_shape()) &&
                   from_attributes<ops::LinearCrossEntropy>(query.attributes).label_smoothing == 0;
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
  bool exponentials = false;  // where buffers start as they should
  std::vector<Classes> ranges;
  std::vector<Products> first, middle, last;

  const std::vector<Products>& products(int64_t block) const {
    return block == 0 ? first : block + 1 == blocks.count() ? last : middle;
  }
};

std::vector<Products> products_of(const Blocks& b, int64_t rows, bool accumulate, bool exponentials,
                                  const KernelNames* disabled) {
  std::vector<Products> all;
  for (const Classes& range : b.ranges()) {
    Products& products = all.emplace_back();
    // Timing the library's ways takes a while. Where exponentials do it, only buffers that start at odd
    // addresses are left for this.
    const GemmProblem logits = logits_problem(b, rows, range.count);
    products.logits = exponentials ? Gemm::create_plain(logits) : Gemm::create(logits, disabled);
    if (!b.gradients) continue;
    products.dx = Gemm::create(dx_problem(b, rows, range.count, all.size() > 1), disabled);
    products.dweight = Gemm::create(dweight_problem(b, rows, range.count, accumulate), disabled);
  }
  return all;
}

std::shared_ptr<const void> prepare(const KernelQuery& query) {
  auto prepared = std::make_shared<Prepared>();
  const Blocks& b = prepared->blocks = cut(query);
  const bool exponentials = prepared->exponentials = b.exponentials &&
                            is_allowed(query.disabled, "linear_cross_entropy", "exponentials") && has_exponentials();
  prepared->ranges = b.ranges();
  const int64_t count = b.count();
  if (count > 0) prepared->first = products_of(b, b.rows_in(0), false, exponentials, query.disabled);
  if (count > 2) prepared->middle = products_of(b, b.each, true, exponentials, query.disabled);
  if (count > 1) prepared->last = products_of(b, b.rows_in(count - 1), true, exponentials, query.disabled);
  return prepared;
}

int64_t workspace_bytes(const Blocks& b, int64_t rows, const KernelNames* disabled) {
  int64_t most = 0;
  for (const Classes& range : b.ranges())
    most = std::max({most, gemm_workspace_bytes(logits_problem(b, rows, range.count), disabled),
                     gemm_workspace_bytes(dx_problem(b, rows, range.count, true), disabled),
                     gemm_workspace_bytes(dweight_problem(b, rows, range.count, true), disabled)});
  return most;
}

int64_t scratch_bytes(const KernelQuery& query) {
  const Blocks b = cut(query);
  if (b.count() == 0) return b.loss_bytes();
  const CheckedSize workspace =
      std::max(workspace_bytes(b, b.rows_in(0), query.disabled),
               workspace_bytes(b, b.rows_in(b.count() - 1), query.disabled));
  return (workspace + b.logits_bytes() + b.loss_bytes() + b.exponential_bytes()).value();
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

template <class T, int N>
void start_rows(const KernelContext& c, const RowsArguments& a, bool gradients, int64_t rows, T* logits) {
  if constexpr (!std::is_same_v<T, double>)
    if (gradients && try_held_rows(c, a, rows, logits)) return;
  if (gradients)
    start(c, finish_rows<T, N, true>, rows, kRowThreads, 0, a, logits);
  else
    start(c, finish_rows<T, N, false>, rows, kRowThreads, 0, a, logits);
}

// One run of the op.
struct Run {
  const KernelContext& c;
  const ops::LinearCrossEntropy& op = c.attributes<ops::LinearCrossEntropy>();
  const Prepared& prepared = c.prepared<Prepared>();
  const Blocks& b = prepared.blocks;
  cudaStream_t stream = launch_of(c).stream;
  std::byte *logits = c.scratch, *losses = c.scratch + (b.count() == 0 ? 0 : b.logits_bytes());
  std::byte* exponential_scratch = losses + b.loss_bytes();
  std::byte* workspace = exponential_scratch + b.exponential_bytes();
  double *row_loss = reinterpret_cast<double*>(losses), *denominator = row_loss + b.rows;
  const double* divisor = op.reduction == Reduction::kMean ? denominator : nullptr;
  double boost = b.gradients && b.dtype == DType::f16 ? kF16Boost : 0;
  Targets targets{c.input(2).data, c.input(2).dtype == DType::i32, b.classes, op.ignore_index};
  bool exponentials = b.count() > 0 && prepared.exponentials&& aligned_to_packs(c);
  ExponentialCall call{b.exponential_shape(), c.input(0).data, c.input(1).data, targets, divisor, row_loss,
                       exponential_scratch};

  // What of a matrix with rows of x's width lies from a row on.
  std::byte* rows_of(const TensorView& matrix, int64_t row) const {
    return matrix.as<std::byte>() + row * b.hidden * static_cast<int64_t>(size_of(matrix.dtype));
  }
  std::byte* logits_of(const Classes& range) const { return logits + range.first * b.element(); }

  void make_dlogits(int64_t block) const {
    const std::vector<Products>& products = prepared.products(block);
    for (size_t r = 0; r < products.size(); ++r)
      products[r].logits->run({.a = rows_of(c.input(0), block * b.each),
                               .b = rows_of(c.input(1), prepared.ranges[r].first),
                               .c = logits_of(prepared.ranges[r]),
                               .workspace = workspace,
                               .stream = stream});
    const RowsArguments arguments{targets, block * b.each, b.ld, op.label_smoothing,
                                  divisor, row_loss,       boost};
    dispatch_float(b.dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      start_rows<T, 16 / sizeof(T)>(c, arguments, b.gradients, b.rows_in(block),
                                    reinterpret_cast<T*>(logits));
    });
  }

  void run_block(int64_t block) const {
    const int64_t first = block * b.each;
    std::byte *x = rows_of(c.input(0), first), *dx = b.gradients ? rows_of(c.output(1), first) : nullptr;
    // dx is made last: until then its place has the scaled x.
    const bool scaled = exponentials && try_exponentials(c, call, block, logits, dx);
    if (!scaled) make_dlogits(block);
    if (!b.gradients) return;
    const std::vector<Products>& products = prepared.products(block);
    for (size_t r = 0; r < products.size(); ++r) {
      const Classes& range = prepared.ranges[r];
      GemmData data{.a = logits_of(range),
                    .b = rows_of(c.input(1), range.first),
                    .c = scaled ? call.raw_dx() : dx,
                    .workspace = workspace,
                    .stream = stream};
      products[r].dx->run(data);
      data.b = scaled ? dx : x;
      data.c = rows_of(c.output(2), range.first);
      products[r].dweight->run(data);
    }
    if (scaled) finish_gradients(c, call, block, dx, c.output(2).data);
  }

  void clear() const {
    cudaMemsetAsync(row_loss, 0, static_cast<size_t>(b.rows * 8), stream);
    if (!b.gradients) return;
    for (int i = 1; i < 3; ++i)
      cudaMemsetAsync(c.output(i).data, 0, static_cast<size_t>(c.output(i).bytes()), stream);
  }

  template <class W>
  void put_loss() const {
    start(c, add_losses<W>, 1, kTotalThreads, 0, row_loss, b.rows, divisor, c.output().as<W>());
  }
};

void run(const KernelContext& c) {
  const Run run{c};
  const Blocks& b = run.b;
  start(c, count_targets, 1, kTotalThreads, 0, run.targets, b.rows, launch_of(c).fault, run.denominator);
  if (b.count() == 0) run.clear();
  if (run.exponentials) start_references(c, run.call);
  for (int64_t block = 0; block < b.count(); ++block) run.run_block(block);
  if (run.boost > 0 && b.count() > 0)
    for (int i : {1, 2})
      for_each(c, c.output(i).numel(), ScaleGradients{c.output(i).as<float>(), run.divisor});
  b.wide == DType::f64 ? run.put_loss<double>() : run.put_loss<float>();
}

constexpr KernelImpl kLinearCrossEntropy[] = {
    {.name = "row_blocks", .run = run, .scratch_bytes = scratch_bytes, .prepare = prepare}};
constexpr OpKernels kOps[] = {{"linear_cross_entropy", kLinearCrossEntropy}};

}  // namespace

std::span<const OpKernels> linear_cross_entropy_kernels() { return kOps; }

}  // namespace genesis::cuda
