// Creates tensors from attributes and from indices. Fills store 16 bytes at a time.
#include "schema/ops/create.h"

#include <cstring>

#include "backends/cuda/device/packs.h"
#include "backends/cuda/moves/moves.h"

namespace genesis::cuda {
namespace {

std::shared_ptr<const void> filled(const KernelQuery& query, std::array<std::byte, 8> pattern) {
  const int64_t dims[] = {query.outputs[0].numel()};
  auto moves = std::make_shared<Moves>();
  moves->pattern = pattern;
  surround_with_pattern(*moves, dims, {{0}, {0}, {1}},
                             static_cast<int64_t>(size_of(query.outputs[0].dtype)));
  return moves;
}

std::shared_ptr<const void> prepare_full(const KernelQuery& query) {
  const auto op = from_attributes<ops::Full>(query.attributes);
  return filled(query, pattern_of(op.dtype, op.value));
}

std::shared_ptr<const void> prepare_dim_value(const KernelQuery& query) {
  const auto op = from_attributes<ops::DimValue>(query.attributes);
  return filled(query, pattern_of(op.dtype, op.dim[0].value()));
}

// Computes start + i * step, in integers if both are integers and in double otherwise, then rounds.
template <class T>
struct Steps {
  T* y;
  bool whole;
  uint64_t whole_start, whole_step;
  double start, step;

  __device__ void operator()(int64_t i) const {
    if (whole)
      y[i] = converted<T>(static_cast<int64_t>(whole_start + static_cast<uint64_t>(i) * whole_step));
    else
      y[i] = converted<T>(__dadd_rn(start, __dmul_rn(static_cast<double>(i), step)));
  }
};

void run_arange(const KernelContext& c) {
  const auto& op = c.attributes<ops::Arange>();
  dispatch_any(op.dtype, [&](auto tag) {
    Steps<typename decltype(tag)::type> steps{};
    steps.y = c.output().as<typename decltype(tag)::type>();
    steps.whole = op.start.is_integer() && op.step.is_integer();
    if (steps.whole) {
      steps.whole_start = static_cast<uint64_t>(op.start.as_integer());
      steps.whole_step = static_cast<uint64_t>(op.step.as_integer());
    } else {
      steps.start = op.start.as_double(), steps.step = op.step.as_double();
    }
    for_each(c, c.output().numel(), steps);
  });
}

template <class T>
struct OneHot {
  const void* indices;
  DType index_type;
  T* y;
  int64_t packs, classes;
  Divisor packs_per_row;
  bool small;
  T one;
  FaultReport fault;
};

__device__ int64_t index_at(const void* indices, DType dtype, uint64_t i) {
  switch (dtype) {
    case DType::i8:
      return static_cast<const int8_t*>(indices)[i];
    case DType::u8:
      return static_cast<const uint8_t*>(indices)[i];
    case DType::i16:
      return static_cast<const int16_t*>(indices)[i];
    case DType::i32:
      return static_cast<const int32_t*>(indices)[i];
    default:
      return static_cast<const int64_t*>(indices)[i];
  }
}

template <class T, int N>
__global__ void one_hot(OneHot<T> op) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= op.packs) return;
  const FlatIndex at = divide(static_cast<uint64_t>(i), op.packs_per_row, op.small);
  const int64_t index = index_at(op.indices, op.index_type, at.quotient);
  if (at.remainder == 0 && (index < 0 || index >= op.classes)) op.fault(index, op.classes);
  const int64_t first = static_cast<int64_t>(at.remainder) * N;
  Pack<T, N> out;
#pragma unroll
  for (int k = 0; k < N; ++k) out.at[k] = first + k == index ? op.one : T(0);
  reinterpret_cast<Pack<T, N>*>(op.y)[i] = out;
}

void run_one_hot(const KernelContext& c) {
  const std::array<std::byte, 8> pattern = pattern_of(c.output().dtype, 1);
  const int64_t classes = c.output().dim(-1);
  dispatch_size(c.output().dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    with_packs<T>(c, classes, [&](auto size) {
      const int64_t packs = c.output().numel() / size();
      OneHot<T> op{c.input(0).data,
                   c.input(0).dtype,
                   c.output().as<T>(),
                   packs,
                   classes,
                   make_divisor(classes / size()),
                   is_small(packs),
                   T(0),
                   launch_of(c).fault};
      std::memcpy(&op.one, pattern.data(), sizeof(T));
      start(c, one_hot<T, size()>, blocks_for(packs, kThreads), kThreads, 0, op);
    });
  });
}

constexpr OpKernel kKernels[] = {
    {"full", {.name = "fill", .run = run_moves, .prepare = prepare_full}},
    {"arange", {.name = "plain", .run = run_arange}},
    {"one_hot", {.name = "packs", .run = run_one_hot}},
    {"dim_value", {.name = "fill", .run = run_moves, .prepare = prepare_dim_value}}};

}  // namespace

std::span<const OpKernel> create_kernels() { return kKernels; }

}  // namespace genesis::cuda
