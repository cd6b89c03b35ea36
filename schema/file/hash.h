// XXH3-128 over bytes given in pieces: what the file format keeps of its header, graph and segments. Finds
// damage, not forgery.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

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

}  // namespace genesis::file
