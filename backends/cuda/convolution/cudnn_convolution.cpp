#include "backends/cuda/convolution/cudnn_convolution.h"

#include <cmath>
#include <limits>

#include "backends/cuda/convolution/trial.h"
#include "backends/cuda/convolution/window_kernels.h"
#include "backends/cuda/cudnn/cudnn_graph.h"
#include "backends/cuda/device/packs.h"
#include "backends/cuda/runtime/chips.h"
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
constexpr int64_t kFewChannels = 8;
// Plans of less work are not measured: they take about as long as their launch.
constexpr int64_t kMeasuredProducts = 2'000'000;

struct Convolving {
  ConvolutionShape shape;              // first, because the plain kernels read it
  std::optional<CudnnPlan> plan = {};  // none: the plain kernels run
  bool has_epilogue = false;           // the plan applies it
  int64_t x = 0, weight = 0, map = 0;
  int64_t scale = 0, bias = 0, addend = 0, three = 0, sixth = 0;  // operands of the epilogue; 0: none
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
size_t first_axis(const WindowShape& windows) { return is_single(windows.axis[0]) ? 1 : 0; }

template <class Size>
std::vector<int64_t> dims_of(int64_t batch, int64_t channels, const WindowShape& windows, const Size& size) {
  std::vector<int64_t> dims = {batch, channels};
  for (size_t i = first_axis(windows); i < kMaxSpatialAxes; ++i) dims.push_back(size(windows.axis[i]));
  return dims;
}

// Strides of dense tensors whose dims are [batch, channels, ...], where the channels may lie last in memory.
std::vector<int64_t> strides_of(const std::vector<int64_t>& dims, bool channels_last) {
  std::vector<int64_t> strides(dims.size(), 1);
  int64_t step = channels_last ? dims[1] : 1;
  for (size_t i = dims.size() - 1; i > 1; --i) strides[i] = step, step *= dims[i];
  strides[1] = channels_last ? 1 : step;
  strides[0] = channels_last ? step : step * dims[1];
  return strides;
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

// Adds the epilogue of a forward convolution between its sums, which are never in memory, and the result.
class Epilogue {
 public:
  Epilogue(Convolving& c, CudnnGraph& graph, std::vector<int64_t> dims)
      : c_(c), graph_(graph), dims_(std::move(dims)), strides_(strides_of(dims_, c.shape.channels_last)) {}

  int64_t between() { return graph_.virtual_tensor(CUDNN_DATA_FLOAT, dims_, strides_); }

  void add(int64_t sums, const KernelQuery& query) {
    const ConvolutionShape& s = c_.shape;
    std::vector<std::pair<cudnnPointwiseMode_t, int64_t>> steps;
    if (s.has_scale) steps.emplace_back(CUDNN_POINTWISE_MUL, c_.scale = vector(query.inputs[2]));
    if (s.has_bias)
      steps.emplace_back(CUDNN_POINTWISE_ADD,
                         c_.bias = vector(query.inputs[static_cast<size_t>(s.bias_input())]));
    if (s.has_addend)
      steps.emplace_back(CUDNN_POINTWISE_ADD,
                         c_.addend = graph_.tensor(cudnn_type(s.dtype), dims_, strides_));
    const bool is_last = s.activation == ConvolutionActivation::kNone;
    for (size_t i = 0; i < steps.size(); ++i) {
      const int64_t to = is_last && i + 1 == steps.size() ? c_.map : between();
      graph_.pointwise(steps[i].first, sums, steps[i].second, to);
      sums = to;
    }
    if (!is_last) activate(sums);
  }

 private:
  int64_t vector(const TensorType& type) {
    std::vector<int64_t> dims(dims_.size(), 1);
    dims[1] = dims_[1];
    return graph_.tensor(cudnn_type(type.dtype), dims, strides_of(dims, c_.shape.channels_last));
  }

  // hardswish(x) = x * clamp(x + 3) * (1 / 6)
  void activate(int64_t x) {
    if (c_.shape.activation == ConvolutionActivation::kSilu)
      return graph_.pointwise(CUDNN_POINTWISE_SWISH_FWD, x, 0, c_.map);
    if (c_.shape.activation == ConvolutionActivation::kSigmoid)
      return graph_.pointwise(CUDNN_POINTWISE_SIGMOID_FWD, x, 0, c_.map);
    const auto upper =
        c_.shape.activation == ConvolutionActivation::kRelu ? double{std::numeric_limits<float>::max()} : 6.0;
    if (c_.shape.activation != ConvolutionActivation::kHardswish) return graph_.clamp(x, c_.map, upper);
    c_.three = graph_.scalar(CUDNN_DATA_FLOAT), c_.sixth = graph_.scalar(CUDNN_DATA_FLOAT);
    const int64_t moved = between(), gate = between(), product = between();
    graph_.pointwise(CUDNN_POINTWISE_ADD, x, c_.three, moved);
    graph_.clamp(moved, gate, upper);
    graph_.pointwise(CUDNN_POINTWISE_MUL, x, gate, product);
    graph_.pointwise(CUDNN_POINTWISE_MUL, product, c_.sixth, c_.map);
  }

  Convolving& c_;
  CudnnGraph& graph_;
  std::vector<int64_t> dims_, strides_;
};

bool has_epilogue(const ConvolutionShape& s) {
  return s.has_scale || s.has_bias || s.has_addend || s.activation != ConvolutionActivation::kNone;
}

template <Role role>
bool start(const KernelContext& c, const Convolving& made, const CudnnPlan& plan);

template <Role role>
void make_plan(Convolving& c, const KernelQuery& query) {
  const ConvolutionShape& s = c.shape;
  const cudnnDataType_t type = cudnn_type(s.dtype);
  CudnnGraph graph;
  graph.require_exact_plans(s.dtype == DType::f32);
  const auto tensor = [&](const std::vector<int64_t>& dims) {
    return graph.tensor(type, dims, strides_of(dims, s.channels_last));
  };
  const auto positions =
      dims_of(s.batch, s.out(), s.windows, [](const WindowAxis& a) { return a.positions; });
  c.x = tensor(dims_of(s.batch, s.in(), s.windows, [](const WindowAxis& a) { return a.size; }));
  c.weight = tensor(dims_of(s.out(), s.in_each, s.windows, [](const WindowAxis& a) { return a.taps; }));
  c.map = tensor(positions);
  const CudnnGraph::Convolution how = moves_of(s.windows);
  if constexpr (role == Role::kForward) {
    Epilogue epilogue(c, graph, positions);
    const int64_t sums = c.has_epilogue ? epilogue.between() : c.map;
    graph.convolution(how, c.x, c.weight, sums);
    if (c.has_epilogue) epilogue.add(sums, query);
  }
  if constexpr (role == Role::kTransposed) graph.convolution_input_gradient(how, c.x, c.weight, c.map);
  if constexpr (role == Role::kWeightGradient) graph.convolution_weight_gradient(how, c.x, c.weight, c.map);
  std::optional<Trial> trial;
  const auto measure = [&](const CudnnPlan& plan, float best) {
    if (!trial) trial.emplace(query, workspace_bytes(query));
    return trial->ms([&](const KernelContext& context) { return start<role>(context, c, plan); }, best);
  };
  if (!c.has_epilogue && has_epilogue(s))  // start() applies it in a kernel of its own
    graph.note(fmt::format("epilogue {} {} {} {}", s.has_scale, s.has_bias, s.has_addend,
                           static_cast<int>(s.activation)));
  const bool pays = s.batch * s.out() * s.windows.positions() * s.depth() >= kMeasuredProducts;
  c.plan = graph.plan(workspace_bytes(query), pays ? CudnnGraph::Measure(measure) : CudnnGraph::Measure());
}

// Returns the node with a plan that applies the epilogue as the attributes say, or not at all.
template <Role role>
std::shared_ptr<Convolving> planned(const KernelQuery& query, bool with_epilogue) {
  auto made = std::make_shared<Convolving>(Convolving{convolution_shape(query)});
  made->has_epilogue = with_epilogue;
  if (!cudnn().available()) return made;
  try {
    make_plan<role>(*made, query);
  } catch (const Error& error) {
    log_debug("cuDNN does not convolve {} by {}{}: {}", query.inputs[0].to_string(),
              query.inputs[1].to_string(), with_epilogue ? " with an epilogue" : "", error.what());
  }
  return made;
}

// Returns the least milliseconds that a convolution takes whose epilogue reads and writes its result once more.
float least_apart_ms(const KernelQuery& query, const ConvolutionShape& s) {
  constexpr double kPeak = 2;  // products may be this much faster than the chip is planned to multiply
  const PlannedChip& chip = planned_chip();
  const auto bytes_of = [](const TensorType& type) { return static_cast<double>(type.bytes()); };
  const double products = static_cast<double>(s.batch * s.out() * s.windows.positions()) *
                          static_cast<double>(s.depth()) * 2 / (kPeak * chip.flops_per_second),
               result = bytes_of(query.outputs[0]) / chip.bytes_per_second,
               operands = (bytes_of(query.inputs[0]) + bytes_of(query.inputs[1])) / chip.bytes_per_second;
  return static_cast<float>(1e3 * (std::max(products, operands + result) + 2 * result));
}

// Returns whether cuDNN fuses the epilogue of a forward convolution: in 16 bits with the channels last. Version 9 has no function for
// both forms of gelu, and left out an addend without an activation on an H200 (136 to 72 channels, windows of 3 x 3), also where the
// bias was added last or an identity followed.
bool fuses(const ConvolutionShape& s) {
  using enum ConvolutionActivation;
  const bool is_gelu = s.activation == kGelu || s.activation == kGeluTanh;
  const bool loses_addend = s.activation == kNone && s.has_addend;
  return has_epilogue(s) && s.channels_last && is_low_precision(s.dtype) && !is_gelu && !loses_addend;
}

// Other epilogues are a kernel of their own, and so are those that take less time apart: the 7 x 7 windows of ResNet-50 over colors took
// 3.2 ms with an epilogue and 1.7 ms without (batch 256, H200).
template <Role role>
std::shared_ptr<const void> prepare_cudnn_role(const KernelQuery& query) {
  const ConvolutionShape s = convolution_shape(query);
  if (role != Role::kForward || !fuses(s)) return planned<role>(query, false);
  auto fused = planned<role>(query, true);
  if (fused->plan && fused->plan->ms() <= least_apart_ms(query, s)) return fused;
  auto apart = planned<role>(query, false);
  if (!fused->plan || !apart->plan) return fused->plan ? fused : apart;
  const bool measured = std::isfinite(fused->plan->ms()) && std::isfinite(apart->plan->ms());
  return (measured ? fused->plan->ms() <= apart->plan->ms() : s.in() > kFewChannels) ? fused : apart;
}

using Pointers = std::vector<std::pair<int64_t, void*>>;

void add_epilogue(const KernelContext& c, const Convolving& made, Pointers& pointers) {
  static float three = 3, sixth = 1.0f / 6;
  const ConvolutionShape& s = made.shape;
  const auto input = [&](int64_t name, int64_t i) {
    if (name) pointers.emplace_back(name, c.input(static_cast<int>(i)).data);
  };
  input(made.scale, 2);
  input(made.bias, s.bias_input());
  input(made.addend, s.addend_input());
  if (made.three) pointers.emplace_back(made.three, &three), pointers.emplace_back(made.sixth, &sixth);
}

// Returns false if cuDNN cannot start the plan on these operands.
template <Role role>
bool start(const KernelContext& c, const Convolving& made, const CudnnPlan& plan) {
  if (!aligned_to_packs(c.input(0), c.input(1), c.output())) return false;
  // Operands in the order of the op: x, weight -> map; map, weight -> x; x, map -> weight.
  const int64_t first = role == Role::kTransposed ? made.map : made.x,
                second = role == Role::kWeightGradient ? made.map : made.weight,
                result = role == Role::kForward      ? made.map
                         : role == Role::kTransposed ? made.x
                                                     : made.weight;
  Pointers pointers = {{first, c.input(0).data}, {second, c.input(1).data}, {result, c.output().data}};
  if (made.has_epilogue) add_epilogue(c, made, pointers);
  if (!plan.run(launch_of(c).stream, pointers, c.scratch)) return false;
  if (role == Role::kForward && !made.has_epilogue) finish_convolution(c, made.shape);
  return true;
}

template <Role role>
void run_cudnn_role(const KernelContext& c) {
  const auto& made = c.prepared<Convolving>();
  if (made.plan && start<role>(c, made, *made.plan)) return;
  KernelContext plain = c;
  plain.prepared_ptr = &made.shape;
  if constexpr (role == Role::kForward) run_plain_convolution(plain);
  if constexpr (role == Role::kTransposed) run_plain_transposed(plain);
  if constexpr (role == Role::kWeightGradient) run_plain_weight_gradient(plain);
}

template <Role role>
KernelImpl implementation() {
  return {.name = "cudnn",
          .run = run_cudnn_role<role>,
          .can_run = role == Role::kWeightGradient ? cudnn_declines_weight_gradient : cudnn_declines,
          .scratch_bytes = workspace_bytes,
          .prepare = prepare_cudnn_role<role>};
}

}  // namespace

KernelImpl cudnn_convolution() { return implementation<Role::kForward>(); }
KernelImpl cudnn_transposed() { return implementation<Role::kTransposed>(); }
KernelImpl cudnn_weight_gradient() { return implementation<Role::kWeightGradient>(); }

}  // namespace genesis::cuda
