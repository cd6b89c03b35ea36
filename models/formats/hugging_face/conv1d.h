// Weights that transformers stores as [in, out], unlike those of linear layers: those of the Conv1D layers of GPT-2.
#pragma once

#include <string>

#include "models/families.h"
#include "schema/core/tensor.h"

namespace genesis::models::hugging_face {

// Returns true if transformers stores this weight of the family's model as [in, out].
bool is_conv1d(const Family& family, const std::string& name, const TensorType& type);

// Copies a matrix [rows, columns] to [columns, rows].
Tensor transposed(const Tensor& matrix);

}  // namespace genesis::models::hugging_face
