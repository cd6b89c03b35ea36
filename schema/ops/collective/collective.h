// Ops in which all ranks along one mesh axis (schema/ranks/mesh.h) take part. Every rank runs the same graph, so all reach the
// same collective, each with its own values. A node takes any number of tensors, which are exchanged in one call but
// independently of each other. Along an axis of one rank, or an axis that the mesh does not have, values pass unchanged: a model
// that names an axis also runs without it.
//
// The shards of a tensor are equal slices along the first dimension, in the order of the axis. The terms are those of MPI and
// NCCL.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "schema/graph/graph.h"
#include "schema/ranks/rank_reduction.h"

namespace genesis {

namespace ops {

// Common attributes of ops whose shapes depend on the number of ranks that take part.
struct OfRanks {
  std::string axis;
  int64_t ranks = 1;
  static void fields(auto& self, auto&& visit) {
    visit("axis", self.axis);
    visit("ranks", self.ranks);
  }
};

struct AllReduce {
  static constexpr OpInfo info{
      .name = "all_reduce",
      .doc =
          "For each input, its sum, mean, max or min over the ranks along `axis`. With `has_addend`, the sum "
          "of one tensor plus a second input, which is the same on all ranks.",
      .inputs = {1, kVariadic},
      .precision = Precision::kFollow,
      .collective = true};
  std::string axis;
  RankReduction reduction = RankReduction::kSum;
  bool has_addend = false;
  static void fields(auto& self, auto&& visit) {
    visit("axis", self.axis);
    visit("reduction", self.reduction);
    visit("has_addend", self.has_addend);
  }
  std::vector<TensorType> infer(Types in) const;
  void grad(GradientContext& g) const;
  std::vector<InPlace> in_place(Types in, Types out) const;
};

struct AllGather : OfRanks {
  static constexpr OpInfo info{
      .name = "all_gather",
      .doc = "The inputs of all `ranks` along `axis`, concatenated along dimension 0.",
      .inputs = {1, kVariadic},
      .precision = Precision::kFollow,
      .collective = true};
  std::vector<TensorType> infer(Types in) const;
  void grad(GradientContext& g) const;
};

struct ReduceScatter : OfRanks {
  static constexpr OpInfo info{.name = "reduce_scatter",
                               .doc =
                                   "This rank's shard, along dimension 0, of the sum, mean, max or min over "
                                   "`ranks` ranks along `axis`.",
                               .inputs = {1, kVariadic},
                               .precision = Precision::kFollow,
                               .collective = true};
  RankReduction reduction = RankReduction::kSum;
  static void fields(auto& self, auto&& visit) {
    OfRanks::fields(self, visit);
    visit("reduction", self.reduction);
  }
  std::vector<TensorType> infer(Types in) const;
  void grad(GradientContext& g) const;
};

struct AllToAll : OfRanks {
  static constexpr OpInfo info{.name = "all_to_all",
                               .doc =
                                   "Sends slice i of `ranks` slices along dimension 0 to rank i along "
                                   "`axis`; slice i of the result comes from rank i.",
                               .inputs = {1, kVariadic},
                               .precision = Precision::kFollow,
                               .collective = true};
  std::vector<TensorType> infer(Types in) const;
  void grad(GradientContext& g) const;
};

struct Broadcast {
  static constexpr OpInfo info{.name = "broadcast",
                               .doc = "The input of rank `root` along `axis`, on all ranks along it.",
                               .inputs = {1, kVariadic},
                               .precision = Precision::kFollow,
                               .collective = true};
  std::string axis;
  int64_t root = 0;
  static void fields(auto& self, auto&& visit) {
    visit("axis", self.axis);
    visit("root", self.root);
  }
  std::vector<TensorType> infer(Types in) const;
};

}  // namespace ops

// Returns the axis whose ranks take part in such a node; empty for any other op.
std::string_view axis_of(const OpDef& op, const Attributes& attributes);

// Reductions take floats and integers; the mean takes only floats.
std::vector<Value> all_reduce(std::span<const Value> values, const std::string& axis,
                              RankReduction reduction = RankReduction::kSum);
Value all_reduce(Value x, const std::string& axis, RankReduction reduction = RankReduction::kSum);
std::vector<Value> all_gather(std::span<const Value> values, const std::string& axis, int64_t ranks);
Value all_gather(Value x, const std::string& axis, int64_t ranks);
std::vector<Value> reduce_scatter(std::span<const Value> values, const std::string& axis, int64_t ranks,
                                  RankReduction reduction = RankReduction::kSum);
Value reduce_scatter(Value x, const std::string& axis, int64_t ranks,
                     RankReduction reduction = RankReduction::kSum);
Value all_to_all(Value x, const std::string& axis, int64_t ranks);
Value broadcast(Value x, const std::string& axis, int64_t root = 0);

}  // namespace genesis
