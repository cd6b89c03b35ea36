// From a Model to the records of its file and the order of its bytes: which tensor lies where. Used by the
// writer.
#pragma once

#include <span>
#include <vector>

#include "schema/file/format/records.h"
#include "schema/file/links/link_table.h"
#include "schema/file/save_options.h"
#include "schema/graph/model.h"

namespace genesis::file {

struct Piece {  // bytes at a place of the data
  uint64_t offset = 0;
  std::span<const std::byte> bytes;
};

struct Layout {
  ModelRecord record;
  std::vector<Piece> pieces;  // by offset; what lies between them is zero
  uint64_t data_bytes = 0;
};

// Tensors that lie in one of `links`, which stand for those of the options, are no pieces. Throws Error for a model that a
// file cannot hold. Pieces point into the tensors.
Layout lay_out(const Model& model, const SaveOptions& options, std::span<const LinkedFile> links = {});

}  // namespace genesis::file
