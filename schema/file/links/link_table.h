// Which of a model's tensors stay in the files they were read from: used by the writer where a model is saved with links.
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
  // Of a .genesis file: those of its own that lie in it, which have been hashed. Offsets are the file's.
  std::vector<SegmentRecord> known = {};
};

// The segments of a .genesis file with offsets from the start of the file; none where it is no such file, or damaged.
std::vector<SegmentRecord> segments_in(const MappedFile& file);

class LinkTable {
 public:
  struct Location {
    uint32_t segment;
    uint64_t offset;  // in the segment
  };

  // Of `tensors` those that are views into one of these files; runs of them, hashed, are the first segments.
  LinkTable(std::span<const Tensor> tensors, std::span<const LinkedFile> files, uint64_t segment_bytes);

  const std::vector<SegmentRecord>& segments() const { return segments_; }
  const Location* find(const Tensor& tensor) const;  // null: its bytes are nowhere else

 private:
  using Range = std::pair<const std::byte*, uint64_t>;  // where it begins, bytes

  void add_tensors_of(const LinkedFile& file, const std::vector<Range>& tensors, uint64_t segment_bytes);
  // Those that lie in segments that the file knows; gives back the others.
  std::vector<Range> add_known(const LinkedFile& file, const std::vector<Range>& tensors);
  void hash_segments(const LinkedFile& file, size_t first);

  std::vector<SegmentRecord> segments_;
  std::map<Range, Location> locations_;
};

}  // namespace genesis::file
