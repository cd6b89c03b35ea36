// What every backend says of attention's key_start. Included by kernels of the CPU and by the runner of a GPU.
#pragma once

namespace genesis {

inline constexpr const char* kFallingStarts =
    "key_start of attention falls along a row: tokens of one text must stand side by side";

}  // namespace genesis
