// q4 and q4m on AVX512-VNNI, included by quantized_rows.cpp after quantized_rows-inl.h, in the same namespace. They have half the
// bytes of q8, which leaves half the time per block. So a step takes 16 blocks of a row here: the sums of their products become
// one vector with one lane per block, and only that vector is multiplied by scales.

constexpr int kVectors = 4;  // vectors of weights in a step, with four blocks each
constexpr int kBlocksOfStep = 16;
// Prefetch distance in bytes, in each stream. One cache line per step is prefetched into L2, so that the page is known when the
// hardware prefetcher reaches it. Prefetching all lines, or into L1, is slower than no prefetching.
constexpr int kWeightsAhead = 1024;
constexpr int kStepBytes = 64 * kVectors;  // bytes of weights in a step

// The part of a row of x that one step uses. The first vector of each pair meets the lower four bits of a vector of weights, the
// second the upper four bits. Lane 4 i + v of scales, begins and sums belongs to block 4 v + i. Weights are used as their four
// bits, which in q4 are 8 too large; `begins` corrects for it. For q4m, `sums` are those of the blocks in units of a zero.
struct Step {
  int8_t quants[kVectors][2][64];
  float scales[kBlocksOfStep];
  union {
    int32_t begins[kBlocksOfStep];
    float sums[kBlocksOfStep];
  };
};

int64_t steps_of(int64_t k) { return ceil_div(k, kBlocksOfStep * kQuantBlock); }
int64_t q4_packed_row(int64_t k) { return steps_of(k) * static_cast<int64_t>(sizeof(Step) / sizeof(float)); }

// Reduces four vectors, each with four lanes for each of four blocks, to one vector with one lane per block. The sum over half a
// block of four bits times a byte is within +-30,480, so the intermediate values fit 16 bits.
inline __m512i sums_of_blocks(const __m512i (&lanes)[kVectors]) {
  const __m512i ones = _mm512_set1_epi16(1);
  const __m512i a = _mm512_madd_epi16(_mm512_packs_epi32(lanes[0], lanes[1]), ones),
                b = _mm512_madd_epi16(_mm512_packs_epi32(lanes[2], lanes[3]), ones);
  return _mm512_madd_epi16(_mm512_packs_epi32(a, b), ones);
}

// Hides from the compiler how a value was computed. Otherwise it keeps each derived address in its own register, of which there
// are too few, and loads a vector again for each use.
template <class T>
inline T* as_is(T* address) {
  asm("" : "+r"(address));
  return address;
}
inline __m512i as_is(__m512i bytes) {
  asm("" : "+v"(bytes));
  return bytes;
}

// Masks for the last step of a row: the bytes present in its last vector of weights, and the scales present.
struct Present {
  __mmask64 bytes;
  __mmask16 scales;
  explicit Present(int64_t blocks)
      : bytes(~uint64_t{0} >> (blocks % 4 == 0 ? 0 : 64 - blocks % 4 * 16)),
        scales(static_cast<__mmask16>((1u << blocks) - 1)) {}
};

// The position of a step in the weights and scales of one row of the first stream.
struct WeightCursor {
  const uint8_t* weights;
  const uint16_t* scales;
  int64_t weights_apart, scales_apart;  // distances from stream to stream
};

// The scales and zeros in the words of a step's blocks.
template <WeightFormat format>
struct WordsOfStep {
  __m512 scales, zeros;
  explicit WordsOfStep(__m256i words) {
    const __m256i order = _mm256_setr_epi16(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    words = _mm256_permutexvar_epi16(order, words);
    if constexpr (kHasZeros<format>) {
      const __m256i zero_bits = _mm256_and_si256(words, _mm256_set1_epi16(kQ4mMostZero));
      zeros = _mm512_cvtepi32_ps(_mm512_cvtepu16_epi32(zero_bits));
      words = _mm256_and_si256(_mm256_srli_epi16(words, 1), _mm256_set1_epi16(q4m_scale_bits(0xffff)));
    }
    scales = _mm512_cvtph_ps(words);
  }
  // Returns the blocks' products without their scales.
  __m512 dots(__m512i sums, const Step& x) const {
    if constexpr (kHasZeros<format>)
      return _mm512_fnmadd_ps(zeros, _mm512_load_ps(x.sums), _mm512_cvtepi32_ps(sums));
    else
      return _mm512_cvtepi32_ps(_mm512_add_epi32(sums, _mm512_load_si512(x.begins)));
  }
};

// Adds one step to the sums. The last step of a row (not `whole`) has only `vectors` vectors, the last of them masked by
// `present`; other steps are whole.
template <WeightFormat format, int vectors, bool whole, int m, int rows>
inline void take_step(const Step* x, int64_t steps_apart, const WeightCursor& cursor, const Present& present,
                      __m512 (&sum)[m][rows]) {
  const __m512i lower = _mm512_set1_epi8(15);
  const uint8_t* w = cursor.weights;
  const uint16_t* scales = cursor.scales;
#pragma GCC unroll 4
  for (int j = 0; j < rows; ++j) {
    __builtin_prefetch(w + kWeightsAhead, 0, 2);
    __m512i lanes[m][kVectors] = {};
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) {
      const __m512i both =
          as_is(whole || v + 1 < vectors ? _mm512_loadu_si512(w + 64 * v)
                                         : _mm512_maskz_loadu_epi8(present.bytes, w + 64 * v));
      const __m512i low = _mm512_and_si512(both, lower),
                    high = _mm512_and_si512(_mm512_srli_epi16(both, 4), lower);
#pragma GCC unroll 4
      for (int i = 0; i < m; ++i) {
        const auto& quants = x[i * steps_apart].quants[v];
        lanes[i][v] = _mm512_dpbusd_epi32(lanes[i][v], low, _mm512_load_si512(quants[0]));
        lanes[i][v] = _mm512_dpbusd_epi32(lanes[i][v], high, _mm512_load_si512(quants[1]));
      }
    }
    const __m256i packed = whole ? _mm256_loadu_si256(reinterpret_cast<const __m256i*>(scales))
                                 : _mm256_maskz_loadu_epi16(present.scales, scales);
    const WordsOfStep<format> of_w(packed);
#pragma GCC unroll 4
    for (int i = 0; i < m; ++i) {
      const Step& of_x = x[i * steps_apart];
      sum[i][j] = _mm512_fmadd_ps(of_w.dots(sums_of_blocks(lanes[i]), of_x),
                                  _mm512_mul_ps(of_w.scales, _mm512_load_ps(of_x.scales)), sum[i][j]);
    }
    w = as_is(w + cursor.weights_apart);
    scales = as_is(scales + cursor.scales_apart);
  }
}

template <WeightFormat format, int m, int rows>
inline void take_last_step(int64_t blocks, const Step* x, int64_t steps_apart, const WeightCursor& cursor,
                           __m512 (&sum)[m][rows]) {
  const Present present(blocks);
  switch (ceil_div(blocks, 4)) {
    case 1:
      return take_step<format, 1, false>(x, steps_apart, cursor, present, sum);
    case 2:
      return take_step<format, 2, false>(x, steps_apart, cursor, present, sum);
    case 3:
      return take_step<format, 3, false>(x, steps_apart, cursor, present, sum);
    case 4:
      return take_step<format, 4, false>(x, steps_apart, cursor, present, sum);
  }
}

inline float sum_of_lanes(__m512 v) {
  return sum_of_lanes(
      _mm256_add_ps(_mm512_maskz_extractf32x8_ps(0xff, v, 0), _mm512_maskz_extractf32x8_ps(0xff, v, 1)));
}

// Multiplies m rows of x by one row of the weights from each of `rows` streams.
template <WeightFormat format, int m, int rows>
void q4_dot_group(const GemvCall& r, const float* x, int64_t row, float* sums) {
  const int64_t blocks = r.k / kQuantBlock, bytes = blocks * quant_block_bytes(format),
                steps_apart = r.stride_x * 4 / static_cast<int64_t>(sizeof(Step));
  WeightCursor cursor{static_cast<const uint8_t*>(r.weights) + row * bytes,
                      static_cast<const uint16_t*>(r.scales) + row * blocks, r.apart * bytes,
                      r.apart * blocks};
  const auto* step = reinterpret_cast<const Step*>(x);
  __m512 sum[m][rows];
#pragma GCC unroll 4
  for (int i = 0; i < m; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < rows; ++j) sum[i][j] = _mm512_setzero_ps();
  }
  int64_t left = blocks;
  for (; left >= kBlocksOfStep; left -= kBlocksOfStep, ++step) {
    take_step<format, kVectors, true>(step, steps_apart, cursor, Present(kBlocksOfStep), sum);
    cursor.weights += kStepBytes;
    cursor.scales += kBlocksOfStep;
  }
  if (left > 0) take_last_step<format>(left, step, steps_apart, cursor, sum);
#pragma GCC unroll 4
  for (int i = 0; i < m; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < rows; ++j) sums[i * r.stride_sums + j * r.n] = sum_of_lanes(sum[i][j]);
  }
}

template <WeightFormat format, int m>
void q4_dot_rows_of(const GemvCall& r, const float* x, float* sums) {
  constexpr int rows = kWeightRows<m>;
  int64_t s = 0;
  for (; s + rows <= r.streams; s += rows)
    for (int64_t j = 0; j < r.n; ++j)
      q4_dot_group<format, m, rows>(r, x, s * r.apart + j, sums + s * r.n + j);
  for (; s < r.streams; ++s)
    for (int64_t j = 0; j < r.n; ++j) q4_dot_group<format, m, 1>(r, x, s * r.apart + j, sums + s * r.n + j);
}

template <WeightFormat format>
void q4_dot_rows(const GemvCall& r) {
  int64_t i = 0;
  const auto group = [&]<int m>() {
    q4_dot_rows_of<format, m>(r, r.x + i * r.stride_x, r.sums + i * r.stride_sums);
    i += m;
  };
  while (i + 4 <= padded_rows(r.m)) group.template operator()<4>();
  if (i + 2 <= padded_rows(r.m)) group.template operator()<2>();
  if (i < padded_rows(r.m)) group.template operator()<1>();
}

// Writes a quantized block of x to its place in a step.
template <WeightFormat format>
inline void place_block(const int8_t (&quants)[kQuantBlock], float scale, int block, Step& step) {
  const int v = block / 4, i = block % 4;
  int32_t sum = 0;
  for (int8_t quant : quants) sum += quant;
  for (int half = 0; half < 2; ++half) std::memcpy(step.quants[v][half] + 16 * i, quants + 16 * half, 16);
  if constexpr (kHasZeros<format>) {
    step.scales[4 * i + v] = scale * kQ4mScaleUnit;
    step.sums[4 * i + v] = static_cast<float>(sum) * kQ4mZeroUnit;
  } else {
    step.scales[4 * i + v] = scale;
    step.begins[4 * i + v] = -kQ4Zero * sum;
  }
}

template <WeightFormat format, class T>
void q4_pack(const RowsOfA& a, float* x) {
  auto* step = reinterpret_cast<Step*>(x);
  for (int64_t row = 0; row < padded_rows(a.m); ++row)
    for (int64_t first = 0; first < a.k; first += kBlocksOfStep * kQuantBlock, ++step) {
      *step = Step{};
      for (int64_t at = first; row < a.m && at < std::min(a.k, first + kBlocksOfStep * kQuantBlock);
           at += kQuantBlock) {
        int8_t quants[kQuantBlock];
        const BlockOfX<T> block(a, row, at);
        const float scale = quantize_block(block.values, quants);
        place_block<format>(quants, scale, static_cast<int>((at - first) / kQuantBlock), *step);
      }
    }
}

template <WeightFormat format>
GemvKernel q4_kernel(DType a) {
  return {q4_dot_rows<format>, dispatch_rows(a, []<class T>(TypeTag<T>) { return q4_pack<format, T>; }),
          q4_packed_row, kStreams};
}

GemvKernel best_kernel(DType a, WeightFormat format) {
  if (format == WeightFormat::kQ8) return kernel(a, format);
  return format == WeightFormat::kQ4 ? q4_kernel<WeightFormat::kQ4>(a) : q4_kernel<WeightFormat::kQ4m>(a);
}
