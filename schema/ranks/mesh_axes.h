// The axes of a mesh that passes know by name; a model may name others.
#pragma once

namespace genesis {

inline constexpr char kDataAxis[] = "data";          // its ranks share a batch
inline constexpr char kTensorAxis[] = "tensor";      // its ranks compute layers together
inline constexpr char kPipelineAxis[] = "pipeline";  // its ranks have a stage of layers each

}  // namespace genesis
