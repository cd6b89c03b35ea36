// The loops of quantized_rows.cpp, included once per instruction set inside a namespace of its own, whose functions are all
// compiled for that set. GENESIS_DOT selects how four products of bytes are summed into a lane: 0 = maddubs (AVX2), 1 = AVX-VNNI,
// 2 = AVX512-VNNI on vectors of 256 bits. A vector holds one block, so that its scale is one number rather than a pattern of
// lanes; memory is the limit anyway.

// Number of sums that stay in registers, of which there are 16 or 32.
constexpr int kSums = GENESIS_DOT == 2 ? 16 : 8;
template <int m>
constexpr int kWeightRows = std::clamp(kSums / m, 1, kStreams);

inline __m256i dot_bytes(__m256i sum, __m256i u8, __m256i i8) {
#if GENESIS_DOT == 2
  return _mm256_dpbusd_epi32(sum, u8, i8);
#elif GENESIS_DOT == 1
  return _mm256_dpbusd_avx_epi32(sum, u8, i8);
#else
  const __m256i pairs = _mm256_maddubs_epi16(u8, i8);
  return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
#endif
}

// The dot product instructions need one unsigned operand. Weights are made unsigned by an offset: a q8 quant + 128 with VNNI, a
// q4 quant + 8 as stored. So each sum begins with minus the offset times the sum of x. The zeros of q4m, which differ between
// blocks, are subtracted from the sums of several blocks at once. On AVX2, the pairs of maddubs would overflow for quant + 128,
// so there the sign of a q8 weight moves to x instead.
template <WeightFormat format>
constexpr bool kMovesSigns = format == WeightFormat::kQ8&& GENESIS_DOT == 0;

// Blocks taken at a time: a vector of q8 is one block. A vector of q4 is two blocks; the lower four bits of its bytes hold the
// first halves of both, so x is stored in the same order.
template <WeightFormat format>
constexpr int kTaken = has_four_bits(format) ? 2 : 1;

inline __m256i load_bytes(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }

template <WeightFormat format>
struct Activations {
  __m256i bytes[kTaken<format>], begin;

  Activations() = default;
  explicit Activations(const int8_t* x) {
    __m256i sum = _mm256_setzero_si256();
    [[maybe_unused]] const __m256i zero =
        _mm256_set1_epi8(static_cast<char>(format == WeightFormat::kQ8 ? 128 : kQ4Zero));
#pragma GCC unroll 2
    for (int i = 0; i < kTaken<format>; ++i) {
      bytes[i] = load_bytes(x + 32 * i);
      if constexpr (!kMovesSigns<format> && !kHasZeros<format>) sum = dot_bytes(sum, zero, bytes[i]);
    }
    begin = _mm256_sub_epi32(_mm256_setzero_si256(), sum);
  }
};

template <WeightFormat format>
struct Weights {
  __m256i bytes[kTaken<format>];

  // `alone` is true for a last block of four bits that has no other block beside it.
  explicit Weights(const uint8_t* quants, bool alone) {
    if constexpr (format == WeightFormat::kQ8) {
      bytes[0] = load_bytes(quants);
      if constexpr (!kMovesSigns<format>)
        bytes[0] = _mm256_xor_si256(bytes[0], _mm256_set1_epi8(static_cast<char>(128)));
    } else {
      const __m256i both =
          alone ? _mm256_zextsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(quants)))
                : load_bytes(quants);
      const __m256i lower = _mm256_set1_epi8(15);
      bytes[0] = _mm256_and_si256(both, lower);
      bytes[1] = _mm256_and_si256(_mm256_srli_epi16(both, 4), lower);
    }
  }
};

// Returns the dot products of the taken blocks as f32: for one block each lane is a sum of four products; for two blocks, four
// lanes belong to each.
template <WeightFormat format>
inline __m256 dot_taken(const Weights<format>& w, const Activations<format>& x) {
#if GENESIS_DOT == 0
  if constexpr (kMovesSigns<format>)
    return _mm256_cvtepi32_ps(dot_bytes(x.begin, _mm256_sign_epi8(w.bytes[0], w.bytes[0]),
                                        _mm256_sign_epi8(x.bytes[0], w.bytes[0])));
  // Four products of four bits and a byte are far from the limit of 16 bits.
  const __m256i pairs =
      _mm256_add_epi16(_mm256_maddubs_epi16(w.bytes[0], x.bytes[0]),
                       _mm256_maddubs_epi16(w.bytes[kTaken<format> - 1], x.bytes[kTaken<format> - 1]));
  return _mm256_cvtepi32_ps(_mm256_add_epi32(x.begin, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1))));
#else
  __m256i sum = x.begin;
#pragma GCC unroll 2
  for (int i = 0; i < kTaken<format>; ++i) sum = dot_bytes(sum, w.bytes[i], x.bytes[i]);
  return _mm256_cvtepi32_ps(sum);
#endif
}

template <WeightFormat format>
inline __m256 load_factors(const float* at) {
  if constexpr (format == WeightFormat::kQ8) return _mm256_broadcast_ss(at);
  const __m256 both = _mm256_castpd_ps(_mm256_broadcast_sd(reinterpret_cast<const double*>(at)));
  return _mm256_permutevar_ps(both, _mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1));
}

inline float sum_of_lanes(__m256 v) {
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

inline __m128i load_words(const uint16_t* words, int64_t count) {
  if (count >= kScalesAtOnce) return _mm_loadu_si128(reinterpret_cast<const __m128i*>(words));
  if (count == 4) return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(words));
  uint16_t some[kScalesAtOnce] = {};
  std::copy_n(words, count, some);
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(some));
}

// Returns the scales in the words of blocks.
template <WeightFormat format>
inline __m256 scales_in(__m128i words) {
  if constexpr (kHasZeros<format>)
    words = _mm_and_si128(_mm_srli_epi16(words, 1), _mm_set1_epi16(q4m_scale_bits(0xffff)));
  return _mm256_cvtph_ps(words);
}
// Returns the zeros in the words of q4m blocks, in their units.
inline __m256 zeros_in(__m128i words) {
  return _mm256_cvtepi32_ps(_mm256_and_si256(_mm256_cvtepu16_epi32(words), _mm256_set1_epi32(kQ4mMostZero)));
}

// Writes the products of the scales of weights and of x for `count` blocks from `first` on, and subtracts these blocks' zeros from
// the sums. `scales` are those of the first stream.
template <WeightFormat format, int m, int rows>
inline void fill_factors(const GemvCall& r, const QuantizedRow& row, const uint16_t* scales, int64_t first,
                         int64_t count, float (&factors)[m][rows][kScalesAtOnce], __m256 (&sum)[m][rows]) {
#pragma GCC unroll 4
  for (int j = 0; j < rows; ++j) {
    const __m128i words = load_words(scales + j * r.apart * (r.k / kQuantBlock) + first, count);
    const __m256 of_w = scales_in<format>(words);
#pragma GCC unroll 8
    for (int i = 0; i < m; ++i) {
      const __m256 factor = _mm256_mul_ps(of_w, _mm256_loadu_ps(row.scales + i * r.stride_x + first));
      _mm256_store_ps(factors[i][j], factor);
      if constexpr (kHasZeros<format>)
        sum[i][j] = _mm256_fnmadd_ps(
            _mm256_mul_ps(zeros_in(words), _mm256_loadu_ps(row.sums + i * r.stride_x + first)), factor,
            sum[i][j]);
    }
  }
}

// Multiplies m rows of x by one row of the weights from each of `rows` streams.
template <WeightFormat format, int m, int rows>
void dot_group(const GemvCall& r, const float* x, const uint8_t* w, const uint16_t* scales, float* sums) {
  const int64_t blocks = r.k / kQuantBlock, bytes = blocks * quant_block_bytes(format);
  const QuantizedRow row(x, r.k);
  __m256 sum[m][rows];
#pragma GCC unroll 8
  for (int i = 0; i < m; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < rows; ++j) sum[i][j] = _mm256_setzero_ps();
  }
  for (int64_t first = 0; first < blocks; first += kScalesAtOnce) {
    const int64_t count = std::min(kScalesAtOnce, blocks - first);
    alignas(32) float factors[m][rows][kScalesAtOnce];
    fill_factors<format>(r, row, scales, first, count, factors, sum);
    for (int64_t b = 0; b < count; b += kTaken<format>) {
      const int64_t at = first + b;
      Activations<format> x_taken[m];
#pragma GCC unroll 8
      for (int i = 0; i < m; ++i)
        x_taken[i] = Activations<format>(row.quants + at * kQuantBlock + i * r.stride_x * 4);
#pragma GCC unroll 4
      for (int j = 0; j < rows; ++j) {
        const Weights<format> taken(w + j * r.apart * bytes + at * quant_block_bytes(format),
                                    at + 1 == blocks);
#pragma GCC unroll 8
        for (int i = 0; i < m; ++i)
          sum[i][j] = _mm256_fmadd_ps(dot_taken(taken, x_taken[i]), load_factors<format>(&factors[i][j][b]),
                                      sum[i][j]);
      }
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < m; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < rows; ++j) sums[i * r.stride_sums + j * r.n] = sum_of_lanes(sum[i][j]);
  }
}

template <WeightFormat format, int m>
void dot_rows_of(const GemvCall& r, const float* x, float* sums) {
  constexpr int rows = kWeightRows<m>;
  const int64_t blocks = r.k / kQuantBlock;
  const auto at = [&](int64_t row) {
    return static_cast<const uint8_t*>(r.weights) + row * blocks * quant_block_bytes(format);
  };
  const auto scales_at = [&](int64_t row) { return static_cast<const uint16_t*>(r.scales) + row * blocks; };
  int64_t s = 0;
  for (; s + rows <= r.streams; s += rows)
    for (int64_t j = 0, row = s * r.apart; j < r.n; ++j, ++row)
      dot_group<format, m, rows>(r, x, at(row), scales_at(row), sums + s * r.n + j);
  for (; s < r.streams; ++s)
    for (int64_t j = 0, row = s * r.apart; j < r.n; ++j, ++row)
      dot_group<format, m, 1>(r, x, at(row), scales_at(row), sums + s * r.n + j);
}

template <WeightFormat format>
void dot_rows(const GemvCall& r) {
  int64_t i = 0;
  const auto group = [&]<int m>() {
    dot_rows_of<format, m>(r, r.x + i * r.stride_x, r.sums + i * r.stride_sums);
    i += m;
  };
  while (i + 4 <= padded_rows(r.m)) group.template operator()<4>();
  if (i + 2 <= padded_rows(r.m)) group.template operator()<2>();
  if (i < padded_rows(r.m)) group.template operator()<1>();
}

// Loads eight values of a row as f32.
inline __m256 load_values(const float* x) { return _mm256_loadu_ps(x); }
inline __m256 load_values(const f16* x) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x)));
}
inline __m256 load_values(const bf16* x) {
  const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x)));
  return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}

// Returns the greatest magnitude. Magnitudes compare like the integers with the same bits; NaN is above all of them.
inline float greatest_magnitude(const __m256 (&values)[4]) {
  const __m256i no_sign = _mm256_set1_epi32(0x7fffffff);
  __m256i most = _mm256_setzero_si256();
  for (const __m256& value : values)
    most = _mm256_max_epi32(most, _mm256_and_si256(_mm256_castps_si256(value), no_sign));
  const __m128i four = _mm_max_epi32(_mm256_castsi256_si128(most), _mm256_extracti128_si256(most, 1));
  const __m128i two = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0x4e));
  return std::bit_cast<float>(_mm_cvtsi128_si32(_mm_max_epi32(two, _mm_shuffle_epi32(two, 0xb1))));
}

template <class T>
inline float quantize_block(const T* x, int8_t* quants) {
  const __m256 values[4] = {load_values(x), load_values(x + 8), load_values(x + 16), load_values(x + 24)};
  const float scale = activation_scale(greatest_magnitude(values));
  const __m256 by = _mm256_set1_ps(scale > 0 ? 1 / scale : 0);
  __m256i rounded[4];
  for (int i = 0; i < 4; ++i) rounded[i] = _mm256_cvtps_epi32(_mm256_mul_ps(values[i], by));
  // Packing works on halves of vectors; the permutation restores the order of the groups of four bytes.
  const __m256i bytes = _mm256_packs_epi16(_mm256_packs_epi32(rounded[0], rounded[1]),
                                           _mm256_packs_epi32(rounded[2], rounded[3]));
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(quants), _mm256_permutevar8x32_epi32(bytes, order));
  return scale;
}

template <class T>
void quantize_row(const void* x, int64_t k, int8_t* quants, float* scales) {
  for (int64_t at = 0; at < k; at += kQuantBlock)
    scales[at / kQuantBlock] = quantize_block(static_cast<const T*>(x) + at, quants + at);
}

// Reorders two adjacent blocks: the first halves of both, then the second halves.
inline void lay_beside_each_other(int8_t* quants) {
  const __m256i a = load_bytes(quants), b = load_bytes(quants + 32);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(quants), _mm256_permute2x128_si256(a, b, 0x20));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(quants + 32), _mm256_permute2x128_si256(a, b, 0x31));
}

template <WeightFormat format, class T>
void pack(const RowsOfA& a, float* x) {
  pack_rows<format, T>(a, x, quantize_block<T>);
  if constexpr (kTaken<format> == 2)
    for (int64_t row = 0; row < a.m; ++row)
      for (int64_t k = 0; k < a.k; k += 2 * kQuantBlock)
        lay_beside_each_other(reinterpret_cast<int8_t*>(x + row * packed_row<format>(a.k)) + k);
}

template <WeightFormat format>
GemvKernel kernel_of(DType a) {
  return {dot_rows<format>, dispatch_rows(a, []<class T>(TypeTag<T>) { return pack<format, T>; }),
          packed_row<format>, kStreams};
}

inline GemvKernel kernel(DType a, WeightFormat format) {
  if (format == WeightFormat::kQ8) return kernel_of<WeightFormat::kQ8>(a);
  return format == WeightFormat::kQ4 ? kernel_of<WeightFormat::kQ4>(a) : kernel_of<WeightFormat::kQ4m>(a);
}
