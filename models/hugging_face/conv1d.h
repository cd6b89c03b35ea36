// GPT-2's Conv1D layers, which transformers stores the other way round than every other linear layer: [in, out]. Used where
// its weights come in and where they go out.
#pragma once

#include <string>

#include "schema/core/tensor.h"

namespace genesis::models::hugging_face {

// Whether this weight of this model of the zoo is stored [in, out].
bool is_conv1d(const std::string& model, const std::string& name, const TensorType& type);

// A matrix [rows, columns] as [columns, rows], in memory of its own.
Tensor transposed(const Tensor& matrix);

}  // namespace genesis::models::hugging_face
