// One attention on the device: its sizes, the layout of its heads, and the general implementation with tiles, which
// takes every dtype, layout and mask. attention_implementations.h lists the faster implementations.
#pragma once

#include "backends/cuda/runtime/launch.h"
#include "schema/ops/nn/attention.h"

namespace genesis::cuda {

// Strides in elements along batch, heads and time; a row of a head is dense.
struct HeadSteps {
  int64_t batch = 0, head = 0, row = 0;
};

// Passed to kernels by value.
struct AttentionShape {
  DType dtype = DType::f32;
  int64_t batch = 0, heads = 0, key_heads = 0, queries = 0, keys = 0;
  int64_t size = 0, v_size = 0;  // elements of a row of q and k, and of v and y
  double scale = 1;
  bool causal = false, has_mask = false, has_key_start = false, has_key_length = false, heads_first = false;
  bool packed = false, gradient = false;  // packed: one tensor holds q, k and v
  bool own_lengths = false;               // key_length has one value per row of the batch
  int64_t window = 0;                     // 0: a causal query sees all keys up to its own position
  HeadSteps q, k, v, y;                   // gradients have the layout of their tensor
  DType mask_dtype = DType::boolean;
  int64_t mask_steps[4] = {};  // along batch, head, query, key; 0 if broadcast
  int first_optional = 3;      // input index of the mask, or of the next optional input if there is no mask

  int64_t rows() const { return batch * heads * queries; }  // rows of y
};

// Describes an `attention` or `attention_grad` node.
AttentionShape attention_shape(const KernelQuery& query);

struct AttentionData {
  const void *q = nullptr, *k = nullptr, *v = nullptr, *mask = nullptr;
  const int64_t *key_start = nullptr, *key_length = nullptr;
  void *y = nullptr, *lse = nullptr;  // lse may be null in a forward pass
  const void* dy = nullptr;
  void *dq = nullptr, *dk = nullptr, *dv = nullptr;
  std::byte* scratch = nullptr;
  cudaStream_t stream = nullptr;
  bool early = false;  // see launch.h
  FaultReport fault;
};

AttentionData forward_data(const AttentionShape& shape, const KernelContext& c);
AttentionData backward_data(const AttentionShape& shape, const KernelContext& c);

// The general implementation: tiles in shared memory, and one pass over the keys with an online softmax.
std::optional<std::string> plain_attention_declines(const AttentionShape& shape);
void run_plain_attention(const AttentionShape& shape, const AttentionData& data);
int64_t plain_gradient_scratch(const AttentionShape& shape);
void run_plain_gradient(const AttentionShape& shape, const AttentionData& data);
// Writes delta to the scratch memory: for each query, the sum of dy * y, which softmax's gradient subtracts.
void write_row_products(const AttentionShape& shape, const AttentionData& data);

// Returns the kernel table rows of attention_grad that run on every chip: a row that is only for some chips falls
// back to these on others.
std::span<const KernelImpl> general_gradient_implementations();

// Writes the lengths of queries and keys of every batch entry in the format that cuDNN reads.
void write_attention_lengths(const AttentionShape& shape, const AttentionData& data, int32_t* queries,
                             int32_t* keys);

}  // namespace genesis::cuda
