#include "schema/file/format/check_records.h"

#include <algorithm>
#include <set>

#include "schema/core/type_limits.h"
#include "schema/encoding/quantized_formats.h"
#include "schema/file/format/format.h"
#include "schema/file/format/names.h"
#include "schema/graph/caches.h"
#include "schema/graph/state_storage.h"

namespace genesis::file {
namespace {

// Limits far above any real model; they bound the time of the quadratic steps that follow.
constexpr size_t kMaxEntries = 1024, kMaxOutputs = 1 << 16, kMaxUpdates = 1 << 16, kMaxFiles = 1024;

void check_limit(const char* what, size_t count, size_t limit) {
  if (count > limit) fail("{} {}, the limit is {}", count, what, limit);
}

template <class Rows>
void check_unique_names(const char* what, const Rows& rows) {
  std::set<std::string_view> seen;
  for (const auto& row : rows) {
    check_name(what, row.name);
    if (!seen.insert(row.name).second) fail("two of the file's {}s are named '{}'", what, row.name);
  }
}

// Checks that a linked segment lies within the linked file.
void check_link(const SegmentRecord& segment) {
  check_name("a linked file", segment.link.path);
  if (segment.bytes == 0 || segment.offset > segment.link.bytes ||
      segment.bytes > segment.link.bytes - segment.offset)
    fail("a segment of {} bytes at {} lies outside the linked file '{}' of {}", segment.bytes, segment.offset,
         segment.link.path, segment.link.bytes);
}

// Checks that each segment starts at the next aligned offset after the one before it, and that the last one ends with the data.
void check_segments(const ModelRecord& record, uint64_t data_bytes) {
  uint64_t end = 0;
  for (const SegmentRecord& segment : record.segments) {
    if (segment.is_linked()) {
      check_link(segment);
      continue;
    }
    const uint64_t start = align_up(end, kSegmentAlignment);
    if (segment.offset != start || start > data_bytes || segment.bytes == 0 ||
        segment.bytes > data_bytes - start)
      fail("segment of {} bytes at {}: expected it at {} in data of {} bytes", segment.bytes, segment.offset,
           start, data_bytes);
    end = start + segment.bytes;
  }
  if (end != data_bytes) fail("segments end at {}, the data at {}", end, data_bytes);
}

void check_tensor(const TensorRecord& tensor, const ModelRecord& record) {
  check_name("a tensor", tensor.name);
  check_type(tensor.type);
  const auto expected = static_cast<uint64_t>(tensor.type.bytes());
  if (tensor.bytes != expected)
    fail("{} bytes given for {}, which takes {}", tensor.bytes, tensor.type.to_string(), expected);
  if (!tensor.is_joined() && (tensor.runs != 1 || tensor.pieces_each != 1))
    fail("it is joined from no pieces, and says {} runs and {} pieces each: expected 1 and 1", tensor.runs,
         tensor.pieces_each);
  if (tensor.bytes == 0 || tensor.is_joined()) return;
  if (tensor.segment >= record.segments.size())
    fail("it is in segment {}, the file has {}", tensor.segment, record.segments.size());
  const SegmentRecord& segment = record.segments[tensor.segment];
  const uint64_t segment_bytes = segment.bytes, element = size_of(tensor.type.dtype);
  if (!segment.is_linked() && tensor.offset % kTensorAlignment != 0)
    fail("its offset {} is not a multiple of {}", tensor.offset, kTensorAlignment);
  if (segment.is_linked() && (segment.offset + tensor.offset) % element != 0)
    fail("its offset {} in the linked file is not a multiple of {}", segment.offset + tensor.offset, element);
  if (tensor.offset > segment_bytes || tensor.bytes > segment_bytes - tensor.offset)
    fail("{} bytes at {} lie outside its segment of {} bytes", tensor.bytes, tensor.offset, segment_bytes);
}

// Checks a joined tensor: its pieces must be smaller rows before it, and no other tensor may be joined from them. The memory that
// joining takes is therefore bounded by the bytes in files.
class JoinCheck {
 public:
  explicit JoinCheck(const ModelRecord& record) : record_(record) {}

  void check(const TensorRecord& tensor, size_t row) {
    const uint64_t count = tensor.pieces.size(), element = size_of(tensor.type.dtype);
    if (tensor.segment != 0 || tensor.offset != 0) fail("it is joined, and has a place of its own too");
    const uint64_t each = tensor.pieces_each;
    if (each == 0 || count % each != 0) fail("{} pieces are no sets of {}", count, each);
    if (tensor.runs == 0 || tensor.bytes == 0 || tensor.bytes % count != 0 ||
        tensor.bytes / count % element != 0 || tensor.bytes / (count / each) / element % tensor.runs != 0)
      fail("{} bytes in {} runs cannot be joined from {} pieces", tensor.bytes, tensor.runs, count);
    for (const uint32_t piece : tensor.pieces) check_piece(tensor, row, piece);
  }

 private:
  void check_piece(const TensorRecord& tensor, size_t row, uint32_t piece) {
    if (piece >= row) fail("it is joined from row {}, and stands in row {}", piece, row);
    const TensorRecord& part = record_.tensors[piece];
    if (part.is_joined() || part.type.dtype != tensor.type.dtype ||
        part.bytes != tensor.bytes / tensor.pieces.size())
      fail("it is joined from '{}', {}, which is no such part of it", part.name, part.type.to_string());
    if (!places_.emplace(part.segment, part.offset).second)
      fail("it is joined from '{}', as another is", part.name);
  }

  const ModelRecord& record_;
  std::set<std::pair<uint32_t, uint64_t>> places_;
};

// Checks that two tensors have either the same bytes or no bytes in common.
void check_overlap(const ModelRecord& record) {
  std::vector<const TensorRecord*> order;
  for (const TensorRecord& tensor : record.tensors)
    if (tensor.bytes != 0 && !tensor.is_joined()) order.push_back(&tensor);
  const auto place = [](const TensorRecord* t) { return std::tuple(t->segment, t->offset, t->bytes); };
  std::ranges::sort(order, {}, place);
  for (size_t i = 1; i < order.size(); ++i) {
    const TensorRecord &a = *order[i - 1], &b = *order[i];
    if (a.segment == b.segment && place(&a) != place(&b) && b.offset < a.offset + a.bytes)
      fail("tensors '{}' and '{}' overlap in the file", a.name, b.name);
  }
}

void check_tensors(const ModelRecord& record) {
  JoinCheck joins(record);
  for (size_t row = 0; row < record.tensors.size(); ++row) {
    const TensorRecord& tensor = record.tensors[row];
    with_context(
        [&] {
          check_tensor(tensor, record);
          if (tensor.is_joined()) joins.check(tensor, row);
        },
        [&] { return "in tensor '" + tensor.name + "'"; });
  }
  check_overlap(record);
  check_unique_names("constant", record.constants);
  for (const ConstantRecord& constant : record.constants)
    if (constant.tensor >= record.tensors.size())
      fail("constant '{}' is tensor {}, the file has {}", constant.name, constant.tensor,
           record.tensors.size());
}

void check_encoded_state(const StateRecord& state, const ModelRecord& record) {
  check_name("a format of states", state.format);
  if (state.initial != -1)
    fail("it is encoded as '{}' and starts as tensor {} too", state.format, state.initial);
  const StateFormat* format = find_file_format(state.format, state.type.dtype);
  if (!format)
    fail("it is a {} encoded as '{}', which this version of Genesis does not know: use a newer one",
         name_of(state.type.dtype), state.format);
  if (const auto why = format->why_not(state.type))
    fail("a {} cannot be encoded as '{}': {}", state.type.to_string(), state.format, *why);
  if (state.parts.size() != format->parts.size())
    fail("it has {} parts, '{}' has {}", state.parts.size(), state.format, format->parts.size());
  for (size_t i = 0; i < state.parts.size(); ++i) {
    if (state.parts[i] >= record.tensors.size())
      fail("its part {} is tensor {}, the file has {}", i, state.parts[i], record.tensors.size());
    const TensorType &given = record.tensors[state.parts[i]].type,
                     expected = format->part_type(i, state.type);
    if (!(given == expected))
      fail("its part {} is {}, expected {}", i, given.to_string(), expected.to_string());
  }
}

void check_state(const StateRecord& state, const ModelRecord& record) {
  check_type(state.type);
  if (!state.type.shape.is_constant()) fail("its shape {} is symbolic", state.type.shape.to_string());
  if (state.cache) {
    check_name("a kind of cache", state.cache->kind);
    check_cache_layout(*state.cache, state.role, state.type);
  }
  if (!state.format.empty()) return check_encoded_state(state, record);
  if (!state.parts.empty()) fail("it has {} parts and no format", state.parts.size());
  if (state.initial == -1) return;
  if (state.initial < 0 || static_cast<size_t>(state.initial) >= record.tensors.size())
    fail("it starts as tensor {}, the file has {}", state.initial, record.tensors.size());
  const TensorType& given = record.tensors[static_cast<size_t>(state.initial)].type;
  if (!(given == state.type))
    fail("it is {}, its initial tensor {}", state.type.to_string(), given.to_string());
}

void check_states(const ModelRecord& record) {
  check_unique_names("state", record.states);
  for (const StateRecord& state : record.states)
    with_context([&] { check_state(state, record); }, [&] { return "in state '" + state.name + "'"; });
}

// Checks one entry point. Values are in the order of their creation, so every reference points back.
class EntryCheck {
 public:
  EntryCheck(const EntryRecord& entry, const ModelRecord& record) : entry_(entry), record_(record) {}

  void run() {
    check_limit("outputs", entry_.outputs.size(), kMaxOutputs);
    check_limit("updates", entry_.updates.size(), kMaxUpdates);
    check_unique_names("node", entry_.nodes);
    check_unique_names("output", entry_.outputs);
    check_values();
    for (const OutputRecord& output : entry_.outputs)
      check_value_exists("output '" + output.name + "'", output.value);
    for (const UpdateRecord& update : entry_.updates) {
      check_index("an update's state", update.state, record_.states.size());
      check_value_exists("an update", update.value);
    }
  }

 private:
  static void check_index(const char* what, int32_t index, size_t count) {
    if (index < 0 || static_cast<size_t>(index) >= count) fail("{} is number {} of {}", what, index, count);
  }

  void check_value_exists(const std::string& what, int32_t value) const {
    if (value < 0 || static_cast<size_t>(value) >= entry_.values.size())
      fail("{} is value {}, there are {}", what, value, entry_.values.size());
  }

  void check_values() {
    size_t next_node = 0;
    int32_t inputs = 0;
    for (size_t at = 0; at < entry_.values.size();) {
      const ValueRecord& value = entry_.values[at];
      check_type(value.type);
      if (value.kind != ValueKind::kInput && !value.name.empty()) fail("value {} has a name of its own", at);
      if (value.kind == ValueKind::kNode) {
        if (next_node == entry_.nodes.size()) fail("value {} belongs to no node", at);
        const NodeRecord& node = entry_.nodes[next_node++];
        with_context([&] { check_node(node, at); }, [&] { return "in node '" + node.name + "'"; });
        at += node.outputs.size();
        continue;
      }
      if (value.kind == ValueKind::kInput) {
        check_name("an input", value.name);
        if (value.index != inputs++)
          fail("input '{}' has number {}, expected {}", value.name, value.index, inputs - 1);
      } else if (value.kind == ValueKind::kState) {
        check_index("a state's value", value.index, record_.states.size());
      } else {
        check_index("a constant's value", value.index, record_.constants.size());
      }
      ++at;
    }
    if (next_node != entry_.nodes.size()) fail("node '{}' has no values", entry_.nodes[next_node].name);
  }

  void check_node(const NodeRecord& node, size_t first) const {
    check_name("an op", node.op);
    for (const std::string& origin : node.origins) check_name("an origin", origin);
    if (node.op_version < 1) fail("op '{}' has version {}", node.op, node.op_version);
    for (int32_t input : node.inputs)
      if (input < 0 || static_cast<size_t>(input) >= first)
        fail("it reads value {}, which is not made before it (value {})", input, first);
    if (node.outputs.empty() || node.outputs.size() > entry_.values.size() - first)
      fail("its outputs are missing");
    for (size_t k = 0; k < node.outputs.size(); ++k) {
      const ValueRecord& value = entry_.values[first + k];
      if (node.outputs[k] != static_cast<int32_t>(first + k) || value.kind != ValueKind::kNode ||
          value.index != static_cast<int32_t>(k))
        fail("its output {} is value {}, expected {}", k, node.outputs[k], first + k);
    }
  }

  const EntryRecord& entry_;
  const ModelRecord& record_;
};

void check_metadata(const ModelRecord& record) {
  check_text("the producer", record.producer);
  for (const auto& [key, value] : record.metadata) check_name("a fact of the metadata", key);
}

// Checks an attached file. Its name must be usable as it is when the file is written to a folder again.
void check_file(const FileRecord& file, const ModelRecord& record) {
  check_file_name(file.name);
  if (file.tensor >= record.tensors.size())
    fail("it is tensor {}, the file has {}", file.tensor, record.tensors.size());
  const TensorType& type = record.tensors[file.tensor].type;
  if (type.dtype != DType::u8 || type.shape.rank() != 1)
    fail("it is {}, expected u8[bytes]", type.to_string());
}

void check_files(const ModelRecord& record) {
  check_limit("files", record.files.size(), kMaxFiles);
  check_unique_names("file", record.files);
  for (const FileRecord& file : record.files)
    with_context([&] { check_file(file, record); }, [&] { return "in attached file '" + file.name + "'"; });
}

}  // namespace

void check_records(const ModelRecord& record, uint64_t data_bytes) {
  check_segments(record, data_bytes);
  check_tensors(record);
  check_states(record);
  check_metadata(record);
  check_files(record);
  check_limit("entry points", record.entries.size(), kMaxEntries);
  check_unique_names("entry point", record.entries);
  for (const EntryRecord& entry : record.entries)
    with_context([&] { EntryCheck(entry, record).run(); },
                 [&] { return "in entry point '" + entry.name + "'"; });
}

}  // namespace genesis::file
