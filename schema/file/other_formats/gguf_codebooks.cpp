#include "schema/file/other_formats/gguf_codebooks.h"

#include <array>
#include <bit>
#include <cstdint>

#include "schema/core/small_floats.h"
#include "schema/file/other_formats/block_bytes.h"
#include "schema/file/other_formats/gguf_grids.h"

namespace genesis {
namespace {

constexpr std::array<float, 4> kIq2Numbers = {8, 25, 43, 0};
constexpr std::array<float, 8> kIq3XxsNumbers = {4, 12, 20, 28, 36, 44, 52, 62},
                               kIq3SNumbers = {1, 3, 5, 7, 9, 11, 13, 15};

uint32_t word_at(const std::byte* bytes, int i) { return little_endian<uint32_t>(bytes + 4 * i); }
uint32_t half_word_at(const std::byte* bytes, int i) { return little_endian<uint16_t>(bytes + 2 * i); }

// Eight signs of which seven are stored: the eighth makes the number of negative ones even.
uint32_t with_parity(uint32_t seven) { return seven | static_cast<uint32_t>(std::popcount(seven) & 1) << 7; }

float signed_by(uint32_t signs, int i, float x) { return (signs >> i & 1) != 0 ? -x : x; }

// Eight elements: numbers of a codebook's entry with signs.
void put_iq2(uint16_t entry, uint32_t signs, float scale, float* to) {
  for (int i = 0; i < 8; ++i) to[i] = signed_by(signs, i, scale * kIq2Numbers[entry >> 2 * i & 3]);
}

// Four elements; the signs are bits `first` to first + 3.
void put_iq3(const std::array<float, 8>& numbers, uint16_t entry, uint32_t signs, int first, float scale,
             float* to) {
  for (int i = 0; i < 4; ++i) to[i] = signed_by(signs, first + i, scale * numbers[entry >> 4 * i & 7]);
}

// Eight elements of -1, 0 and 1, moved by a quarter of a step in either direction.
void put_iq1(uint32_t index, bool lowers, float scale, float* to) {
  const float delta = lowers ? -0.125f : 0.125f;
  for (int i = 0; i < 8; ++i)
    to[i] = scale * (static_cast<float>(kGridOfIq1[index] >> 2 * i & 3) - 1 + delta);
}

float iq2_scale(float scale, int four_bits) { return scale * (0.5f + static_cast<float>(four_bits)) * 0.25f; }

// Twice the numbers of E2M1. As in ggml, no zero is negative.
constexpr auto kE2M1Twice = [] {
  std::array<float, 16> all = kE2M1;
  for (float& number : all) number = 2 * number + 0.0f;
  return all;
}();

// The numbers of E4M3 without their sign. No pattern is NaN.
constexpr auto kMagnitudesOfE4M3 = SmallFloat{4, 3, 7}.numbers<128>();

// An unsigned number of E4M3, halved. As in ggml, the pattern that is NaN elsewhere is 0.
float e4m3_half(int bits) {
  return bits == 0x7F ? 0 : kMagnitudesOfE4M3[static_cast<size_t>(bits & 0x7F)] / 2;
}

}  // namespace

// Block: f16 scale; for each 32 elements four bytes with entries, and a word with four times seven signs and a scale.
void decode_iq2_xxs(const std::byte* block, float* elements) {
  for (int group = 0; group < 8; ++group) {
    const std::byte* entries = block + 2 + 8 * group;
    const uint32_t word = word_at(entries, 1);
    const float scale = iq2_scale(half_at(block), static_cast<int>(word >> 28));
    for (int k = 0; k < 4; ++k)
      put_iq2(kGridOfIq2Xxs[static_cast<size_t>(at(entries, k))], with_parity(word >> 7 * k & 127), scale,
              elements + 32 * group + 8 * k);
  }
}

// Block: f16 scale; for each 8 elements a half word with an entry of nine bits and seven signs; a scale of four bits for each 16.
void decode_iq2_xs(const std::byte* block, float* elements) {
  for (int k = 0; k < 32; ++k) {
    const uint32_t word = half_word_at(block + 2, k);
    const float scale = iq2_scale(half_at(block), nibble_of(block + 66, k / 2));
    put_iq2(kGridOfIq2Xs[word & 511], with_parity(word >> 9), scale, elements + 8 * k);
  }
}

// Block: f16 scale; for each 8 elements a byte of an entry, then a byte of signs; two upper bits of each entry; a scale of four
// bits for each 16.
void decode_iq2_s(const std::byte* block, float* elements) {
  for (int k = 0; k < 32; ++k) {
    const int upper = at(block, 66 + k / 4) >> (k % 4 * 2) & 3, entry = at(block, 2 + k) | upper << 8;
    const float scale = iq2_scale(half_at(block), nibble_of(block + 74, k / 2));
    put_iq2(kGridOfIq2S[static_cast<size_t>(entry)], static_cast<uint32_t>(at(block, 34 + k)), scale,
            elements + 8 * k);
  }
}

// Block: f16 scale; a byte with an entry for each 4 elements; a word for each 32 with four times seven signs and a scale.
void decode_iq3_xxs(const std::byte* block, float* elements) {
  for (int k = 0; k < 64; ++k) {
    const uint32_t word = word_at(block + 66, k / 8);
    const float scale = half_at(block) * (0.5f + static_cast<float>(word >> 28)) * 0.5f;
    const uint32_t signs = with_parity(word >> (k % 8 / 2 * 7) & 127);
    put_iq3(kIq3XxsNumbers, kGridOfIq3Xxs[static_cast<size_t>(at(block, 2 + k))], signs, k % 2 * 4, scale,
            elements + 4 * k);
  }
}

// Block: f16 scale; a byte of an entry for each 4 elements; a ninth bit of each entry; a byte of signs for each 8; a scale of four
// bits for each 32.
void decode_iq3_s(const std::byte* block, float* elements) {
  for (int k = 0; k < 64; ++k) {
    const int entry = at(block, 2 + k) | (at(block, 66 + k / 8) >> (k % 8) & 1) << 8;
    const float scale = half_at(block) * static_cast<float>(1 + 2 * nibble_of(block + 106, k / 8));
    put_iq3(kIq3SNumbers, kGridOfIq3S[static_cast<size_t>(entry)],
            static_cast<uint32_t>(at(block, 74 + k / 2)), k % 2 * 4, scale, elements + 4 * k);
  }
}

// Block: f16 scale; a byte of an entry for each 8 elements; for each 32 a half word with the upper three bits of four entries, a
// scale of three bits and the direction of the move.
void decode_iq1_s(const std::byte* block, float* elements) {
  for (int k = 0; k < 32; ++k) {
    const uint32_t word = half_word_at(block + 34, k / 4);
    const float scale = half_at(block) * static_cast<float>(2 * (word >> 12 & 7) + 1);
    const uint32_t upper = word >> (k % 4 * 3) & 7;
    put_iq1(static_cast<uint32_t>(at(block, 2 + k)) | upper << 8, (word & 0x8000) != 0, scale,
            elements + 8 * k);
  }
}

// Block: a byte of an entry for each 8 elements; a nibble for each with the upper three bits and the direction of the move; four
// half words with the scales, three bits for each 16 elements, whose upper nibbles are the f16 scale of these.
void decode_iq1_m(const std::byte* block, float* elements) {
  const std::byte* scales = block + 48;
  uint32_t bits = 0;
  for (int i = 0; i < 4; ++i) bits |= half_word_at(scales, i) >> 12 << 4 * i;
  const float scale = half_of(static_cast<uint16_t>(bits));
  for (int k = 0; k < 32; ++k) {
    const auto more = static_cast<uint32_t>(nibble_of(block + 32, k));
    const uint32_t step = half_word_at(scales, k / 8) >> (k % 8 / 2 * 3) & 7;
    put_iq1(static_cast<uint32_t>(at(block, k)) | (more & 7) << 8, (more & 8) != 0,
            scale * static_cast<float>(2 * step + 1), elements + 8 * k);
  }
}

// Block: 52 bytes, each with five digits of base three (four in the last four bytes) of one place in five (four) runs of elements;
// f16 scale. The byte is a fixed-point fraction, so that multiplying by three brings up the next digit.
void decode_tq1_0(const std::byte* block, float* elements) {
  const float scale = half_at(block + 52);
  struct Run {
    int first, bytes, digits;
  };
  for (const Run run : {Run{0, 32, 5}, Run{32, 16, 5}, Run{48, 4, 4}}) {
    int power = 1;
    for (int digit = 0; digit < run.digits; ++digit, power *= 3)
      for (int i = 0; i < run.bytes; ++i) {
        const int fraction = at(block, run.first + i) * power & 255;
        *elements++ = scale * static_cast<float>((fraction * 3 >> 8) - 1);
      }
  }
}

// Block: 64 bytes with two bits per element, 32 bytes for each 128 elements; f16 scale; 1 means 0.
void decode_tq2_0(const std::byte* block, float* elements) {
  const float scale = half_at(block + 64);
  for (int i = 0; i < 256; ++i) elements[i] = scale * static_cast<float>(two_bits_at(block, i) - 1);
}

// Block: an exponent (E8M0), 16 bytes of nibbles (E2M1).
void decode_mxfp4(const std::byte* block, float* elements) {
  const float scale = power_of_two(at(block, 0) - 128);  // half of the E8M0: the elements are doubled
  for (int i = 0; i < 32; ++i) elements[i] = scale * kE2M1Twice[static_cast<size_t>(nibble_at(block + 1, i))];
}

// Block: four scales (E4M3), each of 16 elements, whose eight bytes have the first eight in their low nibbles (E2M1).
void decode_nvfp4(const std::byte* block, float* elements) {
  for (int i = 0; i < 64; ++i) {
    const std::byte byte = block[4 + i / 16 * 8 + i % 8];
    const int bits = i % 16 < 8 ? low_nibble(byte) : high_nibble(byte);
    elements[i] = e4m3_half(at(block, i / 16)) * kE2M1Twice[static_cast<size_t>(bits)];
  }
}

}  // namespace genesis
