// The callback by which work on large files reports its progress. It is called now and then, on the thread that started the work,
// with the name of the work ("writing") and the bytes done; `total` is 0 while it is unknown.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

namespace genesis {

using OnProgress = std::function<void(std::string_view what, uint64_t done, uint64_t total)>;

}  // namespace genesis
