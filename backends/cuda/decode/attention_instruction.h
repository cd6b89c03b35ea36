// Attention as an instruction of a megakernel. A block has one query head and one range of keys; it rotates q and the
// new key itself, and one block of a key head writes the caches. It loads keys and values of the caches before q is
// ready. With few keys one block has them all; with more, blocks publish their state of a head as tagged words, and
// the first of them merges. How keys are split depends on their number and the chip.
#pragma once

#include "backends/cuda/decode/megakernel_kit.h"

namespace genesis::cuda {

inline constexpr int kKeysOfSplit = 128;

// Reads eight elements each of N vectors, from elements[i] of vector i on. Waits until they have arrived.
template <int N>
__device__ __forceinline__ void read_eights(const VectorOperand* const (&vectors)[N], uint32_t tags,
                                            const int64_t (&elements)[N], Words (&eights)[N]) {
  uint4 words[2 * N];
  bool all;
  do {
    all = true;
#pragma unroll
    for (int i = 0; i < 2 * N; ++i)
      words[i] = load_words(vectors[i / 2]->words + elements[i / 2] / 2 + i % 2 * 2);
#pragma unroll
    for (int i = 0; i < 2 * N; ++i) {
      const uint32_t tag = tags + vectors[i / 2]->tag;
      all = all && words[i].y == tag && words[i].w == tag;
    }
  } while (!all);
#pragma unroll
  for (int i = 0; i < N; ++i)
    eights[i] = {words[2 * i].x, words[2 * i].z, words[2 * i + 1].x, words[2 * i + 1].z};
}

// Returns the lane's elements of a head after rms_norm, rounded.
template <int kSet>
__device__ __forceinline__ Words normalize_head(const Words& head, const Words& gain, float eps) {
  float x[kPack], squares[1] = {};
#pragma unroll
  for (int i = 0; i < kPack; ++i) {
    x[i] = element_of<Element>(head, i);
    squares[0] = fmaf(x[i], x[i], squares[0]);
  }
  sum_neighbors<kSet>(squares);
  const float scale = rsqrtf(squares[0] * (1.0f / (kSet * kPack)) + eps);
#pragma unroll
  for (int i = 0; i < kPack; ++i) x[i] *= scale * element_of<Element>(gain, i);
  return words_of<Element>(x);
}

// Rotates the lane's elements of a head; its partner lane has the other halves of the pairs.
template <int kSet>
__device__ __forceinline__ void rotate_head(const Words& head, const MegakernelShared& shared,
                                            int lane_of_set, float (&rotated)[kPack]) {
  const float sign = lane_of_set < kSet / 2 ? -1.0f : 1.0f;
#pragma unroll
  for (int i = 0; i < kPack; ++i) {
    const int pair = lane_of_set % (kSet / 2) * kPack + i;
    const float own = element_of<Element>(head, i), other = from_partner(own, kSet / 2);
    rotated[i] = widen(narrow<Element>(own * shared.cosines[pair] + sign * (other * shared.sines[pair])));
  }
}

// Returns the lane's share of the dot product of q and k.
__device__ __forceinline__ float share_of_score(const float (&q)[kPack], const Words& k) {
  float low = 0, high = 0;
#pragma unroll
  for (int i = 0; i < kPack / 2; ++i) {
    low = fmaf(q[i], element_of<Element>(k, i), low);
    high = fmaf(q[i + kPack / 2], element_of<Element>(k, i + kPack / 2), high);
  }
  return low + high;
}

// The state of a head: its running maximum and sum, and two elements of the weighted values.
using PairState = KeyState<Element, 2>;

// Merges rows of {y [size], maximum, sum}, in order; a thread has two elements of y.
template <int kSize>
__device__ __forceinline__ PairState merge_rows(const float (*rows)[kMaxHeadSize + 4], int count, int pair) {
  constexpr int kAtOnce = 8;
  PairState whole;
#pragma unroll 1
  for (int first = 0; first < count; first += kAtOnce) {
    float2 known[kAtOnce], y[kAtOnce];
    float max = whole.max;
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const float* row = rows[min(first + i, count - 1)];
      known[i] = *reinterpret_cast<const float2*>(row + kSize);
      y[i] = *reinterpret_cast<const float2*>(row + 2 * pair);
      if (first + i >= count) known[i].x = -INFINITY;
      max = MaxOrNan{}(max, known[i].x);
    }
    if (max == -INFINITY) continue;
    whole.rescale(max);
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      if (known[i].x == -INFINITY) continue;
      const float take = whole.power()(known[i].x);
      whole.y[0] = fmaf(take, y[i].x, whole.y[0]);
      whole.y[1] = fmaf(take, y[i].y, whole.y[1]);
      whole.sum = fmaf(take, known[i].y, whole.sum);
    }
  }
  return whole;
}

// Reads other blocks' states of a head.
template <int kSize>
__device__ void read_splits(const TaggedWord* words, uint32_t tag, int splits, MegakernelShared& shared) {
  constexpr int kRow = kSize + 2;
  for (int i = threadIdx.x; i < splits * kRow; i += kMegakernelThreads) {
    TaggedWord word;
    do word = load_word(words + i);
    while (word.y != tag);
    shared.of_split[i / kRow][i % kRow] = __uint_as_float(word.x);
  }
}

// Returns the first position that is visible to a token at `start`.
__device__ __forceinline__ int first_key(const Instruction& s, int start) {
  return s.window == 0 ? 0 : max(0, start + 1 - s.window);
}

// The range of the cache that a block reads, as one of its threads sees it: kSet threads share a key, so that many
// keys are processed at once.
template <int kSize>
struct CachedKeys {
  static constexpr int kSet = kSize / kPack, kAtOnce = kMegakernelThreads / kSet;
  Element *k, *v;  // this thread's elements at position 0
  int64_t offset, step;
  int lane_of_set, key, begin, end;

  __device__ CachedKeys(const Instruction& s, int key_head, int split, int splits, int start)
      : step(int64_t{s.key_heads} * kSize),
        lane_of_set(static_cast<int>(threadIdx.x) % kSet),
        key(static_cast<int>(threadIdx.x) / kSet) {
    offset = int64_t{key_head} * kSize + lane_of_set * kPack;
    k = static_cast<Element*>(s.k_cache) + offset;
    v = static_cast<Element*>(s.v_cache) + offset;
    const int first = first_key(s, start);
    const int each = ((start - first + splits - 1) / splits + kAtOnce - 1) / kAtOnce * kAtOnce;
    begin = min(start, first + split * each);
    end = min(start, begin + each);
  }

  // Loads two rounds of keys from position j on; beyond the end the values are arbitrary.
  __device__ __forceinline__ void load(int j, Words (&ks)[2], Words (&vs)[2]) const {
#pragma unroll
    for (int u = 0; u < 2; ++u) {
      const int64_t at = max(0, min(j + key + u * kAtOnce, end - 1)) * step;
      ks[u] = *reinterpret_cast<const Words*>(k + at);
      vs[u] = *reinterpret_cast<const Words*>(v + at);
    }
  }
  __device__ void put(int position, const Words& new_k, const Words& new_v) const {
    *reinterpret_cast<Words*>(k + position * step) = new_k;
    *reinterpret_cast<Words*>(v + position * step) = new_v;
  }
};

// Returns into how many ranges a head's keys are split.
__device__ __forceinline__ int splits_of_keys(const Instruction& s, int start) {
  return max(1, min(s.splits, (start - first_key(s, start) + kKeysOfSplit - 1) / kKeysOfSplit));
}

// Asks for the keys and values that the block will read in the second-level cache, while it waits for what comes before. The
// blocks of a group's query heads read the same ones: each asks for a part.
template <int kSize>
__device__ void ask_for_keys(const Instruction& s, const BlockShare& share, int start) {
  constexpr int kLine = 128, kLinesOfKey = kSize * int{sizeof(Element)} / kLine;
  const int splits = splits_of_keys(s, start), group = s.heads / s.key_heads;
  if (share.split >= splits) return;
  const CachedKeys<kSize> keys(s, share.head / group, share.split, splits, start);
  const int lines = (keys.end - keys.begin) * kLinesOfKey;
  for (int i = share.head % group * kMegakernelThreads + static_cast<int>(threadIdx.x); i < 2 * lines;
       i += group * kMegakernelThreads) {
    const auto* cache = static_cast<const Element*>(i < lines ? s.k_cache : s.v_cache);
    const int at = i < lines ? i : i - lines;
    const Element* line = cache + (keys.begin + at / kLinesOfKey) * keys.step +
                          int64_t{share.head / group} * kSize +
                          at % kLinesOfKey * (kLine / int{sizeof(Element)});
    asm volatile("prefetch.global.L2 [%0];" ::"l"(line));
  }
}

// Adds three keys, of which those with `seen` count; their sums over lanes are computed together.
template <int kSet>
__device__ __forceinline__ void add_three_keys(KeyState<Element>& state, const float (&q)[kPack],
                                               const Words (&k)[3], const Words (&v)[3],
                                               const bool (&seen)[3], float scale) {
  float scores[3], max = state.max;
#pragma unroll
  for (int u = 0; u < 3; ++u) scores[u] = share_of_score(q, k[u]);
  sum_neighbors<kSet>(scores);
#pragma unroll
  for (int u = 0; u < 3; ++u) {
    scores[u] = seen[u] ? scores[u] * scale : -INFINITY;
    max = MaxOrNan{}(max, scores[u]);
  }
  if (max == -INFINITY) return;
  state.rescale(max);
  const ScorePower<Element> power(max);
#pragma unroll
  for (int u = 0; u < 3; ++u)
    state.add(seen[u] ? power(scores[u]) : 0, [&](int i) { return element_of<Element>(v[u], i); });
}

// Publishes the block's state for the other blocks.
template <int kSize>
__device__ void write_split(TaggedWord* own, const PairState& whole, uint32_t tag) {
  const int thread = static_cast<int>(threadIdx.x);
  if (thread >= kSize / 2) return;
  store_word(own + 2 * thread, __float_as_uint(whole.y[0]), tag);
  store_word(own + 2 * thread + 1, __float_as_uint(whole.y[1]), tag);
  if (thread != 0) return;
  store_word(own + kSize, __float_as_uint(whole.max), tag);
  store_word(own + kSize + 1, __float_as_uint(whole.sum), tag);
}

// Divides a head's complete state by its sum and writes it.
template <int kSize>
__device__ __forceinline__ void put_head(const Instruction& s, int head, const PairState& whole,
                                         uint32_t tag) {
  if (threadIdx.x >= kSize / 2) return;
  const uint32_t y = pair_of(whole.y[0] / whole.sum, whole.y[1] / whole.sum);
  const int64_t pair = int64_t{head} * (kSize / 2) + threadIdx.x;
  if (s.out) store_word(s.out + pair, y, tag);
  if (s.y) static_cast<uint32_t*>(s.y)[pair] = y;
}

// The lane's elements of the block's query head and of the new key and value. The heads are normalized if the model
// does that, and rotated.
struct RotatedHeads {
  float q[kPack];
  Words new_k, new_v;
};

// Waits until q, k and v have arrived, and puts the next instruction into its stage.
template <int kSize>
__device__ __forceinline__ RotatedHeads read_heads(const Instruction& s, const CachedKeys<kSize>& keys,
                                                   int head, const MegakernelShared& shared, uint32_t tags,
                                                   const NextInstruction& coming) {
  constexpr int kSet = CachedKeys<kSize>::kSet;
  Words q_gain{}, k_gain{};
  if (s.q_norm) q_gain = static_cast<const Words*>(s.q_norm)[keys.lane_of_set];
  if (s.k_norm) k_gain = static_cast<const Words*>(s.k_norm)[keys.lane_of_set];
  Words read[3];
  read_eights({&s.q, &s.k_new, &s.v_new}, tags,
              {int64_t{head} * kSize + keys.lane_of_set * kPack, keys.offset, keys.offset}, read);
  coming.put();
  __syncwarp();
  if (s.q_norm) read[0] = normalize_head<kSet>(read[0], q_gain, s.q_eps);
  if (s.k_norm) read[1] = normalize_head<kSet>(read[1], k_gain, s.k_eps);
  RotatedHeads heads;
  float rotated[kPack];
  rotate_head<kSet>(read[0], shared, keys.lane_of_set, heads.q);
  rotate_head<kSet>(read[1], shared, keys.lane_of_set, rotated);
  heads.new_k = words_of<Element>(rotated);
  heads.new_v = read[2];
  return heads;
}

template <int kSize>
__device__ void attend(const Instruction& s, const BlockShare& share, MegakernelShared& shared,
                       const MegakernelRun& run, const NextInstruction& coming) {
  using Keys = CachedKeys<kSize>;
  constexpr int kSet = Keys::kSet;
  const int start = run.start, thread = static_cast<int>(threadIdx.x), split = share.split;
  const int splits = splits_of_keys(s, start);
  if (share.head < 0 || split >= splits) {
    coming.put();
    return sync_consumers();
  }
  const int group = s.heads / s.key_heads;
  const Keys keys(s, share.head / group, split, splits, start);
  Words k[2], v[2];
  keys.load(keys.begin, k, v);
  const RotatedHeads heads = read_heads<kSize>(s, keys, share.head, shared, run.tags, coming);
  const bool has_new = split == splits - 1;

  // Processes two rounds of keys at a time, with the new key in the last; the next two rounds are in flight.
  KeyState<Element> state;
#pragma unroll 1
  for (int j = keys.begin;; j += 2 * Keys::kAtOnce) {
    const bool last = j + 2 * Keys::kAtOnce >= keys.end;
    const Words now_k[3] = {k[0], k[1], heads.new_k}, now_v[3] = {v[0], v[1], heads.new_v};
    const bool seen[3] = {j + keys.key < keys.end, j + Keys::kAtOnce + keys.key < keys.end,
                          last && has_new && keys.key == 0};
    if (!last) keys.load(j + 2 * Keys::kAtOnce, k, v);
    add_three_keys<kSet>(state, heads.q, now_k, now_v, seen, s.scale);
    if (last) break;
  }
  if (has_new && keys.key == 0 && share.head % group == 0) keys.put(start, heads.new_k, heads.new_v);

  const uint32_t tag = run.tags + s.tag;
  put_warp<Element, kSet>(state, shared.of_warp[thread / kLanes]);
  sync_consumers();
  PairState whole;
  if (thread < kSize / 2) whole = merge_rows<kSize>(shared.of_warp, kConsumerWarps, thread);
  if (splits > 1) {
    TaggedWord* words = s.split_words + int64_t{share.head} * s.splits * (kSize + 2);
    write_split<kSize>(words + split * (kSize + 2), whole, tag);
    if (split > 0) return;
    read_splits<kSize>(words, tag, splits, shared);
    sync_consumers();
    if (thread < kSize / 2) whole = merge_rows<kSize>(shared.of_split, splits, thread);
  }
  put_head<kSize>(s, share.head, whole, tag);
}

}  // namespace genesis::cuda
