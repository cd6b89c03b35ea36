#include "schema/file/foreign/gguf_blocks.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "schema/core/float16.h"
#include "schema/core/parallel.h"
#include "schema/core/type_limits.h"
#include "schema/file/foreign_tensor.h"

namespace genesis {
namespace {

constexpr int64_t kMaxBlock = 256;

float half_at(const std::byte* at) {
  f16 half;
  std::memcpy(&half, at, sizeof(half));
  return static_cast<float>(half);
}

int at(const std::byte* bytes, int i) { return std::to_integer<int>(bytes[i]); }
int low_nibble(std::byte b) { return std::to_integer<int>(b) & 15; }
int high_nibble(std::byte b) { return std::to_integer<int>(b) >> 4; }

// f16 scale, 32 x i8.
void decode_q8_0(const std::byte* block, float* elements) {
  const float scale = half_at(block);
  for (int i = 0; i < 32; ++i)
    elements[i] = scale * static_cast<float>(static_cast<int8_t>(at(block + 2, i)));
}

// f16 scale, 16 bytes: element i in the low half of byte i, element 16 + i in its high half; 8 means 0.
void decode_q4_0(const std::byte* block, float* elements) {
  const float scale = half_at(block);
  for (int i = 0; i < 16; ++i) {
    elements[i] = scale * static_cast<float>(low_nibble(block[2 + i]) - 8);
    elements[16 + i] = scale * static_cast<float>(high_nibble(block[2 + i]) - 8);
  }
}

struct ScaleAndMin {
  int scale, min;
};

// Eight scales and eight minima of 6 bits in 12 bytes: the first four of each are the low bits of bytes 0 to 7, whose
// upper two bits go with the others, the nibbles of bytes 8 to 11.
ScaleAndMin scale_and_min(const std::byte* packed, int group) {
  if (group < 4) return {at(packed, group) & 63, at(packed, group + 4) & 63};
  const std::byte both = packed[group + 4];
  return {low_nibble(both) | (at(packed, group - 4) >> 6 << 4),
          high_nibble(both) | (at(packed, group) >> 6 << 4)};
}

// f16 scale of the scales, f16 scale of the minima, 12 bytes of both, 128 bytes: groups 2k and 2k + 1 of 32 elements are
// the low and the high nibbles of 32 bytes.
void decode_q4_k(const std::byte* block, float* elements) {
  const float scale = half_at(block), min_scale = half_at(block + 2);
  for (int group = 0; group < 8; ++group) {
    const auto [s, m] = scale_and_min(block + 4, group);
    const float d = scale * static_cast<float>(s), min = min_scale * static_cast<float>(m);
    const std::byte* bytes = block + 16 + group / 2 * 32;
    for (int i = 0; i < 32; ++i) {
      const int q = group % 2 == 0 ? low_nibble(bytes[i]) : high_nibble(bytes[i]);
      elements[group * 32 + i] = d * static_cast<float>(q) - min;
    }
  }
}

// 128 bytes of lower four bits, 64 bytes of upper two bits, 16 x i8 scales of 16 elements each, f16 scale. Of 128 elements,
// quarter k has the low nibbles (k < 2) or the high ones of 64 bytes, and bits 2k and 2k + 1 of 32; 32 means 0.
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
    GgufType{3, "Q4_1", 32, 20, {}},
    GgufType{6, "Q5_0", 32, 22, {}},
    GgufType{7, "Q5_1", 32, 24, {}},
    GgufType{8, "Q8_0", 32, 34, {}, decode_q8_0},
    GgufType{9, "Q8_1", 32, 40, {}},
    GgufType{10, "Q2_K", 256, 84, {}},
    GgufType{11, "Q3_K", 256, 110, {}},
    GgufType{12, "Q4_K", 256, 144, {}, decode_q4_k},
    GgufType{13, "Q5_K", 256, 176, {}},
    GgufType{14, "Q6_K", 256, 210, {}, decode_q6_k},
    GgufType{15, "Q8_K", 256, 292, {}},
    GgufType{16, "IQ2_XXS", 256, 66, {}},
    GgufType{17, "IQ2_XS", 256, 74, {}},
    GgufType{18, "IQ3_XXS", 256, 98, {}},
    GgufType{19, "IQ1_S", 256, 50, {}},
    GgufType{20, "IQ4_NL", 32, 18, {}},
    GgufType{21, "IQ3_S", 256, 110, {}},
    GgufType{22, "IQ2_S", 256, 82, {}},
    GgufType{23, "IQ4_XS", 256, 136, {}},
    GgufType{24, "I8", 1, 1, {}},
    GgufType{25, "I16", 1, 2, {}},
    GgufType{26, "I32", 1, 4, {}},
    GgufType{27, "I64", 1, 8, {}},
    GgufType{28, "F64", 1, 8, DType::f64},
    GgufType{29, "IQ1_M", 256, 56, {}},
    GgufType{30, "BF16", 1, 2, DType::bf16},
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

Tensor gguf_tensor(const GgufType& type, const Shape& shape, const std::shared_ptr<const void>& owner,
                   std::span<const std::byte> bytes, DType dtype) {
  if (type.plain) {
    const Tensor plain = foreign_tensor({*type.plain, shape}, owner, bytes);
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
      fail("quantised numbers become real ones, not {}", name_of(dtype));
  });
  return result;
}

}  // namespace genesis
