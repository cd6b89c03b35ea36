// The gradient of attention in bf16 with heads of 64 on Hopper chips: starts the kernel of attention_gradient.h, and
// a small one ahead of it that computes row statistics. Other chips run a node by the general rows.
#include "backends/cuda/hopper/attention_gradient/attention_gradient.h"

#include "backends/cuda/attention/visible_keys.h"
#include "backends/cuda/device/packs.h"
#include "backends/cuda/device/reduce.h"
#include "backends/cuda/hopper/implementations.h"
#include "backends/cuda/hopper/tensor_map.h"
#include "backends/cuda/runtime/chips.h"
#include "backends/kernel_table.h"
#include "schema/core/checked_size.h"

namespace genesis::cuda {
namespace {

using namespace hopper;

constexpr int kRowsOfBlock = kThreads / 8;
static_assert(kItemRows % kRowsOfBlock == 0);  // all rows of a block belong to one head

// Computes the tables of GradientSizes, by all threads of the grid.
__device__ __forceinline__ void find_starts(const GradientSizes& s) {
  const int thread = blockIdx.x * kThreads + threadIdx.x, threads = gridDim.x * kThreads;
  const int padded = s.padded_queries(), tiles = s.key_tiles();
  for (int i = thread; i < s.batch * padded; i += threads) {
    const int entry = i / padded, time = i % padded;
    int start = INT_MAX;
    if (time < s.queries)
      start = static_cast<int>(
          min(max(s.starts[int64_t{entry} * s.queries + time], int64_t{0}), int64_t{s.keys}));
    s.first_keys[i - time + place_of_row(time)] = start;
  }
  for (int i = thread; i < s.batch * tiles; i += threads) {
    const int64_t* starts = s.starts + int64_t{i / tiles} * s.queries;
    const int first = i % tiles * kGradientTileRows;
    s.seen_by[i] = queries_from(starts, s.queries, min(first + kGradientTileRows, s.keys) - 1);
    s.seen_whole_by[i] = queries_from(starts, s.queries, first);
  }
}

// Writes the statistics of each row, -lse / scale and -delta with delta = sum of dy y, where the next kernel reads
// them, and resets its list of items. Rows beyond the last query get an lse that makes their weights 0. Eight threads
// share a row.
__global__ __launch_bounds__(kThreads) void row_statistics_kernel(GradientSizes s, HeadRows y, HeadRows dy,
                                                                  const float* lse) {
  begin_in_order();
  if (blockIdx.x == 0 && threadIdx.x == 0) *s.taken = 0;
  const int padded = s.padded_queries(), part = threadIdx.x % 8;
  const int row = blockIdx.x * kRowsOfBlock + threadIdx.x / 8, head = row / padded, time = row % padded;
  const bool exists = time < s.queries;
  if (s.starts) find_starts(s);
  const auto pack_of = [&](const HeadRows& x) {
    return *reinterpret_cast<const uint4*>(x.data + head / s.heads * x.batch + head % s.heads * x.head +
                                           time * x.row + part * 8);
  };
  float sum = 0;
  if (exists) {
    const uint4 of_y = pack_of(y), of_dy = pack_of(dy);
    const auto *a = reinterpret_cast<const __nv_bfloat162*>(&of_y),
               *b = reinterpret_cast<const __nv_bfloat162*>(&of_dy);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float2 x = __bfloat1622float2(a[i]), z = __bfloat1622float2(b[i]);
      sum += x.x * z.x + x.y * z.y;
    }
  }
  sum = reduce_lanes(sum, 8, Add{});
  if (part > 0) return;
  const int to = row - time + place_of_row(time);
  s.delta[to] = -sum;
  s.lse[to] = -(exists ? lse[static_cast<int64_t>(head) * s.queries + time] : INFINITY) / s.scale;
}

// Returns the number of rows in the statistics of all heads.
int64_t padded_rows(const AttentionShape& s) {
  return s.batch * s.heads * (blocks_for(s.queries, kItemRows) * kItemRows);
}

// Sizes of the tables of GradientSizes; multiples of 16 bytes.
int64_t starts_rows(const AttentionShape& s) {
  return s.has_key_start ? s.batch * blocks_for(s.queries, kItemRows) * kItemRows : 0;
}
int64_t starts_tiles(const AttentionShape& s) {
  return s.has_key_start ? blocks_for(s.batch * blocks_for(s.keys, kGradientTileRows), 4) * 4 : 0;
}

HeadRows rows_of(const void* data, const HeadSteps& steps) {
  return {static_cast<__nv_bfloat16*>(const_cast<void*>(data)), steps.batch, steps.head, steps.row};
}

GradientSizes sizes_of(const AttentionShape& s, const AttentionData& d) {
  GradientSizes sizes;
  sizes.batch = static_cast<int>(s.batch);
  sizes.heads = static_cast<int>(s.heads);
  sizes.key_heads = static_cast<int>(s.key_heads);
  sizes.queries = static_cast<int>(s.queries);
  sizes.keys = static_cast<int>(s.keys);
  sizes.causal = s.causal;
  sizes.scale = static_cast<float>(s.scale);
  sizes.lse = reinterpret_cast<float*>(d.scratch);
  sizes.delta = sizes.lse + padded_rows(s);
  sizes.starts = d.key_start;
  sizes.first_keys = reinterpret_cast<int*>(sizes.delta + padded_rows(s));
  sizes.seen_by = sizes.first_keys + starts_rows(s);
  sizes.seen_whole_by = sizes.seen_by + starts_tiles(s);
  sizes.taken = sizes.seen_whole_by + starts_tiles(s);
  sizes.dq = rows_of(d.dq, s.q);
  sizes.dk = rows_of(d.dk, s.k);
  sizes.dv = rows_of(d.dv, s.v);
  return sizes;
}

bool make_maps(const AttentionShape& s, const AttentionData& d, GradientMaps& maps) {
  const auto make = [&](const void* data, const HeadSteps& steps, int64_t heads, int64_t rows,
                        CUtensorMap& map) {
    return make_heads_map(
        HeadsInBoxes{data, s.batch, heads, rows, steps.batch, steps.head, steps.row, kGradientTileRows}, map);
  };
  return make(d.q, s.q, s.heads, s.queries, maps.q) && make(d.k, s.k, s.key_heads, s.keys, maps.k) &&
         make(d.v, s.v, s.key_heads, s.keys, maps.v) && make(d.dy, s.y, s.heads, s.queries, maps.dy);
}

// The tiles that the longest item of keys processes, and the tiles of all items together, counted as products of an
// item's rows with a tile.
struct Work {
  int64_t longest = 0, all = 0;
};
Work work_of(const AttentionShape& s) {
  const int64_t tiles = blocks_for(s.queries, kGradientTileRows), group = s.heads / s.key_heads;
  const int64_t pairs =
      s.batch * s.heads * tiles * blocks_for(s.keys, kItemRows) / (s.causal && s.queries == s.keys ? 2 : 1);
  return {4 * tiles * group, 7 * pairs};
}

// Asks no GPU to run anything.
std::optional<std::string> decline(const KernelQuery& query) {
  const AttentionShape s = attention_shape(query);
  if (s.dtype != DType::bf16 || s.size != 64 || s.v_size != 64) return "it takes heads of 64 in bf16";
  if (s.has_mask || s.has_key_length || s.window > 0) return "it takes no mask, key_length or window";
  if (s.causal && s.queries > s.keys) return "some queries see no key";
  if (padded_rows(s) == 0 || s.keys == 0) return "there is nothing to do";
  constexpr int64_t kMinScores = 32 * 32, kMaxRows = 1024, kMax = int64_t{1} << 30;
  if (s.queries * s.keys < kMinScores) return "the tiles do small ones";
  if (padded_rows(s) > kMax || s.batch * s.key_heads * blocks_for(s.keys, kItemRows) * kItemRows > kMax)
    return "it counts in i32";
  if (s.has_key_start) return std::nullopt;  // cuDNN does not support key_start
  // cuDNN computes the scores only once, so it catches up as rows get long.
  if (!s.causal || s.queries > kMaxRows || s.keys > kMaxRows) return "cuDNN is as fast";
  // An item is the work of one block. With few items, some multiprocessors would wait long.
  const int64_t blocks = planned_chip().multiprocessors;
  const Work work = work_of(s);
  if (work.longest * blocks * 4 > work.all * 5) return "there are too few heads to share the work out";
  return std::nullopt;
}

int64_t attention_gradient_scratch(const KernelQuery& query) {
  const KernelImpl& general = select_kernel(general_gradient_implementations(), query);
  const AttentionShape s = attention_shape(query);
  const CheckedSize own =
      CheckedSize(padded_rows(s)) * 8 + (CheckedSize(starts_rows(s)) + 2 * starts_tiles(s)) * 4 + 256;
  return std::max(own.value(), general.scratch_bytes(query));
}

struct Prepared {
  AttentionShape shape;
  const KernelImpl* general = nullptr;  // null: the device has the kernel
  std::shared_ptr<const void> for_general;
};

auto kernel_for(const AttentionShape& s) {
  return s.has_key_start ? attention_gradient_kernel<true> : attention_gradient_kernel<false>;
}

std::shared_ptr<const void> prepare_attention_gradient(const KernelQuery& query) {
  auto prepared = std::make_shared<Prepared>(Prepared{attention_shape(query)});
  const auto kernel = kernel_for(prepared->shape);
  if (has_hopper_kernel(reinterpret_cast<const void*>(kernel), kGradientShared)) return prepared;
  prepared->general = &select_kernel(general_gradient_implementations(), query);
  prepared->for_general = prepared->general->prepare(query);
  return prepared;
}

// Returns false and starts nothing if the driver refuses.
bool try_start(const AttentionShape& shape, const AttentionData& data, const KernelContext& c) {
  GradientMaps maps;
  if (!make_maps(shape, data, maps)) return false;
  const GradientSizes sizes = sizes_of(shape, data);
  start_with_pdl(c, row_statistics_kernel, padded_rows(shape) / kRowsOfBlock, kThreads, 0, sizes,
                 rows_of(data.y, shape.y), rows_of(data.dy, shape.y), static_cast<const float*>(data.lse));
  const int blocks = std::min(launch_of(c).multiprocessors, sizes.items());
  start_with_pdl(behind_own_kernel(c), kernel_for(shape), static_cast<unsigned>(blocks), kGradientThreads,
                 kGradientShared, maps, sizes);
  return true;
}

void run_attention_gradient(const KernelContext& c) {
  const auto& p = c.prepared<Prepared>();
  if (p.general) {
    KernelContext general = c;
    general.prepared_ptr = p.for_general.get();
    return p.general->run(general);
  }
  const AttentionData data = backward_data(p.shape, c);
  if (!aligned_to_packs(c) || !try_start(p.shape, data, c)) run_plain_gradient(p.shape, data);
}

}  // namespace

KernelImpl hopper_gradient_implementation() {
  return {.name = "hopper_d64",
          .run = run_attention_gradient,
          .can_run = decline,
          .scratch_bytes = attention_gradient_scratch,
          .prepare = prepare_attention_gradient,
          .why_not_here = why_no_hopper_here};
}

}  // namespace genesis::cuda
