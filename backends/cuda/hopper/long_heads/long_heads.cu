// Attention and its gradient in bf16 for heads of 256 and 512 on Hopper chips: the kernel of long_heads.h, and the rows of
// the kernel tables. Other chips run a node by the kernels that every chip has.
#include "backends/cuda/attention/attention_implementations.h"
#include "backends/cuda/device/packs.h"
#include "backends/cuda/hopper/implementations.h"
#include "backends/cuda/hopper/long_heads/long_heads.h"
#include "backends/cuda/hopper/tensor_map.h"

namespace genesis::cuda {
namespace {

using namespace hopper;

template <class S>
__global__ __launch_bounds__(kLongThreads, 1) void long_heads_kernel(const __grid_constant__ LongMaps maps,
                                                                     const __grid_constant__ AttentionShape s,
                                                                     const __grid_constant__ AttentionData d,
                                                                     int row_tiles) {
#ifdef GENESIS_HOPPER
  extern __shared__ uint8_t shared[];
  __shared__ LongBarriers barriers;
  __shared__ __align__(16) uint8_t columns[2 * kLongTile * sizeof(QueryStatistics)];
  if (threadIdx.x == 0) {
    init_barrier(&barriers.rows, 1);
    for (int i = 0; i < 4; ++i) {
      init_barrier(&barriers.filled[i / 2][i % 2], 1);
      init_barrier(&barriers.free[i / 2][i % 2], 8);  // warps that compute
    }
    let_copies_see_barriers();
  }
  begin_in_order();
  __syncthreads();
  const LongBlock<S> block(s, d, row_tiles);
  if (S::kPass == LongPass::kForward && block.head == 0)
    check_key_starts(s, d, block.visible, block.row0, block.row0 + kLongRows);
  const uint32_t start = (shared_address(shared) + S::kAlignment - 1) / S::kAlignment * S::kAlignment;
  const LongMemory<S> memory{start, *reinterpret_cast<QueryStatistics(*)[2][kLongTile]>(columns)};
  const int group = static_cast<int>(threadIdx.x) / 128;
  if (group > 0) {
    setmaxnreg_inc<240>();
    LongConsumer<S>{block, memory, barriers, group - 1}.run();
  } else {
    setmaxnreg_dec<24>();
    if (threadIdx.x < kLanes) LongProducer<S>{maps, block, memory, barriers}.run();
  }
#endif
}

// Calls body(std::integral_constant) with the head size of a shape.
template <class Body>
auto with_size(const AttentionShape& s, const Body& body) {
  return s.size == 512 ? body(std::integral_constant<int, 512>{}) : body(std::integral_constant<int, 256>{});
}

template <class S>
bool has_kernel() {
  return has_hopper_kernel(reinterpret_cast<const void*>(long_heads_kernel<S>), S::kShared);
}

bool has_kernels(const AttentionShape& s) {
  return with_size(s, [&]<int kSize>(std::integral_constant<int, kSize>) {
    return s.gradient ? has_kernel<LongSizes<kSize, LongPass::kQueries>>() &&
                            has_kernel<LongSizes<kSize, LongPass::kKeys>>() &&
                            has_kernel<LongSizes<kSize, LongPass::kValues>>()
                      : has_kernel<LongSizes<kSize, LongPass::kForward>>();
  });
}

// One of q, k, v and dy, as the block's rows or in tiles.
struct Operand {
  const void* data;
  const HeadSteps& steps;
  bool of_keys;

  bool make_map(const AttentionShape& s, int box_rows, CUtensorMap& map) const {
    return make_heads_map(
        HeadsInBoxes{data, s.batch, of_keys ? s.key_heads : s.heads, of_keys ? s.keys : s.queries,
                     steps.batch, steps.head, steps.row, box_rows, s.size},
        map);
  }
};

// Starts one pass. Returns false and starts nothing if the driver refuses a map.
template <class S>
bool try_start(const AttentionShape& s, const AttentionData& d, const KernelContext& c) {
  const Operand q{d.q, s.q, false}, k{d.k, s.k, true}, v{d.v, s.v, true}, dy{d.dy ? d.dy : d.q, s.y, false};
  LongMaps maps;
  const Operand &first = S::kOfKeys ? k : q, &second = S::kOfKeys ? v : dy;
  const Operand &third = S::kOfKeys ? q : k, &fourth = S::kOfKeys ? dy : v;
  if (!first.make_map(s, kLongRows, maps.first) || !second.make_map(s, kLongRows, maps.second) ||
      !third.make_map(s, kLongTile, maps.third) || !fourth.make_map(s, kLongTile, maps.fourth))
    return false;
  const int64_t row_tiles = blocks_for(S::kOfKeys ? s.keys : s.queries, kLongRows);
  start(c, long_heads_kernel<S>, s.batch * (S::kOfKeys ? s.key_heads : s.heads) * row_tiles, kLongThreads,
        S::kShared, maps, s, d, static_cast<int>(row_tiles));
  return true;
}

bool try_run(const AttentionShape& s, const AttentionData& d, const KernelContext& c) {
  return with_size(s, [&]<int kSize>(std::integral_constant<int, kSize>) {
    if (!s.gradient) return try_start<LongSizes<kSize, LongPass::kForward>>(s, d, c);
    write_row_products(s, d);
    return try_start<LongSizes<kSize, LongPass::kQueries>>(s, d, c) &&
           try_start<LongSizes<kSize, LongPass::kKeys>>(s, d, c) &&
           try_start<LongSizes<kSize, LongPass::kValues>>(s, d, c);
  });
}

std::optional<std::string> decline(const KernelQuery& query) {
  const AttentionShape s = attention_shape(query);
  if (s.dtype != DType::bf16) return "it takes bf16";
  if (s.size != s.v_size || (s.size != 256 && s.size != 512)) return "it takes heads of 256 and 512";
  if (s.has_mask) return "it takes no mask";
  constexpr int64_t kMinScores = 32 * 32, kMaxCount = int64_t{1} << 30;
  if (s.queries * s.keys < kMinScores || s.batch * s.heads * s.key_heads == 0)
    return "the tiles do small ones";
  if (s.batch * s.heads > kMaxCount / std::max(s.queries, s.keys)) return "it counts in i32";
  return s.size == 512 ? std::nullopt : why_no_ranges(s, query);  // cuDNN takes heads of up to 256
}

struct Prepared {
  AttentionShape shape;
  bool has_kernels = false;  // on this device
};

std::shared_ptr<const void> prepare_long_heads(const KernelQuery& query) {
  const AttentionShape shape = attention_shape(query);
  return std::make_shared<Prepared>(Prepared{shape, has_kernels(shape)});
}

void run_long_heads(const KernelContext& c) {
  const auto& [shape, has_kernels] = c.prepared<Prepared>();
  const AttentionData data = data_of(shape, c);
  if (!has_kernels || !aligned_to_packs(c) || !try_run(shape, data, c)) run_ranges_or_tiles(shape, data, c);
}

template <int64_t (*kScratch)(const AttentionShape&)>
KernelImpl implementation() {
  return {.name = "hopper_long",
          .run = run_long_heads,
          .can_run = decline,
          .scratch_bytes = scratch_of_shape<kScratch>,
          .prepare = prepare_long_heads,
          .why_not_here = why_no_hopper_here};
}

int64_t no_scratch(const AttentionShape&) { return 0; }

}  // namespace

KernelImpl long_heads_implementation() { return implementation<no_scratch>(); }
KernelImpl long_heads_gradient_implementation() { return implementation<plain_gradient_scratch>(); }

}  // namespace genesis::cuda
