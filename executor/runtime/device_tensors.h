// Tensors in the memory of a GPU, which other libraries of the process made or will read. A Tensor does not say where its bytes are,
// so the addresses of these tensors are kept in a table of the process. The C interface makes them, and sessions ask for them.
#pragma once

#include <memory>
#include <optional>

#include "schema/core/tensor.h"

namespace genesis {

// Returns a tensor over `data`, an address in the memory of GPU `gpu`, which `owner` keeps. Only a session of that GPU takes it, as
// an input; nothing else may read its bytes.
Tensor tensor_on_gpu(const TensorType& type, std::shared_ptr<const void> owner, const std::byte* data,
                     int gpu);

// Returns the GPU of the tensor whose data() is this address; empty for an address of the host.
std::optional<int> gpu_of(const std::byte* data);

}  // namespace genesis
