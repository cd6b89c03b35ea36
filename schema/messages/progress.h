// How far work on large files has come, for whoever shows it: called now and then, on the thread that asked for the work,
// with what is being done ("writing") and the bytes done. `total` is 0 where nobody knows it yet.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

namespace genesis {

using OnProgress = std::function<void(std::string_view what, uint64_t done, uint64_t total)>;

}  // namespace genesis
