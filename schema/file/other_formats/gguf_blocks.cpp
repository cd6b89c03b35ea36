#include "schema/file/other_formats/gguf_blocks.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "schema/core/parallel.h"
#include "schema/core/type_limits.h"
#include "schema/file/other_formats/block_bytes.h"
#include "schema/file/other_formats/gguf_codebooks.h"
#include "schema/file/tensor_from_bytes.h"

namespace genesis {
namespace {

constexpr int64_t kMaxBlock = 256;

// Block: f16 scale, 32 x i8.
void decode_q8_0(const std::byte* block, float* elements) {
  const float scale = half_at(block);
  for (int i = 0; i < 32; ++i)
    elements[i] = scale * static_cast<float>(static_cast<int8_t>(at(block + 2, i)));
}

// Block: f16 scale, 16 bytes of nibbles; a nibble of 8 means 0.
void decode_q4_0(const std::byte* block, float* elements) {
  const float scale = half_at(block);
  for (int i = 0; i < 32; ++i) elements[i] = scale * static_cast<float>(nibble_at(block + 2, i) - 8);
}

// Block: f16 scale, f16 minimum, 16 bytes of nibbles.
void decode_q4_1(const std::byte* block, float* elements) {
  const float scale = half_at(block), min = half_at(block + 2);
  for (int i = 0; i < 32; ++i) elements[i] = scale * static_cast<float>(nibble_at(block + 4, i)) + min;
}

// Returns element i of 32 elements with five bits each: bit i of the first four bytes is its highest bit, and 16 bytes of nibbles
// follow.
int five_bits_at(const std::byte* bytes, int i) {
  return nibble_at(bytes + 4, i) | (at(bytes, i / 8) >> (i % 8) & 1) << 4;
}

// Block: f16 scale, 32 elements of five bits; 16 means 0.
void decode_q5_0(const std::byte* block, float* elements) {
  const float scale = half_at(block);
  for (int i = 0; i < 32; ++i) elements[i] = scale * static_cast<float>(five_bits_at(block + 2, i) - 16);
}

// Block: f16 scale, f16 minimum, 32 elements of five bits.
void decode_q5_1(const std::byte* block, float* elements) {
  const float scale = half_at(block), min = half_at(block + 2);
  for (int i = 0; i < 32; ++i) elements[i] = scale * static_cast<float>(five_bits_at(block + 4, i)) + min;
}

// The values that the four bits of IQ4 stand for, denser around 0; the format defines this table.
constexpr std::array<int8_t, 16> kIq4Values = {-127, -104, -83, -65, -49, -35, -22, -10,
                                               1,    13,   25,  38,  53,  69,  89,  113};

float iq4_value(const std::byte* nibbles, int i) {
  return static_cast<float>(kIq4Values[static_cast<size_t>(nibble_at(nibbles, i))]);
}

// Block: f16 scale, 16 bytes of nibbles.
void decode_iq4_nl(const std::byte* block, float* elements) {
  const float scale = half_at(block);
  for (int i = 0; i < 32; ++i) elements[i] = scale * iq4_value(block + 2, i);
}

// Block: f16 scale; the six-bit scales of eight groups of 32 elements (32 means 0), as two bytes with the upper two bits of each
// and four bytes with the lower four; 16 bytes of nibbles per group.
void decode_iq4_xs(const std::byte* block, float* elements) {
  const float scale = half_at(block);
  for (int group = 0; group < 8; ++group) {
    const std::byte low = block[4 + group / 2];
    const int high = at(block, 2 + group / 4) >> (group % 4 * 2) & 3;
    const int s = ((group % 2 == 0 ? low_nibble(low) : high_nibble(low)) | high << 4) - 32;
    const float d = scale * static_cast<float>(s);
    for (int i = 0; i < 32; ++i) elements[group * 32 + i] = d * iq4_value(block + 8 + group * 16, i);
  }
}

// Block: 16 bytes with the scale (low nibble) and the minimum (high nibble) of 16 elements each; 64 bytes with two bits per
// element; f16 scale of the scales; f16 scale of the minima.
void decode_q2_k(const std::byte* block, float* elements) {
  const float scale = half_at(block + 80), min_scale = half_at(block + 82);
  for (int i = 0; i < 256; ++i) {
    const float d = scale * static_cast<float>(low_nibble(block[i / 16]));
    const float min = min_scale * static_cast<float>(high_nibble(block[i / 16]));
    elements[i] = d * static_cast<float>(two_bits_at(block + 16, i)) - min;
  }
}

// Block: 32 bytes whose bit k belongs to element 32k + i of 256 (i: the byte) and subtracts 4 if it is not set; 64 bytes with two
// bits per element; 12 bytes with the six-bit scales of 16 elements each (32 means 0); f16 scale. The first eight bytes of the
// scales have their lower four bits, the last four bytes the upper two.
void decode_q3_k(const std::byte* block, float* elements) {
  const std::byte* scales = block + 96;
  const float scale = half_at(block + 108);
  for (int i = 0; i < 256; ++i) {
    const int group = i / 16;
    const int low = at(scales, group % 8) >> (group / 8 * 4) & 15,
              high = at(scales, 8 + group % 4) >> (group / 4 * 2) & 3;
    const float d = scale * static_cast<float>((low | high << 4) - 32);
    const int less = (at(block, i % 32) >> (i / 32) & 1) != 0 ? 0 : 4;
    elements[i] = d * static_cast<float>(two_bits_at(block + 32, i) - less);
  }
}

struct ScaleAndMin {
  int scale, min;
};

// Unpacks eight scales and eight minima of six bits from 12 bytes. Bytes 0 to 3 hold the first four scales and bytes 4 to 7 the
// first four minima in their lower six bits; their upper two bits are the upper bits of the other scales and minima, whose lower
// four bits are the nibbles of bytes 8 to 11.
ScaleAndMin scale_and_min(const std::byte* packed, int group) {
  if (group < 4) return {at(packed, group) & 63, at(packed, group + 4) & 63};
  const std::byte both = packed[group + 4];
  return {low_nibble(both) | (at(packed, group - 4) >> 6 << 4),
          high_nibble(both) | (at(packed, group) >> 6 << 4)};
}

// Block: f16 scale of the scales, f16 scale of the minima, 12 bytes with both. Groups 2k and 2k + 1 of 32 elements are the low
// and the high nibbles of 32 of the 128 bytes at `nibbles`. If `fifth_bits` is not null, bit k of its byte i is the fifth bit of
// element i of group k.
void decode_groups(const std::byte* block, const std::byte* nibbles, const std::byte* fifth_bits,
                   float* elements) {
  const float scale = half_at(block), min_scale = half_at(block + 2);
  for (int group = 0; group < 8; ++group) {
    const auto [s, m] = scale_and_min(block + 4, group);
    const float d = scale * static_cast<float>(s), min = min_scale * static_cast<float>(m);
    const std::byte* bytes = nibbles + group / 2 * 32;
    for (int i = 0; i < 32; ++i) {
      int q = group % 2 == 0 ? low_nibble(bytes[i]) : high_nibble(bytes[i]);
      if (fifth_bits) q |= (at(fifth_bits, i) >> group & 1) << 4;
      elements[group * 32 + i] = d * static_cast<float>(q) - min;
    }
  }
}

void decode_q4_k(const std::byte* block, float* elements) {
  decode_groups(block, block + 16, nullptr, elements);
}

void decode_q5_k(const std::byte* block, float* elements) {
  decode_groups(block, block + 48, block + 16, elements);
}

// Block: 128 bytes of lower four bits, 64 bytes of upper two bits, 16 x i8 scales of 16 elements each, f16 scale. In each half of
// 128 elements, quarter k has the low (k < 2) or high nibbles of 64 bytes, and bits 2k and 2k + 1 of 32 bytes; 32 means 0.
void decode_q6_k(const std::byte* block, float* elements) {
  const float scale = half_at(block + 208);
  for (int i = 0; i < 256; ++i) {
    const int half = i / 128, quarter = i % 128 / 32, j = i % 32;
    const std::byte low = block[half * 64 + quarter % 2 * 32 + j];
    const int bits = at(block, 128 + half * 32 + j) >> (2 * quarter) & 3;
    const int q = ((quarter < 2 ? low_nibble(low) : high_nibble(low)) | bits << 4) - 32;
    const float d = scale * static_cast<float>(static_cast<int8_t>(at(block, 192 + i / 16)));
    elements[i] = d * static_cast<float>(q);
  }
}

constexpr std::array kTypes = {
    GgufType{0, "F32", 1, 4, DType::f32},
    GgufType{1, "F16", 1, 2, DType::f16},
    GgufType{2, "Q4_0", 32, 18, {}, decode_q4_0},
    GgufType{3, "Q4_1", 32, 20, {}, decode_q4_1},
    GgufType{6, "Q5_0", 32, 22, {}, decode_q5_0},
    GgufType{7, "Q5_1", 32, 24, {}, decode_q5_1},
    GgufType{8, "Q8_0", 32, 34, {}, decode_q8_0},
    GgufType{9, "Q8_1", 32, 40, {}},
    GgufType{10, "Q2_K", 256, 84, {}, decode_q2_k},
    GgufType{11, "Q3_K", 256, 110, {}, decode_q3_k},
    GgufType{12, "Q4_K", 256, 144, {}, decode_q4_k},
    GgufType{13, "Q5_K", 256, 176, {}, decode_q5_k},
    GgufType{14, "Q6_K", 256, 210, {}, decode_q6_k},
    GgufType{15, "Q8_K", 256, 292, {}},
    GgufType{16, "IQ2_XXS", 256, 66, {}, decode_iq2_xxs},
    GgufType{17, "IQ2_XS", 256, 74, {}, decode_iq2_xs},
    GgufType{18, "IQ3_XXS", 256, 98, {}, decode_iq3_xxs},
    GgufType{19, "IQ1_S", 256, 50, {}, decode_iq1_s},
    GgufType{20, "IQ4_NL", 32, 18, {}, decode_iq4_nl},
    GgufType{21, "IQ3_S", 256, 110, {}, decode_iq3_s},
    GgufType{22, "IQ2_S", 256, 82, {}, decode_iq2_s},
    GgufType{23, "IQ4_XS", 256, 136, {}, decode_iq4_xs},
    GgufType{24, "I8", 1, 1, {}},
    GgufType{25, "I16", 1, 2, {}},
    GgufType{26, "I32", 1, 4, {}},
    GgufType{27, "I64", 1, 8, {}},
    GgufType{28, "F64", 1, 8, DType::f64},
    GgufType{29, "IQ1_M", 256, 56, {}, decode_iq1_m},
    GgufType{30, "BF16", 1, 2, DType::bf16},
    GgufType{34, "TQ1_0", 256, 54, {}, decode_tq1_0},
    GgufType{35, "TQ2_0", 256, 66, {}, decode_tq2_0},
    GgufType{39, "MXFP4", 32, 17, {}, decode_mxfp4},
    GgufType{40, "NVFP4", 64, 36, {}, decode_nvfp4},
    GgufType{41, "Q1_0", 128, 18, {}},
};

constexpr std::string_view kRemedy = "take bf16 or f32 as the model's dtype";

template <class T>
T as(float x) {
  const T converted = static_cast<T>(x);
  if constexpr (std::is_same_v<T, f16>)
    if (!std::isfinite(static_cast<float>(converted)))
      check_f16_range(x, static_cast<float>(converted), kRemedy);
  return converted;
}

template <class T>
void decode_blocks(const GgufType& type, const std::byte* from, int64_t blocks, T* to) {
  in_parallel(blocks, 4096, [&](int64_t first, int64_t last) {
    std::array<float, kMaxBlock> elements;
    for (int64_t b = first; b < last; ++b) {
      type.decode(from + b * type.block_bytes, elements.data());
      std::transform(elements.begin(), elements.begin() + type.block_elements, to + b * type.block_elements,
                     as<T>);
    }
  });
}

}  // namespace

const GgufType* find_gguf_type(uint32_t number) {
  const auto found = std::ranges::find(kTypes, number, &GgufType::number);
  return found == kTypes.end() ? nullptr : &*found;
}

std::vector<std::string> readable_gguf_types() {
  std::vector<std::string> names;
  for (const GgufType& type : kTypes)
    if (type.is_readable()) names.emplace_back(type.name);
  return names;
}

Tensor gguf_tensor(const GgufType& type, const Shape& shape, const std::shared_ptr<const void>& owner,
                   std::span<const std::byte> bytes, DType dtype) {
  if (type.plain) {
    const Tensor plain = tensor_from_bytes({*type.plain, shape}, owner, bytes);
    Tensor result = plain.to(dtype);
    check_f16_range(plain, result, kRemedy);
    return result;
  }
  if (!type.decode) fail("its elements are {}, which is not read", type.name);
  std::byte* data;
  Tensor result = Tensor::uninitialized({dtype, shape}, &data);
  const int64_t blocks = result.numel() / type.block_elements;
  GENESIS_ASSERT(static_cast<uint64_t>(blocks * type.block_bytes) == bytes.size());
  dispatch(dtype, [&]<class T>(TypeTag<T>) {
    if constexpr (!std::is_integral_v<T>)
      decode_blocks(type, bytes.data(), blocks, reinterpret_cast<T*>(data));
    else
      fail("quantized numbers become real ones, not {}", name_of(dtype));
  });
  return result;
}

}  // namespace genesis
