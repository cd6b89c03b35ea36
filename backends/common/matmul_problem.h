// matmul and linear nodes as plain products of matrices: sizes, leading dimensions and batches, in the words
// that the GemmProblem of every backend shares. Used by kernels/matmul of every backend, which add their
// dtypes. An addend is the last input, and lies as the result does.
#pragma once

#include "backends/common/batch_axes.h"
#include "backends/kernel.h"
#include "schema/ops/nn/matmul.h"

namespace genesis {

// Where the products of the node lie, one for each; none when there is nothing to write. Batch axes that lie
// evenly in both operands become the product's own batch.
template <class Problem>
std::vector<BatchOffsets> describe_matmul(const KernelQuery& query, Problem& problem) {
  const auto op = from_attributes<ops::Matmul>(query.attributes);
  const auto a = query.inputs[0].shape.sizes(), b = query.inputs[1].shape.sizes(),
             c = query.outputs[0].shape.sizes();
  problem.m = c[c.size() - 2];
  problem.n = c.back();
  problem.k = op.transpose_a ? a[a.size() - 2] : a.back();
  problem.lda = a.back();
  problem.ldb = b.back();
  problem.ldc = c.back();
  problem.transpose_a = op.transpose_a;
  problem.transpose_b = op.transpose_b;
  problem.accumulate = query.inputs.size() > 2;
  if (query.outputs[0].numel() == 0) return {};
  std::vector<BatchAxis> axes = batch_axes(a, b, c);
  problem.m *= take_row_axis(axes, op.transpose_a, problem.m * problem.lda, problem.m * problem.ldc);
  if (const auto longest = take_longest(axes)) {
    problem.batch = longest->size;
    problem.stride_a = longest->a;
    problem.stride_b = longest->b;
    problem.stride_c = longest->c;
  }
  return all_offsets(axes, static_cast<int64_t>(size_of(query.inputs[0].dtype)));
}

template <class Problem>
std::vector<BatchOffsets> describe_linear(const KernelQuery& query, Problem& problem) {
  problem.n = query.inputs[1].shape[0].value();
  problem.k = query.inputs[1].shape[1].value();
  problem.m = problem.n == 0 ? 0 : query.outputs[0].numel() / problem.n;
  problem.lda = problem.ldb = problem.k;
  problem.ldc = problem.n;
  problem.transpose_b = true;
  const auto op = from_attributes<ops::Linear>(query.attributes);
  problem.has_bias = op.has_bias(query.inputs.size());
  problem.activation = op.activation;
  problem.accumulate = op.has_addend;
  if (query.outputs[0].numel() == 0) return {};
  return {{0, 0, 0}};
}

}  // namespace genesis
