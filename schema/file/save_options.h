// Options for saving a model (schema/file/writer.h), including values that replace those of the model.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "schema/core/tensor.h"
#include "schema/file/io/link_at_name.h"
#include "schema/file/io/mapped_file.h"
#include "schema/messages/progress.h"

namespace genesis {

// The values of a state, given as pieces of equal size. The values consist of `runs` equal runs. Each `pieces_each` consecutive
// pieces form a set; the pieces of a set, joined one after the other, hold an equal share of every run, and the sets are in the
// order of their shares.
struct JoinedValues {
  std::vector<Tensor> pieces;
  int64_t runs = 1;
  int64_t pieces_each = 1;
};

struct SaveOptions {
  // A segment is closed once it holds this many bytes; each segment has its own hash.
  uint64_t segment_bytes = uint64_t{64} << 20;
  OnProgress progress = {};  // receives "hashing" and "writing" for large models
  // Tensors that are views into one of these files stay there: the new file records their offsets and the path of that file
  // relative to its own folder, so that both can move together.
  MappedFiles links = {};
  // Values of states by name, which replace the model's initial values. The file keeps the pieces as separate tensors if
  // `keeps_pieces` is set; otherwise they are written as one tensor, without joining them in memory.
  std::map<std::string, JoinedValues> joined = {};
  bool keeps_pieces = true;
  // Stores tensors with equal bytes once.
  bool deduplicate = true;
  LinkAtName link = LinkAtName::kFollowed;  // treatment of a symbolic link at the path of the new file
};

}  // namespace genesis
