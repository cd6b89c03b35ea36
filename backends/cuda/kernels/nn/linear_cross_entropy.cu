// linear_cross_entropy on CUDA, in blocks of rows. First logits = x weight^T go to scratch memory, in the dtype of x.
// Then one kernel computes each row's loss and, in place of its logits, their gradient; it reads the row from memory
// once if a thread block can hold it (logit_rows.h) and twice otherwise (two_pass_logit_rows.h). Then dx = dlogits
// weight and, if requested, dweight += dlogits^T x, in f32. Blocks follow one another, so dweight is always summed in
// the same order.
#include "backends/cuda/gemm_list.h"
#include "backends/cuda/hopper/implementations.h"
#include "backends/cuda/rows/logit_blocks.h"
#include "backends/cuda/rows/two_pass_logit_rows.h"

namespace genesis::cuda {
namespace {

// Elements of a block of logits: dweight is read and written once per block of rows, so blocks should be large.
constexpr int64_t kBlockElements = 320 << 20;
constexpr int64_t kRowStep = 128, kMaxRows = 8192;

int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

using Problems = LogitProblems<GemmProblem>;

Problems problems_of(const LogitBlocks& b, int64_t rows, int64_t classes, bool adds_to_dx,
                     bool adds_to_dweight) {
  Problems problems(b, rows, classes, b.ld);
  problems.logits.in = problems.dx.in = problems.dweight.in = problems.logits.out = b.dtype;
  problems.dx.out = b.dx;
  problems.dweight.out = b.wide;
  problems.dx.accumulate = adds_to_dx;
  problems.dweight.accumulate = adds_to_dweight;
  return problems;
}

int64_t workspace_bytes(const LogitBlocks& b, int64_t rows, const KernelNames* disabled) {
  int64_t most = 0;
  for (const Classes& range : b.ranges()) {
    const Problems problems = problems_of(b, rows, range.count, true, true);
    for (const GemmProblem& problem : {problems.logits, problems.dx, problems.dweight})
      most = std::max(most, gemm_workspace_bytes(problem, disabled));
  }
  return most;
}

}  // namespace

std::vector<LogitProducts> prepare_products(const KernelQuery& query, const LogitBlocks& b, int64_t rows,
                                            bool accumulate, bool wants_logits) {
  const KernelNames* disabled = query.disabled;
  std::vector<LogitProducts> all;
  for (const Classes& range : b.ranges()) {
    const Problems problems = problems_of(b, rows, range.count, !all.empty(), accumulate);
    LogitProducts& products = all.emplace_back();
    products.logits =
        wants_logits ? create_gemm(problems.logits, disabled) : Gemm::create_plain(problems.logits);
    if (b.gradients) products.dx = create_gemm(problems.dx, disabled);
    if (b.weight_gradient) products.dweight = create_gemm(problems.dweight, disabled);
  }
  return all;
}

LogitBlocks cut_rows(const KernelQuery& query) {
  LogitBlocks b{logit_shape(query)};
  b.ld = round_up(b.classes, 64);
  const int64_t most =
      std::clamp(kBlockElements / std::max<int64_t>(b.ld, 1) / kRowStep * kRowStep, kRowStep, kMaxRows);
  const int64_t count = std::max<int64_t>(1, (b.rows + most - 1) / most);
  b.each = std::max(kRowStep, round_up((b.rows + count - 1) / count, kRowStep));
  b.each = std::min(b.each, std::max<int64_t>(b.rows, 1));
  return b;
}

LogitBlocks prepare_blocks(const KernelQuery& query, bool wants_logits) {
  LogitBlocks b = cut_rows(query);
  const auto products = [&](int64_t block, bool accumulate) {
    return prepare_products(query, b, b.rows_in(block), accumulate, wants_logits);
  };
  const int64_t count = b.count();
  if (count > 0) b.first = products(0, false);
  if (count > 2) b.middle = products(1, true);
  if (count > 1) b.last = products(count - 1, true);
  return b;
}

int64_t blocks_scratch_bytes(const KernelQuery& query) {
  const LogitBlocks b = cut_rows(query);
  if (b.count() == 0) return b.loss_bytes();
  int64_t workspace = 0;
  for (const int64_t rows : {b.rows_in(0), b.rows_in(b.count() - 1), b.half()})
    workspace = std::max(workspace, workspace_bytes(b, rows, query.disabled));
  return (CheckedSize(workspace) + b.logits_bytes() + b.loss_bytes()).value();
}

namespace {

// --- device

constexpr int kTotalThreads = 1024;

// Counts the valid targets, which is the divisor of a mean, and reports targets that are out of range.
__global__ void __launch_bounds__(kTotalThreads)
    count_targets(Targets targets, int64_t rows, FaultReport fault, double* denominator) {
  double count = 0;
  for (int64_t row = threadIdx.x; row < rows; row += kTotalThreads) {
    const int64_t at = targets[row];
    if (targets.counts(at))
      count += 1;
    else if (at != targets.ignore_index)
      fault(at, targets.classes);
  }
  const double sum = tree_sum<kTotalThreads>(count);
  if (threadIdx.x == 0) *denominator = sum;
}

template <class W>
__global__ void __launch_bounds__(kTotalThreads)
    add_losses(const double* row_loss, int64_t rows, const double* denominator, W* loss) {
  double mine = 0;
  for (int64_t row = threadIdx.x; row < rows; row += kTotalThreads) mine += row_loss[row];
  const double sum = tree_sum<kTotalThreads>(mine);
  if (threadIdx.x == 0) *loss = static_cast<W>(denominator ? sum / *denominator : sum);
}

// f16 cannot represent small numbers. Gradients of logits are therefore kept this many times larger, and not divided
// by the number of rows, until they have become dx and dweight, which are f32.
constexpr double kF16Boost = 1024;

// Undoes the boost. If no row counts the factor would be infinite; the gradients are zeros then and stay so.
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
    if (gradients && try_block_rows(c, a, rows, logits)) return;
  if (gradients)
    start(c, finish_rows<T, N, true>, rows, kRowThreads, 0, a, logits);
  else
    start(c, finish_rows<T, N, false>, rows, kRowThreads, 0, a, logits);
}

double boost_of(const LogitBlocks& b) { return b.gradients && b.dtype == DType::f16 ? kF16Boost : 0; }

void make_dlogits(const LogitRun& run, int64_t block) {
  const LogitBlocks& b = run.b;
  const std::vector<LogitProducts>& products = b.products(block);
  for (size_t r = 0; r < products.size(); ++r)
    products[r].logits->run({.a = run.rows_of(run.c.input(0), block * b.each),
                             .b = run.rows_of(run.c.input(1), run.ranges[r].first),
                             .c = run.logits_of(run.ranges[r]),
                             .workspace = run.workspace,
                             .stream = launch_of(run.c).stream});
  const RowsArguments arguments{run.targets, block * b.each, b.ld,       run.op.label_smoothing,
                                run.divisor, run.row_loss,   boost_of(b)};
  dispatch_float(b.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    start_rows<T, 16 / sizeof(T)>(run.c, arguments, b.gradients, b.rows_in(block),
                                  reinterpret_cast<T*>(run.logits));
  });
}

void clear(const LogitRun& run) {
  const cudaStream_t stream = launch_of(run.c).stream;
  cudaMemsetAsync(run.row_loss, 0, static_cast<size_t>(run.b.rows * 8), stream);
  for (const TensorView& gradient : run.c.outputs.subspan(1))
    cudaMemsetAsync(gradient.data, 0, static_cast<size_t>(gradient.bytes()), stream);
}

}  // namespace

void LogitRun::count_targets() const {
  start(c, genesis::cuda::count_targets, 1, kTotalThreads, 0, targets, b.rows, launch_of(c).fault,
        denominator);
}

void LogitRun::add_gradients(const std::vector<LogitProducts>& products, const void* x, void* dx) const {
  for (size_t r = 0; r < products.size(); ++r) {
    GemmData data{.a = logits_of(ranges[r]),
                  .b = rows_of(c.input(1), ranges[r].first),
                  .c = dx,
                  .workspace = workspace,
                  .stream = launch_of(c).stream};
    products[r].dx->run(data);
    if (!b.weight_gradient) continue;
    data.b = x;
    data.c = rows_of(c.output(2), ranges[r].first);
    products[r].dweight->run(data);
  }
}

void LogitRun::put_loss() const {
  const auto put = [&](auto* loss) {
    start(c, add_losses<std::decay_t<decltype(*loss)>>, 1, kTotalThreads, 0, row_loss, b.rows, divisor, loss);
  };
  b.wide == DType::f64 ? put(c.output().as<double>()) : put(c.output().as<float>());
}

void run_row_blocks(const KernelContext& c, const LogitBlocks& b) {
  const LogitRun run{c, b};
  run.count_targets();
  if (b.count() == 0) clear(run);
  for (int64_t block = 0; block < b.count(); ++block) {
    make_dlogits(run, block);
    const int64_t row = block * b.each;
    if (b.gradients)
      run.add_gradients(b.products(block), run.rows_of(c.input(0), row), run.rows_of(c.output(1), row));
  }
  if (boost_of(b) > 0 && b.count() > 0)
    for (const TensorView& gradient : c.outputs.subspan(1))
      for_each(c, gradient.numel(), ScaleGradients{gradient.as<float>(), run.divisor});
  run.put_loss();
}

std::span<const OpKernel> linear_cross_entropy_kernels() {
  static const OpKernel ops[] = {
      {"linear_cross_entropy", exponentials_implementation()},
      {"linear_cross_entropy",
       {.name = "row_blocks",
        .run = [](const KernelContext& c) { run_row_blocks(c, c.prepared<LogitBlocks>()); },
        .scratch_bytes = blocks_scratch_bytes,
        .prepare = [](const KernelQuery& query) -> std::shared_ptr<const void> {
          return std::make_shared<LogitBlocks>(prepare_blocks(query, true));
        }}}};
  return ops;
}

}  // namespace genesis::cuda
