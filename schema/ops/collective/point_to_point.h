// What two ranks along an axis of a mesh exchange: one sends a tensor, the other receives it. In a collective
// (collective.h) all ranks of the axis take part with the same node; here the two nodes stand in graphs that differ, those
// of two stages of a pipeline, or entry points that an author writes for each rank. A peer is named by its place on the
// axis, from 0 on; whether the mesh has it is found when a plan is made (passes/distribution/peers.h).
//
// What one rank leaves out the other waits for. So passes neither drop these nodes, read or not, nor merge equal ones, nor
// repeat them, and exchanges run in the order in which the graph has them, collectives among them. A send may last until
// its peer receives. The order of all graphs together must let every exchange come to pass; it does where each rank takes
// those it has a part in from one list of all exchanges, in the order of the list.
//
// A send gives a token, an empty tensor: what reads it comes after the send. So an author can differentiate across ranks.
// The rank that sends takes sum(token) as its loss, which is zero; the gradient comes back from the peer. The rank that
// receives gives recv a token of its own (start_token()) and asks for the gradient with respect to it, too: then the
// gradient of what was received is sent back.
#pragma once

#include <string>

#include "schema/graph/graph.h"

namespace genesis {

namespace ops {

struct Send {
  static constexpr OpInfo info{
      .name = "send",
      .doc = "Sends the input to the rank at place `to` of `axis`; gives a token for what comes after.",
      .inputs = {1, 1},
      .precision = Precision::kExact,
      .collective = true};
  std::string axis;
  int64_t to = 0;
  static void fields(auto& self, auto&& visit) {
    visit("axis", self.axis);
    visit("to", self.to);
  }
  std::vector<TensorType> infer(Types in) const;
  void grad(GradientContext& g) const;
};

struct Recv {
  static constexpr OpInfo info{
      .name = "recv",
      .doc =
          "What the rank at place `from` of `axis` sends: a tensor of `shape` and `dtype`. May take a token.",
      .inputs = {0, 1},
      .precision = Precision::kExact,
      .collective = true};
  std::string axis;
  int64_t from = 0;
  Shape shape;
  DType dtype = DType::f32;
  static void fields(auto& self, auto&& visit) {
    visit("axis", self.axis);
    visit("from", self.from);
    visit("shape", self.shape);
    visit("dtype", self.dtype);
  }
  std::vector<TensorType> infer(Types in) const;
  void grad(GradientContext& g) const;
};

}  // namespace ops

// Whether one peer waits for what the op does: send and recv.
bool has_peer(const OpDef& op);
// Of such a node: the peer's place on the axis.
int64_t peer_of(const Attributes& attributes);

// The token, f32[0].
Value send(Value x, const std::string& axis, int64_t to);
Value start_token(Graph& graph);
Value recv(Graph& graph, const std::string& axis, int64_t from, const TensorType& type);
// The same, after what gave the token.
Value recv(Value token, const std::string& axis, int64_t from, const TensorType& type);

}  // namespace genesis
