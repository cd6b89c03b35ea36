#include "models/families/decoder/mamba_mixer.h"

#include <limits>

#include "schema/ops/nn/mamba2.h"

namespace genesis::models {
namespace {

Value wide(Value x) { return cast(x, promote(x.dtype(), DType::f32)); }

Value scaled(Value x, double factor) { return factor == 1 ? x : x * factor; }

// Splits the last axis into `count` parts.
Value in_parts(Value x, int64_t count) {
  return reshape(x, {x.dim(0), x.dim(1), count, x.dim(2).value() / count});
}

Value flat(Value x) { return reshape(x, {x.dim(0), x.dim(1), x.dim(2).value() * x.dim(3).value()}); }

}  // namespace

MambaMixer::MambaMixer(const Scope& s, const DecoderConfig& c, const MambaDesign& d, const init::Init& init)
    : Module(s),
      design_(d),
      eps_(c.rms_norm_eps),
      in_proj_(s / "in_proj", c.hidden_size, d.features() + d.convolved() + d.heads,
               {.bias = d.biases, .init = init}),
      out_proj_(s / "out_proj", d.features(), c.hidden_size, {.bias = d.biases, .init = init}),
      conv1d_(s / "conv1d", c.cache_size(), d.convolved(),
              {.taps = d.taps, .biases = d.convolution_bias, .keeps_last = true}, init),
      dt_bias_(s.parameter("dt_bias", {d.heads}, init::ones())),
      a_log_(s.parameter("A_log", {d.heads}, init::zeros())),
      d_(s.parameter("D", {d.heads}, init::ones())),
      cache_(s, c.cache_size(), {d.heads, d.state_size, d.head_size}) {
  if (d.norm != MambaNorm::kNone) norm_ = (s / "norm").parameter("weight", {d.features()}, init::ones());
}

// The first token of a text forgets the one before; padding changes nothing.
MambaMixer::Steps MambaMixer::steps_of(Value projected, const Positions& positions) const {
  Graph& graph = *projected.graph;
  Value size = softplus(wide(projected) + wide(dt_bias_.in(graph)));
  if (design_.least_step > 0 || design_.greatest_step > 0)
    size = clamp(size, design_.least_step,
                 design_.greatest_step > 0 ? design_.greatest_step : std::numeric_limits<double>::infinity());
  Steps steps{exp(-(exp(wide(a_log_.in(graph))) * size)), size};
  if (const Value begins = begins_text(graph, positions, projected.dim(1)))
    steps.decay = where(unsqueeze(begins, 2), scalar_like(steps.decay, 0), steps.decay);
  if (positions.count) {
    const Value is_read = unsqueeze(arange(graph, projected.dim(1)) < unsqueeze(positions.count, 1), 2);
    steps.decay = where(is_read, steps.decay, scalar_like(steps.decay, 1));
    steps.size = where(is_read, steps.size, scalar_like(steps.size, 0));
  }
  return steps;
}

Value MambaMixer::scan(Value convolved, const Steps& steps, const Positions& positions) const {
  Graph& graph = *convolved.graph;
  const int64_t features = design_.features(), keys = design_.groups * design_.state_size;
  const Value x = wide(in_parts(slice(convolved, 2, 0, features), design_.heads)),
              b = in_parts(slice(convolved, 2, features, features + keys), design_.groups),
              c = in_parts(slice(convolved, 2, features + keys), design_.groups);
  const Value state = positions.start ? cache_.state(graph, positions) : Value();
  const Mamba2Result result = mamba2(c, b, x, steps.decay, steps.size, state);
  if (positions.start) cache_.keep(result.before, result.after, positions, convolved.dim(1));
  return flat(result.y + x * unsqueeze(wide(d_.in(graph)), 1));
}

Value MambaMixer::gated(Value y, Value z) const {
  const Value gate = silu(wide(z));
  if (design_.norm == MambaNorm::kNone) return y * gate;
  const bool is_gate_inside = design_.norm == MambaNorm::kOfGated;
  const Value of_groups = in_parts(is_gate_inside ? y * gate : y, design_.groups);
  const Value normed = flat(rms_norm(of_groups, {}, eps_, 1)) * wide(norm_.in(*y.graph));
  return is_gate_inside ? normed : normed * gate;
}

Value MambaMixer::forward(Value x, const Positions& positions, Value) const {
  const int64_t features = design_.features(), keys = design_.groups * design_.state_size;
  const Value projected = in_proj_(scaled(x, design_.in_scale));
  const std::array<int64_t, 5> sizes = {features, features, keys, keys, design_.heads};
  std::array<Value, 5> parts;
  for (size_t i = 0, from = 0; i < sizes.size(); from += static_cast<size_t>(sizes[i++])) {
    const auto begin = static_cast<int64_t>(from);
    parts[i] = scaled(slice(projected, 2, begin, begin + sizes[i]), design_.part_scales[i]);
  }
  const bool is_plain = design_.part_scales == MambaDesign{}.part_scales;
  const Value read = is_plain ? slice(projected, 2, features, features + design_.convolved())
                              : concat({parts[1], parts[2], parts[3]}, 2);
  const Value y = scan(silu(conv1d_(read, positions)), steps_of(parts[4], positions), positions);
  return scaled(out_proj_(cast(gated(y, parts[0]), x.dtype())), design_.out_scale);
}

}  // namespace genesis::models
