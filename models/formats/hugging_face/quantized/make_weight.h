// Makes weights from stored tensors in the forms that several quantization methods share. All functions throw Error that says what
// does not fit; a method calls them through collect(), which gathers the errors of all weights.
#pragma once

#include <array>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "models/formats/hugging_face/quantized/encoded_weight.h"
#include "models/formats/hugging_face/quantized/stored_tensors.h"

namespace genesis::models::hugging_face::quantized {

// Takes a tensor. Throws Error if there is none.
StoredTensor take_needed(StoredTensors& stored, const std::string& name);

// Makes the weight name + end of each name, and adds what is wrong to `problems`.
void collect(const std::vector<std::string>& names, std::string_view end, EncodedWeights& weights,
             Problems& problems, const std::function<EncodedWeight(const std::string& name)>& make);

// Sizes of blocks that the configuration says; 0: it says none.
struct BlockHint {
  int64_t rows = 0, columns = 0;
};

// Returns the blocks of a weight [rows, columns] or [experts, rows, columns] from the sizes of its scales: one number, a number per
// row, or [rows of blocks, columns of blocks], with the experts first. Blocks have the sizes of the hint if they fit, and divide the
// weight evenly otherwise.
Blocks blocks_of(const Shape& weight, const StoredTensor& scales, const BlockHint& hint);

// Returns the numbers that codes mean: integers from -offset on, for codes of `bits` bits.
std::span<const float> integers(int bits, int offset);
// The same for i8, whose codes are its bytes.
std::span<const float> signed_bytes();

// Returns whether weights of this dtype have a byte per value: F8_E4M3, F8_E5M2 and I8.
bool is_byte_per_value(const StoredTensor& weight);
// Makes a weight with a byte per value.
EncodedWeight weight_of_bytes(const StoredTensor& weight, const StoredTensor& scales, const BlockHint& hint,
                              std::string kind);
// Makes a weight of E2M1 numbers, two in each byte [..., columns / 2], the lower nibble first.
EncodedWeight weight_of_e2m1(const StoredTensor& bytes, const StoredTensor& scales, const BlockHint& hint,
                             std::string kind);

// Multiplies all scales by numbers(tensor)[0], or divides them.
enum class GlobalScale : uint8_t { kMultiplies, kDivides };
void take_global_scale(EncodedWeight& weight, const StoredTensor& tensor, GlobalScale way);

// Throws Error unless the tensor has this dtype and, if sizes are given, these sizes.
void check_stored(const std::string& name, const StoredTensor& tensor, std::string_view dtype,
                  const std::vector<int64_t>& sizes);

}  // namespace genesis::models::hugging_face::quantized
