#include "models/text/sampling_entries.h"

#include <algorithm>

#include "builder/genesis.h"
#include "models/text/generate_options.h"
#include "passes/core/inline_graph.h"

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

class SamplingEntries {
 public:
  explicit SamplingEntries(Model& model)
      : model_(model),
        decode_(checked_entry(model, "decode", {DType::i64, {1, 1}})),
        prefill_(checked_entry(model, "prefill", {DType::i64, {1, symbol("seq")}})),
        vocabulary_(find_vocabulary()),
        token_(state("token", {1}, DType::i64)),
        rng_(state("rng", {2}, DType::i64)),
        temperature_(state("temperature", {}, DType::f32)),
        top_k_(state("top_k", {}, DType::i64)),
        top_p_(state("top_p", {}, DType::f32)),
        min_p_(state("min_p", {}, DType::f32)),
        penalties_(state("penalties", {3}, DType::f32)),
        counts_(state("counts", {2, vocabulary_}, DType::i32)) {}

  void add() {
    add_fill_cache();
    for (const bool penalties : {false, true})
      for (const bool logprobs : {false, true}) add_decode({penalties, logprobs});
  }

 private:
  Parameter state(const char* name, Shape shape, DType dtype) const {
    return (Scope(model_) / "sampling").cache(name, std::move(shape), dtype);
  }

  int64_t find_vocabulary() const {
    for (const NamedValue& output : decode_.outputs())
      if (output.name == "logits" && decode_.type(output.value).shape.rank() == 2)
        return decode_.type(output.value).shape[1].value();
    fail("the entry point 'decode' has no output 'logits' [1, vocabulary]");
  }

  Value inlined(Graph& graph, const Graph& from, Value tokens, Value position) const {
    const passes::InlinedGraph part = passes::inline_graph(graph, from, {tokens, position});
    for (const auto& [state, value] : part.updates) graph.add_update(state, value);
    return part.outputs.at("logits");
  }

  void add_fill_cache() const {
    GraphBuilder g(model_, kFillCache);
    const Value tokens = g.input("tokens", DType::i64, {1, symbol("seq")}),
                position = g.input("position", DType::i64, {});
    inlined(g.graph(), prefill_, tokens, position);
  }

  void add_decode(const SamplingFeatures& features) const {
    GraphBuilder g(model_, entry_name(features));
    const Value rng = g.value(rng_), position = reshape(select(rng, 0, 1), {});
    const Value logits = inlined(g.graph(), decode_, reshape(g.value(token_), {1, 1}), position);
    const NameScope scope(g.graph(), "sampling");
    const Value counts = features.penalties ? g.value(counts_) : Value();
    const Value token =
        random_sample(rng, features.penalties ? penalized(g, logits, counts) : logits, g.value(temperature_),
                      g.value(top_k_), g.value(top_p_), g.value(min_p_));
    g.output("token", token);
    g.update(token_, token);
    g.update(rng_, rng_next(rng));
    if (features.penalties) g.update(counts_, counted(counts, token));
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

  static Value is_positive(Value x) { return x > scalar_like(x, 0); }

  Value penalized(GraphBuilder& g, Value logits, Value counts) const {
    const Value penalties = g.value(penalties_);
    const auto penalty = [&](int64_t i) { return reshape(select(penalties, 0, i), {}); };
    const Value in_prompt = narrow(counts, 0, 0, 1), chosen = narrow(counts, 0, 1, 1),
                x = cast(logits, DType::f32), repetition = penalty(0);
    const Value repeated = where(is_positive(x), x / repetition, x * repetition);
    const Value is_chosen = cast(is_positive(chosen), DType::f32);
    return where(is_positive(in_prompt + chosen), repeated, x) - is_chosen * penalty(1) -
           cast(chosen, DType::f32) * penalty(2);
  }

  // One more of the token in the second row.
  Value counted(Value counts, Value token) const {
    const Value flat = reshape(counts, {2 * vocabulary_}), at = token + vocabulary_;
    return reshape(index_add(flat, 0, at, full(*token.graph, {1}, 1, DType::i32)), counts.shape());
  }

  Model& model_;
  const Graph &decode_, &prefill_;
  const int64_t vocabulary_;
  const Parameter token_, rng_, temperature_, top_k_, top_p_, min_p_, penalties_, counts_;
};

}  // namespace

std::string entry_name(const SamplingFeatures& features) {
  return std::string("decode_and_sample") + (features.penalties ? "_with_penalties" : "") +
         (features.logprobs ? "_and_logprobs" : "");
}

std::shared_ptr<const Model> with_sampling_entries(const std::shared_ptr<const Model>& model) {
  if (!model) fail("text cannot be generated without a model");
  if (model->find_entry(kFillCache)) return model;
  const auto with = std::make_shared<Model>(*model);
  SamplingEntries(*with).add();
  return with;
}

}  // namespace genesis::text
