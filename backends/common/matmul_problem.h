// Describes nodes of matmul and linear as matrix products: sizes, leading dimensions and batches, with the names of the
// GemmProblem of every backend; the backend adds its dtypes. An addend is the last input and has the layout of the result.
#pragma once

#include "backends/common/batch_axes.h"
#include "backends/kernel.h"
#include "schema/ops/nn/matmul.h"

namespace genesis {

// Returns the offsets of the node's products, one for each; none if there is nothing to write. Batch dimensions that are
// contiguous in both operands become the batch of the product itself.
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

// Returns the number of rows of x [..., k] as [rows, k].
inline int64_t rows_of_x(const Shape& x) {
  int64_t rows = 1;
  for (int i = 0; i + 1 < x.rank(); ++i) rows *= x[i].value();
  return rows;
}

// Describes x [rows, k] times the transpose of weight `index` of a linear, without an addend. For a quantized weight, ldb counts
// the stored elements.
template <class Problem>
void describe_weight(const KernelQuery& query, const ops::Linear& op, size_t index, Problem& problem) {
  const Shape &x = query.inputs[0].shape, &weight = query.inputs[op.first_weight() + index].shape;
  problem.n = problem.ldc = weight[0].value();
  problem.k = problem.lda = x[x.rank() - 1].value();
  problem.ldb = weight[1].value();
  problem.m = rows_of_x(x);
  problem.transpose_b = true;
  problem.has_bias = op.has_bias(query.inputs.size());
  problem.activation = op.activation;
}

template <class Problem>
std::vector<BatchOffsets> describe_linear(const KernelQuery& query, Problem& problem) {
  const auto op = from_attributes<ops::Linear>(query.attributes);
  describe_weight(query, op, 0, problem);
  problem.accumulate = op.has_addend;
  if (query.outputs[0].numel() == 0) return {};
  return {{0, 0, 0}};
}

// Functions for can_run of Matmul or Linear: the first declines nodes that are more than one plain product, the second those that
// are one.
template <class Op>
std::optional<std::string> decline_all_but_plain(const KernelQuery& query) {
  const auto op = from_attributes<Op>(query.attributes);
  if (!op.is_one_product()) return "more than one product";
  if constexpr (std::is_same_v<Op, ops::Linear>)
    if (op.is_quantized()) return "quantized weights";
  return std::nullopt;
}
template <class Op>
std::optional<std::string> decline_one_product(const KernelQuery& query) {
  if (!from_attributes<Op>(query.attributes).is_one_product()) return std::nullopt;
  return "one product";
}
// Declines nodes of Linear that are not one product with a quantized weight.
inline std::optional<std::string> decline_all_but_quantized(const KernelQuery& query) {
  const auto op = from_attributes<ops::Linear>(query.attributes);
  if (!op.is_quantized()) return "weights as they are";
  if (!op.is_one_product()) return "more than one product";
  return std::nullopt;
}

}  // namespace genesis
