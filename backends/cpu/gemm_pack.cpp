// Packing of operands into panels, with conversion to the kernel's element type. Used by gemm_packed.cpp
// through pack_function. Bound by memory, so plain 16-byte vectors of the baseline do: no dispatch by
// instruction set. A packed element of 4 bytes is one f32 or one pair of bf16 neighbours along k; both travel
// as "words" here.
#include <algorithm>
#include <bit>
#include <cstring>

#include "backends/cpu/gemm_kernels.h"

namespace genesis::cpu {
namespace {

using Words = uint32_t __attribute__((vector_size(16)));
using Halves = uint16_t __attribute__((vector_size(8)));

Words widen(const uint16_t* p) {
  Halves h;
  std::memcpy(&h, p, sizeof h);
  return __builtin_convertvector(h, Words);
}

// IEEE binary16 to binary32 by exponent arithmetic: the multiplication renormalises subnormals exactly.
Words f16_to_f32(Words h) {
  using Floats = float __attribute__((vector_size(16)));
  const Words magnitude = (h & 0x7fff) << 13;
  const Words scaled = (Words)((Floats)magnitude * 0x1p112f);
  const Words special = (Words)((h & 0x7c00) == 0x7c00) & 0x7f800000u;
  return scaled | special | (h & 0x8000) << 16;
}

// A source: how to read 4 words that lie one after another along a line (k contiguous), or side by side (one
// p).
struct FromF32 {
  using Element = uint32_t;
  static constexpr int kPerWord = 1;
  static Words load(const Element* p, int64_t) {
    Words w;
    std::memcpy(&w, p, sizeof w);
    return w;
  }
  static uint32_t word(const Element* p, int64_t, bool) { return *p; }
};

struct FromBf16 {
  using Element = uint16_t;
  static constexpr int kPerWord = 1;
  static Words load(const Element* p, int64_t) { return widen(p) << 16; }
  static uint32_t word(const Element* p, int64_t, bool) { return static_cast<uint32_t>(*p) << 16; }
};

struct FromF16 {
  using Element = uint16_t;
  static constexpr int kPerWord = 1;
  static Words load(const Element* p, int64_t) { return f16_to_f32(widen(p)); }
  static uint32_t word(const Element* p, int64_t, bool) { return f16_to_f32(Words{*p, 0, 0, 0})[0]; }
};

// Pairs of bf16: `next` is the distance from an element to its neighbour along k.
struct PairsOfBf16 {
  using Element = uint16_t;
  static constexpr int kPerWord = 2;
  static Words load(const Element* p, int64_t next) {
    if (next == 1) return FromF32::load(reinterpret_cast<const uint32_t*>(p), 0);
    return widen(p) | widen(p + next) << 16;
  }
  static uint32_t word(const Element* p, int64_t next, bool alone) {
    return p[0] | (alone ? 0u : static_cast<uint32_t>(p[next]) << 16);
  }
};

void store(uint32_t* p, Words w) { std::memcpy(p, &w, sizeof w); }

// Four lines of four words each -> four steps of depth of four lines each.
void transpose_4x4(const Words (&r)[4], uint32_t* to, int width) {
  const Words a = __builtin_shufflevector(r[0], r[1], 0, 4, 1, 5),
              b = __builtin_shufflevector(r[2], r[3], 0, 4, 1, 5);
  const Words c = __builtin_shufflevector(r[0], r[1], 2, 6, 3, 7),
              d = __builtin_shufflevector(r[2], r[3], 2, 6, 3, 7);
  store(to, __builtin_shufflevector(a, b, 0, 1, 4, 5));
  store(to + width, __builtin_shufflevector(a, b, 2, 3, 6, 7));
  store(to + 2 * width, __builtin_shufflevector(c, d, 0, 1, 4, 5));
  store(to + 3 * width, __builtin_shufflevector(c, d, 2, 3, 6, 7));
}

// Four lines at once; a line that does not exist is given as a copy of one that does. What will be read next
// lies `ahead` elements away.
template <class Source>
void pack_four_lines(const typename Source::Element* const (&line)[4], int64_t k, int width, int64_t ahead,
                     uint32_t* to) {
  constexpr int per = Source::kPerWord;
  constexpr int64_t kLine = 64 / sizeof(typename Source::Element);
  const int64_t depth = (k + per - 1) / per, whole = k / per / 4 * 4;
  for (int64_t p = 0; p < k; p += kLine) {
    for (int i = 0; i < 4; ++i) __builtin_prefetch(line[i] + p + ahead);
  }
  for (int64_t p = 0; p < whole; p += 4) {
    const Words rows[4] = {Source::load(line[0] + p * per, 1), Source::load(line[1] + p * per, 1),
                           Source::load(line[2] + p * per, 1), Source::load(line[3] + p * per, 1)};
    transpose_4x4(rows, to + p * width, width);
  }
  for (int64_t p = whole; p < depth; ++p) {
    for (int i = 0; i < 4; ++i) to[p * width + i] = Source::word(line[i] + p * per, 1, p * per + 1 == k);
  }
}

// Blocks of k keep what is written in L1 while the groups of four lines take their turns.
template <class Source>
void pack_along_k(const void* source, int64_t stride, int64_t count, int64_t k, int width, void* panels,
                  int64_t panel_stride) {
  constexpr int64_t kBlock = 64 * Source::kPerWord;
  const auto* from = static_cast<const typename Source::Element*>(source);
  for (int64_t first = 0; first < count; first += width) {
    auto* panel = static_cast<uint32_t*>(panels) + first / width * panel_stride;
    for (int64_t p = 0; p < k; p += kBlock) {
      uint32_t* to = panel + p / Source::kPerWord * width;
      const int64_t ahead = p + kBlock < k ? kBlock : width * stride - p;
      for (int group = 0; group < width; group += 4) {
        const int base = std::min(group, width - 4);  // the last group may overlap the one before
        const auto line = [&](int i) { return from + std::min(first + base + i, count - 1) * stride + p; };
        pack_four_lines<Source>({line(0), line(1), line(2), line(3)}, std::min(kBlock, k - p), width, ahead,
                                to + base);
      }
    }
  }
}

// One step of depth of one panel: `valid` words side by side.
template <class Source>
void pack_words(const typename Source::Element* from, int64_t next, bool alone, int valid, uint32_t* to) {
  if (valid >= 4 && !alone) {
    for (int i = 0; i < valid; i += 4) {
      const int at = std::min(i, valid - 4);
      store(to + at, Source::load(from + at, next));
    }
    return;
  }
  for (int i = 0; i < valid; ++i) to[i] = Source::word(from + i, next, alone);
}

// A few steps of depth at a time: whole cache lines are read and written, and few lines are open at once.
template <class Source>
void pack_across_k(const void* source, int64_t stride, int64_t count, int64_t k, int width, void* panels,
                   int64_t panel_stride) {
  constexpr int per = Source::kPerWord;
  constexpr int64_t kBlock = 8 * per, kLine = 64 / sizeof(typename Source::Element);
  const auto* from = static_cast<const typename Source::Element*>(source);
  for (int64_t block = 0; block < k; block += kBlock) {
    for (int64_t first = 0; first < count; first += width) {
      const int valid = static_cast<int>(std::min<int64_t>(width, count - first));
      auto* to = static_cast<uint32_t*>(panels) + first / width * panel_stride + block / per * width;
      for (int64_t p = block; p < std::min(block + kBlock, k); p += per, to += width) {
        for (int64_t i = 0; i < valid; i += kLine)
          __builtin_prefetch(from + (p + kBlock) * stride + first + i);
        pack_words<Source>(from + p * stride + first, stride, per == 2 && p + 1 == k, valid, to);
        std::fill(to + valid, to + width, 0u);
      }
    }
  }
}

void pack_f64(const void* source, int64_t line_stride, int64_t k_stride, int64_t count, int64_t k, int width,
              void* panels, int64_t panel_stride) {
  const auto* from = static_cast<const double*>(source);
  auto* to = static_cast<double*>(panels);
  for (int64_t first = 0; first < count; first += width, to += panel_stride) {
    for (int64_t p = 0; p < k; ++p) {
      for (int64_t i = 0; i < width; ++i)
        to[p * width + i] = first + i < count ? from[(first + i) * line_stride + p * k_stride] : 0.0;
    }
  }
}

void pack_f64_along_k(const void* source, int64_t stride, int64_t count, int64_t k, int width, void* panels,
                      int64_t panel_stride) {
  pack_f64(source, stride, 1, count, k, width, panels, panel_stride);
}

void pack_f64_across_k(const void* source, int64_t stride, int64_t count, int64_t k, int width, void* panels,
                       int64_t panel_stride) {
  pack_f64(source, 1, stride, count, k, width, panels, panel_stride);
}

template <class Source>
PackFunction words_from(bool k_contiguous) {
  return k_contiguous ? pack_along_k<Source> : pack_across_k<Source>;
}

}  // namespace

PackFunction pack_function(DType source, DType packed, bool k_contiguous) {
  if (packed == DType::bf16) return source == DType::bf16 ? words_from<PairsOfBf16>(k_contiguous) : nullptr;
  if (packed == DType::f64 && source == DType::f64)
    return k_contiguous ? pack_f64_along_k : pack_f64_across_k;
  if (packed != DType::f32) return nullptr;
  if (source == DType::f32) return words_from<FromF32>(k_contiguous);
  if (source == DType::bf16) return words_from<FromBf16>(k_contiguous);
  if (source == DType::f16) return words_from<FromF16>(k_contiguous);
  return nullptr;
}

}  // namespace genesis::cpu
