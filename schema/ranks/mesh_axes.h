// The mesh axes that passes know by name; a model may name others.
#pragma once

namespace genesis {

inline constexpr char kDataAxis[] = "data";          // each rank has a shard of the batch
inline constexpr char kTensorAxis[] = "tensor";      // the ranks compute each layer together
inline constexpr char kPipelineAxis[] = "pipeline";  // each rank has a stage of layers

}  // namespace genesis
