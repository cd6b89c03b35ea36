#include "backends/mpi/plugin/mpi_link.h"

#include "schema/core/error.h"
#include "schema/ranks/mesh_groups.h"

namespace genesis::mpi {
namespace {

constexpr int kTexts = 0;  // the tag of texts

class MpiCollectives final : public LinkCollectives<MpiGroup> {
 public:
  MpiCollectives(MpiLink& link, MpiWorld& world, const Mesh& mesh, int first_tag) : LinkCollectives(link) {
    for (const std::string& name : group_names(mesh)) {
      const std::vector<int64_t> ranks = mesh.group(world.rank(), name);
      groups_.try_emplace(name, world, name, std::vector<int>(ranks.begin(), ranks.end()), first_tag++);
    }
  }
};

}  // namespace

std::vector<std::string> MpiLink::gather(const std::string& mine) {
  const auto of_all = [&](auto&& bytes) {
    Transfers transfers(world_, kTexts);
    for (int other = 0; other < size(); ++other) {
      if (other == rank()) continue;
      const auto [from, sent, to, received] = bytes(other);
      transfers.receive(reinterpret_cast<std::byte*>(to), received, other);
      transfers.send(reinterpret_cast<const std::byte*>(from), sent, other);
    }
    if (!transfers.wait("a gathering of texts")) fail("{}", failure());
  };
  struct Bytes {
    const void* from;
    int64_t sent;
    void* to;
    int64_t received;
  };
  const auto length = static_cast<int64_t>(mine.size());
  std::vector<int64_t> lengths(static_cast<size_t>(size()), length);
  of_all([&](int other) {
    return Bytes{&length, sizeof length, &lengths[static_cast<size_t>(other)], sizeof length};
  });
  std::vector<std::string> texts;
  for (const int64_t bytes : lengths) texts.emplace_back(static_cast<size_t>(bytes), '\0');
  texts[static_cast<size_t>(rank())] = mine;
  of_all([&](int other) {
    std::string& text = texts[static_cast<size_t>(other)];
    return Bytes{mine.data(), length, text.data(), static_cast<int64_t>(text.size())};
  });
  return texts;
}

std::string MpiLink::failure() const {
  world_.listen();
  return world_.failure();
}

std::unique_ptr<Collectives> MpiLink::collectives(const Mesh& mesh) {
  if (mesh.ranks() != size())
    fail("mesh '{}' has {} ranks, and {} were started", mesh.to_string(), mesh.ranks(), size());
  const int first_tag = next_tag_;
  next_tag_ += static_cast<int>(group_names(mesh).size());
  return std::make_unique<MpiCollectives>(*this, world_, mesh, first_tag);
}

}  // namespace genesis::mpi
