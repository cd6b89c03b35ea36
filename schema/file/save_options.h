// How a model is written, and what of it is given otherwise than the model says (schema/file/writer.h).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "schema/core/tensor.h"
#include "schema/file/io/atomic_write.h"
#include "schema/file/io/mapped_file.h"
#include "schema/messages/progress.h"

namespace genesis {

// A state's values in pieces. So many neighbours of them are one behind the other, equally large; and what each such set makes
// has an equal part of each of the values' `runs` equal runs, in this order.
struct JoinedValues {
  std::vector<Tensor> pieces;
  int64_t runs = 1;
  int64_t pieces_each = 1;
};

struct SaveOptions {
  // A segment is closed once it holds this much; each has a hash of its own.
  uint64_t segment_bytes = uint64_t{64} << 20;
  OnProgress progress = {};  // of large models: "hashing", "writing"
  // Tensors that are views into one of these files stay there: the new file has their places, and the path of that file
  // from its own folder, so that both move together.
  MappedFiles links = {};
  // By name of a state: its values, whatever the model says that it starts from. The pieces stay pieces in the file, or are
  // written as the one tensor that they make, from where they are.
  std::map<std::string, JoinedValues> joined = {};
  bool keeps_pieces = true;
  // Whether tensors with equal bytes are stored once.
  bool deduplicate = true;
  LinkAtName link = LinkAtName::kFollowed;  // what becomes of one that has the new file's name
};

}  // namespace genesis
