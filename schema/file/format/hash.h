// XXH3-128 hashes of the header, graph and segments of a file. They detect damage, not forgery.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace genesis::file {

struct Hash128 {
  uint64_t low = 0, high = 0;
  auto operator<=>(const Hash128&) const = default;
  std::string to_string() const;  // 32 hexadecimal digits
};

class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(const Hasher&) = delete;
  Hasher& operator=(const Hasher&) = delete;
  void update(std::span<const std::byte> bytes);
  Hash128 digest() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

Hash128 hash_of(std::span<const std::byte> bytes);
// Hashes each piece, on all cores; calls `progress(done, total)`, in bytes, on this thread now and then.
std::vector<Hash128> hashes_of(std::span<const std::span<const std::byte>> pieces,
                               const std::function<void(uint64_t, uint64_t)>& progress);

}  // namespace genesis::file
