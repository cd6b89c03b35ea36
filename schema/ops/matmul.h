// Matrix products.
#pragma once

#include "schema/graph.h"

namespace genesis {

enum class Activation : uint8_t { kNone, kRelu, kGelu, kGeluTanh, kSilu };

// [..., m, k] x [..., k, n] -> [..., m, n]; leading axes broadcast; 1-d operands as in torch.matmul.
// `transpose_*` swaps an operand's last two axes before the product, at no cost.
Value matmul(Value a, Value b, bool transpose_a = false, bool transpose_b = false);

// x [..., in_features], weight [out_features, in_features], bias [out_features] -> activation(x weight^T +
// bias).
Value linear(Value x, Value weight, Value bias = {}, Activation activation = Activation::kNone);

// torch.einsum for any number of operands, with '...'; lowered at once to permute, reshape, matmul, mul and
// sum.
Value einsum(const std::string& equation, const std::vector<Value>& operands);

}  // namespace genesis
