#include "models/data/token_shards.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "schema/core/error.h"
#include "schema/file/format/hash.h"
#include "schema/file/io/atomic_write.h"

namespace genesis::data {
namespace {

namespace fs = std::filesystem;

fs::path shard_path(const fs::path& folder, const std::string& name, size_t number) {
  return folder / fmt::format("{}-{:05}.tokens", name, number);
}

template <class T>
void append_as(std::vector<std::byte>& bytes, uint32_t token) {
  const T narrow = static_cast<T>(token);
  const auto* begin = reinterpret_cast<const std::byte*>(&narrow);
  bytes.insert(bytes.end(), begin, begin + sizeof narrow);
}

size_t blocks_in(size_t bytes) { return (bytes + ShardWriter::kHashedBytes - 1) / ShardWriter::kHashedBytes; }

std::span<const std::byte> block_of(std::span<const std::byte> tokens, size_t block) {
  const size_t begin = block * ShardWriter::kHashedBytes;
  return tokens.subspan(begin, std::min(ShardWriter::kHashedBytes, tokens.size() - begin));
}

std::vector<uint64_t> hashes_of_blocks(std::span<const std::byte> tokens) {
  std::vector<uint64_t> hashes(blocks_in(tokens.size()));
  for (size_t i = 0; i < hashes.size(); ++i) hashes[i] = file::hash_of(block_of(tokens, i)).low;
  return hashes;
}

// Copies tokens of a shard to `tokens`. A mapped shard is aligned to a page.
template <class T>
int64_t* read_as(std::span<const std::byte> shard, int64_t first, int64_t count, int64_t* tokens) {
  const T* from = reinterpret_cast<const T*>(shard.data()) + first;
  return std::copy(from, from + count, tokens);
}

}  // namespace

ShardWriter::ShardWriter(fs::path folder, std::string name, bool wide, size_t shard_bytes)
    : folder_(std::move(folder)), name_(std::move(name)), wide_(wide), shard_bytes_(shard_bytes) {}

void ShardWriter::append(std::span<const uint32_t> tokens) {
  for (const uint32_t token : tokens) {
    wide_ ? append_as<uint32_t>(open_, token) : append_as<uint16_t>(open_, token);
    if (open_.size() >= shard_bytes_) write_shard();
  }
}

std::vector<int64_t> ShardWriter::finish() {
  if (!open_.empty()) write_shard();
  return std::move(counts_);
}

void ShardWriter::write_shard() {
  const std::vector<uint64_t> hashes = hashes_of_blocks(open_);
  const auto behind = std::as_bytes(std::span(hashes));
  AtomicFile file(shard_path(folder_, name_, counts_.size()), open_.size() + behind.size(),
                  LinkAtName::kReplaced);
  file.write(open_);
  file.write(behind);
  file.commit();
  counts_.push_back(static_cast<int64_t>(open_.size() / (wide_ ? 4 : 2)));
  open_.clear();
}

// A mapped file, with the blocks that were already verified.
struct TokenStream::Shard {
  Shard(std::shared_ptr<const MappedFile> opened, size_t token_bytes, size_t blocks)
      : file(std::move(opened)), tokens(file->bytes().first(token_bytes)), is_checked(blocks) {}

  uint64_t written_hash(size_t block) const {
    uint64_t hash;
    std::memcpy(&hash, file->bytes().data() + tokens.size() + block * sizeof hash, sizeof hash);
    return hash;
  }

  std::shared_ptr<const MappedFile> file;
  std::span<const std::byte> tokens;
  mutable std::vector<std::atomic<bool>> is_checked;  // by block; empty: the shard has no hashes
};

TokenStream::TokenStream(const fs::path& folder, const std::string& name, bool wide,
                         const std::vector<int64_t>& counts, bool has_hashes)
    : wide_(wide) {
  for (const int64_t count : counts) {
    const fs::path path = shard_path(folder, name, shards_.size());
    auto file = MappedFile::open(path);
    const size_t bytes = file->bytes().size(), token_bytes = static_cast<size_t>(count) * (wide ? 4 : 2),
                 blocks = has_hashes ? blocks_in(token_bytes) : 0,
                 expected = token_bytes + blocks * sizeof(uint64_t);
    if (count < 0 || bytes != expected)
      fail("'{}' has {} bytes, expected {}: remove the folder, and the text is tokenized anew", path.string(),
           bytes, expected);
    shards_.push_back(std::make_shared<const Shard>(std::move(file), token_bytes, blocks));
    starts_.push_back(starts_.back() + count);
  }
}

// Verifies the blocks of [begin, end) that were not verified yet. Two threads that verify a block concurrently do no harm.
void TokenStream::check_blocks(const Shard& shard, size_t begin, size_t end) const {
  if (shard.is_checked.empty() || begin == end) return;
  for (size_t block = begin / ShardWriter::kHashedBytes; block < blocks_in(end); ++block) {
    if (shard.is_checked[block].load(std::memory_order_relaxed)) continue;
    const auto bytes = block_of(shard.tokens, block);
    if (file::hash_of(bytes).low != shard.written_hash(block))
      fail(
          "'{}' is damaged: its bytes {} to {} are not those that were written: remove the folder, and the "
          "text is tokenized anew",
          shard.file->path().string(), block * ShardWriter::kHashedBytes,
          block * ShardWriter::kHashedBytes + bytes.size());
    shard.is_checked[block].store(true, std::memory_order_relaxed);
  }
}

void TokenStream::read(int64_t first, int64_t count, int64_t* tokens) const {
  GENESIS_ASSERT(first >= 0 && count >= 0 && count <= size() - first);
  auto shard = static_cast<size_t>(std::ranges::upper_bound(starts_, first) - starts_.begin()) - 1;
  for (; count > 0; ++shard) {
    const int64_t here = std::min(count, starts_[shard + 1] - first), at = first - starts_[shard];
    const auto bytes = shards_[shard]->tokens;
    const auto width = static_cast<size_t>(wide_ ? 4 : 2);
    check_blocks(*shards_[shard], static_cast<size_t>(at) * width, static_cast<size_t>(at + here) * width);
    tokens = wide_ ? read_as<uint32_t>(bytes, at, here, tokens) : read_as<uint16_t>(bytes, at, here, tokens);
    first += here;
    count -= here;
  }
}

}  // namespace genesis::data
