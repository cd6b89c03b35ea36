#include "models/families/decoder/gated_delta_net.h"

#include <cmath>

#include "schema/ops/nn/gated_delta.h"

namespace genesis::models {
namespace {

// Joins all axes behind the second one.
Value flat(Value x, int64_t features) { return reshape(x, {x.dim(0), x.dim(1), features}); }

Value heads_of(Value x, int64_t heads, int64_t size) { return reshape(x, {x.dim(0), x.dim(1), heads, size}); }

std::optional<nn::Linear> input(const Scope& s, const char* name, bool is_there, const DecoderConfig& c,
                                int64_t size, const init::Init& init) {
  if (!is_there) return {};
  return nn::Linear(s / name, c.hidden_size, size, {.bias = false, .init = init});
}

Value wide(Value x) { return cast(x, promote(x.dtype(), DType::f32)); }

}  // namespace

GatedDeltaNet::GatedDeltaNet(const Scope& s, const DecoderConfig& c, const DeltaDesign& d,
                             const init::Init& init)
    : Module(s),
      design_(d),
      eps_(c.rms_norm_eps),
      in_proj_qkvz_(input(s, "in_proj_qkvz", !d.is_split, c, 2 * (d.keys() + d.values()), init)),
      in_proj_ba_(input(s, "in_proj_ba", !d.is_split, c, 2 * d.value_heads, init)),
      in_proj_qkv_(input(s, "in_proj_qkv", d.is_split, c, 2 * d.keys() + d.values(), init)),
      in_proj_z_(input(s, "in_proj_z", d.is_split, c, d.values(), init)),
      in_proj_b_(input(s, "in_proj_b", d.is_split, c, d.value_heads, init)),
      in_proj_a_(input(s, "in_proj_a", d.is_split, c, d.value_heads, init)),
      out_proj_(s / "out_proj", d.values(), c.hidden_size, {.bias = false, .init = init}),
      conv1d_(s / "conv1d", c.cache_size(), 2 * d.keys() + d.values(), {.taps = d.taps}, init),
      dt_bias_(s.parameter("dt_bias", {d.value_heads}, init::ones())),
      a_log_(s.parameter("A_log", {d.value_heads}, init::zeros())),
      norm_((s / "norm").parameter("weight", {d.value_size}, init::ones())),
      cache_(s, c.cache_size(), {d.value_heads, d.key_size, d.value_size}) {}

Value GatedDeltaNet::units(Value heads) const {
  const Value x = wide(heads_of(heads, design_.key_heads, design_.key_size));
  const Value unit = x * rsqrt(sum(x * x, {3}, true) + 1e-6);
  const int64_t times = design_.value_heads / design_.key_heads;
  return times == 1 ? unit : repeat_interleave(unit, times, 2);
}

GatedDeltaNet::Inputs GatedDeltaNet::inputs_of(Value x) const {
  const DeltaDesign& d = design_;
  if (d.is_split)
    return {(*in_proj_qkv_)(x), heads_of((*in_proj_z_)(x), d.value_heads, d.value_size), (*in_proj_b_)(x),
            (*in_proj_a_)(x)};
  const int64_t times = d.value_heads / d.key_heads, values = times * d.value_size;  // both for one key head
  const Value gates = heads_of((*in_proj_ba_)(x), d.key_heads, 2 * times),
              parts = heads_of((*in_proj_qkvz_)(x), d.key_heads, 2 * (d.key_size + values));
  const auto part = [&](int64_t from, int64_t size) { return slice(parts, 3, from, from + size); };
  return {concat({flat(part(0, d.key_size), d.keys()), flat(part(d.key_size, d.key_size), d.keys()),
                  flat(part(2 * d.key_size, values), d.values())},
                 2),
          heads_of(part(2 * d.key_size + values, values), d.value_heads, d.value_size),
          flat(slice(gates, 3, 0, times), d.value_heads), flat(slice(gates, 3, times), d.value_heads)};
}

// The first token of a text forgets the one before; padding changes nothing.
GatedDeltaNet::Gates GatedDeltaNet::gates_of(const Inputs& inputs, const Positions& positions) const {
  const Value a = wide(inputs.a), b = wide(inputs.b);
  Graph& graph = *a.graph;
  const Dim time = a.dim(1);
  const Value rate = exp(wide(a_log_.in(graph)));
  Gates gates{exp(-(rate * softplus(a + wide(dt_bias_.in(graph))))), sigmoid(b)};
  if (const Value begins = begins_text(graph, positions, time))
    gates.decay = where(unsqueeze(begins, 2), scalar_like(gates.decay, 0), gates.decay);
  if (positions.count) {
    const Value is_read = unsqueeze(arange(graph, time) < unsqueeze(positions.count, 1), 2);
    gates.decay = where(is_read, gates.decay, scalar_like(gates.decay, 1));
    gates.beta = where(is_read, gates.beta, scalar_like(gates.beta, 0));
  }
  return gates;
}

Value GatedDeltaNet::forward(Value x, const Positions& positions, Value) const {
  const DeltaDesign& d = design_;
  const Inputs inputs = inputs_of(x);
  const Value seen = silu(conv1d_(inputs.mixed, positions));
  const Value q = units(slice(seen, 2, 0, d.keys())) * (1 / std::sqrt(static_cast<double>(d.key_size))),
              k = units(slice(seen, 2, d.keys(), 2 * d.keys())),
              v = heads_of(slice(seen, 2, 2 * d.keys()), d.value_heads, d.value_size);
  const auto [decay, beta] = gates_of(inputs, positions);
  const Value state = positions.start ? cache_.state(*x.graph, positions) : Value();
  const GatedDeltaResult result = gated_delta(q, k, v, decay, beta, state);
  if (positions.start) cache_.keep(result.before, result.after, positions, x.dim(1));
  const Value y = rms_norm(cast(result.y, x.dtype()), norm_.in(*x.graph), eps_) * silu(inputs.z);
  return out_proj_(flat(y, d.values()));
}

}  // namespace genesis::models
