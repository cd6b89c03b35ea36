// A byte pattern with which benches fill GPU memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "backends/cuda/runtime/runtime.h"

namespace genesis::bench {

// A byte pattern that is repeated to fill memory.
class ByteTile {
 public:
  template <class Make>
  ByteTile(int64_t bytes, const Make& make) : bytes_(static_cast<size_t>(bytes)) {
    uint64_t state = 88172645463325252ull;
    using Value = decltype(make(state));
    for (size_t i = 0; i + sizeof(Value) <= bytes_.size(); i += sizeof(Value)) {
      state = state * 6364136223846793005ull + 1442695040888963407ull;
      const Value value = make(state >> 33);
      std::memcpy(bytes_.data() + i, &value, sizeof(value));
    }
  }
  void fill(std::byte* device, int64_t bytes) const {
    const auto size = static_cast<int64_t>(bytes_.size());
    for (int64_t at = 0; at < bytes; at += size)
      cuda::check(cudaMemcpy(device + at, bytes_.data(), static_cast<size_t>(std::min(size, bytes - at)),
                             cudaMemcpyHostToDevice),
                  "filling memory");
  }
  template <class Value>
  Value at(int64_t byte) const {
    Value value;
    std::memcpy(&value, bytes_.data() + static_cast<size_t>(byte) % bytes_.size(), sizeof(value));
    return value;
  }

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace genesis::bench
