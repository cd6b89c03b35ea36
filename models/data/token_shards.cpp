#include "models/data/token_shards.h"

#include <fmt/format.h>

#include <algorithm>

#include "schema/core/error.h"
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

// A mapped shard is aligned to a page.
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
  AtomicFile file(shard_path(folder_, name_, counts_.size()), open_.size());
  file.write(open_);
  file.commit();
  counts_.push_back(static_cast<int64_t>(open_.size() / (wide_ ? 4 : 2)));
  open_.clear();
}

TokenStream::TokenStream(const fs::path& folder, const std::string& name, bool wide,
                         const std::vector<int64_t>& counts)
    : wide_(wide) {
  for (const int64_t count : counts) {
    const fs::path path = shard_path(folder, name, shards_.size());
    shards_.push_back(MappedFile::open(path));
    const size_t bytes = shards_.back()->bytes().size(),
                 expected = static_cast<size_t>(count) * (wide ? 4 : 2);
    if (bytes != expected)
      fail("'{}' has {} bytes, expected {}: remove the folder, and the text is tokenized anew", path.string(),
           bytes, expected);
    starts_.push_back(starts_.back() + count);
  }
}

void TokenStream::read(int64_t first, int64_t count, int64_t* tokens) const {
  GENESIS_ASSERT(first >= 0 && count >= 0 && count <= size() - first);
  auto shard = static_cast<size_t>(std::ranges::upper_bound(starts_, first) - starts_.begin()) - 1;
  for (; count > 0; ++shard) {
    const int64_t here = std::min(count, starts_[shard + 1] - first), at = first - starts_[shard];
    const auto bytes = shards_[shard]->bytes();
    tokens = wide_ ? read_as<uint32_t>(bytes, at, here, tokens) : read_as<uint16_t>(bytes, at, here, tokens);
    first += here;
    count -= here;
  }
}

}  // namespace genesis::data
