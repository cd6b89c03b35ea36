// A thread gathers the elements of 16 bytes of the result, whose places in x differ from those of the first one by the same numbers in
// every pack. Copies by single elements wrote 0.6 TB/s where this is at the speed of memory.
#include "backends/cuda/moves/packed_permute.h"

#include <limits>

#include "backends/cuda/device/divisor.h"
#include "backends/cuda/device/packs.h"
#include "backends/cuda/moves/moves.h"
#include "schema/ops/tensor/layout.h"

namespace genesis::cuda {
namespace packed_permute_kernel {
namespace {

constexpr int kMaxElements = 8;  // elements of a pack, of two bytes each
// Elements inside of x's innermost axis: neighboring threads then read its neighbors.
constexpr int64_t kMaxInside = 32;

struct PackedPermute {
  int rank = 0;  // axes of packs, outermost first
  Divisor dims[kMaxRank];
  int32_t strides[kMaxRank] = {};      // in elements of x
  int32_t offsets[kMaxElements] = {};  // from a pack's first element to each of them
  int64_t packs = 1;
};

struct PermuteCall {
  std::shared_ptr<const void> moves;  // for buffers that are not aligned
  PackedPermute packed;
};

template <class T>
__global__ void gather_packs(const __grid_constant__ PackedPermute p, const T* x,
                             Pack<T, 16 / sizeof(T)>* y) {
  begin_in_order();
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= p.packs) return;
  auto flat = static_cast<uint32_t>(i);
  const T* from = x;
  for (int axis = p.rank - 1; axis >= 0; --axis) {
    const uint32_t outer = p.dims[axis].quotient(flat);
    from += int64_t{flat - outer * p.dims[axis].size} * p.strides[axis];
    flat = outer;
  }
  Pack<T, 16 / sizeof(T)> pack;
#pragma unroll
  for (int j = 0; j < static_cast<int>(16 / sizeof(T)); ++j) pack.at[j] = from[p.offsets[j]];
  y[i] = pack;
}

struct Axis {
  int64_t size, stride;
};

// Returns the axes of the result, innermost first, without those of size 1.
std::vector<Axis> axes_of(const KernelQuery& query) {
  const std::vector<int64_t> sizes = query.inputs[0].shape.sizes();
  const std::vector<int64_t> order = from_attributes<ops::Permute>(query.attributes).axes;
  std::vector<int64_t> strides(sizes.size(), 1);
  for (size_t i = sizes.size(); i-- > 1;) strides[i - 1] = strides[i] * sizes[i];
  std::vector<Axis> axes;
  for (size_t i = order.size(); i-- > 0;) {
    const auto from = static_cast<size_t>(normalize_axis(order[i], static_cast<int>(sizes.size())));
    if (sizes[from] != 1) axes.push_back({sizes[from], strides[from]});
  }
  return axes;
}

// Takes the innermost axes that fill a pack out of `axes`; of the last one only a part if it is longer. Returns false if none do.
bool take_pack(std::vector<Axis>& axes, int elements, PackedPermute& packed) {
  int filled = 1;
  while (filled < elements && !axes.empty()) {
    Axis& axis = axes.front();
    const int64_t part = std::min<int64_t>(axis.size, elements / filled);
    if (elements % (filled * part) != 0 || axis.size % part != 0) return false;
    for (int64_t i = 1; i < part; ++i)
      for (int64_t j = 0; j < filled; ++j)
        packed.offsets[i * filled + j] = packed.offsets[j] + static_cast<int32_t>(i * axis.stride);
    filled *= static_cast<int>(part);
    if (axis.size == part)
      axes.erase(axes.begin());
    else
      axis = {axis.size / part, axis.stride * part};
  }
  return filled == elements;
}

std::optional<PackedPermute> packed_form(const KernelQuery& query) {
  const auto bytes = static_cast<int64_t>(size_of(query.inputs[0].dtype));
  std::vector<Axis> axes = axes_of(query);
  PackedPermute packed;
  if (!take_pack(axes, static_cast<int>(16 / bytes), packed)) return std::nullopt;
  for (size_t i = axes.size(); i-- > 0;) {
    packed.dims[packed.rank] = make_divisor(axes[i].size);
    packed.strides[packed.rank++] = static_cast<int32_t>(axes[i].stride);
    packed.packs *= axes[i].size;
  }
  return packed;
}

std::optional<std::string> packed_permute_declines(const KernelQuery& query) {
  const TensorType& x = query.inputs[0];
  if (size_of(x.dtype) != 2 && size_of(x.dtype) != 4) return "takes elements of 2 or 4 bytes";
  if (x.numel() == 0 || x.numel() > std::numeric_limits<int32_t>::max()) return "takes 1 to 2^31 elements";
  const std::vector<Axis> axes = axes_of(query);
  int64_t inside = 1;
  for (const Axis& axis : axes) {
    if (axis.stride == 1) break;
    inside *= axis.size;
  }
  if (axes.empty() || axes.front().stride == 1 || inside > kMaxInside)
    return "takes results whose innermost axes are short and lie apart in x";
  if (!packed_form(query)) return "takes innermost axes that fill 16 bytes";
  return std::nullopt;
}

void run_packed_permute(const KernelContext& c) {
  const auto& call = c.prepared<PermuteCall>();
  if (!aligned_to_packs(c)) {
    KernelContext moves = c;
    moves.prepared_ptr = call.moves.get();
    return run_moves(moves);
  }
  const auto gather = [&]<class T>(const T* x) {
    start_with_pdl(c, gather_packs<T>, blocks_for(call.packed.packs, kThreads), kThreads, 0, call.packed, x,
                   c.output().as<Pack<T, 16 / sizeof(T)>>());
  };
  size_of(c.output().dtype) == 2 ? gather(c.input(0).as<const uint16_t>())
                                 : gather(c.input(0).as<const uint32_t>());
}

std::shared_ptr<const void> prepare_packed_permute(const KernelQuery& query) {
  return std::make_shared<PermuteCall>(PermuteCall{prepare_permute(query), *packed_form(query)});
}

}  // namespace
}  // namespace packed_permute_kernel

KernelImpl packed_permute() {
  return {.name = "packs",
          .run = packed_permute_kernel::run_packed_permute,
          .can_run = packed_permute_kernel::packed_permute_declines,
          .prepare = packed_permute_kernel::prepare_packed_permute};
}

}  // namespace genesis::cuda
