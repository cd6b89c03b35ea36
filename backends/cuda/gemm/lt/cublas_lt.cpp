#include "backends/cuda/gemm/lt/cublas_lt.h"

#include <algorithm>
#include <array>
#include <mutex>

#include "backends/cuda/runtime/libraries.h"
#include "backends/cuda/runtime/runtime.h"
#include "schema/core/error.h"

namespace genesis::cuda {
namespace {

// The library's functions, looked up once.
struct Functions {
  template <class F>
  static F find(const char* name) {
    return cublas_lt().function<F>(name);
  }
  decltype(&cublasLtCreate) create = find<decltype(&cublasLtCreate)>("cublasLtCreate");
  decltype(&cublasLtGetVersion) version = find<decltype(&cublasLtGetVersion)>("cublasLtGetVersion");
  decltype(&cublasLtMatmul) matmul = find<decltype(&cublasLtMatmul)>("cublasLtMatmul");
  decltype(&cublasLtMatmulAlgoCheck) algo_check =
      find<decltype(&cublasLtMatmulAlgoCheck)>("cublasLtMatmulAlgoCheck");
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic =
      find<decltype(&cublasLtMatmulAlgoGetHeuristic)>("cublasLtMatmulAlgoGetHeuristic");
  decltype(&cublasLtMatmulDescInit_internal) desc_init =
      find<decltype(&cublasLtMatmulDescInit_internal)>("cublasLtMatmulDescInit_internal");
  decltype(&cublasLtMatmulDescSetAttribute) desc_set =
      find<decltype(&cublasLtMatmulDescSetAttribute)>("cublasLtMatmulDescSetAttribute");
  decltype(&cublasLtMatrixLayoutInit_internal) layout_init =
      find<decltype(&cublasLtMatrixLayoutInit_internal)>("cublasLtMatrixLayoutInit_internal");
  decltype(&cublasLtMatrixLayoutSetAttribute) layout_set =
      find<decltype(&cublasLtMatrixLayoutSetAttribute)>("cublasLtMatrixLayoutSetAttribute");
  decltype(&cublasLtMatmulPreferenceInit_internal) preference_init =
      find<decltype(&cublasLtMatmulPreferenceInit_internal)>("cublasLtMatmulPreferenceInit_internal");
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set =
      find<decltype(&cublasLtMatmulPreferenceSetAttribute)>("cublasLtMatmulPreferenceSetAttribute");
};

const Functions& lt() {
  static const Functions functions;
  return functions;
}

void check_lt(cublasStatus_t status, const char* doing) {
  if (status != CUBLAS_STATUS_SUCCESS)
    fail("cuBLASLt failed (status {}) while {}", static_cast<int>(status), doing);
}

// One handle per device, for the life of the process.
cublasLtHandle_t handle() {
  static std::mutex mutex;
  static std::array<cublasLtHandle_t, 64> handles{};
  const int device = current_device();
  const std::lock_guard lock(mutex);
  cublasLtHandle_t& made = handles.at(static_cast<size_t>(device));
  if (!made) check_lt(lt().create(&made), "opening the library");
  return made;
}

cudaDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return CUDA_R_64F;
    case DType::f16:
      return CUDA_R_16F;
    case DType::bf16:
      return CUDA_R_16BF;
    default:
      return CUDA_R_32F;
  }
}

// Our rows become the library's columns.
cublasLtMatrixLayoutOpaque_t layout_of(DType dtype, int64_t rows, int64_t columns, int64_t ld, int64_t batch,
                                       int64_t stride) {
  cublasLtMatrixLayoutOpaque_t layout{};
  check_lt(lt().layout_init(&layout, sizeof layout, type_of(dtype), static_cast<uint64_t>(columns),
                            static_cast<uint64_t>(rows), ld),
           "describing a matrix");
  if (batch == 1) return layout;
  const auto count = static_cast<int32_t>(batch);
  check_lt(lt().layout_set(&layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count),
           "describing a batch");
  check_lt(lt().layout_set(&layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride),
           "describing a batch");
  return layout;
}

template <class T>
void set(cublasLtMatmulDescOpaque_t& operation, cublasLtMatmulDescAttributes_t attribute, const T& value) {
  check_lt(lt().desc_set(&operation, attribute, &value, sizeof value), "describing a product");
}

template <class T>
void set(cublasLtMatmulPreferenceOpaque_t& preference, cublasLtMatmulPreferenceAttributes_t attribute,
         const T& value) {
  check_lt(lt().preference_set(&preference, attribute, &value, sizeof value), "asking for algorithms");
}

cublasLtEpilogue_t epilogue_of(const GemmProblem& p) {
  switch (p.activation) {
    case Activation::kRelu:
      return p.has_bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
    case Activation::kGeluTanh:
      return p.has_bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
    default:
      return p.has_bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
  }
}

constexpr uintptr_t kSomeAddress = uintptr_t{1} << 20;  // only its alignment matters

}  // namespace

// The library's GELU is the tanh form with an approximate tanh: fine for 16 bits, too coarse for f32. Its ReLU turns
// NaN into 0, and ours keeps it.
bool lt_applies(Activation activation, DType dtype) {
  if (activation == Activation::kNone) return true;
  return activation == Activation::kGeluTanh && (dtype == DType::bf16 || dtype == DType::f16);
}

std::string lt_declines(const GemmProblem& p) {
  constexpr int64_t kMaxSize = (int64_t{1} << 31) - 1;  // the library's kernels may not support greater sizes
  if (p.batch * p.m * p.n == 0) return "the result is empty";
  if (p.k <= 0) return "nothing to sum";
  if (!is_float(p.in)) return "the operands are " + std::string(name_of(p.in));
  if (std::max({p.batch, p.m, p.n, p.k}) > kMaxSize) return "a size that takes more than 31 bits";
  if (p.batch > 1 && p.has_bias && p.stride_c == 0) return "a batch with a bias, all in one place";
  return "";
}

LtProduct::LtProduct(const GemmProblem& p, bool sums_a)
    : has_bias_(p.has_bias || sums_a), beta_(p.accumulate ? 1 : 0) {
  const bool wide = p.in == DType::f64;
  scale_ = wide ? CUDA_R_64F : CUDA_R_32F;
  // Partial sums of a split K are kept in the accumulator's type.
  reductions_ = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  if (size_of(p.out) > 2) reductions_ |= CUBLASLT_REDUCTION_SCHEME_INPLACE;
  check_lt(
      lt().desc_init(&operation_, sizeof operation_, wide ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F, scale_),
      "describing a product");
  set(operation_, CUBLASLT_MATMUL_DESC_TRANSA, p.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(operation_, CUBLASLT_MATMUL_DESC_TRANSB, p.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(operation_, CUBLASLT_MATMUL_DESC_EPILOGUE, sums_a ? CUBLASLT_EPILOGUE_BGRADB : epilogue_of(p));
  if (has_bias_)
    set(operation_, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE,
        static_cast<int32_t>(type_of(sums_a ? p.out : p.in)));
  a_ = layout_of(p.in, p.transpose_b ? p.n : p.k, p.transpose_b ? p.k : p.n, p.ldb, p.batch, p.stride_b);
  b_ = layout_of(p.in, p.transpose_a ? p.k : p.m, p.transpose_a ? p.m : p.k, p.lda, p.batch, p.stride_a);
  c_ = layout_of(p.out, p.m, p.n, p.ldc, p.batch, p.stride_c);
}

cublasLtMatmulDescOpaque_t LtProduct::with_bias(const void* bias) const {
  cublasLtMatmulDescOpaque_t operation = operation_;
  if (has_bias_) lt().desc_set(&operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias);
  return operation;
}

std::vector<LtAlgorithm> LtProduct::guesses(int count, uint32_t alignment) const {
  cublasLtMatmulPreferenceOpaque_t preference{};
  check_lt(lt().preference_init(&preference, sizeof preference), "asking for algorithms");
  set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<uint64_t>(kLtWorkspaceBytes));
  set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reductions_);
  for (const auto attribute :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    set(preference, attribute, alignment);
  auto operation = with_bias(reinterpret_cast<const void*>(kSomeAddress + alignment));
  std::vector<cublasLtMatmulHeuristicResult_t> results(static_cast<size_t>(count));
  int found = 0;
  auto a = a_, b = b_, c = c_;
  const cublasStatus_t status =
      lt().heuristic(handle(), &operation, &a, &b, &c, &c, &preference, count, results.data(), &found);
  if (status != CUBLAS_STATUS_SUCCESS) return {};
  std::vector<LtAlgorithm> algorithms;
  for (int i = 0; i < found; ++i)
    if (const auto& r = results[static_cast<size_t>(i)]; r.state == CUBLAS_STATUS_SUCCESS)
      algorithms.push_back({r.algo, r.workspaceSize});
  return algorithms;
}

bool LtProduct::accepts(const LtAlgorithm& algorithm) const {
  auto operation = with_bias(reinterpret_cast<const void*>(kSomeAddress));
  cublasLtMatmulHeuristicResult_t result{};
  auto a = a_, b = b_, c = c_;
  return lt().algo_check(handle(), &operation, &a, &b, &c, &c, &algorithm.algo, &result) ==
             CUBLAS_STATUS_SUCCESS &&
         result.workspaceSize <= static_cast<size_t>(kLtWorkspaceBytes);
}

bool LtProduct::run(const LtAlgorithm& algorithm, const GemmData& data) const {
  const float one = 1, beta = static_cast<float>(beta_);
  const double one_wide = 1;
  const bool wide = scale_ == CUDA_R_64F;
  const void* addend = data.addend ? data.addend : data.c;  // not read if beta is 0
  auto operation = with_bias(data.bias);
  auto a = a_, b = b_, c = c_;
  return lt().matmul(handle(), &operation, wide ? static_cast<const void*>(&one_wide) : &one, data.b, &a,
                     data.a, &b, wide ? static_cast<const void*>(&beta_) : &beta, addend, &c, data.c, &c,
                     &algorithm.algo, data.workspace, static_cast<size_t>(kLtWorkspaceBytes),
                     data.stream) == CUBLAS_STATUS_SUCCESS;
}

size_t lt_version() { return lt().version(); }

}  // namespace genesis::cuda
