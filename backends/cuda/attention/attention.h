// One attention on the device: its sizes, where its heads lie, and the tiles that compute it, which take every dtype, layout and
// mask. Used by kernels/nn/attention.cpp and the ways that are faster (attention_ways.h).
#pragma once

#include "backends/cuda/runtime/launch.h"
#include "schema/ops/nn/attention.h"

namespace genesis::cuda {

// Steps in elements along batch, heads and time; a row of a head is dense.
struct HeadSteps {
  int64_t batch = 0, head = 0, row = 0;
};

// Passed to kernels by value.
struct AttentionShape {
  DType dtype = DType::f32;
  int64_t batch = 0, heads = 0, key_heads = 0, queries = 0, keys = 0;
  int64_t size = 0, v_size = 0;  // of a row of q and k, and of v and y
  double scale = 1;
  bool causal = false, has_mask = false, has_key_start = false, has_key_length = false, heads_first = false;
  bool packed = false, gradient = false;  // packed: one tensor holds q, k and v
  bool own_lengths = false;               // key_length has one of each row of the batch
  int64_t window = 0;                     // 0: a causal query sees all keys up to its own
  HeadSteps q, k, v, y;                   // gradients lie as what they are gradients of
  DType mask_dtype = DType::boolean;
  int64_t mask_steps[4] = {};  // along batch, head, query, key; 0 where broadcast
  int first_optional = 3;      // input number of the mask, or of what follows it without one

  int64_t rows() const { return batch * heads * queries; }  // of y
};

// Of an `attention` or `attention_grad` node.
AttentionShape attention_shape(const KernelQuery& query);

struct AttentionData {
  const void *q = nullptr, *k = nullptr, *v = nullptr, *mask = nullptr;
  const int64_t *key_start = nullptr, *key_length = nullptr;
  void *y = nullptr, *lse = nullptr;  // lse may be null in a forward pass
  const void* dy = nullptr;
  void *dq = nullptr, *dk = nullptr, *dv = nullptr;
  std::byte* scratch = nullptr;
  cudaStream_t stream = nullptr;
  bool early = false;  // as launch.h has it
  FaultReport fault;
};

AttentionData forward_data(const AttentionShape& shape, const KernelContext& c);
AttentionData backward_data(const AttentionShape& shape, const KernelContext& c);

// Tiles in shared memory, one pass over the keys with running maxima and sums.
std::optional<std::string> plain_attention_declines(const AttentionShape& shape);
void run_plain_attention(const AttentionShape& shape, const AttentionData& data);
int64_t plain_gradient_scratch(const AttentionShape& shape);
void run_plain_gradient(const AttentionShape& shape, const AttentionData& data);
// Writes delta to the scratch: of each row of queries the sum of dy * y, which softmax's gradient subtracts.
void write_row_products(const AttentionShape& shape, const AttentionData& data);

// The rows of attention_grad that run on every chip: what a row for some chips leaves a node to on others.
std::span<const KernelImpl> general_gradient_ways();

// The lengths of queries and keys of every entry of the batch, as a library reads them.
void write_attention_lengths(const AttentionShape& shape, const AttentionData& data, int32_t* queries,
                             int32_t* keys);

}  // namespace genesis::cuda
