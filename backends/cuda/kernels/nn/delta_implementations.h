// The implementation of gated_delta, mamba2 and their gradients in the folder delta_chunks: f32 in chunks of 64 tokens, whose products run
// on tensor cores (chunks.h there has the formulas, split_tile.h the precision). gated_delta.cu has its rows, and runs its own kernels
// where this one declines. A value that is not finite reaches all texts of its chunk.
#pragma once

#include <optional>
#include <string>

#include "backends/common/delta_shape.h"
#include "backends/cuda/kernels/nn/delta_operands.h"

namespace genesis::cuda {

// Returns why the chunks do not take a node, or nullopt if they do.
std::optional<std::string> delta_chunks_decline(const KernelQuery& query);

// Bytes of scratch memory, a multiple of 64.
int64_t delta_chunks_scratch(const DeltaShape& s);
int64_t delta_chunks_gradient_scratch(const DeltaShape& s);

// Starts the kernels. `corrects` is true for gated_delta and false for mamba2. Returns false, and starts nothing, if the device has too
// little shared memory for a block, or operands begin at no multiple of 16 bytes.
bool start_delta_chunks(const KernelContext& c, const Delta<float>& d, bool corrects);
// The same for the gradient; of `g`, scratch memory holds delta_chunks_gradient_scratch() bytes.
bool start_delta_chunk_gradients(const KernelContext& c, const Delta<float>& d, const Gradients<float>& g,
                                 bool corrects);

}  // namespace genesis::cuda
