#include "models/encoder.h"

#include "builder/genesis.h"

namespace genesis::models {
namespace {

EncoderInput inputs_of(GraphBuilder& g, const Encoder& encoder) {
  const Dim batch = symbol("batch"), seq = symbol("seq");
  EncoderInput input;
  input.tokens = g.input("tokens", DType::i64, {batch, seq});
  input.lengths = g.input("lengths", DType::i64, {batch});
  if (encoder.has_types) input.types = g.input("token_types", DType::i64, {batch, seq});
  return input;
}

ProblemType problem_of(const Encoder& encoder) {
  if (encoder.problem != ProblemType::kDefault) return encoder.problem;
  return encoder.labels == 1 ? ProblemType::kRegression : ProblemType::kSingleLabel;
}

// Returns the loss of a classifier of texts with logits [batch, labels].
Value loss_of_texts(GraphBuilder& g, const Encoder& encoder, Value logits) {
  const Dim batch = symbol("batch");
  switch (problem_of(encoder)) {
    case ProblemType::kRegression:
      if (encoder.labels == 1)
        return mse_loss(reshape(logits, {logits.dim(0)}), g.input("targets", DType::f32, {batch}));
      return mse_loss(logits, g.input("targets", DType::f32, {batch, encoder.labels}));
    case ProblemType::kMultiLabel:
      return binary_cross_entropy_with_logits(logits,
                                              g.input("targets", DType::f32, {batch, encoder.labels}));
    default:
      return cross_entropy(logits, g.input("targets", DType::i64, {batch}));
  }
}

}  // namespace

Value real_tokens(const EncoderInput& input) {
  return arange(*input.tokens.graph, input.tokens.dim(1)) < unsqueeze(input.lengths, 1);
}

void add_encoder_entries(Model& model, const Encoder& encoder) {
  {
    GraphBuilder g(model, "hidden");
    const Value hidden = encoder.hidden(inputs_of(g, encoder));
    g.output("hidden", hidden);
    if (encoder.pooled) g.output("pooled", encoder.pooled(hidden));
  }
  if (!encoder.logits) return;
  {
    GraphBuilder g(model, "forward");
    const EncoderInput input = inputs_of(g, encoder);
    g.output("logits", encoder.logits(encoder.hidden(input), input, true));
  }
  GraphBuilder g(model, "loss", Mode::kTrain);
  const EncoderInput input = inputs_of(g, encoder);
  const Value hidden = encoder.hidden(input);
  if (encoder.head == EncoderHead::kSequence)
    return g.output("loss", loss_of_texts(g, encoder, encoder.logits(hidden, input, true)));
  const Value targets = g.input("targets", DType::i64, {symbol("batch"), symbol("seq")});
  g.output("loss", cross_entropy(encoder.logits(hidden, input, false), targets));
}

}  // namespace genesis::models
