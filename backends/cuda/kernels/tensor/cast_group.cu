// cast_group: one launch converts all tensors of a table, which is passed as a kernel parameter, each into its slice
// of a result. A block has a chunk of one tensor, and every thread has four loads of 16 bytes in flight.
#include "backends/cuda/rows/optimizer_update.h"
#include "schema/ops/tensor/cast_group.h"

namespace genesis::cuda {
namespace {

constexpr int64_t kCastChunk = 4 << 10;  // elements per block: one round, so that no block ends late
constexpr int kMaxCasts = 960;           // per launch: 32 KB of kernel parameters hold no more
constexpr int kInFlight = 4;

struct CastTensor {
  const void* x = nullptr;
  void* y = nullptr;
  int64_t n = 0;
  int32_t first_chunk = 0;
  DType dtype = DType::f32;  // dtype of x
  bool packed = false;
};

struct CastTable {
  int32_t count = 0, chunks = 0;
  CastTensor tensors[kMaxCasts];

  // Adds a tensor; returns false if the table is full and must be launched first.
  bool add(CastTensor tensor) {
    const int64_t more = blocks_for(tensor.n, kCastChunk);
    if (count == kMaxCasts || chunks + more > std::numeric_limits<int32_t>::max()) return false;
    tensor.first_chunk = chunks;
    chunks += static_cast<int32_t>(more);
    tensors[count++] = tensor;
    return true;
  }
};

// Returns the elements per access: the wider of the two types gets 16 bytes.
__host__ __device__ constexpr int pack_of(size_t x_size, size_t y_size) {
  return 16 / static_cast<int>(x_size > y_size ? x_size : y_size);
}

template <class X, class Y, int N>
__device__ void cast_chunk(const X* x, Y* y, int64_t first, int64_t last) {
  constexpr int64_t kTurn = kThreads * N;
  const int64_t packed = last / N * N;
  for (int64_t at = first + static_cast<int64_t>(threadIdx.x) * N; at < packed; at += kTurn * kInFlight) {
    Pack<X, N> from[kInFlight];
#pragma unroll
    for (int k = 0; k < kInFlight; ++k)
      if (at + k * kTurn < packed) from[k] = *reinterpret_cast<const Pack<X, N>*>(x + at + k * kTurn);
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) {
      if (at + k * kTurn >= packed) continue;
      Pack<Y, N> to;
#pragma unroll
      for (int j = 0; j < N; ++j) to.at[j] = converted<Y>(widen(from[k].at[j]));
      *reinterpret_cast<Pack<Y, N>*>(y + at + k * kTurn) = to;
    }
  }
  if (const int64_t i = packed + threadIdx.x; i < last) y[i] = converted<Y>(widen(x[i]));
}

template <class X, class Y>
__device__ void cast_chunk(const CastTensor& t, int64_t first) {
  constexpr int kPack = pack_of(sizeof(X), sizeof(Y));
  const int64_t last = min(t.n, first + kCastChunk);
  const X* x = static_cast<const X*>(t.x);
  Y* y = static_cast<Y*>(t.y);
  if (t.packed)
    cast_chunk<X, Y, kPack>(x, y, first, last);
  else
    cast_chunk<X, Y, 1>(x, y, first, last);
}

template <class Y>
__global__ void __launch_bounds__(kThreads, 4) cast_kernel(const __grid_constant__ CastTable table) {
  begin_in_order();
  const CastTensor& t = entry_of_block(table.tensors, table.count);
  const int64_t first = (static_cast<int64_t>(blockIdx.x) - t.first_chunk) * kCastChunk;
  if (t.dtype == DType::f32)
    cast_chunk<float, Y>(t, first);
  else if (t.dtype == DType::bf16)
    cast_chunk<__nv_bfloat16, Y>(t, first);
  else if (t.dtype == DType::f16)
    cast_chunk<__half, Y>(t, first);
  else
    cast_chunk<double, Y>(t, first);
}

void launch(const KernelContext& c, CastTable& table) {
  dispatch_float(c.attributes<ops::CastGroup>().dtype, [&](auto tag) {
    start_with_pdl(c, cast_kernel<typename decltype(tag)::type>, table.chunks, kThreads, 0, table);
  });
  table.count = table.chunks = 0;
}

CastTensor piece(const TensorView& x, std::byte* y, DType to) {
  const size_t from_size = size_of(x.dtype), to_size = size_of(to);
  const auto pack = static_cast<size_t>(pack_of(from_size, to_size));
  const bool packed = reinterpret_cast<uintptr_t>(x.data) % (pack * from_size) == 0 &&
                      reinterpret_cast<uintptr_t>(y) % (pack * to_size) == 0;
  return {.x = x.data, .y = y, .n = x.numel(), .dtype = x.dtype, .packed = packed};
}

void run_cast_group(const KernelContext& c) {
  const auto& op = c.attributes<ops::CastGroup>();
  CastTable table;
  int input = 0;
  for (size_t i = 0; i < op.parts.size(); ++i) {
    auto* y = c.outputs[i].as<std::byte>();
    for (int64_t part = 0; part < op.parts[i]; ++part) {
      const TensorView& x = c.input(input++);
      if (x.numel() == 0) continue;
      const CastTensor tensor = piece(x, y, op.dtype);
      if (!table.add(tensor)) {
        launch(c, table);
        table.add(tensor);
      }
      y += x.numel() * static_cast<int64_t>(size_of(op.dtype));
    }
  }
  launch(c, table);
}

constexpr OpKernel kOps[] = {{"cast_group", {.name = "one_launch", .run = run_cast_group}}};

}  // namespace

std::span<const OpKernel> cast_group_kernels() { return kOps; }

}  // namespace genesis::cuda
