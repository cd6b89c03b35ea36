// Sum, mean, prod, max, min, any, all, var, std, logsumexp, argmax and argmin over any axes, in one launch. The
// kernels are generated for the sizes of the node (reduce_source.h, reduce_kit.h) and compiled when a plan's steps
// are created.
#include "schema/ops/tensor/reduce.h"
#include "backends/cuda/codegen/nvrtc.h"
#include "backends/cuda/codegen/reduce_source.h"
#include "backends/cuda/codegen/source_types.h"
#include "backends/cuda/device/packs.h"
#include "backends/cuda/runtime/launch.h"
#include "backends/cuda/runtime/runtime.h"

namespace genesis::cuda {
namespace {

struct Prepared {
  std::shared_ptr<const LoadedCode> code;
  const void* packed = nullptr;
  const void* single = nullptr;
  unsigned packed_blocks = 0, single_blocks = 0, threads = 0;
  int64_t outer = 0;
  std::shared_ptr<std::byte> counters;  // zero between runs: the last block of each result resets its counter
};

enum class Kind { kSum, kMean, kProd, kMax, kMin, kAny, kAll, kArgMax, kArgMin, kVar, kStd, kLogSumExp };

std::vector<int> axes_of(const KernelQuery& query, Kind kind) {
  const int rank = query.inputs[0].shape.rank();
  if (kind == Kind::kArgMax || kind == Kind::kArgMin) {
    if (rank == 0) return {};
    return {normalize_axis(from_attributes<ops::OneAxis>(query.attributes).axis, rank)};
  }
  const bool moment = kind == Kind::kVar || kind == Kind::kStd;
  return normalize_axes(moment ? from_attributes<ops::Moment>(query.attributes).axes
                               : from_attributes<ops::OverAxes>(query.attributes).axes,
                        rank);
}

ReducePlan plan_of(const KernelQuery& query, Kind kind) {
  return plan_reduce(query.inputs[0], axes_of(query, kind));
}

std::string accumulator(const KernelQuery& query, Kind kind) {
  const std::string_view in = lane_type(query.inputs[0].dtype), out = lane_type(query.outputs[0].dtype);
  switch (kind) {
    case Kind::kSum:
      return fmt::format("SumSoFar<{}>", out);
    case Kind::kMean:
      return fmt::format("MeanSoFar<{}>", out);
    case Kind::kProd:
      return fmt::format("ProductSoFar<{}>", out);
    case Kind::kMax:
      return fmt::format("ExtremeSoFar<Max<{}>, {}>", in, in);
    case Kind::kMin:
      return fmt::format("ExtremeSoFar<Min<{}>, {}>", in, in);
    case Kind::kAny:
      return "AnySoFar";
    case Kind::kAll:
      return "AllSoFar";
    case Kind::kArgMax:
      return fmt::format("PlaceSoFar<true, {}>", in);
    case Kind::kArgMin:
      return fmt::format("PlaceSoFar<false, {}>", in);
    case Kind::kVar:
      return fmt::format("MomentsSoFar<false, {}>", in);
    case Kind::kStd:
      return fmt::format("MomentsSoFar<true, {}>", in);
    case Kind::kLogSumExp:
      return fmt::format("LogSumExpSoFar<{}>", in);
  }
  return {};
}

Reduction reduction_of(const KernelQuery& query, Kind kind, const ReducePlan& plan) {
  Reduction result{accumulator(query, kind), query.inputs[0].dtype, query.outputs[0].dtype, 1};
  if (kind == Kind::kVar || kind == Kind::kStd) {
    const int64_t correction = from_attributes<ops::Moment>(query.attributes).correction;
    result.divisor = static_cast<double>(std::max<int64_t>(0, plan.count - correction));
  }
  return result;
}

template <Kind kind>
std::optional<std::string> can_run(const KernelQuery& query) {
  if (plan_of(query, kind).blocks(1) >= int64_t{1} << 31) return "a grid has 2^31 blocks at most";
  return std::nullopt;
}

template <Kind kind>
int64_t device_reduce_scratch(const KernelQuery& query) {
  return plan_of(query, kind).scratch_bytes();
}

// Returns zeroed counters on the current device.
std::shared_ptr<std::byte> counters(int64_t count) {
  return allocate(current_device(), count * static_cast<int64_t>(sizeof(unsigned)));
}

template <Kind kind>
std::shared_ptr<const void> prepare_device_reduce(const KernelQuery& query) {
  const ReducePlan plan = plan_of(query, kind);
  auto made = std::make_shared<Prepared>();
  if (plan.results() == 0) return made;
  made->code = load(reduce_source(reduction_of(query, kind, plan), plan));
  made->packed = made->code->kernel("packed");
  made->single = plan.pack > 1 ? made->code->kernel("single") : made->packed;
  made->packed_blocks = static_cast<unsigned>(plan.blocks(plan.pack));
  made->single_blocks = static_cast<unsigned>(plan.blocks(1));
  made->threads = static_cast<unsigned>(plan.threads);
  made->outer = plan.outer;
  if (plan.counters() > 0) made->counters = counters(plan.counters());
  return made;
}

void run_device_reduce(const KernelContext& c) {
  const auto& kernel = c.prepared<Prepared>();
  if (kernel.packed_blocks == 0) return;
  void* buffers[] = {c.input(0).data, c.output().data, c.scratch, kernel.counters.get()};
  int64_t outer = kernel.outer;
  void* parameters[] = {buffers, &outer};
  const bool packed = reinterpret_cast<uintptr_t>(c.input(0).data) % 16 == 0;
  const PdlLaunch early(launch_of(c), packed ? kernel.packed_blocks : kernel.single_blocks, kernel.threads,
                        0);
  cudaLaunchKernelExC(&early.config, packed ? kernel.packed : kernel.single,
                      parameters);  // the runner checks for errors
}

template <Kind kind>
constexpr KernelImpl kReduce = {.name = "generated",
                                .run = run_device_reduce,
                                .can_run = can_run<kind>,
                                .scratch_bytes = device_reduce_scratch<kind>,
                                .prepare = prepare_device_reduce<kind>};

constexpr OpKernel kOps[] = {{"sum", kReduce<Kind::kSum>},       {"mean", kReduce<Kind::kMean>},
                             {"prod", kReduce<Kind::kProd>},     {"max", kReduce<Kind::kMax>},
                             {"min", kReduce<Kind::kMin>},       {"any", kReduce<Kind::kAny>},
                             {"all", kReduce<Kind::kAll>},       {"argmax", kReduce<Kind::kArgMax>},
                             {"argmin", kReduce<Kind::kArgMin>}, {"var", kReduce<Kind::kVar>},
                             {"std", kReduce<Kind::kStd>},       {"logsumexp", kReduce<Kind::kLogSumExp>}};

}  // namespace

std::span<const OpKernel> reduce_kernels() { return kOps; }

}  // namespace genesis::cuda
