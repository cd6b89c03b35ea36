// A mesh: the ranks of a run, ordered along named axes, as "data=8,tensor=4". A rank is one process with one device. All ranks
// run the same model; a rank's place on each axis determines its shard of a batch or of a weight. Ranks are numbered with the
// last axis fastest, so that neighbors on it are neighbors on a host. (The words are those of GSPMD, Xu et al. 2021, and of
// Shardy.)
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace genesis {

struct MeshAxis {
  std::string name;
  int64_t size = 1;
  bool operator==(const MeshAxis&) const = default;
};

class Mesh {
 public:
  Mesh() = default;  // one rank
  // Parses "data=8,tensor=4": names of letters, digits and '_', each once; sizes from 1. Throws Error that says what is wrong.
  static Mesh parse(std::string_view text);

  const std::vector<MeshAxis>& axes() const { return axes_; }
  int64_t ranks() const;  // the product of all sizes
  // Returns 1 for an axis that the mesh does not have.
  int64_t size(std::string_view axis) const;
  // Returns the place of `rank` on the axis, from 0.
  int64_t place(int64_t rank, std::string_view axis) const;
  // Returns the ranks that differ from `rank` on this axis only, including `rank`, in the order of the axis.
  std::vector<int64_t> group(int64_t rank, std::string_view axis) const;
  std::string to_string() const;
  bool operator==(const Mesh&) const = default;

 private:
  // Returns the difference of the numbers of neighbors on the axis; 0 for an axis that the mesh does not have.
  int64_t stride(std::string_view axis) const;

  std::vector<MeshAxis> axes_;
};

}  // namespace genesis
