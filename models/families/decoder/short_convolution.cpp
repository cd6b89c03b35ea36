#include "models/families/decoder/short_convolution.h"

namespace genesis::models {

TokenConvolution::TokenConvolution(const Scope& s, const CacheSize& size, int64_t features,
                                   const ConvolutionDesign& design, const init::Init& init)
    : Module(s), taps_(design.taps), weight_(s.parameter("weight", {features, 1, design.taps}, init)) {
  if (design.keeps_last)
    last_inputs_.emplace(s, size, taps_ - 1, features);
  else
    all_inputs_.emplace(s, size, features);
  if (design.biases) bias_ = s.parameter("bias", {features}, init::zeros());
}

// A sum of shifted copies. In rows of several texts, a copy has zeros where its token belongs to the text before.
Value TokenConvolution::forward(Value u, const Positions& positions) const {
  Graph& graph = *u.graph;
  const Value last =
      last_inputs_ ? last_inputs_->with_last(u, positions) : all_inputs_->with_last(u, taps_ - 1, positions);
  const Value weight = weight_.in(graph);
  Value sum;
  for (int64_t back = taps_ - 1; back >= 0; --back) {
    const int64_t tap = taps_ - 1 - back;
    Value shifted = slice(last, 1, tap, back == 0 ? kToEnd : -back);
    if (positions.first && back > 0)
      shifted = where(unsqueeze(positions.ids >= back, 2), shifted, scalar_like(shifted, 0));
    const Value term = shifted * reshape(slice(weight, 2, tap, tap + 1), {u.dim(2)});
    sum = sum ? sum + term : term;
  }
  return bias_ ? sum + bias_.in(graph) : sum;
}

ShortConvolution::ShortConvolution(const Scope& s, const DecoderConfig& c, const ConvolutionDesign& design,
                                   const init::Init& init)
    : Module(s),
      in_proj_(s / "in_proj", c.hidden_size, 3 * c.hidden_size, {.bias = design.biases, .init = init}),
      out_proj_(s / "out_proj", c.hidden_size, c.hidden_size, {.bias = design.biases, .init = init}),
      convolution_(s / "conv", c.cache_size(), c.hidden_size, design, init) {}

Value ShortConvolution::forward(Value x, const Positions& positions, Value) const {
  const int64_t hidden = x.dim(2).value();
  const Value parts = in_proj_(x), u = slice(parts, 2, 0, hidden) * slice(parts, 2, 2 * hidden);
  return out_proj_(slice(parts, 2, hidden, 2 * hidden) * convolution_(u, positions));
}

}  // namespace genesis::models
