#include "schema/ops/collective/point_to_point.h"

#include "schema/ops/create.h"
#include "schema/ops/gradient.h"

namespace genesis {

namespace ops {
namespace {

const TensorType kToken{DType::f32, {0}};

void check_peer(std::string_view op, const std::string& axis, int64_t place) {
  if (axis.empty()) fail("{} needs the name of an axis of the mesh", op);
  if (place < 0) fail("{} along '{}': places are counted from 0, got {}", op, axis, place);
}

}  // namespace

std::vector<TensorType> Send::infer(Types) const {
  check_peer(info.name, axis, to);
  return {kToken};
}

// The peer sends back the gradient of the tensor that it received.
void Send::grad(GradientContext& g) const { g.set(0, recv(g.dy(), axis, to, g.input(0).type())); }

std::vector<TensorType> Recv::infer(Types in) const {
  check_peer(info.name, axis, from);
  if (!in.empty() && !(in[0] == kToken))
    fail("recv along '{}' comes after a token, {}, got {}", axis, kToken.to_string(), in[0].to_string());
  return {{dtype, shape}};
}

void Recv::grad(GradientContext& g) const {
  if (g.num_inputs() > 0 && g.wants(0)) g.set(0, send(g.dy(), axis, from));
}

}  // namespace ops

std::span<const OpDef* const> point_to_point_ops() { return kOpDefs<ops::Send, ops::Recv>; }

bool has_peer(const OpDef& op) { return is<ops::Send, ops::Recv>(op); }

int64_t peer_of(const Attributes& attributes) {
  const AttrValue* to = attributes.find("to");
  return std::get<int64_t>(to ? *to : *attributes.find("from"));
}

Value send(Value x, const std::string& axis, int64_t to) { return emit(ops::Send{axis, to}, {x}); }

Value start_token(Graph& graph) { return zeros(graph, ops::kToken.shape, ops::kToken.dtype); }

Value recv(Graph& graph, const std::string& axis, int64_t from, const TensorType& type) {
  return graph.add_node(kOpDef<ops::Recv>, to_attributes(ops::Recv{axis, from, type.shape, type.dtype}),
                        {})[0];
}

Value recv(Value token, const std::string& axis, int64_t from, const TensorType& type) {
  return emit(ops::Recv{axis, from, type.shape, type.dtype}, {token});
}

}  // namespace genesis
