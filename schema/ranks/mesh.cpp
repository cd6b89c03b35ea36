#include "schema/ranks/mesh.h"

#include <algorithm>

#include "schema/core/error.h"
#include "schema/core/parse_number.h"
#include "schema/ranks/mesh_axes.h"
#include "schema/ranks/mesh_groups.h"

namespace genesis {
namespace {

constexpr int64_t kMaxRanks = 1 << 20;

bool is_name(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  });
}

MeshAxis parse_axis(std::string_view part, std::string_view whole) {
  const size_t equals = part.find('=');
  const std::string_view name = part.substr(0, equals);
  const std::string_view number = equals == part.npos ? "" : part.substr(equals + 1);
  const auto size = parse_number<int64_t>(number);
  if (!is_name(name) || !size || *size < 1)
    fail("mesh '{}': expected AXIS=RANKS,... such as data=2,tensor=4, with one rank or more, got '{}'", whole,
         part);
  if (*size > kMaxRanks) fail("mesh '{}': more than {} ranks", whole, kMaxRanks);
  if (name == kReplicaAxis || name == kExpertShardAxis)
    fail("mesh '{}': '{}' is the name of ranks along other axes: take data, expert, tensor or pipeline",
         whole, name);
  return {std::string(name), *size};
}

// Returns true if the axis is among those that `name` counts together (mesh_groups.h).
bool is_part_of(const MeshAxis& axis, std::string_view name, bool has_experts) {
  if (name == kReplicaAxis) return axis.name == kDataAxis;
  if (name == kExpertShardAxis) return has_experts && (axis.name == kExpertAxis || axis.name == kTensorAxis);
  return axis.name == name || (name == kDataAxis && axis.name == kExpertAxis);
}

}  // namespace

Mesh Mesh::parse(std::string_view text) {
  Mesh mesh;
  for (std::string_view rest = text; !rest.empty() || mesh.axes_.empty();) {
    const size_t comma = std::min(rest.find(','), rest.size());
    mesh.axes_.push_back(parse_axis(rest.substr(0, comma), text));
    const MeshAxis& axis = mesh.axes_.back();
    if (std::ranges::count_if(mesh.axes_, [&](const MeshAxis& a) { return a.name == axis.name; }) > 1)
      fail("mesh '{}': its axis '{}' stands there twice", text, axis.name);
    if (mesh.ranks() > kMaxRanks) fail("mesh '{}': more than {} ranks", text, kMaxRanks);
    if (comma + 1 == rest.size()) fail("mesh '{}': it ends with a comma", text);
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  return mesh;
}

int64_t Mesh::ranks() const {
  int64_t product = 1;
  for (const MeshAxis& axis : axes_) product *= axis.size;
  return product;
}

int64_t Mesh::size(std::string_view name) const {
  const bool has_experts = stride(kExpertAxis) > 0;
  int64_t size = 1;
  for (const MeshAxis& axis : axes_)
    if (is_part_of(axis, name, has_experts)) size *= axis.size;
  return size;
}

int64_t Mesh::stride(std::string_view name) const {
  int64_t stride = 1;
  for (auto axis = axes_.rbegin(); axis != axes_.rend(); ++axis) {
    if (axis->name == name) return stride;
    stride *= axis->size;
  }
  return 0;
}

int64_t Mesh::place(int64_t rank, std::string_view name) const {
  const bool has_experts = stride(kExpertAxis) > 0;
  int64_t place = 0;
  for (const MeshAxis& axis : axes_)
    if (is_part_of(axis, name, has_experts)) place = place * axis.size + rank / stride(axis.name) % axis.size;
  return place;
}

std::vector<int64_t> Mesh::group(int64_t rank, std::string_view name) const {
  const bool has_experts = stride(kExpertAxis) > 0;
  std::vector<int64_t> ranks = {rank};
  for (const MeshAxis& axis : axes_) {
    if (!is_part_of(axis, name, has_experts)) continue;
    const int64_t step = stride(axis.name);
    std::vector<int64_t> all;
    for (const int64_t other : ranks)
      for (int64_t i = 0; i < axis.size; ++i) all.push_back(other + (i - other / step % axis.size) * step);
    ranks = std::move(all);
  }
  return ranks;
}

std::vector<std::string> group_names(const Mesh& mesh) {
  std::vector<std::string> names;
  const auto add = [&](std::string_view name) {
    if (std::ranges::find(names, name) == names.end()) names.emplace_back(name);
  };
  for (const MeshAxis& axis : mesh.axes()) add(axis.name);
  if (mesh.size(kExpertAxis) == 1) return names;
  for (const char* name : {kDataAxis, kReplicaAxis, kExpertShardAxis}) add(name);
  return names;
}

std::string Mesh::to_string() const {
  std::string text;
  for (const MeshAxis& axis : axes_)
    text += (text.empty() ? "" : ",") + axis.name + "=" + std::to_string(axis.size);
  return text;
}

}  // namespace genesis
