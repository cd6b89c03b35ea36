// Finds the tensors of a model that stay in the files they were read from, for saving a model with links.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "schema/file/format/records.h"
#include "schema/file/io/mapped_file.h"
#include "schema/graph/model.h"

namespace genesis::file {

struct LinkedFile {
  std::shared_ptr<const MappedFile> file;
  LinkRecord link;
  // For a .genesis file: the segments that it holds itself, with their known hashes. Offsets count from the start of the file.
  std::vector<SegmentRecord> known = {};
};

// Returns the segments of a .genesis file with offsets from the start of the file; empty if it is not a .genesis file or is
// damaged.
std::vector<SegmentRecord> segments_in(const MappedFile& file);

class LinkTable {
 public:
  struct Location {
    uint32_t segment;
    uint64_t offset;  // in the segment
  };

  // Finds the tensors that are views into one of these files. The segments that hold them come first in the new file's records.
  LinkTable(std::span<const Tensor> tensors, std::span<const LinkedFile> files, uint64_t segment_bytes);

  const std::vector<SegmentRecord>& segments() const { return segments_; }
  const Location* find(const Tensor& tensor) const;  // null: the tensor is in none of the files

 private:
  using Range = std::pair<const std::byte*, uint64_t>;  // address of the first byte, number of bytes

  void add_tensors_of(const LinkedFile& file, const std::vector<Range>& tensors, uint64_t segment_bytes);
  // Adds the tensors that lie in known segments of the file; returns the others.
  std::vector<Range> add_known(const LinkedFile& file, const std::vector<Range>& tensors);
  void hash_segments(const LinkedFile& file, size_t first);

  std::vector<SegmentRecord> segments_;
  std::map<Range, Location> locations_;
};

}  // namespace genesis::file
