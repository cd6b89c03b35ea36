// The content of a file's graph section as plain data: the interface between the FlatBuffers code (flat.h), the checks
// (check_records.h), the upgraders (upgrade.h) and the Model (writer.h, reader.h). Records that were read must not be trusted
// until check_records() has passed.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "schema/file/format/hash.h"
#include "schema/graph/model.h"

namespace genesis::file {

// Another file that holds bytes of this one.
struct LinkRecord {
  std::string path;  // relative to the folder of the .genesis file; empty: no linked file
  uint64_t bytes = 0;
  int64_t written = 0;  // nanoseconds since 1970
  bool operator==(const LinkRecord&) const = default;
};

struct SegmentRecord {
  uint64_t offset = 0;  // from the start of the data, or of the linked file
  uint64_t bytes = 0;
  Hash128 hash;
  LinkRecord link;

  bool is_linked() const { return !link.path.empty(); }
  bool operator==(const SegmentRecord&) const = default;
};

struct TensorRecord {
  std::string name;  // name of its first user
  TensorType type;
  uint32_t segment = 0;
  uint64_t offset = 0;  // from the start of the segment
  uint64_t bytes = 0;
  // Rows before this one from which it is joined; a joined tensor has no segment and offset of its own (genesis.fbs).
  std::vector<uint32_t> pieces = {};
  uint64_t runs = 1;
  uint64_t pieces_each = 1;  // pieces in a set, which together hold a share of each run

  bool is_joined() const { return !pieces.empty(); }
  bool operator==(const TensorRecord&) const = default;
};

struct ConstantRecord {
  std::string name;
  uint32_t tensor = 0;
  bool operator==(const ConstantRecord&) const = default;
};

struct FileRecord {
  std::string name;
  uint32_t tensor = 0;
  bool operator==(const FileRecord&) const = default;
};

struct StateRecord {
  std::string name;
  TensorType type;
  StateRole role = StateRole::kParameter;
  bool trainable = false;
  int32_t initial = -1;              // row of the tensor, or -1 for zeros
  std::string format = {};           // name of the state format; empty if the values are not encoded
  std::vector<uint32_t> parts = {};  // rows of tensors
  std::optional<CacheLayout> cache = {};
  bool operator==(const StateRecord&) const = default;
};

struct ValueRecord {
  ValueKind kind = ValueKind::kInput;
  int32_t index = 0;
  TensorType type;
  std::string name;  // name of an input; empty for other kinds
  bool operator==(const ValueRecord&) const = default;
};

struct NodeRecord {
  std::string name, op;
  int32_t op_version = 1;
  Attributes attributes;
  std::vector<int32_t> inputs, outputs;  // numbers of values
  std::vector<std::string> origins;
  bool operator==(const NodeRecord&) const = default;
};

struct OutputRecord {
  std::string name;
  int32_t value = 0;
  bool operator==(const OutputRecord&) const = default;
};

struct UpdateRecord {
  int32_t state = 0;
  int32_t value = 0;
  bool operator==(const UpdateRecord&) const = default;
};

struct EntryRecord {
  std::string name;
  std::vector<ValueRecord> values;  // in the order of their creation
  std::vector<NodeRecord> nodes;
  std::vector<OutputRecord> outputs;
  std::vector<UpdateRecord> updates;
  bool operator==(const EntryRecord&) const = default;
};

struct ModelRecord {
  std::string producer;
  std::vector<SegmentRecord> segments;
  std::vector<TensorRecord> tensors;
  std::vector<ConstantRecord> constants;
  std::vector<StateRecord> states;
  std::vector<EntryRecord> entries;
  std::map<std::string, std::string> metadata;
  std::vector<FileRecord> files;
  bool operator==(const ModelRecord&) const = default;

  // Returns the major version that a reader must know: 1 if nothing is encoded or joined.
  uint16_t major() const {
    const auto is_joined = [](const TensorRecord& tensor) { return tensor.is_joined(); };
    const auto has_sets = [](const TensorRecord& tensor) { return tensor.pieces_each != 1; };
    const auto is_encoded = [](const StateRecord& state) { return !state.format.empty(); };
    if (std::ranges::any_of(tensors, has_sets)) return 4;
    if (std::ranges::any_of(tensors, is_joined)) return 3;
    return std::ranges::any_of(states, is_encoded) ? 2 : 1;
  }
};

}  // namespace genesis::file
