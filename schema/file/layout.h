// Converts a Model to the records of its file and determines the order of its bytes: which tensor lies where.
#pragma once

#include <span>
#include <vector>

#include "schema/file/format/records.h"
#include "schema/file/links/link_table.h"
#include "schema/file/save_options.h"
#include "schema/graph/model.h"

namespace genesis::file {

struct Piece {  // bytes at an offset of the data
  uint64_t offset = 0;
  std::span<const std::byte> bytes;
};

struct Layout {
  ModelRecord record;
  std::vector<Piece> pieces;  // by offset; the bytes between them are zero
  uint64_t data_bytes = 0;
};

// `links` are the opened files of options.links; tensors that lie in one of them become no pieces. The pieces point into the
// tensors. Throws Error for a model that a file cannot hold.
Layout lay_out(const Model& model, const SaveOptions& options, std::span<const LinkedFile> links = {});

}  // namespace genesis::file
