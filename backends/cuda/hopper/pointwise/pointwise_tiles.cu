// Convolutions by windows of one element, stride 1, in bf16 with the channels last: a product of the pixels by the weight, whose time
// is that of its bytes. A block keeps the weight in shared memory, and reads and writes rows of pixels through rings of boxes.
#include "backends/cuda/hopper/convolution_tiles.h"

#include <algorithm>
#include <limits>

#include "backends/cuda/convolution/activate_all.h"
#include "backends/cuda/convolution/window_kernels.h"
#include "backends/cuda/device/packs.h"
#include "backends/cuda/hopper/image_boxes.h"
#include "backends/cuda/hopper/implementations.h"
#include "backends/cuda/hopper/tensor_map.h"
#include "backends/cuda/runtime/chips.h"
#include "backends/cuda/runtime/launch.h"
#include "schema/core/checked_size.h"

namespace genesis::cuda {
namespace pointwise {
namespace {

using Bf16 = __nv_bfloat16;

// A tile is kRows pixels, and its result is computed in chunks of kColumns output channels, each by one of the block's warpgroups.
constexpr int kRows = 64, kColumns = 64, kDepth = 64;
constexpr int kGroup = 128, kGroups = 4, kBlock = kGroups * kGroup + 32;  // the last warp copies
// A box has 64 channels of a tile of x, of a chunk of the weight, or of a chunk of the result.
constexpr int kBoxBytes = 64 * 128;
constexpr int kMaxResults = 3;  // results of a group: one is written, one is copied, one gets an addend
constexpr int kMaxStages = 24;  // slices of x in shared memory
constexpr int kAlignment = 1024;
constexpr int kSharedBytes = 226 << 10;  // a block may have one more KiB
constexpr int kSums = kColumns / 2;      // sums of a thread

// A cut of a node. A block keeps `slices` x `chunks` boxes of the weight, and some slices of x and results of each group; block
// (i, j) computes the chunks from j * chunks on. A team of `sharing` groups shares the chunks of a tile, and has a ring of `stages`
// slices of its own. All groups of a team wait for each slice of it, so none is a round behind another.
struct Cut {
  int slices = 0, chunks = 0, parts = 1, sharing = 1, teams = 0, stages = 0, results = 2;

  __host__ __device__ int weight_bytes() const { return slices * chunks * kBoxBytes; }
  __host__ __device__ int result_bytes() const { return kGroups * results * kBoxBytes; }
  __host__ __device__ int vector_bytes() const { return chunks * kColumns * 4; }
  __host__ __device__ int bytes_beside_slices() const {
    return kAlignment + weight_bytes() + result_bytes() + 2 * vector_bytes();
  }
};

struct Problem {
  int tiles, out;
  Cut cut;
  ChannelNumbers<Bf16> scale, bias;
  bool has_addend, weight_is_independent;
  ConvolutionActivation activation;
};

#ifdef GENESIS_HOPPER

struct Barriers {
  uint64_t filled[kMaxStages], free[kMaxStages];
  uint64_t weight, addend[kGroups][kMaxResults];
};

__device__ __forceinline__ void init(Barriers& barriers, const Cut& cut) {
  for (int i = 0; i < kMaxStages; ++i) {
    init_barrier(&barriers.filled[i], 1);
    init_barrier(&barriers.free[i], static_cast<uint32_t>(kGroup / 32 * cut.sharing));
  }
  init_barrier(&barriers.weight, 1);
  for (auto& group : barriers.addend)
    for (uint64_t& addend : group) init_barrier(&addend, 1);
  let_copies_see_barriers();
}

// Places in shared memory.
struct Shared {
  uint32_t weight, slices, results;
  float *scale, *bias;

  __device__ __forceinline__ Shared(unsigned char* memory, const Cut& cut) {
    unsigned char* first = memory + (kAlignment - shared_address(memory) % kAlignment) % kAlignment;
    weight = shared_address(first);
    results = weight + static_cast<uint32_t>(cut.weight_bytes());
    slices = results + static_cast<uint32_t>(cut.result_bytes());
    scale = reinterpret_cast<float*>(first + cut.weight_bytes() + cut.result_bytes() +
                                     cut.teams * cut.stages * kBoxBytes);
    bias = scale + cut.chunks * kColumns;
  }
};

// A team's slice: its number among those in shared memory, and the parity of its phase.
struct Slot {
  int stage;
  uint32_t parity;

  __device__ __forceinline__ Slot(int team, int slice, int stages)
      : stage(team * stages + slice % stages), parity(slice / stages % 2) {}
};

__device__ __forceinline__ void copy_weight(const CUtensorMap* weight, const Problem& p, const Shared& shared,
                                            Barriers& barriers) {
  const Cut& cut = p.cut;
  expect_bytes(&barriers.weight, static_cast<uint32_t>(cut.weight_bytes()));
  for (int i = 0; i < cut.chunks * cut.slices; ++i)
    hopper::copy_box(shared.weight + i * kBoxBytes, weight, shared_address(&barriers.weight),
                     i % cut.slices * kDepth,
                     (static_cast<int>(blockIdx.y) * cut.chunks + i / cut.slices) * kColumns);
}

__device__ __forceinline__ void copy_slices(const CUtensorMap* x, const Problem& p, const Shared& shared,
                                            Barriers& barriers) {
  const Cut& cut = p.cut;
  int number = 0;  // counts the block's tiles
  for (int tile = blockIdx.x; tile < p.tiles; tile += gridDim.x, ++number)
    for (int i = 0; i < cut.slices; ++i) {
      const Slot at(number % cut.teams, number / cut.teams * cut.slices + i, cut.stages);
      wait_for_phase(&barriers.free[at.stage], at.parity ^ 1);
      expect_bytes(&barriers.filled[at.stage], kBoxBytes);
      hopper::copy_box(shared.slices + at.stage * kBoxBytes, x, shared_address(&barriers.filled[at.stage]),
                       i * kDepth, tile * kRows);
    }
}

// A group's result: its number among those in shared memory, and the parity of the phase of its addend.
struct Result {
  int index;
  uint32_t parity;

  __device__ __forceinline__ Result(int unit, int results)
      : index(unit % results), parity(unit / results % 2) {}
};

// A chunk of a tile: the unit of a group's work.
struct Unit {
  int tile, chunk;
};

// Computes sums (+)= a b for 64 rows and columns over a depth of 16, see hopper::multiply().
__device__ __forceinline__ void multiply_64x64(float (&d)[kSums], uint64_t a, uint64_t b, bool accumulate) {
  // clang-format off
  asm volatile(
      "{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %34, 0;\n\t"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
      "}, %32, %33, p, 1, 1, 0, 0;\n\t}"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
        "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
        "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
        "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
      : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)));
  // clang-format on
}

// A warpgroup of a team, whose groups have every sharing-th chunk of a tile each.
struct Group {
  const Problem& p;
  const Shared& shared;
  Barriers& barriers;
  const CUtensorMap *y, *addend;
  int group = static_cast<int>(threadIdx.x) / kGroup, thread = static_cast<int>(threadIdx.x) % kGroup;
  int team = group / p.cut.sharing, member = group % p.cut.sharing;

  __device__ __forceinline__ uint32_t result(const Result& at) const {
    return shared.results + static_cast<uint32_t>(group * p.cut.results + at.index) * kBoxBytes;
  }
  __device__ __forceinline__ Unit first_unit() const {
    return {static_cast<int>(blockIdx.x) + team * static_cast<int>(gridDim.x), member};
  }
  __device__ __forceinline__ Unit behind(const Unit& unit) const {
    if (unit.chunk + p.cut.sharing < p.cut.chunks) return {unit.tile, unit.chunk + p.cut.sharing};
    return {unit.tile + p.cut.teams * static_cast<int>(gridDim.x), member};
  }
  __device__ __forceinline__ int first_column(int chunk) const {
    return (static_cast<int>(blockIdx.y) * p.cut.chunks + chunk) * kColumns;
  }
  __device__ __forceinline__ void sync() const { wait_for_threads(group + 1, kGroup); }

  // Starts the copy of the addend of unit number `number` to where its result will be. Only the first thread of the group calls it,
  // when the result that was there has been read.
  __device__ __forceinline__ void copy_addend(const Unit& unit, int number) const {
    if (!p.has_addend || unit.tile >= p.tiles) return;
    const Result at(number, p.cut.results);
    uint64_t* filled = &barriers.addend[group][at.index];
    expect_bytes(filled, kBoxBytes);
    hopper::copy_box(result(at), addend, shared_address(filled), first_column(unit.chunk), unit.tile * kRows);
  }

  __device__ __forceinline__ void multiply(int first_slice, int chunk, float (&sums)[kSums]) const {
    constexpr uint32_t kEightRows = 8 * 128;
    hopper::wgmma_fence();
    for (int i = 0; i < p.cut.slices; ++i) {
      const Slot at(team, first_slice + i, p.cut.stages);
      wait_for_phase(&barriers.filled[at.stage], at.parity);
      const uint32_t a = shared.slices + at.stage * kBoxBytes,
                     b = shared.weight + (chunk * p.cut.slices + i) * kBoxBytes;
#pragma unroll
      for (int k = 0; k < kDepth / 16; ++k)
        multiply_64x64(sums, hopper::describe(a + k * 32, kEightRows),
                       hopper::describe(b + k * 32, kEightRows), i + k > 0);
    }
    hopper::wgmma_commit_group();
    hopper::wgmma_wait_group<0>();
    hopper::pin(sums);
  }

  __device__ __forceinline__ void free_slices(int first_slice) const {
    __syncwarp();
    if (thread % 32 != 0) return;
    for (int i = 0; i < p.cut.slices; ++i)
      arrive(&barriers.free[Slot(team, first_slice + i, p.cut.stages).stage], 1);
  }

  // Calls each(i) for the eights of columns that are in the map, `column` being the first one. The sums 4 i and the next are columns
  // 8 i + 2 (lane % 4) and the next of row lane / 4 of the warp's rows, the two after these those of 8 rows below.
  template <class F>
  __device__ __forceinline__ void for_each_eight(int column, const F& each) const {
#pragma unroll
    for (int i = 0; i < kColumns / 8; ++i)
      if (column + 8 * i < p.out) each(i);
  }
  __device__ __forceinline__ void add_vectors(int chunk, int column, float (&sums)[kSums]) const {
    const int first = chunk * kColumns + thread % 4 * 2;
    for_each_eight(column, [&](int i) {
      const float2 scale = *reinterpret_cast<const float2*>(shared.scale + first + 8 * i),
                   bias = *reinterpret_cast<const float2*>(shared.bias + first + 8 * i);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        sums[4 * i + 2 * half] = sums[4 * i + 2 * half] * scale.x + bias.x;
        sums[4 * i + 2 * half + 1] = sums[4 * i + 2 * half + 1] * scale.y + bias.y;
      }
    });
  }
  __device__ __forceinline__ void add_addend(int column, uint32_t from, float (&sums)[kSums]) const {
    const int row = thread / 32 * 16 + thread % 32 / 4, in_pack = thread % 4 * 4;
    for_each_eight(column, [&](int i) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        uint32_t pair;
        asm volatile("ld.shared.u32 %0, [%1];"
                     : "=r"(pair)
                     : "r"(from + swizzle_128(row + 8 * half, i) + in_pack)
                     : "memory");
        sums[4 * i + 2 * half] += low_of<Bf16>(pair);
        sums[4 * i + 2 * half + 1] += high_of<Bf16>(pair);
      }
    });
    __syncwarp();  // the warp's rows are written next
  }
  __device__ __forceinline__ void put(uint32_t to, const float (&sums)[kSums]) const {
    const int lane = thread % 32, row = thread / 32 * 16 + lane % 16;
#pragma unroll
    for (int i = 0; i < kColumns / 16; ++i) {
      uint32_t blocks[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) blocks[j] = pair_of<Bf16>(sums[8 * i + 2 * j], sums[8 * i + 2 * j + 1]);
      hopper::stmatrix(to + swizzle_128(row, 2 * i + lane / 16), blocks);
    }
  }

  // Finishes unit number `number`, and starts the copy of the addend of the next but one.
  __device__ __forceinline__ void finish(const Unit& unit, int number, float (&sums)[kSums]) const {
    const Result at(number, p.cut.results);
    const int column = first_column(unit.chunk);
    add_vectors(unit.chunk, column, sums);
    if (p.has_addend) {
      wait_for_phase(&barriers.addend[group][at.index], at.parity);
      add_addend(column, result(at), sums);
    }
    activate_all(p.activation, [&](const auto& activate) {
      for_each_eight(column, [&](int i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) activate(sums[4 * i + j]);
      });
    });
    put(result(at), sums);
    hopper::let_copies_see_shared();
    sync();
    if (thread == 0) {
      hopper::store_box(y, result(at), column, unit.tile * kRows);
      hopper::close_stores();
      hopper::wait_for_stores<1>();  // the unit before has been read
      copy_addend(behind(behind(unit)), number + 2);
    }
    sync();
  }

  __device__ __forceinline__ void run() const {
    if (team >= p.cut.teams) return;
    Unit unit = first_unit();
    if (thread == 0) copy_addend(unit, 0), copy_addend(behind(unit), 1);
    wait_for_phase(&barriers.weight, 0);
    int first_slice = 0;
    for (int number = 0; unit.tile < p.tiles; ++number) {
      const Unit next = behind(unit);
      float sums[kSums];
      multiply(first_slice, unit.chunk, sums);
      if (next.tile != unit.tile) {
        free_slices(first_slice);
        first_slice += p.cut.slices;
      }
      finish(unit, number, sums);
      unit = next;
    }
    if (thread == 0) hopper::wait_for_stores<0>();
  }
};

#endif

__global__ void __launch_bounds__(kBlock, 1)
    pointwise_kernel(const __grid_constant__ CUtensorMap x, const __grid_constant__ CUtensorMap weight,
                     const __grid_constant__ CUtensorMap y, const __grid_constant__ CUtensorMap addend,
                     const __grid_constant__ Problem p) {
#ifdef GENESIS_HOPPER
  extern __shared__ unsigned char memory[];
  __shared__ Barriers barriers;
  const Shared shared(memory, p.cut);
  const bool copies = threadIdx.x == kGroups * kGroup;
  if (copies) init(barriers, p.cut);
  __syncthreads();
  pdl_launch_dependents();
  if (copies && p.weight_is_independent) copy_weight(&weight, p, shared, barriers);
  pdl_wait();
  if (copies && !p.weight_is_independent) copy_weight(&weight, p, shared, barriers);
  const int vector = p.cut.chunks * kColumns, first = static_cast<int>(blockIdx.y) * vector;
  for (int i = static_cast<int>(threadIdx.x); i < vector; i += kBlock) {
    const bool is_inside = first + i < p.out;
    shared.scale[i] = is_inside ? p.scale.at(first + i, 1.0f) : 0.0f;
    shared.bias[i] = is_inside ? p.bias.at(first + i, 0.0f) : 0.0f;
  }
  __syncthreads();
  if (threadIdx.x < kGroups * kGroup) Group{p, shared, barriers, &y, &addend}.run();
  if (copies) copy_slices(&x, p, shared, barriers);
#endif
}

int64_t pixels_of(const ConvolutionShape& s) { return s.batch * s.windows.positions(); }

// Splits the weight into equal parts that leave space for the tiles of two groups and, where there are few tiles, occupy the chip. No
// teams: there is no such cut.
Cut cut_of(const ConvolutionShape& s) {
  const int64_t slices = blocks_for(s.in(), kDepth), chunks = blocks_for(s.out(), kColumns),
                tiles = blocks_for(pixels_of(s), kRows), chip = planned_chip().multiprocessors;
  for (int64_t parts = std::clamp<int64_t>(chip / tiles, 1, chunks); parts <= chunks; ++parts) {
    Cut cut{static_cast<int>(slices), static_cast<int>(blocks_for(chunks, parts))};
    cut.parts = static_cast<int>(blocks_for(chunks, cut.chunks));
    if (s.has_addend) cut.results = kMaxResults;
    while (tiles < kGroups * chip / cut.parts && cut.sharing < kGroups && 2 * cut.sharing <= cut.chunks)
      cut.sharing *= 2;
    const int free_bytes = std::max(0, kSharedBytes - cut.bytes_beside_slices()),
              slots = std::min(free_bytes / kBoxBytes, kMaxStages);
    cut.teams = std::min(kGroups / cut.sharing, slots / cut.slices);
    if (cut.teams * cut.sharing < 2) continue;
    cut.stages = slots / cut.teams;
    return cut;
  }
  return {};
}

struct Call {
  ConvolutionShape shape;  // first, because the plain kernel reads it
  Cut cut;
};

bool launch_pointwise(const KernelContext& c, const Call& call) {
  const ConvolutionShape& s = call.shape;
  const Cut& cut = call.cut;
  const size_t shared = static_cast<size_t>(cut.bytes_beside_slices() + cut.teams * cut.stages * kBoxBytes);
  if (!has_hopper_kernel(reinterpret_cast<const void*>(pointwise_kernel), kSharedBytes)) return false;
  const void* addend = s.has_addend ? c.input(static_cast<int>(s.addend_input())).data : c.output().data;
  CUtensorMap x, weight, y, added;
  if (!make_tensor_map({c.input(0).data, pixels_of(s), s.in(), kRows}, x) ||
      !make_tensor_map({c.input(1).data, s.out(), s.in(), kColumns}, weight) ||
      !make_tensor_map({c.output().data, pixels_of(s), s.out(), kRows}, y) ||
      !make_tensor_map({addend, pixels_of(s), s.out(), kRows}, added))
    return false;
  const Problem p{.tiles = static_cast<int>(blocks_for(pixels_of(s), kRows)),
                  .out = static_cast<int>(s.out()),
                  .cut = cut,
                  .scale = channel_numbers<Bf16>(c, s.has_scale, 2),
                  .bias = channel_numbers<Bf16>(c, s.has_bias, s.bias_input()),
                  .has_addend = s.has_addend,
                  .weight_is_independent = is_independent(c, 1),
                  .activation = s.activation};
  const auto most = static_cast<unsigned>(std::max(1, launch_of(c).multiprocessors / cut.parts));
  start_with_pdl(launch_of(c), pointwise_kernel,
                 dim3(std::min(static_cast<unsigned>(p.tiles), most), static_cast<unsigned>(cut.parts)),
                 kBlock, shared, x, weight, y, added, p);
  return true;
}

void run_pointwise(const KernelContext& c) {
  if (!aligned_to_packs(c) || !launch_pointwise(c, c.prepared<Call>())) run_plain_convolution(c);
}

// Up to kFewest channels leave three quarters of a slice empty. With more than kMaxDepth cuDNN multiplies faster, and with fewer pixels
// it cuts better.
constexpr int64_t kFewest = 16, kMaxDepth = 256, kMinTilesEach = 8;

// cuDNN adds an addend in a kernel of its own where no activation follows, and has slow kernels for channels that are no multiples of
// 32. Elsewhere it multiplies few channels at the speed of memory.
bool is_slow_elsewhere(const ConvolutionShape& s) {
  return s.has_addend || (s.in() % 32 != 0 && s.out() > s.in());
}

std::optional<std::string> declines_pointwise(const KernelQuery& query) {
  const ConvolutionShape s = convolution_shape(query);
  if (s.dtype != DType::bf16 || !s.channels_last || s.groups != 1)
    return "takes bf16, channels behind the spatial axes, in one group";
  for (const WindowAxis& a : s.windows.axis)
    if (a.taps != 1 || a.stride != 1 || a.begin != 0 || a.end != 0)
      return "takes windows of one element, without stride and padding";
  if (s.in() % 8 != 0 || s.out() % 8 != 0) return "takes channels that fill 16 bytes";
  if (!is_quick(s.activation)) return kQuickActivations;
  if (pixels_of(s) * s.in() * s.out() == 0) return "takes tensors with elements";
  if (checked_mul(pixels_of(s), std::max(s.in(), s.out())) > std::numeric_limits<int32_t>::max())
    return "takes fewer than 2^31 elements";
  if (s.in() <= kFewest) return "takes more than 16 channels";
  if (s.in() > kMaxDepth) return "takes few channels, where products wait for memory";
  if (pixels_of(s) < kMinTilesEach * kRows * planned_chip().multiprocessors)
    return "takes pixels that give each multiprocessor some tiles";
  if (!is_slow_elsewhere(s))
    return "takes an addend, or channels that are no multiples of 32 and become more";
  if (cut_of(s).teams == 0) return "takes weights of which parts fit into shared memory";
  return std::nullopt;
}

}  // namespace
}  // namespace pointwise

KernelImpl pointwise_tiles_convolution() {
  return {.name = "pointwise_tiles",
          .run = pointwise::run_pointwise,
          .can_run = pointwise::declines_pointwise,
          .prepare = [](const KernelQuery& query) -> std::shared_ptr<const void> {
            const ConvolutionShape s = convolution_shape(query);
            return std::make_shared<pointwise::Call>(pointwise::Call{s, pointwise::cut_of(s)});
          },
          .why_not_here = why_no_hopper_here};
}

}  // namespace genesis::cuda
