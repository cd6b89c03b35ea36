#include "backends/cuda/cudnn/cudnn_graph.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <mutex>

#include "backends/cuda/runtime/cache_folder.h"
#include "backends/cuda/runtime/kept_file.h"
#include "backends/cuda/runtime/libraries.h"
#include "backends/cuda/runtime/runtime.h"
#include "schema/core/error.h"

namespace genesis::cuda {
namespace {

struct Functions {
  template <class F>
  static F find(const char* name) {
    return cudnn().function<F>(name);
  }
  decltype(&cudnnCreate) create = find<decltype(&cudnnCreate)>("cudnnCreate");
  decltype(&cudnnGetVersion) version = find<decltype(&cudnnGetVersion)>("cudnnGetVersion");
  decltype(&cudnnSetStream) set_stream = find<decltype(&cudnnSetStream)>("cudnnSetStream");
  decltype(&cudnnGetErrorString) error_string = find<decltype(&cudnnGetErrorString)>("cudnnGetErrorString");
  decltype(&cudnnGetLastErrorString) last_error =
      find<decltype(&cudnnGetLastErrorString)>("cudnnGetLastErrorString");
  decltype(&cudnnBackendCreateDescriptor) create_descriptor =
      find<decltype(&cudnnBackendCreateDescriptor)>("cudnnBackendCreateDescriptor");
  decltype(&cudnnBackendDestroyDescriptor) destroy_descriptor =
      find<decltype(&cudnnBackendDestroyDescriptor)>("cudnnBackendDestroyDescriptor");
  decltype(&cudnnBackendSetAttribute) set_attribute =
      find<decltype(&cudnnBackendSetAttribute)>("cudnnBackendSetAttribute");
  decltype(&cudnnBackendGetAttribute) get_attribute =
      find<decltype(&cudnnBackendGetAttribute)>("cudnnBackendGetAttribute");
  decltype(&cudnnBackendFinalize) finalize = find<decltype(&cudnnBackendFinalize)>("cudnnBackendFinalize");
  decltype(&cudnnBackendExecute) execute = find<decltype(&cudnnBackendExecute)>("cudnnBackendExecute");
};

const Functions& dnn() {
  static const Functions functions;
  return functions;
}

void check_dnn(cudnnStatus_t status, const char* doing) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  char details[256] = {};
  dnn().last_error(details, sizeof details - 1);
  fail("cuDNN failed while {}: {} {}", doing, dnn().error_string(status), details);
}

CudnnDescriptor make(cudnnBackendDescriptorType_t type) {
  cudnnBackendDescriptor_t made = nullptr;
  check_dnn(dnn().create_descriptor(type, &made), "making a descriptor");
  return CudnnDescriptor(made);
}

template <class T>
void set(const CudnnDescriptor& descriptor, cudnnBackendAttributeName_t name,
         cudnnBackendAttributeType_t type, int64_t count, const T* values) {
  check_dnn(dnn().set_attribute(descriptor.get(), name, type, count, values), "describing a graph");
}
template <class T>
void set_one(const CudnnDescriptor& descriptor, cudnnBackendAttributeName_t name,
             cudnnBackendAttributeType_t type, const T& value) {
  set(descriptor, name, type, 1, &value);
}
void link(const CudnnDescriptor& descriptor, cudnnBackendAttributeName_t name,
          cudnnBackendDescriptor_t other) {
  set_one(descriptor, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, other);
}
void finish(const CudnnDescriptor& descriptor, const char* doing) {
  check_dnn(dnn().finalize(descriptor.get()), doing);
}

std::mutex handles_mutex;  // a handle's stream is set by the thread that runs it

cudnnHandle_t handle_of_device() {
  static std::array<cudnnHandle_t, 64> handles{};
  const int device = current_device();
  const std::lock_guard lock(handles_mutex);
  cudnnHandle_t& made = handles.at(static_cast<size_t>(device));
  if (!made) check_dnn(dnn().create(&made), "opening the library");
  return made;
}

}  // namespace

void DestroyCudnn::operator()(void* descriptor) const { dnn().destroy_descriptor(descriptor); }

size_t cudnn_version() { return dnn().version(); }

cudnnDataType_t cudnn_type(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return CUDNN_DATA_HALF;
    case DType::bf16:
      return CUDNN_DATA_BFLOAT16;
    case DType::f64:
      return CUDNN_DATA_DOUBLE;
    default:
      return CUDNN_DATA_FLOAT;
  }
}

Dims dense(const Dims& d) { return {d[1] * d[2] * d[3], d[2] * d[3], d[3], 1}; }

int64_t CudnnGraph::add_tensor(cudnnDataType_t type, std::span<const int64_t> dims,
                               std::span<const int64_t> strides, bool is_virtual, bool by_value) {
  CudnnDescriptor tensor = make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  const auto name = static_cast<int64_t>(tensors_.size()) + 1;
  const int64_t alignment = 16;
  set_one(tensor, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, type);
  set(tensor, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, static_cast<int64_t>(dims.size()), dims.data());
  set(tensor, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, static_cast<int64_t>(strides.size()),
      strides.data());
  set_one(tensor, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, name);
  set_one(tensor, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, alignment);
  set_one(tensor, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, is_virtual);
  set_one(tensor, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, by_value);
  finish(tensor, "describing a tensor");
  tensors_.push_back(std::move(tensor));
  words_ += fmt::format("tensor {} {} {} {} {}\n", static_cast<int>(type), fmt::join(dims, ","),
                        fmt::join(strides, ","), is_virtual, by_value);
  return name;
}

int64_t CudnnGraph::tensor(cudnnDataType_t type, const Dims& dims, const Dims& strides) {
  return add_tensor(type, dims, strides, false, false);
}
int64_t CudnnGraph::tensor(cudnnDataType_t type, const std::vector<int64_t>& dims,
                           const std::vector<int64_t>& strides) {
  return add_tensor(type, dims, strides, false, false);
}
int64_t CudnnGraph::virtual_tensor(cudnnDataType_t type, const Dims& dims, const Dims& strides) {
  return add_tensor(type, dims, strides, true, false);
}
int64_t CudnnGraph::virtual_tensor(cudnnDataType_t type, const std::vector<int64_t>& dims,
                                   const std::vector<int64_t>& strides) {
  return add_tensor(type, dims, strides, true, false);
}
int64_t CudnnGraph::scalar(cudnnDataType_t type) {
  return add_tensor(type, Dims{1, 1, 1, 1}, Dims{1, 1, 1, 1}, false, true);
}

void CudnnGraph::matmul(int64_t a, int64_t b, int64_t c, const Lengths& lengths) {
  words_ += fmt::format("matmul {} {} {} {} {} {}\n", a, b, c, lengths.m, lengths.n, lengths.k);
  CudnnDescriptor how = make(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  set_one(how, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  finish(how, "describing a product");
  CudnnDescriptor operation = make(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  link(operation, CUDNN_ATTR_OPERATION_MATMUL_ADESC, at(a));
  link(operation, CUDNN_ATTR_OPERATION_MATMUL_BDESC, at(b));
  link(operation, CUDNN_ATTR_OPERATION_MATMUL_CDESC, at(c));
  link(operation, CUDNN_ATTR_OPERATION_MATMUL_DESC, how.get());
  if (lengths.m) link(operation, CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC, at(lengths.m));
  if (lengths.n) link(operation, CUDNN_ATTR_OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC, at(lengths.n));
  if (lengths.k) link(operation, CUDNN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC, at(lengths.k));
  finish(operation, "describing a product");
  details_.push_back(std::move(how));
  operations_.push_back(std::move(operation));
}

void CudnnGraph::pointwise(cudnnPointwiseMode_t mode, int64_t x, int64_t b, int64_t y, int64_t t,
                           cudnnDataType_t compute, int64_t axis) {
  words_ += fmt::format("pointwise {} {} {} {} {} {} {}\n", static_cast<int>(mode), x, b, y, t,
                        static_cast<int>(compute), axis);
  CudnnDescriptor how = make(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  set_one(how, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, mode);
  set_one(how, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, compute);
  if (axis >= 0) set_one(how, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, axis);
  add_pointwise(std::move(how), x, b, y, t);
}

void CudnnGraph::clamp(int64_t x, int64_t y, double upper) {
  words_ += fmt::format("clamp {} {} {}\n", x, y, upper);
  CudnnDescriptor how = make(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  set_one(how, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, CUDNN_POINTWISE_RELU_FWD);
  set_one(how, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  set_one(how, CUDNN_ATTR_POINTWISE_NAN_PROPAGATION, CUDNN_TYPE_NAN_PROPOGATION, CUDNN_PROPAGATE_NAN);
  set_one(how, CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP, CUDNN_TYPE_DOUBLE, upper);
  add_pointwise(std::move(how), x, 0, y, 0);
}

void CudnnGraph::add_pointwise(CudnnDescriptor how, int64_t x, int64_t b, int64_t y, int64_t t) {
  finish(how, "describing an elementwise operation");
  CudnnDescriptor operation = make(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  link(operation, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how.get());
  link(operation, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, at(x));
  if (b) link(operation, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, at(b));
  if (t) link(operation, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, at(t));
  link(operation, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, at(y));
  finish(operation, "describing an elementwise operation");
  details_.push_back(std::move(how));
  operations_.push_back(std::move(operation));
}

void CudnnGraph::reduce(cudnnReduceTensorOp_t op, int64_t x, int64_t y) {
  words_ += fmt::format("reduce {} {} {}\n", static_cast<int>(op), x, y);
  CudnnDescriptor how = make(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  set_one(how, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, op);
  set_one(how, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  finish(how, "describing a reduction");
  CudnnDescriptor operation = make(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  link(operation, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, at(x));
  link(operation, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, at(y));
  link(operation, CUDNN_ATTR_OPERATION_REDUCTION_DESC, how.get());
  finish(operation, "describing a reduction");
  details_.push_back(std::move(how));
  operations_.push_back(std::move(operation));
}

void CudnnGraph::reshape(int64_t x, int64_t y) {
  words_ += fmt::format("reshape {} {}\n", x, y);
  CudnnDescriptor operation = make(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
  link(operation, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, at(x));
  link(operation, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, at(y));
  finish(operation, "describing a reshape");
  operations_.push_back(std::move(operation));
}

CudnnDescriptor CudnnGraph::convolution_descriptor(const Convolution& how) {
  CudnnDescriptor descriptor = make(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  const auto axes = static_cast<int64_t>(how.strides.size());
  const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
  set_one(descriptor, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, how.compute);
  set_one(descriptor, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, mode);
  set_one(descriptor, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, axes);
  set(descriptor, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, axes, how.dilations.data());
  set(descriptor, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, axes, how.strides.data());
  set(descriptor, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, axes, how.pads_begin.data());
  set(descriptor, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, axes, how.pads_end.data());
  finish(descriptor, "describing a convolution");
  return descriptor;
}

void CudnnGraph::add_convolution(const Convolution& how, cudnnBackendDescriptorType_t type,
                                 cudnnBackendAttributeName_t descriptor, cudnnBackendAttributeName_t alpha,
                                 cudnnBackendAttributeName_t beta,
                                 const std::array<ConvolutionRole, 3>& roles) {
  words_ += fmt::format("convolution {} {} {} {} {} {} {} {} {}\n", static_cast<int>(type), roles[0].tensor,
                        roles[1].tensor, roles[2].tensor, static_cast<int>(how.compute),
                        fmt::join(how.strides, ","), fmt::join(how.dilations, ","),
                        fmt::join(how.pads_begin, ","), fmt::join(how.pads_end, ","));
  CudnnDescriptor convolution = convolution_descriptor(how), operation = make(type);
  link(operation, descriptor, convolution.get());
  for (const ConvolutionRole& role : roles) link(operation, role.name, at(role.tensor));
  const float one = 1, zero = 0;
  set_one(operation, alpha, CUDNN_TYPE_FLOAT, one);
  set_one(operation, beta, CUDNN_TYPE_FLOAT, zero);
  finish(operation, "describing a convolution");
  details_.push_back(std::move(convolution));
  operations_.push_back(std::move(operation));
}

void CudnnGraph::convolution(const Convolution& how, int64_t x, int64_t w, int64_t y) {
  add_convolution(how, CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                  CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                  CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                  CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
                  {{{CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, x},
                    {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, w},
                    {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, y}}});
}
void CudnnGraph::convolution_input_gradient(const Convolution& how, int64_t dx, int64_t w, int64_t dy) {
  add_convolution(how, CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                  CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                  CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                  CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
                  {{{CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, dx},
                    {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, w},
                    {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, dy}}});
}
void CudnnGraph::convolution_weight_gradient(const Convolution& how, int64_t x, int64_t dw, int64_t dy) {
  add_convolution(how, CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                  CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                  CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                  CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
                  {{{CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, x},
                    {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, dw},
                    {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, dy}}});
}

// Returns false if the choice rounds f32 operands, or adds in the order in which blocks finish, and the graph forbids it.
bool CudnnGraph::may_use(const CudnnDescriptor& choice) const {
  if (!in_order_) return true;
  const CudnnDescriptor engine = make(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  cudnnBackendDescriptor_t raw = engine.get();
  int64_t count = 0;
  std::array<cudnnBackendNumericalNote_t, CUDNN_NUMERICAL_NOTE_TYPE_COUNT> notes{};
  if (dnn().get_attribute(choice.get(), CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count,
                          &raw) != CUDNN_STATUS_SUCCESS ||
      dnn().get_attribute(engine.get(), CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                          CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &count, notes.data()) != CUDNN_STATUS_SUCCESS)
    return false;
  return std::none_of(notes.begin(), notes.begin() + count, [&](cudnnBackendNumericalNote_t note) {
    const bool rounds =
        note == CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS || note == CUDNN_NUMERICAL_NOTE_TENSOR_CORE;
    return note == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC ||
           note == CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION || (full_precision_ && rounds);
  });
}

namespace {

// Returns cuDNN's engine configurations for a graph, its best first.
std::vector<CudnnDescriptor> choices_for(const CudnnDescriptor& graph, cudnnBackendHeurMode_t mode) {
  CudnnDescriptor heuristic = make(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  link(heuristic, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph.get());
  set_one(heuristic, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, mode);
  finish(heuristic, "asking for plans");
  int64_t count = 0;
  check_dnn(dnn().get_attribute(heuristic.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                0, &count, nullptr),
            "asking for plans");
  std::vector<CudnnDescriptor> choices;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (int64_t i = 0; i < count; ++i) {
    choices.push_back(make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR));
    raw.push_back(choices.back().get());
  }
  if (count > 0)
    check_dnn(dnn().get_attribute(heuristic.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                  CUDNN_TYPE_BACKEND_DESCRIPTOR, count, &count, raw.data()),
              "asking for plans");
  choices.resize(static_cast<size_t>(count));
  return choices;
}

// Devices with equal texts can run the same plans.
std::string words_of_device() {
  const Chip& chip = current_chip();
  int driver = 0;
  check(cudaDriverGetVersion(&driver), "asking for the driver's version");
  return fmt::format("{} {} {}.{} {}", chip.name, chip.multiprocessors, chip.major, chip.minor, driver);
}

int64_t workspace_of(const CudnnDescriptor& plan) {
  int64_t count = 0, bytes = 0;
  check_dnn(dnn().get_attribute(plan.get(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1,
                                &count, &bytes),
            "asking for a workspace's size");
  return bytes;
}

}  // namespace

CudnnPlan CudnnGraph::plan(int64_t workspace_limit) {
  const auto folder = cache_folder();
  if (!folder) return make_plan(workspace_limit);
  const auto path = *folder / (hash_text(fmt::format("cuDNN {} {}\n{}\n{}", cudnn_version(), workspace_limit,
                                                     words_of_device(), words_)) +
                               ".plan");
  try {
    if (const auto kept = read_kept(path)) return CudnnPlan::restored(*kept);
  } catch (const Error&) {  // then it is made again
  }
  CudnnPlan made = make_plan(workspace_limit);
  if (const std::string text = made.text(); !text.empty()) keep(path, text);
  return made;
}

CudnnPlan CudnnPlan::restored(const std::string& text) {
  CudnnPlan made;
  made.handle_ = handle_of_device();
  made.plan_ = make(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  set_one(made.plan_, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, made.handle_);
  set(made.plan_, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
      static_cast<int64_t>(text.size()), text.data());
  finish(made.plan_, "restoring a plan");
  return made;
}

// Returns the plan as text; empty if cuDNN cannot serialize it.
std::string CudnnPlan::text() const {
  int64_t size = 0;
  if (dnn().get_attribute(plan_.get(), CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, 0,
                          &size, nullptr) != CUDNN_STATUS_SUCCESS)
    return "";
  std::string text(static_cast<size_t>(size), '\0');
  if (dnn().get_attribute(plan_.get(), CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, size,
                          &size, text.data()) != CUDNN_STATUS_SUCCESS)
    return "";
  text.resize(static_cast<size_t>(size));
  return text;
}

CudnnPlan CudnnGraph::make_plan(int64_t workspace_limit) {
  const cudnnHandle_t handle = handle_of_device();
  CudnnDescriptor graph = make(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  std::vector<cudnnBackendDescriptor_t> raw;
  for (const auto& operation : operations_) raw.push_back(operation.get());
  set_one(graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, handle);
  set(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, static_cast<int64_t>(raw.size()),
      raw.data());
  finish(graph, "putting a graph together");
  std::string why = "it knows no plan";
  std::vector<CudnnDescriptor> choices = choices_for(graph, CUDNN_HEUR_MODE_A);
  if (in_order_)  // the order may rule out all of the best
    for (CudnnDescriptor& choice : choices_for(graph, CUDNN_HEUR_MODE_FALLBACK))
      choices.push_back(std::move(choice));
  for (const CudnnDescriptor& choice : choices) {
    if (!may_use(choice)) continue;
    CudnnDescriptor plan = make(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    link(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, choice.get());
    set_one(plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, handle);
    if (const cudnnStatus_t status = dnn().finalize(plan.get()); status != CUDNN_STATUS_SUCCESS) {
      why = dnn().error_string(status);
      continue;
    }
    if (const int64_t bytes = workspace_of(plan); bytes > workspace_limit) {
      why = fmt::format("its plan needs {} bytes of workspace, {} are booked", bytes, workspace_limit);
      continue;
    }
    CudnnPlan made;
    made.handle_ = handle;
    made.plan_ = std::move(plan);
    return made;
  }
  fail("cuDNN does not run this graph: {}", why);
}

bool CudnnPlan::run(cudaStream_t stream, const std::vector<std::pair<int64_t, void*>>& pointers,
                    void* workspace) const {
  std::vector<int64_t> names;
  std::vector<void*> addresses;
  for (const auto& [name, address] : pointers) {
    names.push_back(name);
    addresses.push_back(address);
  }
  cudnnBackendDescriptor_t pack = nullptr;
  if (dnn().create_descriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack) != CUDNN_STATUS_SUCCESS)
    return false;
  const CudnnDescriptor owner(pack);
  const auto count = static_cast<int64_t>(names.size());
  const auto attribute = [&](cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t n,
                             const void* values) {
    return dnn().set_attribute(pack, name, type, n, values) == CUDNN_STATUS_SUCCESS;
  };
  if (!attribute(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, names.data()) ||
      !attribute(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count, addresses.data()) ||
      !attribute(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace) ||
      dnn().finalize(pack) != CUDNN_STATUS_SUCCESS)
    return false;
  const std::lock_guard lock(handles_mutex);
  return dnn().set_stream(handle_, stream) == CUDNN_STATUS_SUCCESS &&
         dnn().execute(handle_, plan_.get(), pack) == CUDNN_STATUS_SUCCESS;
}

}  // namespace genesis::cuda
