// Which of a model's tensors stay in the files they were read from: used by the writer where a model is saved with links.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "schema/file/io/mapped_file.h"
#include "schema/file/records.h"
#include "schema/graph/model.h"

namespace genesis::file {

struct LinkedFile {
  std::shared_ptr<const MappedFile> file;
  LinkRecord link;
};

class LinkTable {
 public:
  struct Place {
    uint32_t segment;
    uint64_t offset;  // in the segment
  };

  // Tensors that are views into one of these files; runs of them, hashed, are the file's first segments.
  LinkTable(const Model& model, std::span<const LinkedFile> files, uint64_t segment_bytes);

  const std::vector<SegmentRecord>& segments() const { return segments_; }
  const Place* find(const Tensor& tensor) const;  // null: its bytes are nowhere else

 private:
  using Range = std::pair<const std::byte*, uint64_t>;  // where it begins, bytes

  void add_tensors_of(const LinkedFile& file, const std::vector<Range>& tensors, uint64_t segment_bytes);

  std::vector<SegmentRecord> segments_;
  std::map<Range, Place> places_;
};

}  // namespace genesis::file
