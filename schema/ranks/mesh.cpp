#include "schema/ranks/mesh.h"

#include <algorithm>

#include "schema/core/error.h"
#include "schema/core/parse_number.h"

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
  return {std::string(name), *size};
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
  for (const MeshAxis& axis : axes_)
    if (axis.name == name) return axis.size;
  return 1;
}

int64_t Mesh::stride(std::string_view name) const {
  int64_t stride = 1;
  for (auto axis = axes_.rbegin(); axis != axes_.rend(); ++axis) {
    if (axis->name == name) return stride;
    stride *= axis->size;
  }
  return 0;
}

int64_t Mesh::place(int64_t rank, std::string_view axis) const {
  const int64_t step = stride(axis);
  return step == 0 ? 0 : rank / step % size(axis);
}

std::vector<int64_t> Mesh::group(int64_t rank, std::string_view axis) const {
  const int64_t first = rank - place(rank, axis) * stride(axis);
  std::vector<int64_t> ranks;
  for (int64_t i = 0; i < size(axis); ++i) ranks.push_back(first + i * stride(axis));
  return ranks;
}

std::string Mesh::to_string() const {
  std::string text;
  for (const MeshAxis& axis : axes_)
    text += (text.empty() ? "" : ",") + axis.name + "=" + std::to_string(axis.size);
  return text;
}

}  // namespace genesis
