#include "backends/cuda/convolution/cudnn_convolution.h"

#include "backends/cuda/convolution/window_kernels.h"
#include "backends/cuda/cudnn/cudnn_graph.h"
#include "backends/cuda/device/packs.h"
#include "backends/cuda/runtime/launch.h"
#include "backends/cuda/runtime/libraries.h"
#include "schema/core/checked_size.h"
#include "schema/core/error.h"
#include "schema/messages/log.h"

namespace genesis::cuda {
namespace {

enum class Role { kForward, kTransposed, kWeightGradient };

// Bytes for cuDNN beside the operands: copies of them in another layout, and sums that are kept apart.
constexpr int64_t kSpareBytes = int64_t{32} << 20;

struct Convolving {
  ConvolutionShape shape;              // first, because the plain kernels read it
  std::optional<CudnnPlan> plan = {};  // none: the plain kernels run
  int64_t x = 0, weight = 0, map = 0;
};

int64_t workspace_bytes(const KernelQuery& query) {
  CheckedSize bytes = kSpareBytes;
  for (const TensorType& type : query.inputs) bytes += type.bytes();
  for (const TensorType& type : query.outputs) bytes += type.bytes();
  return bytes.value();
}

std::optional<std::string> cudnn_declines(const KernelQuery& query) {
  const ConvolutionShape s = convolution_shape(query);
  if (s.dtype == DType::f64) return "it takes f32, f16 and bf16";
  if (s.batch * s.in() * s.out() * s.windows.elements() == 0) return "it takes tensors with elements";
  return std::nullopt;
}

// The weight gradient of cuDNN 9 was wrong on an H200 for a dilation of 2 with a padding of 2 before and 1 behind the axis.
std::optional<std::string> cudnn_declines_weight_gradient(const KernelQuery& query) {
  for (const WindowAxis& a : convolution_shape(query).windows.axis)
    if (a.dilation > 1 && a.begin != a.end)
      return "it takes no dilation with different paddings at both ends";
  return cudnn_declines(query);
}

// cuDNN takes two or three spatial axes; the leading ones of a WindowShape have size 1 where the op has fewer.
size_t first_axis(const WindowShape& windows) {
  const WindowAxis& a = windows.axis[0];
  return a.size == 1 && a.taps == 1 && a.positions == 1 ? 1 : 0;
}

template <class Size>
std::vector<int64_t> dims_of(int64_t batch, int64_t channels, const WindowShape& windows, const Size& size) {
  std::vector<int64_t> dims = {batch, channels};
  for (size_t i = first_axis(windows); i < kMaxSpatialAxes; ++i) dims.push_back(size(windows.axis[i]));
  return dims;
}

CudnnGraph::Convolution moves_of(const WindowShape& windows) {
  CudnnGraph::Convolution how;
  for (size_t i = first_axis(windows); i < kMaxSpatialAxes; ++i) {
    const WindowAxis& a = windows.axis[i];
    how.strides.push_back(a.stride);
    how.dilations.push_back(a.dilation);
    how.pads_begin.push_back(a.begin);
    how.pads_end.push_back(a.end);
  }
  return how;
}

template <Role role>
void make_plan(Convolving& c, int64_t workspace) {
  const ConvolutionShape& s = c.shape;
  const cudnnDataType_t type = cudnn_type(s.dtype);
  CudnnGraph graph;
  graph.require_exact_plans(s.dtype == DType::f32);
  c.x = graph.tensor(type, dims_of(s.batch, s.in(), s.windows, [](const WindowAxis& a) { return a.size; }));
  c.weight =
      graph.tensor(type, dims_of(s.out(), s.in_each, s.windows, [](const WindowAxis& a) { return a.taps; }));
  c.map = graph.tensor(type,
                       dims_of(s.batch, s.out(), s.windows, [](const WindowAxis& a) { return a.positions; }));
  const CudnnGraph::Convolution how = moves_of(s.windows);
  if constexpr (role == Role::kForward) graph.convolution(how, c.x, c.weight, c.map);
  if constexpr (role == Role::kTransposed) graph.convolution_input_gradient(how, c.x, c.weight, c.map);
  if constexpr (role == Role::kWeightGradient) graph.convolution_weight_gradient(how, c.x, c.weight, c.map);
  c.plan = graph.plan(workspace);
}

template <Role role>
std::shared_ptr<const void> prepare(const KernelQuery& query) {
  auto made = std::make_shared<Convolving>(Convolving{convolution_shape(query)});
  if (!cudnn().available()) return made;
  try {
    make_plan<role>(*made, workspace_bytes(query));
  } catch (const Error& error) {
    log_debug("a plain kernel convolves {} by {}: {}", query.inputs[0].to_string(),
              query.inputs[1].to_string(), error.what());
  }
  return made;
}

template <Role role>
void run(const KernelContext& c) {
  const auto& made = c.prepared<Convolving>();
  // Operands in the order of the op: x, weight -> map; map, weight -> x; x, map -> weight.
  const int64_t first = role == Role::kTransposed ? made.map : made.x,
                second = role == Role::kWeightGradient ? made.map : made.weight,
                result = role == Role::kForward      ? made.map
                         : role == Role::kTransposed ? made.x
                                                     : made.weight;
  const auto runs = [&] {
    return made.plan && aligned_to_packs(c.input(0), c.input(1), c.output()) &&
           made.plan->run(launch_of(c).stream,
                          {{first, c.input(0).data}, {second, c.input(1).data}, {result, c.output().data}},
                          c.scratch);
  };
  if (runs()) {
    if constexpr (role == Role::kForward) finish_convolution(c, made.shape);
    return;
  }
  KernelContext plain = c;
  plain.prepared_ptr = &made.shape;
  if constexpr (role == Role::kForward) run_plain_convolution(plain);
  if constexpr (role == Role::kTransposed) run_plain_transposed(plain);
  if constexpr (role == Role::kWeightGradient) run_plain_weight_gradient(plain);
}

template <Role role>
KernelImpl implementation() {
  return {.name = "cudnn",
          .run = run<role>,
          .can_run = role == Role::kWeightGradient ? cudnn_declines_weight_gradient : cudnn_declines,
          .scratch_bytes = workspace_bytes,
          .prepare = prepare<role>};
}

}  // namespace

KernelImpl cudnn_convolution() { return implementation<Role::kForward>(); }
KernelImpl cudnn_transposed() { return implementation<Role::kTransposed>(); }
KernelImpl cudnn_weight_gradient() { return implementation<Role::kWeightGradient>(); }

}  // namespace genesis::cuda
