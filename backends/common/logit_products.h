// linear_cross_entropy as matrix products: logits = x weight^T, dx = dlogits weight and dweight = dlogits^T x, each for a range
// of rows and classes. Sizes and leading dimensions have the names of the GemmProblem of every backend; the backend adds its
// dtypes.
#pragma once

#include "backends/kernel.h"

namespace genesis {

// The sizes, dtypes and outputs of the node.
struct LogitShape {
  DType dtype = DType::f32, dx = DType::f32;  // dtypes of x and weight, and of dx
  DType wide = DType::f32;                    // dtype of the loss and dweight
  int64_t rows = 0, hidden = 0, classes = 0;
  bool gradients = false, weight_gradient = false;
};

inline LogitShape logit_shape(const KernelQuery& query) {
  const TensorType &x = query.inputs[0], &weight = query.inputs[1];
  LogitShape shape{.dtype = x.dtype, .dx = x.dtype, .wide = query.outputs[0].dtype};
  shape.rows = query.inputs[2].numel();
  shape.hidden = weight.shape[1].value();
  shape.classes = weight.shape[0].value();
  shape.gradients = query.outputs.size() > 1;
  shape.weight_gradient = query.outputs.size() > 2;
  if (shape.gradients) shape.dx = query.outputs[1].dtype;
  return shape;
}

template <class Problem>
struct LogitProblems {
  Problem logits, dx, dweight;

  // Describes the products of `rows` rows and `classes` classes; `step` is the leading dimension of the logits.
  LogitProblems(const LogitShape& s, int64_t rows, int64_t classes, int64_t step) {
    logits.m = dx.m = dweight.k = rows;
    logits.n = dx.k = dweight.m = classes;
    logits.k = dx.n = dweight.n = s.hidden;
    logits.lda = logits.ldb = dx.ldb = dx.ldc = dweight.ldb = dweight.ldc = s.hidden;
    logits.ldc = dx.lda = dweight.lda = step;
    logits.transpose_b = dweight.transpose_a = true;
  }
};

}  // namespace genesis
