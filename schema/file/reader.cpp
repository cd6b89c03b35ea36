#include "schema/file/reader.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "schema/encoding/quantized_formats.h"
#include "schema/file/format/check_records.h"
#include "schema/file/format/flat.h"
#include "schema/file/format/format.h"
#include "schema/file/format/upgrade.h"
#include "schema/file/io/mapped_file.h"
#include "schema/file/io/temporary_name.h"
#include "schema/file/links/join_tensors.h"
#include "schema/file/links/linked_files.h"
#include "schema/file/tensor_from_bytes.h"
#include "schema/graph/state_storage.h"
#include "schema/graph/verify.h"

namespace genesis {
namespace {

using namespace file;
using Bytes = std::span<const std::byte>;

struct Opened {
  Header header;
  ModelRecord record;
  Bytes data;                     // bytes after the graph section
  std::vector<OpenedLink> links;  // by segment

  Bytes bytes_of(size_t segment) const {
    const SegmentRecord& row = record.segments[segment];
    return (links[segment].file ? links[segment].file->bytes() : data).subspan(row.offset, row.bytes);
  }
};

[[noreturn]] void fail_damaged(const SegmentRecord& segment, size_t number, const Hash128& real) {
  if (segment.is_linked())
    fail("its weights are in '{}', which has changed since: {} bytes from {} on are others; {}",
         segment.link.path, segment.bytes, segment.offset, file::remedy_for_change(segment.link.path));
  fail("segment {} is damaged: its hash is {}, the file says {}", number, real.to_string(),
       segment.hash.to_string());
}

// Checks the hashes of all segments for kFull, otherwise only of those in linked files that were modified.
void check_segment_hashes(const Opened& opened, Verify verify, const OnProgress& progress) {
  std::vector<Bytes> segments(opened.links.size());
  std::vector<size_t> numbers;
  for (size_t i = 0; i < segments.size(); ++i)
    if (verify == Verify::kFull || opened.links[i].is_rewritten) numbers.push_back(i);
  segments.resize(numbers.size());
  std::ranges::transform(numbers, segments.begin(), [&](size_t i) { return opened.bytes_of(i); });
  const std::vector<Hash128> real = hashes_of(segments, [&](uint64_t done, uint64_t total) {
    if (progress) progress("verifying", done, total);
  });
  for (size_t i = 0; i < real.size(); ++i)
    if (const SegmentRecord& segment = opened.record.segments[numbers[i]]; real[i] != segment.hash)
      fail_damaged(segment, numbers[i], real[i]);
}

// Returns a copy of `count` bytes, starting at `offset`.
using Copy = std::function<std::vector<std::byte>(size_t offset, size_t count)>;

// Copies header and graph before checking and reading them, so that a concurrent writer of the file cannot change what was
// checked. `folder` is null for bytes in memory.
Opened open_bytes(Bytes bytes, const Copy& copy, const std::filesystem::path* folder,
                  const LoadOptions& options) {
  Opened opened;
  const auto start = copy(0, std::min<size_t>(bytes.size(), kHeaderBytes));
  opened.header = decode_header(start, bytes.size());
  const auto graph = copy(kHeaderBytes, opened.header.graph_bytes);
  check_hash(opened.header, start, graph);
  opened.record = decode_graph(graph);
  opened.data = bytes.subspan(opened.header.data_offset);
  check_records(opened.record, opened.data.size());
  opened.links = open_links(opened.record.segments, folder);
  check_segment_hashes(opened, options.verify, options.progress);
  return opened;
}

class ModelBuilder {
 public:
  ModelBuilder(const Opened& opened, std::shared_ptr<const void> owner)
      : opened_(opened), owner_(std::move(owner)), model_(std::make_unique<Model>()) {}

  std::unique_ptr<Model> build() {
    const ModelRecord& record = opened_.record;
    for (const TensorRecord& row : record.tensors)
      tensors_.push_back(row.is_joined() ? join(row) : view(row));
    for (const ConstantRecord& row : record.constants) model_->add_tensor(row.name, tensors_[row.tensor]);
    for (const StateRecord& row : record.states) {
      const Tensor initial = row.initial < 0 ? Tensor() : tensors_[static_cast<size_t>(row.initial)];
      model_->add_state({row.name, row.type, row.role, row.trainable, initial, encoded(row), row.cache});
    }
    for (const EntryRecord& entry : record.entries)
      with_context([&] { add_entry(entry); }, [&] { return "in entry point '" + entry.name + "'"; });
    model_->metadata = record.metadata;
    for (const FileRecord& row : record.files) model_->files.emplace(row.name, tensors_[row.tensor]);
    return std::move(model_);
  }

 private:
  EncodedValues encoded(const StateRecord& row) const {
    if (row.format.empty()) return {};
    EncodedValues values{find_file_format(row.format, row.type.dtype), {}};
    for (const uint32_t part : row.parts) values.parts.push_back(tensors_[part]);
    return values;
  }

  Tensor view(const TensorRecord& row) const {
    // A tensor without elements still needs an address.
    if (row.bytes == 0) return Tensor::zeros(row.type);
    const Bytes bytes = opened_.bytes_of(row.segment).subspan(row.offset, row.bytes);
    const auto& link = opened_.links[row.segment].file;
    with_context([&] { check_bools(row.type.dtype, bytes); }, [&] { return "in tensor '" + row.name + "'"; });
    return Tensor(row.type, link ? std::shared_ptr<const void>(link) : owner_, bytes.data());
  }

  void add_entry(const EntryRecord& entry) {
    Graph& graph = model_->add_entry(entry.name);
    size_t next_node = 0;
    for (size_t at = 0; at < entry.values.size();) at += add_value(graph, entry, at, next_node);
    graph.set_origins({});
    for (const OutputRecord& output : entry.outputs)
      graph.add_output(output.name, graph.handle({output.value}));
    for (const UpdateRecord& update : entry.updates)
      graph.add_update(update.state, graph.handle({update.value}));
  }

  // Joins a tensor from the tensors of rows before it.
  Tensor join(const TensorRecord& row) const {
    std::vector<JoinedPiece> pieces;
    for (const uint32_t piece : row.pieces) {
      const TensorRecord& part = opened_.record.tensors[piece];
      pieces.push_back({tensors_[piece], opened_.links[part.segment].file});
    }
    return join_tensors(row.type, pieces, static_cast<int64_t>(row.runs),
                        static_cast<int64_t>(row.pieces_each));
  }

  // Adds the values that begin at `at` to the graph; returns how many.
  size_t add_value(Graph& graph, const EntryRecord& entry, size_t at, size_t& next_node) const {
    const ValueRecord& row = entry.values[at];
    if (row.kind == ValueKind::kNode) return add_node(graph, entry, entry.nodes[next_node++]);
    const Value value = row.kind == ValueKind::kInput   ? graph.add_input(row.name, row.type)
                        : row.kind == ValueKind::kState ? graph.state(row.index)
                                                        : graph.constant(row.index);
    if (value.id.index != static_cast<int32_t>(at)) fail("value {} repeats value {}", at, value.id.index);
    check_type(graph, entry, at);
    return 1;
  }

  size_t add_node(Graph& graph, const EntryRecord& entry, const NodeRecord& row) const {
    std::vector<Value> inputs;
    for (int32_t input : row.inputs) inputs.push_back(graph.handle({input}));
    graph.set_origins(row.origins);
    const size_t outputs = graph.add_node(*find_op(row.op), row.attributes, inputs, row.name).size();
    if (outputs != row.outputs.size())
      fail("node '{}' ({}) has {} outputs in the file, it should have {}", row.name, row.op,
           row.outputs.size(), outputs);
    for (int32_t output : row.outputs) check_type(graph, entry, static_cast<size_t>(output));
    return outputs;
  }

  static void check_type(const Graph& graph, const EntryRecord& entry, size_t at) {
    const ValueInfo& made = graph.values()[at];
    const TensorType& written = entry.values[at].type;
    if (!(made.type == written))
      fail("value '{}' is {} in the file, it should be {}", made.name, written.to_string(),
           made.type.to_string());
  }

  const Opened& opened_;
  std::shared_ptr<const void> owner_;
  std::unique_ptr<Model> model_;
  std::vector<Tensor> tensors_;
};

std::vector<OpUse> ops_of(const ModelRecord& record) {
  std::map<std::pair<std::string, int32_t>, size_t> counts;
  for (const EntryRecord& entry : record.entries)
    for (const NodeRecord& node : entry.nodes) ++counts[{node.op, node.op_version}];
  std::vector<OpUse> ops;
  for (const auto& [op, nodes] : counts) ops.push_back({op.first, op.second, nodes});
  return ops;
}

std::vector<SegmentInfo> segments_of(const Opened& opened) {
  std::set<std::pair<uint32_t, uint64_t>> places;
  for (const TensorRecord& row : opened.record.tensors)
    if (row.bytes > 0 && !row.is_joined()) places.insert({row.segment, row.offset});
  std::vector<SegmentInfo> segments;
  for (const SegmentRecord& row : opened.record.segments)
    segments.push_back({row.offset + (row.is_linked() ? 0 : opened.header.data_offset), row.bytes,
                        row.hash.to_string(), 0, row.link.path});
  for (const auto& place : places) ++segments[place.first].tensors;
  return segments;
}

std::unique_ptr<Model> build_model(Opened opened, std::shared_ptr<const void> owner) {
  upgrade(opened.record);
  std::unique_ptr<Model> model = ModelBuilder(opened, std::move(owner)).build();
  genesis::verify(*model);
  return model;
}

Opened open_file(const MappedFile& file, const LoadOptions& options) {
  const auto copy = [&](size_t offset, size_t count) { return file.copy(offset, count); };
  const std::filesystem::path folder = folder_of(std::filesystem::weakly_canonical(file.path()));
  return open_bytes(file.bytes(), copy, &folder, options);
}

}  // namespace

std::unique_ptr<Model> load_model_from(std::shared_ptr<const void> owner, Bytes bytes,
                                       const LoadOptions& options) {
  const auto copy = [&](size_t offset, size_t count) {
    const Bytes part = bytes.subspan(offset, count);
    return std::vector<std::byte>(part.begin(), part.end());
  };
  return build_model(open_bytes(bytes, copy, nullptr, options), std::move(owner));
}

std::unique_ptr<Model> load_model(const std::filesystem::path& path, const LoadOptions& options) {
  const auto mapping = MappedFile::open(path);
  return with_context([&] { return build_model(open_file(*mapping, options), mapping); },
                      [&] { return "while loading '" + path.string() + "'"; });
}

FileInfo inspect_file(const std::filesystem::path& path, const LoadOptions& options) {
  const auto mapping = MappedFile::open(path);
  const Opened opened = with_context([&] { return open_file(*mapping, options); },
                                     [&] { return "while reading '" + path.string() + "'"; });
  FileInfo info{.major = opened.header.major,
                .minor = opened.header.minor,
                .producer = opened.record.producer,
                .hash = opened.header.hash.to_string(),
                .file_bytes = opened.header.file_bytes,
                .graph_bytes = opened.header.graph_bytes,
                .data_offset = opened.header.data_offset,
                .data_bytes = opened.data.size(),
                .tensors = opened.record.tensors.size(),
                .constants = opened.record.constants.size(),
                .states = opened.record.states.size(),
                .entries = {},
                .ops = ops_of(opened.record),
                .segments = segments_of(opened)};
  for (const EntryRecord& entry : opened.record.entries) info.entries.push_back(entry.name);
  return info;
}

}  // namespace genesis
