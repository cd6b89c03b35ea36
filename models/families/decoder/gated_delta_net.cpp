#include "models/families/decoder/gated_delta_net.h"

#include <cmath>

#include "schema/ops/nn/gated_delta.h"

namespace genesis::models {
namespace {

// Joins all axes behind the second one.
Value flat(Value x, int64_t features) { return reshape(x, {x.dim(0), x.dim(1), features}); }

Value heads_of(Value x, int64_t heads, int64_t size) { return reshape(x, {x.dim(0), x.dim(1), heads, size}); }

Value wide(Value x) { return cast(x, promote(x.dtype(), DType::f32)); }

}  // namespace

GatedDeltaNet::GatedDeltaNet(const Scope& s, const DecoderConfig& c, const DeltaDesign& d,
                             const init::Init& init)
    : Module(s),
      design_(d),
      eps_(c.rms_norm_eps),
      in_proj_qkvz_(s / "in_proj_qkvz", c.hidden_size, 2 * (d.keys() + d.values()),
                    {.bias = false, .init = init}),
      in_proj_ba_(s / "in_proj_ba", c.hidden_size, 2 * d.value_heads, {.bias = false, .init = init}),
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

// The first token of a text forgets the one before; padding changes nothing.
GatedDeltaNet::Gates GatedDeltaNet::gates_of(Value x, const Positions& positions) const {
  Graph& graph = *x.graph;
  const int64_t times = design_.value_heads / design_.key_heads;
  const Value parts = heads_of(in_proj_ba_(x), design_.key_heads, 2 * times);
  const Value b = wide(flat(slice(parts, 3, 0, times), design_.value_heads)),
              a = wide(flat(slice(parts, 3, times), design_.value_heads));
  const Value rate = exp(wide(a_log_.in(graph)));
  Gates gates{exp(-(rate * softplus(a + wide(dt_bias_.in(graph))))), sigmoid(b)};
  if (const Value begins = begins_text(graph, positions, x.dim(1)))
    gates.decay = where(unsqueeze(begins, 2), scalar_like(gates.decay, 0), gates.decay);
  if (positions.count) {
    const Value is_read = unsqueeze(arange(graph, x.dim(1)) < unsqueeze(positions.count, 1), 2);
    gates.decay = where(is_read, gates.decay, scalar_like(gates.decay, 1));
    gates.beta = where(is_read, gates.beta, scalar_like(gates.beta, 0));
  }
  return gates;
}

Value GatedDeltaNet::forward(Value x, const Positions& positions, Value) const {
  const DeltaDesign& d = design_;
  const int64_t values = d.values() / d.key_heads;  // a key head has so many
  const Value parts = heads_of(in_proj_qkvz_(x), d.key_heads, 2 * (d.key_size + values));
  const auto part = [&](int64_t from, int64_t size) { return slice(parts, 3, from, from + size); };
  const Value mixed =
      concat({flat(part(0, d.key_size), d.keys()), flat(part(d.key_size, d.key_size), d.keys()),
              flat(part(2 * d.key_size, values), d.values())},
             2);
  const Value z = heads_of(part(2 * d.key_size + values, values), d.value_heads, d.value_size);
  const Value seen = silu(conv1d_(mixed, positions));
  const Value q = units(slice(seen, 2, 0, d.keys())) * (1 / std::sqrt(static_cast<double>(d.key_size))),
              k = units(slice(seen, 2, d.keys(), 2 * d.keys())),
              v = heads_of(slice(seen, 2, 2 * d.keys()), d.value_heads, d.value_size);
  const auto [decay, beta] = gates_of(x, positions);
  const Value state = positions.start ? cache_.state(*x.graph, positions) : Value();
  const GatedDeltaResult result = gated_delta(q, k, v, decay, beta, state);
  if (positions.start) cache_.keep(result.before, result.after, positions, x.dim(1));
  const Value y = rms_norm(cast(result.y, x.dtype()), norm_.in(*x.graph), eps_) * silu(z);
  return out_proj_(flat(y, d.values()));
}

}  // namespace genesis::models
