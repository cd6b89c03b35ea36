#include "backends/cuda/kernels/nn/delta_implementations.h"

#include "backends/cuda/device/packs.h"
#include "backends/cuda/kernels/nn/delta_chunks/chunk_gradients.h"
#include "backends/cuda/kernels/nn/delta_chunks/prepare.h"
#include "backends/cuda/kernels/nn/delta_chunks/reverse.h"
#include "backends/cuda/kernels/nn/delta_chunks/scan.h"
#include "backends/cuda/runtime/launch.h"

namespace genesis::cuda {
namespace {

using namespace delta;

constexpr int64_t kFewestTokens =
    32;  // with fewer, going token by token takes less time than the kernels' starts

int64_t chunks_of(const DeltaShape& s) { return blocks_for(s.time, kChunkTokens); }
int64_t blocks_of(const DeltaShape& s) { return s.batch * s.heads * chunks_of(s); }

// Places the parts of the scratch memory one behind the other. Every part is a multiple of 64 bytes.
struct Parts {
  uintptr_t at;

  template <class T>
  T* next(int64_t count) {
    T* part = reinterpret_cast<T*>(at);
    at += static_cast<uintptr_t>(count) * sizeof(T);
    return part;
  }
};

// Returns the end of the scratch memory that begins at `at`.
uintptr_t place(const DeltaShape& s, bool for_gradient, uintptr_t at, DeltaChunks& c) {
  Parts parts{at};
  const int64_t blocks = blocks_of(s);
  c.chunks = chunks_of(s);
  for (uint4** triangle : {&c.t, &c.p}) *triangle = parts.next<uint4>(blocks * kTriangleWords);
  c.gates = parts.next<float>(blocks * 3 * kChunkTokens);
  if (!for_gradient) return parts.at;
  c.t_transposed = parts.next<uint4>(blocks * kTriangleWords);
  for (float** states : {&c.states, &c.state_gradients}) *states = parts.next<float>(blocks * s.state());
  for (float** rows : {&c.u, &c.r_gradients}) *rows = parts.next<float>(blocks * kChunkTokens * s.values);
  return parts.at;
}

int64_t scratch_of(const DeltaShape& s, bool for_gradient) {
  DeltaChunks c{};
  return static_cast<int64_t>(place(s, for_gradient, 0, c));
}

template <class... Parameters, class... Arguments>
void start_block(const KernelContext& c, void (*kernel)(Parameters...), int64_t blocks, int threads,
                 int shared, const Arguments&... arguments) {
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
  start(c, kernel, blocks, threads, static_cast<size_t>(shared), arguments...);
}

// The kernels for keys of kKeys elements.
template <bool kCorrects, int kKeys>
struct Starts {
  const KernelContext& c;
  DeltaChunks chunks;

  int64_t blocks() const { return chunks.d.heads * chunks.chunks; }
  int64_t slices() const { return chunks.d.heads * (chunks.d.values / kSliceValues); }
  void prepare(bool for_gradient) const {
    start_block(c, prepare_chunks<kCorrects, kKeys>, blocks(), kPrepareThreads, PrepareMemory<kKeys>::kBytes,
                chunks, for_gradient);
  }
  template <bool kSaves>
  void scan(const ScanResults& results) const {
    start_block(c, scan_chunks<kCorrects, kKeys, kSaves>, slices(), kScanThreads, ScanMemory<kKeys>::kBytes,
                chunks, results);
  }

  void forward() const {
    prepare(false);
    scan<false>({c.output(0).as<float>(), c.output(1).as<float>(), c.output(2).as<float>()});
  }
  void backward(const Gradients<float>& g) const {
    prepare(true);
    scan<true>({});
    start_block(c, reverse_chunks<kCorrects, kKeys>, slices(), kScanThreads, ReverseMemory<kKeys>::kBytes,
                chunks, g);
    start_block(c, chunk_gradients<kCorrects, kKeys>, blocks(), kChunkGradientThreads,
                ChunkGradientMemory<kKeys>::kBytes, chunks, g);
  }
};

// Calls body(Starts) for the node; `for_gradient` says which kernels it will start.
template <class F>
bool with_starts(const KernelContext& c, const Delta<float>& d, bool corrects, bool for_gradient,
                 const void* scratch, const F& body) {
  const auto with_keys = [&]<int kKeys>(std::integral_constant<int, kKeys>) {
    const int shared = for_gradient ? ChunkGradientMemory<kKeys>::kBytes
                                    : std::max(PrepareMemory<kKeys>::kBytes, ScanMemory<kKeys>::kBytes);
    if (shared_bytes_limit() < shared || !aligned_to_packs(c)) return false;
    DeltaChunks chunks{};
    chunks.d = d;
    place(DeltaShape::of(c.input(0), c.input(2)), for_gradient, reinterpret_cast<uintptr_t>(scratch), chunks);
    corrects ? body(Starts<true, kKeys>{c, chunks}) : body(Starts<false, kKeys>{c, chunks});
    return true;
  };
  return d.keys == 64 ? with_keys(std::integral_constant<int, 64>{})
                      : with_keys(std::integral_constant<int, 128>{});
}

}  // namespace

std::optional<std::string> delta_chunks_decline(const KernelQuery& query) {
  const DeltaShape s = DeltaShape::of(query.inputs[0], query.inputs[2]);
  if (query.inputs[0].dtype != DType::f32) return "takes f32 only";
  if ((s.keys != 64 && s.keys != 128) || s.values == 0 || s.values % kSliceValues != 0)
    return "takes keys of 64 or 128 elements and values of a multiple of 64";
  if (s.time < kFewestTokens) return "fewer than " + std::to_string(kFewestTokens) + " tokens";
  constexpr int64_t kMaxBlocks = int64_t{1} << 30;
  if (s.batch * s.heads > kMaxBlocks / (chunks_of(s) + s.values / kSliceValues)) return "too many blocks";
  return std::nullopt;
}

int64_t delta_chunks_scratch(const DeltaShape& s) { return scratch_of(s, false); }
int64_t delta_chunks_gradient_scratch(const DeltaShape& s) { return scratch_of(s, true); }

bool start_delta_chunks(const KernelContext& c, const Delta<float>& d, bool corrects) {
  return with_starts(c, d, corrects, false, c.scratch, [](const auto& starts) { starts.forward(); });
}

bool start_delta_chunk_gradients(const KernelContext& c, const Delta<float>& d, const Gradients<float>& g,
                                 bool corrects) {
  return with_starts(c, d, corrects, true, g.scratch, [&](const auto& starts) { starts.backward(g); });
}

}  // namespace genesis::cuda
