// One tensor from pieces that lie in several files, such as the parts that ranks write of a checkpoint. Used by the reader.
#pragma once

#include <memory>
#include <vector>

#include "schema/core/tensor.h"
#include "schema/file/io/mapped_file.h"

namespace genesis::file {

struct JoinedPiece {
  Tensor tensor;
  std::shared_ptr<const MappedFile> file;  // that it is a view into; null: it is not
};

// Each piece has an equal part of each of the tensor's `runs` equal runs; check_records() has seen to the sizes. Large pieces
// that begin and end with pages are mapped side by side, so that nothing is read and processes share the memory; others are
// copied.
Tensor join_tensors(const TensorType& type, const std::vector<JoinedPiece>& pieces, int64_t runs);

}  // namespace genesis::file
