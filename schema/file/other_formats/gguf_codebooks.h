// Decoders of the GGUF types whose elements are entries of a codebook (IQ1 to IQ3), ternary numbers (TQ1 and TQ2) or 4-bit
// floating-point numbers with block scales (MXFP4, NVFP4). gguf_blocks.cpp lists them.
#pragma once

#include <cstddef>

namespace genesis {

// Each decodes the elements of one block.
void decode_iq2_xxs(const std::byte* block, float* elements);
void decode_iq2_xs(const std::byte* block, float* elements);
void decode_iq2_s(const std::byte* block, float* elements);
void decode_iq3_xxs(const std::byte* block, float* elements);
void decode_iq3_s(const std::byte* block, float* elements);
void decode_iq1_s(const std::byte* block, float* elements);
void decode_iq1_m(const std::byte* block, float* elements);
void decode_tq1_0(const std::byte* block, float* elements);
void decode_tq2_0(const std::byte* block, float* elements);
void decode_mxfp4(const std::byte* block, float* elements);
void decode_nvfp4(const std::byte* block, float* elements);

}  // namespace genesis
