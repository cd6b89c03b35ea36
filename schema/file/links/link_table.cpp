#include "schema/file/links/link_table.h"

#include <algorithm>

namespace genesis::file {
namespace {

using Bytes = std::span<const std::byte>;

std::vector<Bytes> tensors_of(const Model& model) {
  std::vector<Bytes> tensors;
  const auto add = [&](const Tensor& tensor) {
    if (!tensor.empty_handle() && tensor.bytes() > 0)
      tensors.push_back({tensor.data(), static_cast<size_t>(tensor.bytes())});
  };
  for (const State& state : model.states()) add(state.initial);
  for (const NamedTensor& constant : model.tensors()) add(constant.tensor);
  return tensors;
}

bool holds(Bytes file, Bytes part) {
  const std::less_equal<const std::byte*> is_not_behind;
  return is_not_behind(file.data(), part.data()) &&
         is_not_behind(part.data() + part.size(), file.data() + file.size());
}

}  // namespace

LinkTable::LinkTable(const Model& model, std::span<const LinkedFile> files, uint64_t segment_bytes) {
  if (files.empty()) return;
  const std::vector<Bytes> tensors = tensors_of(model);
  std::vector<Bytes> hashed;
  for (const LinkedFile& file : files) {
    std::vector<Range> inside;
    for (const Bytes& tensor : tensors)
      if (holds(file.file->bytes(), tensor)) inside.emplace_back(tensor.data(), tensor.size());
    std::sort(inside.begin(), inside.end());
    inside.erase(std::unique(inside.begin(), inside.end()), inside.end());
    add_tensors_of(file, inside, segment_bytes);
    while (hashed.size() < segments_.size()) {
      const SegmentRecord& segment = segments_[hashed.size()];
      hashed.push_back(file.file->bytes().subspan(segment.offset, segment.bytes));
    }
  }
  const std::vector<Hash128> hashes = hashes_of(hashed, [](uint64_t, uint64_t) {});
  for (size_t i = 0; i < hashes.size(); ++i) segments_[i].hash = hashes[i];
}

// A segment is closed once it holds `segment_bytes`.
void LinkTable::add_tensors_of(const LinkedFile& file, const std::vector<Range>& tensors,
                               uint64_t segment_bytes) {
  bool open = false;
  for (const auto& [data, bytes] : tensors) {
    const auto offset = static_cast<uint64_t>(data - file.file->bytes().data());
    if (!open) segments_.push_back({offset, 0, {}, file.link});
    SegmentRecord& segment = segments_.back();
    segment.bytes = std::max(segment.bytes, offset + bytes - segment.offset);
    places_[{data, bytes}] = {static_cast<uint32_t>(segments_.size() - 1), offset - segment.offset};
    open = segment.bytes < segment_bytes;
  }
}

const LinkTable::Place* LinkTable::find(const Tensor& tensor) const {
  if (tensor.empty_handle()) return nullptr;
  const auto at = places_.find({tensor.data(), static_cast<uint64_t>(tensor.bytes())});
  return at == places_.end() ? nullptr : &at->second;
}

}  // namespace genesis::file
