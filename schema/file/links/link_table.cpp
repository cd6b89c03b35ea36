#include "schema/file/links/link_table.h"

#include <algorithm>

#include "schema/file/format/check_records.h"
#include "schema/file/format/flat.h"
#include "schema/file/format/format.h"

namespace genesis::file {
namespace {

using Bytes = std::span<const std::byte>;

bool holds(Bytes file, Bytes part) {
  const std::less_equal<const std::byte*> is_not_behind;
  return is_not_behind(file.data(), part.data()) &&
         is_not_behind(part.data() + part.size(), file.data() + file.size());
}

}  // namespace

std::vector<SegmentRecord> segments_in(const MappedFile& file) {
  const Bytes bytes = file.bytes();
  if (bytes.size() < kHeaderBytes) return {};
  try {
    const Bytes start = bytes.first(kHeaderBytes);
    const Header header = decode_header(start, bytes.size());
    const Bytes graph = bytes.subspan(kHeaderBytes, header.graph_bytes);
    check_hash(header, start, graph);
    const ModelRecord record = decode_graph(graph);
    check_records(record, bytes.size() - header.data_offset);
    std::vector<SegmentRecord> own;
    for (const SegmentRecord& segment : record.segments)
      if (!segment.is_linked())
        own.push_back({segment.offset + header.data_offset, segment.bytes, segment.hash, {}});
    return own;
  } catch (const Error&) {
    return {};
  }
}

LinkTable::LinkTable(std::span<const Tensor> tensors, std::span<const LinkedFile> files,
                     uint64_t segment_bytes) {
  for (const LinkedFile& file : files) {
    std::vector<Range> inside;
    for (const Tensor& tensor : tensors) {
      if (tensor.empty_handle() || tensor.bytes() == 0) continue;
      const Bytes bytes{tensor.data(), static_cast<size_t>(tensor.bytes())};
      if (holds(file.file->bytes(), bytes)) inside.emplace_back(bytes.data(), bytes.size());
    }
    std::ranges::sort(inside);
    inside.erase(std::ranges::unique(inside).begin(), inside.end());
    inside = add_known(file, inside);
    const size_t first = segments_.size();
    add_tensors_of(file, inside, segment_bytes);
    hash_segments(file, first);
  }
}

void LinkTable::hash_segments(const LinkedFile& file, size_t first) {
  std::vector<Bytes> hashed;
  for (size_t i = first; i < segments_.size(); ++i)
    hashed.push_back(file.file->bytes().subspan(segments_[i].offset, segments_[i].bytes));
  const std::vector<Hash128> hashes = hashes_of(hashed, [](uint64_t, uint64_t) {});
  for (size_t i = 0; i < hashes.size(); ++i) segments_[first + i].hash = hashes[i];
}

// `tensors` and file.known are sorted by offset.
std::vector<LinkTable::Range> LinkTable::add_known(const LinkedFile& file,
                                                   const std::vector<Range>& tensors) {
  std::vector<Range> others;
  std::map<uint64_t, uint32_t> added;  // offset of a known segment -> its number in segments_
  for (const auto& [data, bytes] : tensors) {
    const auto offset = static_cast<uint64_t>(data - file.file->bytes().data());
    const auto behind = std::ranges::upper_bound(file.known, offset, {}, &SegmentRecord::offset);
    const SegmentRecord* segment = behind == file.known.begin() ? nullptr : &*(behind - 1);
    if (!segment || offset + bytes > segment->offset + segment->bytes) {
      others.emplace_back(data, bytes);
      continue;
    }
    const auto [at, is_new] = added.try_emplace(segment->offset, static_cast<uint32_t>(segments_.size()));
    if (is_new) segments_.push_back({segment->offset, segment->bytes, segment->hash, file.link});
    locations_[{data, bytes}] = {at->second, offset - segment->offset};
  }
  return others;
}

// Groups consecutive tensors into segments; closes a segment once it holds `segment_bytes`.
void LinkTable::add_tensors_of(const LinkedFile& file, const std::vector<Range>& tensors,
                               uint64_t segment_bytes) {
  bool open = false;
  for (const auto& [data, bytes] : tensors) {
    const auto offset = static_cast<uint64_t>(data - file.file->bytes().data());
    if (!open) segments_.push_back({offset, 0, {}, file.link});
    SegmentRecord& segment = segments_.back();
    segment.bytes = std::max(segment.bytes, offset + bytes - segment.offset);
    locations_[{data, bytes}] = {static_cast<uint32_t>(segments_.size() - 1), offset - segment.offset};
    open = segment.bytes < segment_bytes;
  }
}

const LinkTable::Location* LinkTable::find(const Tensor& tensor) const {
  if (tensor.empty_handle()) return nullptr;
  const auto at = locations_.find({tensor.data(), static_cast<uint64_t>(tensor.bytes())});
  return at == locations_.end() ? nullptr : &at->second;
}

}  // namespace genesis::file
