// Joins a tensor from pieces that lie in several files, such as the parts of a checkpoint that ranks write.
#pragma once

#include <memory>
#include <vector>

#include "schema/core/tensor.h"
#include "schema/file/io/mapped_file.h"

namespace genesis::file {

struct JoinedPiece {
  Tensor tensor;
  std::shared_ptr<const MappedFile> file;  // file that the tensor is a view into; null if it is no view
};

// Joins the pieces in this order (see SaveOptions); check_records() has checked their sizes. If there is one run, and all pieces
// are large and page-aligned, maps them side by side: then nothing is copied, and processes share the memory. Copies the pieces
// otherwise.
Tensor join_tensors(const TensorType& type, const std::vector<JoinedPiece>& pieces, int64_t runs,
                    int64_t pieces_each);

}  // namespace genesis::file
