#include "tests/fuzz/mutate.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace genesis::testing {

uint64_t Mutator::next(uint64_t limit) {
  if (choices_.empty()) return random_();
  const size_t wanted = limit == 0 ? 8 : limit <= 256 ? 1 : 2;
  uint64_t value = 0;
  for (size_t i = 0; i < std::min(wanted, choices_.size()); ++i) value = value << 8 | choices_[i];
  choices_ = choices_.subspan(std::min(wanted, choices_.size()));
  return value;
}

int64_t Mutator::number() {
  static constexpr int64_t kExtremes[] = {
      0,    1,         -1,        2,         3,         7,         8,         255,       256,
      4096, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, 1LL << 31, 1LL << 32, 1LL << 62, -(1LL << 40)};
  switch (below(3)) {
    case 0:
      return static_cast<int64_t>(below(8)) - 2;
    case 1:
      return kExtremes[below(std::size(kExtremes))];
    default:
      return static_cast<int64_t>(next() >> below(64));
  }
}

std::string Mutator::text() {
  static const std::string kTexts[] = {"",     "x",          "none", "sum",   "ij,jk->ik", "...",
                                       "a->a", "mean",       "a\nb", "tanh",  "half",      "%s%n",
                                       "1",    "layers.add", "\xff", "ii->i", ",,->",      "i->"};
  return chance(40) ? std::string(5000, 'x') : kTexts[below(std::size(kTexts))];
}

Shape Mutator::shape() {
  std::vector<Dim> dims(below(5));
  for (Dim& dim : dims) {
    switch (below(6)) {
      case 0:
        dim = Dim::symbol(chance(2) ? "batch" : "seq");
        break;
      case 1:
        dim = Dim::symbol("batch") * Dim::symbol("seq") + 1;
        break;
      case 2:
        dim = chance(4) ? Dim(number()) : Dim(0);
        break;
      default:
        dim = static_cast<int64_t>(1 + below(4));
    }
  }
  return Shape(std::move(dims));
}

TensorType Mutator::type() { return {static_cast<DType>(below(kNumDTypes)), shape()}; }

AttrValue Mutator::attribute(const AttrValue& like) {
  size_t kind = chance(8) ? below(std::variant_size_v<AttrValue>) : like.index();
  const auto list = [&](auto make) {
    std::vector<decltype(make())> items(chance(20) ? below(5000) : below(6));
    for (auto& item : items) item = make();
    return items;
  };
  static constexpr double kReals[] = {0.0,
                                      -0.0,
                                      1.0,
                                      0.5,
                                      -1.0,
                                      1e300,
                                      std::numeric_limits<double>::infinity(),
                                      -std::numeric_limits<double>::infinity(),
                                      std::numeric_limits<double>::quiet_NaN()};
  const auto real = [&] { return kReals[below(std::size(kReals))]; };
  switch (kind) {
    case 0:
      return chance(2);
    case 1:
      return number();
    case 2:
      return real();
    case 3:
      return text();
    case 4:
      return static_cast<DType>(below(kNumDTypes));
    case 5:
      return shape();
    case 6:
      return list([&] { return number(); });
    case 7:
      return list(real);
    default:
      return list([&] { return text(); });
  }
}

template <class T>
void Mutator::shuffle_list(std::vector<T>& items) {
  if (items.empty()) return;
  const size_t a = below(items.size()), b = below(items.size());
  switch (below(4)) {
    case 0:
      return items.pop_back();
    case 1:
      return std::swap(items[a], items[b]);
    case 2:
      return items.push_back(T(items[a]));
    default:
      items[a] = T(items[b]);
  }
}

void Mutator::damage(file::NodeRecord& node) {
  switch (below(8)) {
    case 0:
      node.op = chance(2) ? text() : std::string(all_ops()[below(all_ops().size())]->name());
      return;
    case 1:
      node.op_version = index();
      return;
    case 2:
      if (!node.inputs.empty()) node.inputs[below(node.inputs.size())] = index();
      return;
    case 3:
      return shuffle_list(node.inputs);
    case 4:
      return shuffle_list(node.outputs);
    case 5:
      node.name = text();
      return;
    default: {
      if (node.attributes.size() == 0) return node.attributes.set(text(), attribute(int64_t{0}));
      const auto& [name, value] =
          *(node.attributes.begin() + static_cast<ptrdiff_t>(below(node.attributes.size())));
      node.attributes.set(std::string(name), attribute(value));
    }
  }
}

void Mutator::damage(file::EntryRecord& entry) {
  switch (below(12)) {
    case 0:
      return shuffle_list(entry.values);
    case 1:
      return shuffle_list(entry.nodes);
    case 2:
      return shuffle_list(entry.outputs);
    case 3:
      return shuffle_list(entry.updates);
    case 4:
      if (!entry.values.empty()) entry.values[below(entry.values.size())].type = type();
      return;
    case 5:
      if (!entry.values.empty()) entry.values[below(entry.values.size())].index = index();
      return;
    case 6:
      if (!entry.values.empty())
        entry.values[below(entry.values.size())].kind = static_cast<ValueKind>(below(4));
      return;
    case 7:
      if (!entry.outputs.empty()) entry.outputs[below(entry.outputs.size())] = {text(), index()};
      return;
    case 8:
      if (!entry.updates.empty()) entry.updates[below(entry.updates.size())] = {index(), index()};
      return;
    default:
      if (!entry.nodes.empty()) damage(entry.nodes[below(entry.nodes.size())]);
  }
}

void Mutator::damage(file::TensorRecord& tensor) {
  switch (below(6)) {
    case 4:
      tensor.pieces.resize(below(4));
      for (uint32_t& piece : tensor.pieces) piece = static_cast<uint32_t>(chance(4) ? number() : below(4));
      return;
    case 5:
      tensor.runs = static_cast<uint64_t>(number());
      return;
    case 0:
      tensor.segment = static_cast<uint32_t>(number());
      return;
    case 1:
      tensor.offset = static_cast<uint64_t>(number());
      return;
    case 2:
      tensor.bytes = static_cast<uint64_t>(number());
      return;
    default: {
      std::vector<int64_t> sizes(below(10));
      for (int64_t& size : sizes) size = number();
      tensor.type = {static_cast<DType>(below(kNumDTypes)), Shape::of(sizes)};
    }
  }
}

void Mutator::damage(file::ModelRecord& record) {
  switch (below(13)) {
    case 12:
      if (!record.files.empty())
        record.files[below(record.files.size())].tensor = static_cast<uint32_t>(number());
      return;
    case 0:
      return shuffle_list(record.tensors);
    case 1:
      if (!record.tensors.empty()) damage(record.tensors[below(record.tensors.size())]);
      return;
    case 2:
      return shuffle_list(record.states);
    case 3:
      if (!record.states.empty()) record.states[below(record.states.size())].initial = index();
      return;
    case 4:
      if (!record.constants.empty())
        record.constants[below(record.constants.size())].tensor = static_cast<uint32_t>(number());
      return;
    case 5:
      if (!record.segments.empty() && chance(4))
        record.segments[0].link = {text(), static_cast<uint64_t>(number()), number()};
      else if (!record.segments.empty())
        (chance(2) ? record.segments[0].offset : record.segments[0].bytes) = static_cast<uint64_t>(number());
      return;
    case 6:
      return shuffle_list(record.segments);
    default:
      if (!record.entries.empty()) damage(record.entries[below(record.entries.size())]);
  }
}

void Mutator::damage_in_place(std::string& bytes) {
  if (bytes.empty()) return;
  const size_t at = below(bytes.size());
  const auto overwrite = [&](auto value) {
    std::memcpy(bytes.data() + at, &value, std::min(sizeof value, bytes.size() - at));
  };
  switch (below(4)) {
    case 0:
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
      return;
    case 1:
      bytes[at] = static_cast<char>(next());
      return;
    case 2:
      return overwrite(static_cast<uint32_t>(number()));
    default:
      return overwrite(number());
  }
}

void Mutator::damage(std::string& bytes) {
  if (bytes.empty()) return;
  const size_t at = below(bytes.size());
  const size_t room = std::min<size_t>(bytes.size() - at, 1 + below(chance(8) ? bytes.size() : 16));
  switch (below(8)) {
    case 0:
      return bytes.resize(at);
    case 1:
      bytes.erase(at, room);
      return;
    case 2:
      bytes.insert(below(bytes.size()), bytes.substr(at, room));
      return;
    case 3:
      bytes.replace(below(bytes.size()), room, bytes.substr(at, room));
      return;
    default:
      return damage_in_place(bytes);
  }
}

}  // namespace genesis::testing
