// A long row of tokens in files ("shards") of raw little-endian u16 or u32, 128 MiB each at most, so that it may be larger
// than memory: written once, in order, then mapped. Behind the tokens of a shard stand hashes of its blocks (XXH3 of 64 bits,
// little-endian), so that a disk or a program that has changed them is found out. A block is hashed when it is first read: opening
// a corpus reads none of its tokens.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "schema/file/io/mapped_file.h"

namespace genesis::data {

// Whether u16 holds every token of a vocabulary.
constexpr bool fits_u16(int64_t vocab_size) { return vocab_size <= 65536; }

// Writes FOLDER/NAME-00000.tokens and so on, each as a whole or not at all.
class ShardWriter {
 public:
  static constexpr size_t kShardBytes = size_t{128} << 20;  // also the memory that a writer takes
  static constexpr size_t kHashedBytes = size_t{64} << 10;  // the tokens of a shard that one hash is of

  ShardWriter(std::filesystem::path folder, std::string name, bool wide, size_t shard_bytes = kShardBytes);

  void append(std::span<const uint32_t> tokens);
  // Tokens of each shard. Nothing may be appended after it.
  std::vector<int64_t> finish();

 private:
  void write_shard();

  std::filesystem::path folder_;
  std::string name_;
  bool wide_;
  size_t shard_bytes_;
  std::vector<std::byte> open_;  // of the shard that is being filled
  std::vector<int64_t> counts_;
};

class TokenStream {
 public:
  // The shards that a ShardWriter wrote; `counts` is what it returned. Throws Error naming a shard that is missing or has
  // another size. Shards of older versions of Genesis have no hashes.
  TokenStream(const std::filesystem::path& folder, const std::string& name, bool wide,
              const std::vector<int64_t>& counts, bool has_hashes = true);

  int64_t size() const { return starts_.back(); }
  // Tokens `first` to `first + count`, which must be there. Throws Error naming a shard whose tokens are not those that were
  // written. Several threads may read.
  void read(int64_t first, int64_t count, int64_t* tokens) const;

 private:
  struct Shard;
  void check_blocks(const Shard& shard, size_t begin, size_t end) const;

  bool wide_;
  std::vector<std::shared_ptr<const Shard>> shards_;
  std::vector<int64_t> starts_ = {0};  // of each shard, and the end
};

}  // namespace genesis::data
