// Exchanges between two ranks along a mesh axis: one sends a tensor, the other receives it. In a collective (collective.h) all
// ranks of the axis run the same node; here the two nodes stand in different graphs: those of two stages of a pipeline, or entry
// points that an author writes for each rank. A peer is named by its place on the axis, from 0; the plan checks that the mesh has
// it (passes/distribution/peers.h).
//
// If one rank leaves out an exchange, the other waits forever. Passes therefore neither drop these nodes, even if nothing reads
// them, nor merge equal ones, nor repeat them, and all exchanges, including collectives, run in the order of the graph. A send
// may block until its peer receives. The graphs of all ranks together must be free of deadlocks; they are if each rank takes its
// exchanges, in order, from one common list of all exchanges.
//
// A send gives a token, an empty tensor: a node that reads it runs after the send. With tokens an author can differentiate across
// ranks. The sending rank takes sum(token), which is zero, as its loss; the gradient arrives from the peer. The receiving rank
// gives recv a token of its own (start_token()) and asks for the gradient with respect to that token, too: then the gradient of
// the received tensor is sent back.
#pragma once

#include <string>

#include "schema/graph/graph.h"

namespace genesis {

namespace ops {

struct Send {
  static constexpr OpInfo info{.name = "send",
                               .doc =
                                   "Sends the input to the rank at place `to` of `axis`; the result is a "
                                   "token, which orders later exchanges after this one.",
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
  static constexpr OpInfo info{.name = "recv",
                               .doc =
                                   "The tensor of `shape` and `dtype` that the rank at place `from` of "
                                   "`axis` sends. May take a token.",
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

// Returns true for send and recv, where exactly one peer waits for the op.
bool has_peer(const OpDef& op);
// Returns the peer's place on the axis, for a send or recv.
int64_t peer_of(const Attributes& attributes);

// Returns the token, f32[0].
Value send(Value x, const std::string& axis, int64_t to);
Value start_token(Graph& graph);
Value recv(Graph& graph, const std::string& axis, int64_t from, const TensorType& type);
// The same, but runs after the node that gave the token.
Value recv(Value token, const std::string& axis, int64_t from, const TensorType& type);

}  // namespace genesis
