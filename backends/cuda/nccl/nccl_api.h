// The subset of NCCL's C interface that we call, declared here because few systems have nccl.h. Numbers and
// signatures have not changed since 2.18 (ncclCommSplit); a test compares them with nccl.h if there is one.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <string>

#include "schema/core/dtype.h"
#include "schema/ranks/rank_reduction.h"

namespace genesis::cuda::nccl {

struct Comm;  // opaque: one rank's end of a communicator
struct UniqueId {
  char bytes[128];
};  // passed by value
enum Result : int { kSuccess = 0, kInProgress = 7 };
enum Type : int {
  kInt8 = 0,
  kUint8 = 1,
  kInt32 = 2,
  kInt64 = 4,
  kFloat16 = 6,
  kFloat32 = 7,
  kFloat64 = 8,
  kBfloat16 = 9
};
enum Reduction : int { kSum = 0, kMax = 2, kMin = 3, kAverage = 4 };

struct Api {
  Result (*get_version)(int* version);
  Result (*get_unique_id)(UniqueId* id);
  Result (*init_rank)(Comm** comm, int ranks, UniqueId id, int rank);
  Result (*split)(Comm* comm, int color, int key, Comm** part, void* config);  // config: null
  Result (*destroy)(Comm* comm);
  Result (*abort)(Comm* comm);
  Result (*get_async_error)(Comm* comm, Result* error);
  const char* (*error_string)(Result result);
  const char* (*last_error)(Comm* comm);
  Result (*group_start)();
  Result (*group_end)();
  Result (*all_reduce)(const void* from, void* to, size_t count, Type, Reduction, Comm*, cudaStream_t);
  Result (*reduce_scatter)(const void* from, void* to, size_t count, Type, Reduction, Comm*, cudaStream_t);
  Result (*all_gather)(const void* from, void* to, size_t count, Type, Comm*, cudaStream_t);
  Result (*broadcast)(const void* from, void* to, size_t count, Type, int root, Comm*, cudaStream_t);
  Result (*send)(const void* from, size_t count, Type, int peer, Comm*, cudaStream_t);
  Result (*receive)(void* to, size_t count, Type, int peer, Comm*, cudaStream_t);
};

// Returns NCCL's functions; the library is opened at the first call. Throws Error if NCCL is missing or older than
// 2.18.
const Api& api();

// NCCL's type and reduction for elements of a dtype; `why_not` is empty, or says why NCCL cannot reduce them.
struct Arithmetic {
  Type type = kUint8;
  Reduction reduction = kSum;
  std::string why_not;
};
Arithmetic arithmetic(DType dtype, RankReduction reduction);

}  // namespace genesis::cuda::nccl
