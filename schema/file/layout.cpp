#include "schema/file/layout.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <optional>

#include "schema/file/format.h"
#include "schema/version.h"

namespace genesis::file {
namespace {

std::span<const std::byte> bytes_of(const Tensor& tensor) {
  return {tensor.data(), static_cast<size_t>(tensor.bytes())};
}

bool same_bytes(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && (a.data() == b.data() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

// Gives tensors their places, equal bytes the same one.
class TensorTable {
 public:
  TensorTable(Layout& layout, uint64_t segment_bytes) : layout_(layout), segment_bytes_(segment_bytes) {}

  // The row for this tensor: an old one where type and bytes are the same.
  uint32_t row_of(const std::string& name, const Tensor& tensor) {
    if (tensor.empty_handle()) fail("constant '{}' has no data", name);
    TensorRecord row = place(bytes_of(tensor));
    row.name = name;
    row.type = tensor.type();
    const auto key = std::tuple(row.segment, row.offset, row.type.to_string());
    const auto [at, fresh] = rows_.try_emplace(key, static_cast<uint32_t>(layout_.record.tensors.size()));
    if (fresh) layout_.record.tensors.push_back(std::move(row));
    return at->second;
  }

  void finish() {
    close_segment();
    if (!layout_.record.segments.empty()) {
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

  TensorRecord place(std::span<const std::byte> bytes) {
    TensorRecord row;
    row.bytes = bytes.size();
    if (bytes.empty()) return row;
    std::vector<Placed>& alike = placed_[hash_of(bytes)];
    const auto same =
        std::find_if(alike.begin(), alike.end(), [&](const Placed& p) { return same_bytes(p.bytes, bytes); });
    if (same != alike.end()) {
      row.segment = same->segment;
      row.offset = same->offset;
      return row;
    }
    row.segment = static_cast<uint32_t>(layout_.record.segments.size());
    row.offset = append(bytes);
    alike.push_back({row.segment, row.offset, bytes});
    return row;
  }

  // The offset within the open segment.
  uint64_t append(std::span<const std::byte> bytes) {
    const uint64_t start = align_up(used_, kTensorAlignment);
    hash_zeros(start - used_);
    hasher_->update(bytes);
    layout_.pieces.push_back({segment_start_ + start, bytes});
    used_ = start + bytes.size();
    if (used_ >= segment_bytes_) close_segment();
    return start;
  }

  void hash_zeros(uint64_t count) {
    static constexpr std::array<std::byte, kTensorAlignment> kZeros{};
    GENESIS_ASSERT(count <= kZeros.size());
    hasher_->update(std::span(kZeros).first(count));
  }

  void close_segment() {
    if (used_ == 0) return;
    layout_.record.segments.push_back({segment_start_, used_, hasher_->digest()});
    segment_start_ = align_up(segment_start_ + used_, kSegmentAlignment);
    used_ = 0;
    hasher_.emplace();
  }

  Layout& layout_;
  uint64_t segment_bytes_, segment_start_ = 0, used_ = 0;
  std::optional<Hasher> hasher_{std::in_place};
  std::map<Hash128, std::vector<Placed>> placed_;
  std::map<std::tuple<uint32_t, uint64_t, std::string>, uint32_t> rows_;
};

// Values are numbered anew in the order the reader makes them: a node's outputs together, where the node
// stands.
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
  std::vector<int32_t> number_;  // of each value in the file
  EntryRecord entry_;
};

}  // namespace

Layout lay_out(const Model& model, uint64_t segment_bytes) {
  Layout layout;
  ModelRecord& record = layout.record;
  record.producer = kProducer;
  record.metadata = model.metadata;
  TensorTable tensors(layout, segment_bytes);
  for (const State& state : model.states()) {
    const int32_t initial =
        state.initial.empty_handle() ? -1 : static_cast<int32_t>(tensors.row_of(state.name, state.initial));
    record.states.push_back({state.name, state.type, state.role, state.trainable, initial});
  }
  for (const NamedTensor& constant : model.tensors())
    record.constants.push_back({constant.name, tensors.row_of(constant.name, constant.tensor)});
  tensors.finish();
  for (const auto& entry : model.entries()) record.entries.push_back(EntryWriter(*entry).write());
  return layout;
}

}  // namespace genesis::file
