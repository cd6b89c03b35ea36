#include "schema/file/hash.h"

#include <fmt/format.h>
#include <xxhash.h>

#include "schema/error.h"

namespace genesis::file {

std::string Hash128::to_string() const { return fmt::format("{:016x}{:016x}", high, low); }

struct Hasher::State {
  XXH3_state_t* xxh = XXH3_createState();
  ~State() { XXH3_freeState(xxh); }
};

Hasher::Hasher() : state_(std::make_unique<State>()) {
  if (state_->xxh == nullptr) fail("out of memory while hashing");
  XXH3_128bits_reset(state_->xxh);
}

Hasher::~Hasher() = default;

void Hasher::update(std::span<const std::byte> bytes) {
  if (!bytes.empty()) XXH3_128bits_update(state_->xxh, bytes.data(), bytes.size());
}

Hash128 Hasher::digest() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(state_->xxh);
  return {hash.low64, hash.high64};
}

Hash128 hash_of(std::span<const std::byte> bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {hash.low64, hash.high64};
}

}  // namespace genesis::file
