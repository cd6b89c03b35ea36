// The operands of gated_delta and mamba2 on a GPU, which all kernels of the two ops take.
#pragma once

#include <cstdint>

namespace genesis::cuda {

// Operands of a node. `heads` counts those of all batch entries; the sizes are those of DeltaShape.
template <class T>
struct Delta {
  int64_t time, heads_of_entry, heads, keys, values, groups;
  const T *q, *k, *v, *decay, *beta, *state;

#ifdef __CUDACC__
  __device__ int64_t token(int64_t head, int64_t t) const {
    return (head / heads_of_entry * time + t) * heads_of_entry + head % heads_of_entry;
  }
  __device__ int64_t key_token(int64_t head, int64_t t) const {
    return (head / heads_of_entry * time + t) * groups + head % heads_of_entry * groups / heads_of_entry;
  }
#endif
};

// Points to the gradients of a node, and to the scratch memory of a head (DeltaShape::gradient_scratch()).
template <class T>
struct Gradients {
  const T* dy;
  T *q, *k, *v, *decay, *beta, *state;
  T* scratch;
  int64_t scratch_of_head, chunk, chunks;
};

}  // namespace genesis::cuda
