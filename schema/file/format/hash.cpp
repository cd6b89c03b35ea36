#include "schema/file/format/hash.h"

#include <fmt/format.h>
#include <xxhash.h>

#include "schema/core/error.h"
#include "schema/core/parallel.h"

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

namespace {

constexpr uint64_t kHashedAtOnce = uint64_t{1} << 30;  // bytes between two reports of progress
constexpr uint64_t kHashedAlone = uint64_t{4} << 20;   // below this, one thread ends before others start

}  // namespace

std::vector<Hash128> hashes_of(std::span<const std::span<const std::byte>> pieces,
                               const std::function<void(uint64_t, uint64_t)>& progress) {
  std::vector<Hash128> hashes(pieces.size());
  uint64_t total = 0, done = 0;
  for (const auto& piece : pieces) total += piece.size();
  for (size_t first = 0, last = 0; first < pieces.size(); first = last) {
    uint64_t bytes = 0;
    while (last < pieces.size() && bytes < kHashedAtOnce) bytes += pieces[last++].size();
    const auto count = static_cast<int64_t>(last - first);
    in_parallel(count, bytes < kHashedAlone ? count : 1, [&](int64_t begin, int64_t end) {
      for (size_t i = first + static_cast<size_t>(begin); i < first + static_cast<size_t>(end); ++i)
        hashes[i] = hash_of(pieces[i]);
    });
    progress(done += bytes, total);
  }
  return hashes;
}

}  // namespace genesis::file
