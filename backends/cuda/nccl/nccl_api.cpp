#include "backends/cuda/nccl/nccl_api.h"

#include "backends/cuda/runtime/libraries.h"
#include "schema/core/error.h"

namespace genesis::cuda::nccl {
namespace {

constexpr int kOldest = 21800;  // in NCCL's numbering: major * 10000 + minor * 100 + patch

Api open() {
  Library library("NCCL, over which GPUs exchange data,", {"libnccl.so.2"});
  Api api{};
  const auto find = [&](auto& function, const char* name) {
    function = library.function<std::remove_reference_t<decltype(function)>>(name);
  };
  find(api.get_version, "ncclGetVersion");
  int version = 0;
  if (api.get_version(&version) != kSuccess || version < kOldest)
    fail("NCCL {}.{} is too old: 2.18 or a later one is needed", version / 10000, version / 100 % 100);
  find(api.get_unique_id, "ncclGetUniqueId");
  find(api.init_rank, "ncclCommInitRank");
  find(api.split, "ncclCommSplit");
  find(api.destroy, "ncclCommDestroy");
  find(api.abort, "ncclCommAbort");
  find(api.get_async_error, "ncclCommGetAsyncError");
  find(api.error_string, "ncclGetErrorString");
  find(api.last_error, "ncclGetLastError");
  find(api.group_start, "ncclGroupStart");
  find(api.group_end, "ncclGroupEnd");
  find(api.all_reduce, "ncclAllReduce");
  find(api.reduce_scatter, "ncclReduceScatter");
  find(api.all_gather, "ncclAllGather");
  find(api.broadcast, "ncclBroadcast");
  find(api.send, "ncclSend");
  find(api.receive, "ncclRecv");
  return api;
}

Type type_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return kFloat32;
    case DType::f64:
      return kFloat64;
    case DType::f16:
      return kFloat16;
    case DType::bf16:
      return kBfloat16;
    case DType::i8:
      return kInt8;
    case DType::i32:
      return kInt32;
    case DType::i64:
      return kInt64;
    default:
      return kUint8;
  }
}

std::string why_not_reduced(DType dtype, RankReduction reduction) {
  const bool is_sum = reduction == RankReduction::kSum || reduction == RankReduction::kMean;
  if (dtype == DType::i16) return "NCCL reduces no i16: cast to i32 ahead";
  if (dtype == DType::boolean && is_sum) return "ranks' bools have no sum, only max and min";
  if (!is_float(dtype) && reduction == RankReduction::kMean) return "only floats have a mean over ranks";
  return "";
}

}  // namespace

const Api& api() {
  static const Api functions = open();
  return functions;
}

Arithmetic arithmetic(DType dtype, RankReduction reduction) {
  constexpr Reduction kReductions[] = {kSum, kAverage, kMax, kMin};  // in the order of RankReduction
  return {type_of(dtype), kReductions[static_cast<int>(reduction)], why_not_reduced(dtype, reduction)};
}

}  // namespace genesis::cuda::nccl
