// Packs operands into panels and converts them to the kernel's element type. A packed element of 4 bytes, called a word here, is
// one f32 or a pair of bf16 neighbors along k.
#include <algorithm>

#include "backends/cpu/gemm/gemm_kernels.h"
#include "backends/cpu/simd/highway_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/gemm/gemm_pack.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>  // must precede highway.h
#include <hwy/highway.h>
//
#include "backends/cpu/gemm/gemm_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace genesis::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using Float = hn::ScalableTag<float>;  // words are moved as floats; nothing is computed with them
constexpr int kLanes = hn::MaxLanes(Float());

// A source type reads one vector of words, which are consecutive along a line or across lines. `next` is the distance from an
// element to its neighbor along k.
struct FromF32 {
  using Element = float;
  static constexpr int kPerWord = 1;
  template <class D>
  static hn::Vec<D> load(D d, const float* p, int64_t) {
    return hn::LoadU(d, p);
  }
  static float word(const float* p, int64_t, bool) { return *p; }
};

template <class Half>
struct FromHalf {
  using Element = Half;
  static constexpr int kPerWord = 1;
  template <class D>
  static hn::Vec<D> load(D d, const Half* p, int64_t) {
    return hn::PromoteTo(d, hn::LoadU(hn::Rebind<Half, D>(), p));
  }
  static float word(const Half* p, int64_t, bool) {
    const hn::CappedTag<float, 1> one;
    return hn::GetLane(load(one, p, 0));
  }
};
using FromBf16 = FromHalf<hwy::bfloat16_t>;
using FromF16 = FromHalf<hwy::float16_t>;

struct PairsOfBf16 {
  using Element = uint16_t;
  static constexpr int kPerWord = 2;
  template <class D>
  static hn::Vec<D> load(D d, const uint16_t* p, int64_t next) {
    if (next == 1) return hn::LoadU(d, reinterpret_cast<const float*>(p));
    const hn::RebindToUnsigned<D> du;
    const hn::Rebind<uint16_t, D> half;
    const auto low = hn::PromoteTo(du, hn::LoadU(half, p)),
               high = hn::PromoteTo(du, hn::LoadU(half, p + next));
    return hn::BitCast(d, hn::Or(low, hn::ShiftLeft<16>(high)));
  }
  static float word(const uint16_t* p, int64_t next, bool alone) {
    const uint32_t bits = p[0] | (alone ? 0u : static_cast<uint32_t>(p[next]) << 16);
    float word;
    hwy::CopySameSize(&bits, &word);
    return word;
  }
};

// Number of lines that are transposed together. With AVX-512 it is 8 as well, not 16: that needs half as many shuffles per word.
template <int width>
constexpr int kGroup = kLanes == 1                 ? 1
                       : kLanes >= 8 && width >= 8 ? 8
                                                   : 4;

#if HWY_TARGET != HWY_SCALAR
// Transposes 4 x 4 words in every 128-bit block: word r of the 4 lines of a block becomes v[r].
template <class D>
HWY_INLINE void transpose_blocks(D d, hn::Vec<D>* v) {
  const hn::RepartitionToWide<D> wide;
  const auto ab0 = hn::BitCast(wide, hn::InterleaveLower(d, v[0], v[1]));
  const auto ab2 = hn::BitCast(wide, hn::InterleaveUpper(d, v[0], v[1]));
  const auto ce0 = hn::BitCast(wide, hn::InterleaveLower(d, v[2], v[3]));
  const auto ce2 = hn::BitCast(wide, hn::InterleaveUpper(d, v[2], v[3]));
  v[0] = hn::BitCast(d, hn::InterleaveLower(wide, ab0, ce0));
  v[1] = hn::BitCast(d, hn::InterleaveUpper(wide, ab0, ce0));
  v[2] = hn::BitCast(d, hn::InterleaveLower(wide, ab2, ce2));
  v[3] = hn::BitCast(d, hn::InterleaveUpper(wide, ab2, ce2));
}
#endif

// Transposes a group of lines, taking as many words of each line: word p of line i goes to to[p * width + i].
template <class Source, int width>
HWY_INLINE void transpose_group(const typename Source::Element* const* line, int64_t p, float* to) {
  constexpr int group = kGroup<width>;
  const hn::CappedTag<float, group> d;
  hn::Vec<decltype(d)> v[group];
#pragma GCC unroll 8
  for (int i = 0; i < group; ++i) v[i] = Source::load(d, line[i] + p, 1);
#if HWY_TARGET != HWY_SCALAR
  transpose_blocks(d, v);
#endif
#if HWY_TARGET <= HWY_AVX2
  if constexpr (group == 8) {
    transpose_blocks(d, v + 4);
#pragma GCC unroll 4
    for (int r = 0; r < 4; ++r) {
      hn::StoreU(hn::ConcatLowerLower(d, v[r + 4], v[r]), d, to + r * width);
      hn::StoreU(hn::ConcatUpperUpper(d, v[r + 4], v[r]), d, to + (r + 4) * width);
    }
    return;
  }
#endif
#pragma GCC unroll 8
  for (int i = 0; i < group; ++i) hn::StoreU(v[i], d, to + i * width);
}

// Packs `k` elements of a group of lines. A line that does not exist is given as a copy of one that does. The data to prefetch
// lies `ahead` elements further.
template <class Source, int width>
void pack_group(const typename Source::Element* const* line, int64_t k, int64_t ahead, float* to) {
  constexpr int per = Source::kPerWord, group = kGroup<width>;
  for (int64_t p = 0; p < k; p += 64 / sizeof(typename Source::Element)) {
    for (int i = 0; i < group; ++i) hwy::Prefetch(line[i] + p + ahead);
  }
  int64_t p = 0;
  for (; p + group * per <= k; p += group * per)
    transpose_group<Source, width>(line, p, to + p / per * width);
  for (; p < k; p += per) {
    for (int i = 0; i < group; ++i) to[p / per * width + i] = Source::word(line[i] + p, 1, p + 1 == k);
  }
}

// Packs lines that are contiguous along k. Going through k in blocks keeps the written panel in L1 while all groups of lines are
// packed. Lines that do not exist are replaced by copies of the last one.
template <class Source, class Panel>
void pack_along_k(const void* source, int64_t stride, int64_t count, int64_t k, void* panels,
                  int64_t panel_stride) {
  constexpr int64_t kBlock = 64 * Source::kPerWord;
  constexpr int width = Panel::kWidth, group = kGroup<width>;
  const auto* from = static_cast<const typename Source::Element*>(source);
  auto* panel = static_cast<float*>(panels);
  for (int64_t first = 0; first < count; first += Panel::kLines, panel += panel_stride) {
    for (int64_t p = 0; p < k; p += kBlock) {
      float* to = panel + p / Source::kPerWord * width;
      const bool next_panel = p + kBlock >= k && first + Panel::kLines < count;
      const int64_t ahead = next_panel ? Panel::kLines * stride - p : kBlock;
      for (int start = 0; start < width; start += group) {
        const typename Source::Element* line[group];
        for (int i = 0; i < group; ++i) line[i] = from + std::min(first + start + i, count - 1) * stride + p;
        pack_group<Source, width>(line, std::min(kBlock, k - p), ahead, to + start);
      }
    }
  }
}

// Packs one step of depth of a whole panel. If the lines do not fill whole vectors, the last two vectors overlap.
template <class Source, int lines>
HWY_INLINE void pack_step(const typename Source::Element* from, int64_t next, float* to) {
  constexpr int kPart = lines >= kLanes ? kLanes : kLanes / 2;
  const hn::CappedTag<float, kPart> d;
#pragma GCC unroll 8
  for (int i = 0; i < lines; i += kPart) {
    const int at = std::min(i, lines - kPart);
    hn::StoreU(Source::load(d, from + at, next), d, to + at);
  }
}

template <class Source>
void pack_words(const typename Source::Element* from, int64_t next, bool alone, int valid, int width,
                float* to) {
  for (int i = 0; i < valid; ++i) to[i] = Source::word(from + i, next, alone);
  std::fill(to + valid, to + width, 0.0f);
}

// Packs lines that are strided along k, a few steps of depth at a time: whole cache lines are read and written, and few of them
// are open at once.
template <class Source, class Panel>
void pack_across_k(const void* source, int64_t stride, int64_t count, int64_t k, void* panels,
                   int64_t panel_stride) {
  constexpr int per = Source::kPerWord, lines = Panel::kLines, width = Panel::kWidth;
  constexpr int64_t kBlock = 8 * per;
  const auto* from = static_cast<const typename Source::Element*>(source);
  for (int64_t block = 0; block < k; block += kBlock) {
    auto* panel = static_cast<float*>(panels) + block / per * width;
    for (int64_t first = 0; first < count; first += lines, panel += panel_stride) {
      const int valid = static_cast<int>(std::min<int64_t>(lines, count - first));
      float* to = panel;
      for (int64_t p = block; p < std::min(block + kBlock, k); p += per, to += width) {
        const auto* at = from + p * stride + first;
        const bool alone = per == 2 && p + 1 == k;
        __builtin_prefetch(at + kBlock * stride, 0, 2);
        if (valid == lines && !alone)
          pack_step<Source, lines>(at, stride, to);
        else
          pack_words<Source>(at, stride, alone, valid, width, to);
      }
    }
  }
}

template <class Panel, bool kAlongK>
void pack_f64(const void* source, int64_t stride, int64_t count, int64_t k, void* panels,
              int64_t panel_stride) {
  const int64_t line_stride = kAlongK ? stride : 1, k_stride = kAlongK ? 1 : stride;
  const auto* from = static_cast<const double*>(source);
  auto* to = static_cast<double*>(panels);
  for (int64_t first = 0; first < count; first += Panel::kLines, to += panel_stride) {
    const int64_t valid = std::min<int64_t>(Panel::kLines, count - first);
    for (int64_t p = 0; p < k; ++p) {
      double* step = to + p * Panel::kWidth;
      for (int64_t i = 0; i < valid; ++i) step[i] = from[(first + i) * line_stride + p * k_stride];
      std::fill(step + valid, step + Panel::kWidth, 0.0);
    }
  }
}

template <class Source, class Panel>
PackFunction words_from(bool k_contiguous) {
  return k_contiguous ? pack_along_k<Source, Panel> : pack_across_k<Source, Panel>;
}

template <class Panel>
PackFunction words_of(DType source, DType packed, bool k_contiguous) {
  if (packed == DType::bf16 && HWY_TARGET > HWY_AVX3) return nullptr;  // its tile is that of AVX-512
  if (packed == DType::bf16)
    return source == DType::bf16 ? words_from<PairsOfBf16, Panel>(k_contiguous) : nullptr;
  switch (source) {
    case DType::f32:
      return words_from<FromF32, Panel>(k_contiguous);
    case DType::bf16:
      return words_from<FromBf16, Panel>(k_contiguous);
    case DType::f16:
      return words_from<FromF16, Panel>(k_contiguous);
    default:
      return nullptr;
  }
}

template <class Panel>
PackFunction f64_of(DType source, bool k_contiguous) {
  if (source != DType::f64) return nullptr;
  return k_contiguous ? pack_f64<Panel, true> : pack_f64<Panel, false>;
}

// kLines is the number of lines of a panel, kWidth the elements from one step of depth to the next.
struct PanelOfA {
  static constexpr int kLines = kMr, kWidth = kWidthA;
};
template <class T>
struct PanelOfB {
  static constexpr int kLines = kNr<T>, kWidth = kNr<T>;
};

PackFunction pack_a_for(DType source, DType packed, bool k_contiguous) {
  if (packed == DType::f64) return f64_of<PanelOfA>(source, k_contiguous);
  return words_of<PanelOfA>(source, packed, k_contiguous);
}

PackFunction pack_b_for(DType source, DType packed, bool k_contiguous) {
  return packed == DType::f64 ? f64_of<PanelOfB<double>>(source, k_contiguous)
                              : words_of<PanelOfB<float>>(source, packed, k_contiguous);
}

}  // namespace
}  // namespace genesis::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace genesis::cpu {

HWY_EXPORT(pack_a_for);
HWY_EXPORT(pack_b_for);

PackFunction pack_function_a(DType source, const MicroKernel& kernel, bool k_contiguous) {
  return HWY_DYNAMIC_DISPATCH(pack_a_for)(source, kernel.packed, k_contiguous);
}

PackFunction pack_function_b(DType source, const MicroKernel& kernel, bool k_contiguous) {
  return HWY_DYNAMIC_DISPATCH(pack_b_for)(source, kernel.packed, k_contiguous);
}

}  // namespace genesis::cpu
#endif
