// Makes the graphs and values of an OpCase: its inputs in one dtype of reals, the op alone, and the op with gradients. Used by the
// harness (op_harness.cpp) and by tests that run cases in other ways.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/op_harness.h"

namespace genesis::testing {

struct Built {
  std::shared_ptr<Model> model;
  NamedTensors inputs;
  std::vector<std::string> outputs, gradients;  // names; a gradient's name is empty if it is not wanted
};

Tensor tensor_of(const Ref& ref, DType dtype);
Ref ref_of(const Tensor& tensor);
bool is_real(const CaseInput& input);
bool has_differentiable_input(const OpCase& op_case);

// Returns the case's input values, rounded so that `real_dtype` holds them exactly: kernel and reference see the same
// numbers.
Refs make_values(const OpCase& op_case, DType real_dtype);

// Returns weights of the projection: distinct numbers around 1 that depend only on the shape.
Refs projection_weights(const Refs& outputs);

// Builds the entry point "main" with reals in `real_dtype`. With `weights` it also has the gradients of the projection
// sum_i sum(y_i * weights_i), a scalar that depends on every output, with respect to the differentiable inputs.
Built build(const OpCase& op_case, const Refs& values, DType real_dtype, const Refs* weights);

}  // namespace genesis::testing
