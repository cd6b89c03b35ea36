// Weights that checkpoints hold as one matrix and the models of the zoo as several, such as qkv_proj of Phi-3.
#pragma once

#include <string>
#include <vector>

#include "executor/named_tensors.h"
#include "models/families.h"
#include "schema/graph/model.h"

namespace genesis::models::hugging_face {

// Replaces each fused matrix by its parts, which are views into it. Sizes are those of the model's states. A matrix that has another
// number of rows than its parts together is an Error that names it.
void split_fused(const Model& model, const std::vector<FusedWeights>& fused, NamedTensors& tensors);
// The same for the matrices that the family's checkpoints of transformers fuse.
void split_fused(const Model& model, const Family& family, NamedTensors& tensors);

// Returns the names of the parts of the matrix `name`, in order; nothing if it is not fused.
std::vector<std::string> parts_of(const std::vector<FusedWeights>& all, const std::string& name);

// Returns the axis of the rows: 0 of a matrix, 1 of a stack of matrices [matrices, rows, columns].
int rows_axis(const Shape& shape);

// Returns `count` rows of a matrix as a view, from row `first` on; of each matrix of a stack, as a copy.
Tensor rows_between(const Tensor& whole, int64_t first, int64_t count);

// A weight of the zoo's model that is part of a fused matrix.
struct PartOfFused {
  std::string whole;               // name of the matrix in the checkpoint
  std::vector<std::string> parts;  // names of all parts in the model, in order
};
// Returns an empty `whole` if the weight is not part of a fused matrix.
PartOfFused fused_of(const Family& family, const std::string& name);

// Returns the parts below each other, in a stack those of each matrix; all have the same dtype and number of columns.
Tensor joined_rows(const std::vector<Tensor>& parts);

}  // namespace genesis::models::hugging_face
