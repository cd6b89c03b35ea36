#include "schema/file/layout.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>

#include "schema/core/parallel.h"
#include "schema/file/format/format.h"
#include "schema/file/format/hash.h"
#include "schema/file/links/piece_spans.h"
#include "schema/graph/state_storage.h"
#include "schema/version.h"

namespace genesis::file {
namespace {

std::span<const std::byte> bytes_of(const Tensor& tensor) {
  return {tensor.data(), static_cast<size_t>(tensor.bytes())};
}

bool same_bytes(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && (a.data() == b.data() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

// Assigns places to tensors; tensors with equal bytes share one.
class TensorTable {
 public:
  TensorTable(Layout& layout, const LinkTable& links, const SaveOptions& options)
      : layout_(layout),
        links_(links),
        segment_bytes_(options.segment_bytes),
        deduplicate_(options.deduplicate) {
    layout_.record.segments = links.segments();
  }

  // Returns the row for this tensor, whose bytes have that hash: an existing row if type and bytes are the same.
  uint32_t row_of(const std::string& name, const Tensor& tensor, const Hash128& hash) {
    if (tensor.empty_handle()) fail("constant or file '{}' has no data", name);
    TensorRecord row = place(tensor, hash);
    row.name = name;
    row.type = tensor.type();
    const auto key = std::tuple(row.segment, row.offset, row.type.to_string());
    const auto [at, fresh] = rows_.try_emplace(key, static_cast<uint32_t>(layout_.record.tensors.size()));
    if (fresh) layout_.record.tensors.push_back(std::move(row));
    return at->second;
  }

  // Adds a row for a tensor whose values come in pieces and that the file stores as a whole.
  uint32_t row_of_whole(const State& state, const JoinedValues& joined) {
    TensorRecord row{.name = state.name, .type = state.type};
    row.bytes = static_cast<uint64_t>(state.type.bytes());
    row.segment = static_cast<uint32_t>(layout_.record.segments.size());
    row.offset = append_joined(joined);
    layout_.record.tensors.push_back(std::move(row));
    return static_cast<uint32_t>(layout_.record.tensors.size() - 1);
  }

  void finish() {
    close_segment();
    hash_segments();
    if (!ends_.empty()) {
      const SegmentRecord& last = layout_.record.segments.back();
      layout_.data_bytes = last.offset + last.bytes;
    }
  }

 private:
  struct Placed {
    uint32_t segment;
    uint64_t offset;
    std::span<const std::byte> bytes;
  };

  TensorRecord place(const Tensor& tensor, const Hash128& hash) {
    const std::span<const std::byte> bytes = bytes_of(tensor);
    TensorRecord row;
    row.bytes = bytes.size();
    if (bytes.empty()) return row;
    if (const LinkTable::Location* elsewhere = links_.find(tensor)) {
      row.segment = elsewhere->segment;
      row.offset = elsewhere->offset;
      return row;
    }
    std::vector<Placed>& alike = placed_[hash];
    const auto same = std::ranges::find_if(
        alike, [&](const Placed& p) { return deduplicate_ && same_bytes(p.bytes, bytes); });
    if (same != alike.end()) {
      row.segment = same->segment;
      row.offset = same->offset;
      return row;
    }
    row.segment = static_cast<uint32_t>(layout_.record.segments.size());
    row.offset = append(bytes, hash);
    alike.push_back({row.segment, row.offset, bytes});
    return row;
  }

  // Appends a piece; returns its offset within the open segment.
  uint64_t append(std::span<const std::byte> bytes, const Hash128& hash) {
    const uint64_t start = align_up(used_, kTensorAlignment);
    hashes_.push_back(hash);
    layout_.pieces.push_back({segment_start_ + start, bytes});
    used_ = start + bytes.size();
    if (used_ >= segment_bytes_) close_segment();
    return start;
  }

  uint64_t append_joined(const JoinedValues& joined) {
    const uint64_t start = align_up(used_, kTensorAlignment);
    used_ = start;
    const PieceOrder order{joined.pieces.size(), static_cast<size_t>(joined.pieces_each),
                           static_cast<size_t>(joined.pieces[0].bytes()), static_cast<size_t>(joined.runs)};
    order.for_spans([&](size_t piece, size_t first, size_t count) {
      hashes_.emplace_back();  // a piece that is no tensor has no hash
      layout_.pieces.push_back(
          {segment_start_ + used_, bytes_of(joined.pieces[piece]).subspan(first, count)});
      used_ += count;
    });
    if (used_ >= segment_bytes_) close_segment();
    return start;
  }

  void close_segment() {
    if (used_ == 0) return;
    layout_.record.segments.push_back({segment_start_, used_, {}, {}});
    ends_.push_back(layout_.pieces.size());
    segment_start_ = align_up(segment_start_ + used_, kSegmentAlignment);
    used_ = 0;
  }

  void hash_segments() {
    const auto count = static_cast<int64_t>(ends_.size());
    in_parallel(count, 1, [&](int64_t first, int64_t) {
      const auto i = static_cast<size_t>(first);
      layout_.record.segments[links_.segments().size() + i].hash =
          hash_of_segment(i == 0 ? 0 : ends_[i - 1], ends_[i]);
    });
  }

  // Hashes the pieces [first, last) and the zeros between them. The hash of a segment of one tensor is that tensor's hash.
  Hash128 hash_of_segment(size_t first, size_t last) const {
    if (last - first == 1) return hashes_[first];
    static constexpr std::array<std::byte, kTensorAlignment> kZeros{};
    Hasher hasher;
    uint64_t at = layout_.pieces[first].offset;
    for (size_t i = first; i < last; ++i) {
      const Piece& piece = layout_.pieces[i];
      GENESIS_ASSERT(piece.offset - at <= kZeros.size());
      hasher.update(std::span(kZeros).first(piece.offset - at));
      hasher.update(piece.bytes);
      at = piece.offset + piece.bytes.size();
    }
    return hasher.digest();
  }

  Layout& layout_;
  const LinkTable& links_;
  const uint64_t segment_bytes_;
  const bool deduplicate_;
  uint64_t segment_start_ = 0, used_ = 0;
  std::vector<Hash128> hashes_;  // hash of the tensor in each piece
  std::vector<size_t> ends_;     // number of pieces up to the end of each closed segment
  std::map<Hash128, std::vector<Placed>> placed_;
  std::map<std::tuple<uint32_t, uint64_t, std::string>, uint32_t> rows_;
};

// Writes an entry point. Renumbers the values in the order in which the reader creates them: all outputs of a node together, at
// the node's place.
class EntryWriter {
 public:
  explicit EntryWriter(const Graph& graph) : graph_(graph), number_(graph.values().size(), -1) {}

  EntryRecord write() {
    entry_.name = graph_.name();
    for (size_t i = 0; i < graph_.values().size(); ++i) add({static_cast<int32_t>(i)});
    for (const NamedValue& output : graph_.outputs())
      entry_.outputs.push_back({output.name, number(output.value)});
    for (const StateUpdate& update : graph_.updates())
      entry_.updates.push_back({update.state, number(update.value)});
    return std::move(entry_);
  }

 private:
  int32_t& number(ValueId id) { return number_[static_cast<size_t>(id.index)]; }

  void add(ValueId id) {
    const ValueInfo& info = graph_.value(id);
    if (number(id) != -1) return;
    if (info.kind != ValueKind::kNode) return append(id);
    const Node& node = graph_.node(info.producer);
    NodeRecord row{.name = node.name,
                   .op = std::string(node.op->name()),
                   .op_version = node.op->info.version,
                   .attributes = node.attributes,
                   .inputs = {},
                   .outputs = {},
                   .origins = node.origins};
    for (ValueId input : node.inputs) row.inputs.push_back(number(input));
    for (ValueId output : node.outputs) {
      append(output);
      row.outputs.push_back(number(output));
    }
    entry_.nodes.push_back(std::move(row));
  }

  void append(ValueId id) {
    const ValueInfo& info = graph_.value(id);
    number(id) = static_cast<int32_t>(entry_.values.size());
    entry_.values.push_back(
        {info.kind, info.index, info.type, info.kind == ValueKind::kInput ? info.name : ""});
  }

  const Graph& graph_;
  std::vector<int32_t> number_;  // number of each value in the file
  EntryRecord entry_;
};

// Returns null if the model itself has the state's values.
const JoinedValues* joined_of(const State& state, const SaveOptions& options) {
  const auto at = options.joined.find(state.name);
  return at == options.joined.end() ? nullptr : &at->second;
}

// Returns the tensors of every state, constant and file, in the order of rows. A state without initial values has an empty
// tensor, and a state whose pieces are written as a whole has none.
std::vector<Tensor> all_tensors(const Model& model, const SaveOptions& options) {
  std::vector<Tensor> tensors;
  for (const State& state : model.states()) {
    const JoinedValues* joined = joined_of(state, options);
    if (joined && !options.keeps_pieces) continue;
    const std::vector<Tensor>& parts = joined ? joined->pieces : state.encoded.parts;
    if (parts.empty()) tensors.push_back(state.initial);
    tensors.insert(tensors.end(), parts.begin(), parts.end());
  }
  for (const NamedTensor& constant : model.tensors()) tensors.push_back(constant.tensor);
  for (const auto& [name, bytes] : model.files) tensors.push_back(bytes);
  return tensors;
}

// Hashes the tensors that the file will hold; linked ones get the hash of zero bytes.
std::vector<Hash128> tensor_hashes(const std::vector<Tensor>& tensors, const LinkTable& links,
                                   const OnProgress& progress) {
  std::vector<std::span<const std::byte>> bytes;
  for (const Tensor& tensor : tensors)
    bytes.push_back(tensor.empty_handle() || links.find(tensor) ? std::span<const std::byte>()
                                                                : bytes_of(tensor));
  return hashes_of(bytes, [&](uint64_t done, uint64_t total) {
    if (progress) progress("hashing", done, total);
  });
}

// Writes the rows of states. `hash` is the hash of the next tensor of all_tensors().
class StateWriter {
 public:
  StateWriter(TensorTable& tensors, ModelRecord& record, const SaveOptions& options)
      : tensors_(tensors), record_(record), options_(options) {}

  void add(const State& state, std::vector<Hash128>::const_iterator& hash) {
    StateRecord row{state.name, state.type, state.role, state.trainable};
    row.cache = state.cache;
    const JoinedValues* joined = joined_of(state, options_);
    if (joined && !options_.keeps_pieces) {
      row.initial = static_cast<int32_t>(tensors_.row_of_whole(state, *joined));
    } else if (joined) {
      std::vector<uint32_t> pieces;
      for (const Tensor& piece : joined->pieces)
        pieces.push_back(tensors_.row_of(state.name, piece, *hash++));
      row.initial = join(state, std::move(pieces), *joined);
    } else if (state.encoded) {
      row.format = state.encoded.format->name;
      for (size_t i = 0; i < state.encoded.parts.size(); ++i)
        row.parts.push_back(tensors_.row_of(state.name + std::string(state.encoded.format->parts[i].suffix),
                                            state.encoded.parts[i], *hash++));
    } else if (const Hash128& own = *hash++; !state.initial.empty_handle()) {
      row.initial = static_cast<int32_t>(tensors_.row_of(state.name, state.initial, own));
    }
    record_.states.push_back(std::move(row));
  }

 private:
  int32_t join(const State& state, std::vector<uint32_t> pieces, const JoinedValues& joined) {
    TensorRecord whole{.name = state.name, .type = state.type};
    whole.bytes = static_cast<uint64_t>(state.type.bytes());
    whole.pieces = std::move(pieces);
    whole.runs = static_cast<uint64_t>(joined.runs);
    if (joined.runs > 1) whole.pieces_each = static_cast<uint64_t>(joined.pieces_each);
    record_.tensors.push_back(std::move(whole));
    return static_cast<int32_t>(record_.tensors.size() - 1);
  }

  TensorTable& tensors_;
  ModelRecord& record_;
  const SaveOptions& options_;
};

}  // namespace

Layout lay_out(const Model& model, const SaveOptions& options, std::span<const LinkedFile> links) {
  Layout layout;
  ModelRecord& record = layout.record;
  record.producer = kProducer;
  record.metadata = model.metadata;
  const std::vector<Tensor> all = all_tensors(model, options);
  const LinkTable table(all, links, options.segment_bytes);
  TensorTable tensors(layout, table, options);
  const std::vector<Hash128> hashes = tensor_hashes(all, table, options.progress);
  auto hash = hashes.begin();
  StateWriter states(tensors, record, options);
  for (const State& state : model.states()) states.add(state, hash);
  for (const NamedTensor& constant : model.tensors())
    record.constants.push_back({constant.name, tensors.row_of(constant.name, constant.tensor, *hash++)});
  for (const auto& [name, bytes] : model.files)
    record.files.push_back({name, tensors.row_of(name, bytes, *hash++)});
  tensors.finish();
  for (const auto& entry : model.entries()) record.entries.push_back(EntryWriter(*entry).write());
  return layout;
}

}  // namespace genesis::file
