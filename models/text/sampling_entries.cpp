#include "models/text/sampling_entries.h"

#include <algorithm>

#include "builder/genesis.h"
#include "models/text/generate_options.h"
#include "models/text/penalties.h"
#include "models/text/vocabulary.h"
#include "passes/core/inline_graph.h"
#include "passes/core/match.h"

namespace genesis::text {
namespace {

const Graph& checked_entry(const Model& model, const char* name, const TensorType& tokens) {
  const Graph* entry = model.find_entry(name);
  if (!entry) fail("the model has no entry point '{}': it cannot generate text", name);
  const TensorType position{DType::i64, {}};
  const auto is = [&](size_t input, const char* wanted, const TensorType& type) {
    const ValueInfo& value = entry->value(entry->inputs()[input]);
    return value.name == wanted && value.type == type;
  };
  if (entry->inputs().size() != 2 || !is(0, "tokens", tokens) || !is(1, "position", position))
    fail("entry point '{}' cannot generate text: it must take tokens {} and position {}", name,
         tokens.to_string(), position.to_string());
  return *entry;
}

std::string with_features(const std::string& entry, const SamplingFeatures& features) {
  return entry + (features.penalties ? "_with_penalties" : "") + (features.logprobs ? "_and_logprobs" : "");
}

class SamplingEntries {
 public:
  explicit SamplingEntries(Model& model)
      : model_(model),
        decode_(checked_entry(model, "decode", {DType::i64, {1, 1}})),
        prefill_(checked_entry(model, "prefill", {DType::i64, {1, symbol("seq")}})),
        vocabulary_(vocabulary_of(decode_, 2)),
        token_(state("token", {1}, DType::i64)),
        rng_(state("rng", {2}, DType::i64)),
        temperature_(state("temperature", {}, DType::f32)),
        top_k_(state("top_k", {}, DType::i64)),
        top_p_(state("top_p", {}, DType::f32)),
        min_p_(state("min_p", {}, DType::f32)),
        penalties_(state("penalties", {3}, DType::f32)),
        in_prompt_(state("in_prompt", {vocabulary_}, DType::i32)),
        chosen_(state("chosen", {vocabulary_}, DType::i32)),
        one_(model.add_tensor("sampling.one", Tensor::of<int32_t>({1}, {1}))) {}

  void add() {
    add_fill_cache();
    for (const bool penalties : {false, true})
      for (const bool logprobs : {false, true}) {
        add_decode({penalties, logprobs});
        if (takes_last_token_once()) add_prefill({penalties, logprobs});
      }
  }

 private:
  Parameter state(const char* name, Shape shape, DType dtype) const {
    return (Scope(model_) / "sampling").cache(name, std::move(shape), dtype);
  }

  Value inlined(Graph& graph, const Graph& from, Value tokens, Value position,
                const passes::ReplaceNode& replace = {}) const {
    const passes::InlinedGraph part = passes::inline_graph(graph, from, {tokens, position}, {}, replace);
    for (const auto& [state, value] : part.updates) graph.add_update(state, value);
    return part.outputs.at("logits");
  }

  void add_fill_cache() const {
    GraphBuilder g(model_, kFillCache);
    const Value tokens = g.input("tokens", DType::i64, {1, symbol("seq")}),
                position = g.input("position", DType::i64, {});
    inlined(g.graph(), prefill_, tokens, position);
  }

  // What the model computed, without a cast that only widens it for whoever asks for `logits`.
  static Value without_widening(Value logits) {
    const auto widening = passes::match<ops::Cast>(*logits.graph, logits.id);
    if (!widening) return logits;
    const Value source = logits.graph->handle(widening.input(0));
    return is_low_precision(source.dtype()) ? source : logits;
  }

  void add_decode(const SamplingFeatures& features) const {
    GraphBuilder g(model_, decode_name(features));
    const Value position = reshape(select(g.value(rng_), 0, 1), {});
    sample(g, inlined(g.graph(), decode_, reshape(g.value(token_), {1, 1}), position), features);
  }

  // Whether the node takes the rows of the last token, which is where the logits begin.
  bool takes_last_token(const Node& node) const {
    const auto slice = passes::match<ops::Slice>(node);
    if (!slice) return false;
    const Dim& size = prefill_.type(slice.input(0)).shape[static_cast<int>(slice->axis)];
    return !size.is_constant() && slice->length[0] == Dim(1) && slice->start[0] + Dim(1) == size;
  }
  bool takes_last_token_once() const {
    return std::count_if(prefill_.nodes().begin(), prefill_.nodes().end(),
                         [&](const Node& node) { return takes_last_token(node); }) == 1;
  }

  void add_prefill(const SamplingFeatures& features) const {
    GraphBuilder g(model_, prefill_name(features));
    const Value tokens = g.input("tokens", DType::i64, {1, symbol("seq")}),
                position = g.input("position", DType::i64, {}), last = g.input("last", DType::i64, {});
    const auto take_last = [&](const Node& node, const std::vector<Value>& inputs) {
      if (!takes_last_token(node)) return Value();
      return dynamic_slice(inputs[0], last, passes::match<ops::Slice>(node)->axis, 1);
    };
    sample(g, inlined(g.graph(), prefill_, tokens, position, take_last), features);
  }

  // The next token from logits [1, vocabulary], and what the step behind needs.
  void sample(GraphBuilder& g, Value logits, const SamplingFeatures& features) const {
    const NameScope scope(g.graph(), "sampling");
    const Value rng = g.value(rng_);
    Value to_sample = without_widening(logits);
    // Counts as a row, like the logits, so that all of it is one fused region.
    const auto row = [&](const Parameter& counts) { return reshape(g.value(counts), {1, vocabulary_}); };
    if (features.penalties)
      to_sample = penalized(to_sample, row(in_prompt_), row(chosen_), g.value(penalties_));
    const Value token = random_sample(rng, to_sample, g.value(temperature_), g.value(top_k_), g.value(top_p_),
                                      g.value(min_p_));
    g.output("token", token);
    g.update(token_, token);
    g.update(rng_, rng_next(rng));
    if (features.penalties)
      g.update(chosen_, index_add(g.value(chosen_), 0, token, g.graph().constant(one_)));
    if (features.logprobs) add_logprobs(g, logits, token);
  }

  // Of the model's logits, [1, vocabulary].
  void add_logprobs(GraphBuilder& g, Value logits, Value token) const {
    const Value all = log_softmax(cast(logits, DType::f32), -1);
    const ValuesAndIndices top = topk(all, std::min(kMaxTopLogprobs, vocabulary_));
    g.output("logprob", reshape(gather(all, 1, reshape(token, {1, 1})), {1}));
    g.output("top_tokens", top.indices);
    g.output("top_logprobs", top.values);
  }

  Model& model_;
  const Graph &decode_, &prefill_;
  const int64_t vocabulary_;
  const Parameter token_, rng_, temperature_, top_k_, top_p_, min_p_, penalties_, in_prompt_, chosen_;
  const int32_t one_;  // tensor: what a token adds to its count
};

}  // namespace

std::string prefill_name(const SamplingFeatures& features) {
  return with_features("prefill_and_sample", features);
}
std::string decode_name(const SamplingFeatures& features) {
  return with_features("decode_and_sample", features);
}

std::shared_ptr<const Model> with_sampling_entries(const std::shared_ptr<const Model>& model) {
  if (!model) fail("text cannot be generated without a model");
  if (model->find_entry(kFillCache)) return model;
  const auto with = std::make_shared<Model>(*model);
  SamplingEntries(*with).add();
  return with;
}

}  // namespace genesis::text
