// linear_cross_entropy as products of matrices: logits = x weight^T, dx = dlogits weight and dweight = dlogits^T x, each of some
// rows and classes. Sizes and leading dimensions in the words that the GemmProblem of every backend shares, which adds its
// dtypes. Used by the loss kernels of every backend.
#pragma once

#include "backends/kernel.h"

namespace genesis {

// What the node asks for.
struct LogitShape {
  DType dtype = DType::f32, dx = DType::f32;  // of x and weight; of dx
  DType wide = DType::f32;                    // of the loss and dweight
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

  // Of so many rows and classes; `step` elements lie between rows of logits.
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
