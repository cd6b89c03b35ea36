// A long sequence of tokens in files ("shards") of raw little-endian u16 or u32, at most 128 MiB each, so that it may exceed
// memory. It is written once, in order, then mapped. Behind the tokens of a shard stand hashes of its blocks (64-bit XXH3,
// little-endian), which reveal tokens that a disk or a program has changed. A block is verified when it is first read: opening a
// corpus reads none of its tokens.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "schema/file/io/mapped_file.h"

namespace genesis::data {

// Returns true if u16 holds every token of the vocabulary.
constexpr bool fits_u16(int64_t vocab_size) { return vocab_size <= 65536; }

// Writes FOLDER/NAME-00000.tokens and so on. Each file is written completely or not at all.
class ShardWriter {
 public:
  static constexpr size_t kShardBytes = size_t{128} << 20;  // also the memory that a writer takes
  static constexpr size_t kHashedBytes = size_t{64} << 10;  // bytes of tokens that one hash covers

  ShardWriter(std::filesystem::path folder, std::string name, bool wide, size_t shard_bytes = kShardBytes);

  void append(std::span<const uint32_t> tokens);
  // Returns the number of tokens of each shard. Nothing may be appended afterwards.
  std::vector<int64_t> finish();

 private:
  void write_shard();

  std::filesystem::path folder_;
  std::string name_;
  bool wide_;
  size_t shard_bytes_;
  std::vector<std::byte> open_;  // tokens of the shard that is being filled
  std::vector<int64_t> counts_;
};

class TokenStream {
 public:
  // Opens the shards that a ShardWriter wrote; `counts` is what finish() returned. Throws Error naming a shard that is missing or
  // has the wrong size. Shards of older versions of Genesis have no hashes.
  TokenStream(const std::filesystem::path& folder, const std::string& name, bool wide,
              const std::vector<int64_t>& counts, bool has_hashes = true);

  int64_t size() const { return starts_.back(); }
  // Reads tokens `first` to `first + count`, which must exist. Throws Error naming a shard whose tokens have changed since they
  // were written. Several threads may read concurrently.
  void read(int64_t first, int64_t count, int64_t* tokens) const;

 private:
  struct Shard;
  void check_blocks(const Shard& shard, size_t begin, size_t end) const;

  bool wide_;
  std::vector<std::shared_ptr<const Shard>> shards_;
  std::vector<int64_t> starts_ = {0};  // first token of each shard, and the total
};

}  // namespace genesis::data
