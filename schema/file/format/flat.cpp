#include "schema/file/format/flat.h"

#include <flatbuffers/flatbuffers.h>

#include <cstring>

#include "schema/file/format/format.h"
#include "schema/file/format/genesis_generated.h"

namespace genesis::file {
namespace {

using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;
using flatbuffers::Vector;

static_assert(static_cast<int>(fbs::DType::MAX) == kNumDTypes - 1);
static_assert(static_cast<int>(fbs::DType::i64) == static_cast<int>(DType::i64));
static_assert(static_cast<int>(fbs::StateRole::MAX) == static_cast<int>(StateRole::kStep));
static_assert(static_cast<int>(fbs::ValueKind::MAX) == static_cast<int>(ValueKind::kNode));
static_assert(static_cast<size_t>(fbs::AttributeKind::MAX) + 1 == std::variant_size_v<AttrValue>);

// --- records -> bytes ---

class Encoder {
 public:
  std::vector<std::byte> encode(const ModelRecord& record);

 private:
  // Returns a vector of the results of `write` for each item; a null offset for an empty list, which is the only encoding of an
  // empty list in the format.
  template <class Items, class Write>
  auto list(const Items& items, Write&& write) {
    using Row = decltype(write(*items.begin()));
    std::vector<Row> rows;
    for (const auto& item : items) rows.push_back(write(item));
    return rows.empty() ? Offset<Vector<Row>>() : b_.CreateVector(rows);
  }
  template <class T>
  Offset<Vector<T>> numbers(const std::vector<T>& items) {
    return items.empty() ? Offset<Vector<T>>() : b_.CreateVector(items);
  }
  auto text(const std::string& s) { return b_.CreateSharedString(s); }
  auto sizes(const TensorType& type) { return numbers(type.shape.sizes()); }
  auto names(const std::vector<std::string>& items) {
    return list(items, [&](const std::string& s) { return fbs::CreateName(b_, text(s)); });
  }

  Offset<fbs::Attribute> attribute(const std::string& name, const AttrValue& value);
  Offset<fbs::Tensor> tensor(const TensorRecord& row);
  Offset<fbs::State> state(const StateRecord& row);
  Offset<fbs::Value> value(const ValueRecord& row);
  Offset<fbs::Node> node(const NodeRecord& row);
  Offset<fbs::Entry> entry(const EntryRecord& row);

  FlatBufferBuilder b_{1 << 16};
};

fbs::DType to_fbs(DType dtype) { return static_cast<fbs::DType>(dtype); }

Offset<fbs::Attribute> Encoder::attribute(const std::string& name, const AttrValue& value) {
  int64_t integer = 0;
  Offset<flatbuffers::String> string;
  Offset<Vector<int64_t>> integers;
  Offset<Vector<double>> reals;
  Offset<Vector<Offset<fbs::Name>>> texts;
  if (auto* x = std::get_if<bool>(&value)) integer = *x;
  if (auto* x = std::get_if<int64_t>(&value)) integer = *x;
  if (auto* x = std::get_if<double>(&value)) reals = numbers(std::vector<double>{*x});
  if (auto* x = std::get_if<std::string>(&value)) string = text(*x);
  if (auto* x = std::get_if<DType>(&value)) integer = static_cast<int64_t>(*x);
  if (auto* x = std::get_if<Shape>(&value)) string = text(x->to_string());
  if (auto* x = std::get_if<std::vector<int64_t>>(&value)) integers = numbers(*x);
  if (auto* x = std::get_if<std::vector<double>>(&value)) reals = numbers(*x);
  if (auto* x = std::get_if<std::vector<std::string>>(&value)) texts = names(*x);
  const auto kind = static_cast<fbs::AttributeKind>(value.index());
  return fbs::CreateAttribute(b_, text(name), kind, integer, string, integers, reals, texts);
}

Offset<fbs::Tensor> Encoder::tensor(const TensorRecord& row) {
  const auto shape = sizes(row.type);
  const auto pieces = numbers(row.pieces);
  return fbs::CreateTensor(b_, text(row.name), to_fbs(row.type.dtype), shape, row.segment, row.offset,
                           row.bytes, pieces, row.runs, row.pieces_each);
}

Offset<fbs::State> Encoder::state(const StateRecord& row) {
  const auto shape = sizes(row.type);
  const auto format = row.format.empty() ? Offset<flatbuffers::String>() : text(row.format);
  const auto parts = row.parts.empty() ? Offset<flatbuffers::Vector<uint32_t>>() : b_.CreateVector(row.parts);
  const auto cache = row.cache ? fbs::CreateCacheLayout(b_, text(row.cache->kind), row.cache->rows_axis,
                                                        row.cache->positions_axis)
                               : Offset<fbs::CacheLayout>();
  return fbs::CreateState(b_, text(row.name), to_fbs(row.type.dtype), shape,
                          static_cast<fbs::StateRole>(row.role), row.trainable, row.initial, format, parts,
                          cache);
}

Offset<fbs::Value> Encoder::value(const ValueRecord& row) {
  const auto shape = text(row.type.shape.to_string());
  const auto name = row.name.empty() ? Offset<flatbuffers::String>() : text(row.name);
  return fbs::CreateValue(b_, static_cast<fbs::ValueKind>(row.kind), row.index, to_fbs(row.type.dtype), shape,
                          name);
}

Offset<fbs::Node> Encoder::node(const NodeRecord& row) {
  const auto attributes = list(row.attributes, [&](const auto& a) { return attribute(a.first, a.second); });
  const auto inputs = numbers(row.inputs), outputs = numbers(row.outputs);
  const auto origins = names(row.origins);
  const auto name = text(row.name), op = text(row.op);
  return fbs::CreateNode(b_, name, op, row.op_version, attributes, inputs, outputs, origins);
}

Offset<fbs::Entry> Encoder::entry(const EntryRecord& row) {
  const auto values = list(row.values, [&](const ValueRecord& v) { return value(v); });
  const auto nodes = list(row.nodes, [&](const NodeRecord& n) { return node(n); });
  const auto outputs =
      list(row.outputs, [&](const OutputRecord& o) { return fbs::CreateOutput(b_, text(o.name), o.value); });
  const auto updates =
      list(row.updates, [&](const UpdateRecord& u) { return fbs::CreateUpdate(b_, u.state, u.value); });
  return fbs::CreateEntry(b_, text(row.name), values, nodes, outputs, updates);
}

std::vector<std::byte> Encoder::encode(const ModelRecord& record) {
  const auto segments = list(record.segments, [&](const SegmentRecord& s) {
    const auto link = s.is_linked() ? fbs::CreateLink(b_, text(s.link.path), s.link.bytes, s.link.written)
                                    : Offset<fbs::Link>();
    return fbs::CreateSegment(b_, s.offset, s.bytes, s.hash.low, s.hash.high, link);
  });
  const auto tensors = list(record.tensors, [&](const TensorRecord& t) { return tensor(t); });
  const auto constants = list(record.constants, [&](const ConstantRecord& c) {
    return fbs::CreateConstant(b_, text(c.name), c.tensor);
  });
  const auto states = list(record.states, [&](const StateRecord& s) { return state(s); });
  const auto entries = list(record.entries, [&](const EntryRecord& e) { return entry(e); });
  const auto metadata = list(record.metadata, [&](const auto& fact) {
    const auto key = text(fact.first), value = b_.CreateString(fact.second);
    return fbs::CreateFact(b_, key, value);
  });
  const auto files =
      list(record.files, [&](const FileRecord& f) { return fbs::CreateFile(b_, text(f.name), f.tensor); });
  const auto producer = text(record.producer);
  fbs::FinishModelBuffer(
      b_, fbs::CreateModel(b_, producer, segments, tensors, constants, states, entries, metadata, files));
  const auto* bytes = reinterpret_cast<const std::byte*>(b_.GetBufferPointer());
  return {bytes, bytes + b_.GetSize()};
}

// --- bytes -> records ---

// A malicious buffer can let many tables share one long string or list, so that the records become far larger than the file.
// Everything that is created is therefore charged to a budget first. Honest files share names and shapes too, but stay below 8
// times their size; the budget is 16 times.
class Decoder {
 public:
  explicit Decoder(size_t section_bytes) : budget_(section_bytes * 16 + (1 << 20)) {}
  ModelRecord decode(const fbs::Model& model);

 private:
  void charge(size_t bytes) {
    if (bytes > budget_) fail("the graph section is damaged: it repeats itself beyond any real use");
    budget_ -= bytes;
  }
  std::string text(const flatbuffers::String* s) {
    if (s == nullptr) return {};
    charge(s->size());
    return s->str();
  }
  template <class T>
  std::vector<T> numbers(const Vector<T>* items) {
    if (items == nullptr) return {};
    charge(items->size() * sizeof(T));
    std::vector<T> copy(items->size());
    // The verifier of FlatBuffers 2.0 does not check the alignment of wide elements.
    if (!copy.empty()) std::memcpy(copy.data(), items->Data(), copy.size() * sizeof(T));
    return copy;
  }
  template <class Row, class Read>
  auto list(const Vector<Offset<Row>>* items, Read&& read) {
    using Record = decltype(read(std::declval<const Row&>()));
    std::vector<Record> records;
    if (items == nullptr) return records;
    charge(items->size() * sizeof(Record));
    records.reserve(items->size());
    for (const Row* row : *items) records.push_back(read(*row));
    return records;
  }
  std::vector<std::string> names(const Vector<Offset<fbs::Name>>* items) {
    return list(items, [&](const fbs::Name& name) { return text(name.text()); });
  }
  TensorType known_type(fbs::DType dtype, const Vector<int64_t>* sizes);
  Shape shape(const flatbuffers::String* text);

  AttrValue attribute(const fbs::Attribute& row);
  Attributes attributes(const Vector<Offset<fbs::Attribute>>* rows);
  SegmentRecord segment(const fbs::Segment& row);
  TensorRecord tensor(const fbs::Tensor& row);
  std::optional<CacheLayout> cache_layout(const fbs::CacheLayout* row);
  StateRecord state(const fbs::State& row);
  ValueRecord value(const fbs::Value& row);
  NodeRecord node(const fbs::Node& row);
  EntryRecord entry(const fbs::Entry& row);

  size_t budget_;
};

// Checks the number of an enumeration: FlatBuffers verifies only offsets.
template <class To, class From>
To checked_enum(From value, const char* what) {
  if (value > From::MAX) fail("unknown {} {}", what, static_cast<int>(value));
  return static_cast<To>(value);
}

DType dtype_of(fbs::DType dtype) { return checked_enum<DType>(dtype, "dtype"); }

TensorType Decoder::known_type(fbs::DType dtype, const Vector<int64_t>* sizes) {
  if (sizes != nullptr && sizes->size() > static_cast<size_t>(kMaxRank))
    fail("a tensor of rank {}, the limit is {}", sizes->size(), kMaxRank);
  return {dtype_of(dtype), Shape::of(numbers(sizes))};
}

Shape Decoder::shape(const flatbuffers::String* written) {
  constexpr size_t kLongest = 4096;
  if (written == nullptr) fail("a shape is missing");
  if (written->size() > kLongest) fail("a shape is written with {} characters", written->size());
  Shape shape = Shape::parse(text(written));
  charge(shape.dims().size() * sizeof(Dim));
  if (shape.rank() > kMaxRank) fail("a shape of rank {}, the limit is {}", shape.rank(), kMaxRank);
  return shape;
}

AttrValue Decoder::attribute(const fbs::Attribute& row) {
  switch (row.kind()) {
    case fbs::AttributeKind::boolean:
      return row.integer() != 0;
    case fbs::AttributeKind::integer:
      return int64_t{row.integer()};
    case fbs::AttributeKind::real:
      if (row.reals() == nullptr || row.reals()->size() != 1) fail("a real attribute holds no number");
      return numbers(row.reals())[0];
    case fbs::AttributeKind::text:
      return text(row.text());
    case fbs::AttributeKind::dtype:
      if (row.integer() < 0 || row.integer() >= kNumDTypes) fail("unknown dtype {}", row.integer());
      return static_cast<DType>(row.integer());
    case fbs::AttributeKind::shape:
      return shape(row.text());
    case fbs::AttributeKind::integers:
      return numbers(row.integers());
    case fbs::AttributeKind::reals:
      return numbers(row.reals());
    case fbs::AttributeKind::texts:
      return names(row.texts());
  }
  fail("unknown kind of attribute {}", static_cast<int>(row.kind()));
}

Attributes Decoder::attributes(const Vector<Offset<fbs::Attribute>>* rows) {
  Attributes attributes;
  if (rows == nullptr) return attributes;
  constexpr size_t kMax = 256;  // an op has a handful
  if (rows->size() > kMax) fail("{} attributes, the limit is {}", rows->size(), kMax);
  charge(rows->size() * sizeof(*attributes.begin()));
  for (const fbs::Attribute* row : *rows) {
    const std::string name = text(row->name());
    if (attributes.find(name) != nullptr) fail("attribute '{}' stands twice", name);
    with_context([&] { attributes.set(name, attribute(*row)); },
                 [&] { return "in attribute '" + name + "'"; });
  }
  return attributes;
}

SegmentRecord Decoder::segment(const fbs::Segment& row) {
  SegmentRecord segment{row.offset(), row.bytes(), {row.hash_low(), row.hash_high()}, {}};
  if (const fbs::Link* link = row.link()) {
    segment.link = {text(link->path()), link->bytes(), link->written()};
    if (segment.link.path.empty()) fail("the path of a linked file is empty");
  }
  return segment;
}

TensorRecord Decoder::tensor(const fbs::Tensor& row) {
  const std::string name = text(row.name());
  return with_context(
      [&]() -> TensorRecord {
        return {name,          known_type(row.dtype(), row.sizes()),
                row.segment(), row.offset(),
                row.bytes(),   numbers(row.pieces()),
                row.runs(),    row.pieces_each()};
      },
      [&] { return "in tensor '" + name + "'"; });
}

std::optional<CacheLayout> Decoder::cache_layout(const fbs::CacheLayout* row) {
  if (row == nullptr) return std::nullopt;
  return CacheLayout{text(row->kind()), row->rows_axis(), row->positions_axis()};
}

StateRecord Decoder::state(const fbs::State& row) {
  const std::string name = text(row.name());
  return with_context(
      [&]() -> StateRecord {
        return {name,
                known_type(row.dtype(), row.sizes()),
                checked_enum<StateRole>(row.role(), "role of a state"),
                row.trainable(),
                row.initial(),
                row.format() ? text(row.format()) : "",
                numbers(row.parts()),
                cache_layout(row.cache())};
      },
      [&] { return "in state '" + name + "'"; });
}

ValueRecord Decoder::value(const fbs::Value& row) {
  return {checked_enum<ValueKind>(row.kind(), "kind of value"), row.index(),
          TensorType{dtype_of(row.dtype()), shape(row.shape())}, text(row.name())};
}

NodeRecord Decoder::node(const fbs::Node& row) {
  NodeRecord node;
  node.name = text(row.name());
  with_context(
      [&] {
        node.op = text(row.op());
        node.op_version = row.op_version();
        node.attributes = attributes(row.attributes());
        node.inputs = numbers(row.inputs());
        node.outputs = numbers(row.outputs());
        node.origins = names(row.origins());
      },
      [&] { return "in node '" + node.name + "'"; });
  return node;
}

EntryRecord Decoder::entry(const fbs::Entry& row) {
  EntryRecord entry;
  entry.name = text(row.name());
  with_context(
      [&] {
        entry.values = list(row.values(), [&](const fbs::Value& v) { return value(v); });
        entry.nodes = list(row.nodes(), [&](const fbs::Node& n) { return node(n); });
        entry.outputs = list(row.outputs(), [&](const fbs::Output& o) {
          return OutputRecord{text(o.name()), o.value()};
        });
        entry.updates = list(row.updates(), [&](const fbs::Update& u) {
          return UpdateRecord{u.state(), u.value()};
        });
      },
      [&] { return "in entry point '" + entry.name + "'"; });
  return entry;
}

ModelRecord Decoder::decode(const fbs::Model& model) {
  ModelRecord record;
  record.producer = text(model.producer());
  record.segments = list(model.segments(), [&](const fbs::Segment& s) { return segment(s); });
  record.tensors = list(model.tensors(), [&](const fbs::Tensor& t) { return tensor(t); });
  record.constants = list(model.constants(), [&](const fbs::Constant& c) {
    return ConstantRecord{text(c.name()), c.tensor()};
  });
  record.states = list(model.states(), [&](const fbs::State& s) { return state(s); });
  record.entries = list(model.entries(), [&](const fbs::Entry& e) { return entry(e); });
  list(model.metadata(), [&](const fbs::Fact& fact) {
    const std::string key = text(fact.key());
    if (!record.metadata.emplace(key, text(fact.value())).second) fail("metadata '{}' stands twice", key);
    return true;
  });
  record.files = list(model.files(), [&](const fbs::File& f) {
    return FileRecord{text(f.name()), f.tensor()};
  });
  return record;
}

}  // namespace

std::vector<std::byte> encode_graph(const ModelRecord& record) { return Encoder().encode(record); }

ModelRecord decode_graph(std::span<const std::byte> bytes) {
  constexpr flatbuffers::uoffset_t kMaxDepth = 16;
  // The verifier accepts no buffer near 2 GiB, and visits at most this many tables. A table and the reference to it take at least
  // 8 bytes.
  if (bytes.size() > kMaxGraphBytes)
    fail("a graph section of {} bytes, the limit is {}", bytes.size(), kMaxGraphBytes);
  const auto max_tables = static_cast<flatbuffers::uoffset_t>(bytes.size() / 8 + 1);
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  flatbuffers::Verifier verifier(data, bytes.size(), kMaxDepth, max_tables);
  if (!fbs::VerifyModelBuffer(verifier)) fail("the graph section is damaged: its offsets lead nowhere");
  return Decoder(bytes.size()).decode(*fbs::GetModel(data));
}

}  // namespace genesis::file
