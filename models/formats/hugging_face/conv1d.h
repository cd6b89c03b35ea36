// GPT-2's Conv1D layers, whose weights transformers stores as [in, out], unlike those of all other linear layers.
#pragma once

#include <string>

#include "schema/core/tensor.h"

namespace genesis::models::hugging_face {

// Returns true if transformers stores this weight of the zoo's model as [in, out].
bool is_conv1d(const std::string& model, const std::string& name, const TensorType& type);

// Copies a matrix [rows, columns] to [columns, rows].
Tensor transposed(const Tensor& matrix);

}  // namespace genesis::models::hugging_face
