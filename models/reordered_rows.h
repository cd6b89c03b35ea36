// Reorders the rows and columns of weights that llama.cpp's converter has reordered. Used by the importer and by the tables of
// families.
#pragma once

#include <cstdint>
#include <vector>

#include "schema/core/tensor.h"

namespace genesis::models {

// Returns the rows of all parts, one behind the other, in this order: row i of the result is row order[i]. The rows of a vector are
// its elements, those of other tensors lie along the last axis. One part whose rows all stay keeps its shape; otherwise the result is
// [rows, columns]. Throws Error if there are not as many rows as `order` has numbers.
Tensor rows_in_order(const std::vector<Tensor>& parts, const std::vector<int64_t>& order);
// Returns [rows, columns] whose column i is column order[i]. Throws Error unless there are as many columns as numbers.
Tensor columns_in_order(const Tensor& matrix, const std::vector<int64_t>& order);
// Returns [count, a, b] as [count, b, a]. Throws Error for other ranks.
Tensor transposed_matrices(const Tensor& matrices);

}  // namespace genesis::models
