// Weights of experts: one tensor in the models of the zoo, and a matrix for each expert in checkpoints.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/formats/hugging_face/checkpoint.h"
#include "schema/graph/model.h"

namespace genesis::models::hugging_face {

// The tensor of a model that the matrices of a checkpoint become.
struct Stack {
  std::string whole;
  std::vector<std::string> parts;  // names of the matrices, in the order of the experts
};
// Returns the stack of the state `name`, which has so many experts; nothing if checkpoints hold it as it is.
std::optional<Stack> stack_of(const Family& family, const std::string& name, int64_t experts);

// Replaces the matrices of each stack by a copy with all of them. Quantized ones are decoded. A matrix of another shape or dtype
// than the first one of its stack is an Error that names it; a stack of which matrices are missing stays as it is.
void stack_experts(const Model& model, const Family& family, CheckpointWeights& weights);

// Replaces each tensor of TurnedWeights by its parts. A tensor of other sizes than the model's is an Error that names it.
void turn_experts(const Model& model, const Family& family, CheckpointWeights& weights);

// The tensor of a checkpoint that a state is part of, with the names of all parts.
struct Turned {
  std::string stored;
  std::vector<std::string> parts;
};
std::optional<Turned> turned_of(const Family& family, const std::string& name);
// Returns the type of the tensor with so many parts of this type, and its values.
TensorType turned_type(const TensorType& part, int64_t parts);
Tensor turned_back(const std::vector<Tensor>& parts);

// Returns matrix `index` of a tensor [experts, ...] as a view.
Tensor matrix_of(const Tensor& whole, int64_t index);

}  // namespace genesis::models::hugging_face
