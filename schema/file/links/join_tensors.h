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

// In this order, as SaveOptions gave them (schema/file/writer.h); check_records() has seen to the sizes. Large pieces of one run
// that begin and end with pages are mapped side by side, so that nothing is read and processes share the memory; others are
// copied.
Tensor join_tensors(const TensorType& type, const std::vector<JoinedPiece>& pieces, int64_t runs,
                    int64_t pieces_each);

}  // namespace genesis::file
