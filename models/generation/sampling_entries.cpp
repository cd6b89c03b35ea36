#include "models/generation/sampling_entries.h"

#include <algorithm>

#include "builder/genesis.h"
#include "executor/generation/sampling_options.h"
#include "executor/inputs.h"
#include "models/generation/penalties.h"
#include "models/generation/typical.h"
#include "models/generation/vocabulary.h"
#include "models/generation/wide_head.h"
#include "passes/core/cache_size.h"
#include "passes/core/inline_graph.h"
#include "passes/core/match.h"
#include "schema/graph/caches.h"

namespace genesis::text {
namespace {

using generation::found_entry;
using generation::kMaxTopLogprobs;

// Returns the shape of one number per row; a scalar for a single row.
Shape each_row(int64_t rows) { return rows == 1 ? Shape{} : Shape{rows}; }

using Inputs = std::vector<std::pair<std::string, TensorType>>;

Inputs inputs_of(const Graph& entry) {
  Inputs inputs;
  for (const ValueId input : entry.inputs())
    inputs.emplace_back(entry.value(input).name, entry.value(input).type);
  return inputs;
}

// Returns the entry point if its inputs are those of models/decoder.h. Files of older versions have, for a cache of one row, a
// scalar position and no lengths.
const Graph& checked_entry(const Model& model, const char* name, int64_t rows, const Dim& seq) {
  const Graph& entry = found_entry(model, name);
  const bool reads_prompts = std::string_view(name) != "decode";
  const auto wanted = [&](const Shape& numbers) {
    Inputs inputs = {{"tokens", {DType::i64, {rows, seq}}}, {"position", {DType::i64, numbers}}};
    if (reads_prompts && numbers.rank() > 0) inputs.push_back({"length", {DType::i64, numbers}});
    if (reads_prompts && takes_text_length(model)) inputs.push_back({"text_length", {DType::i64, numbers}});
    return inputs;
  };
  const Inputs inputs = inputs_of(entry);
  if (inputs == wanted({rows}) || (rows == 1 && inputs == wanted({}))) return entry;
  std::string list;
  for (const auto& [input, type] : wanted({rows}))
    list += fmt::format("{}{} {}", list.empty() ? "" : ", ", input, type.to_string());
  fail("entry point '{}' cannot generate text: it must take {}", name, list);
}

class SamplingEntries {
 public:
  // With a suffix, which ends the names of steps, only steps can be added.
  explicit SamplingEntries(Model& model, std::string suffix = {})
      : model_(model),
        suffix_(std::move(suffix)),
        rows_(rows_of_cache(model)),
        decode_(checked_entry(model, "decode", rows_, 1)),
        prefill_(suffix_.empty() ? &checked_entry(model, "prefill", rows_, symbol("seq")) : nullptr),
        vocabulary_(vocabulary_of(decode_, 2)),
        token_(state("token", {rows_}, DType::i64)),
        rng_(state("rng", rows_ == 1 ? Shape{2} : Shape{2, rows_}, DType::i64)),
        temperature_(state("temperature", each_row(rows_), DType::f32)),
        top_k_(state("top_k", each_row(rows_), DType::i64)),
        top_p_(state("top_p", each_row(rows_), DType::f32)),
        min_p_(state("min_p", each_row(rows_), DType::f32)),
        penalties_(state("penalties", {3, rows_}, DType::f32)),
        typical_p_(state("typical_p", {rows_}, DType::f32)),
        bias_(state("bias", {rows_ * vocabulary_}, DType::f32)),
        in_prompt_(state("in_prompt", {rows_ * vocabulary_}, DType::i32)),
        chosen_(state("chosen", {rows_ * vocabulary_}, DType::i32)),
        one_(model.add_tensor("sampling.one", Tensor::of<int32_t>({1}, {1}))) {
    if (rows_ == 1) return;
    remaining_ = state("remaining", {rows_}, DType::i64);
    stops_ = state("stops", {rows_, kStopsOfRow}, DType::i64);
  }

  void add() {
    if (rows_ == 1)
      add_fill_of_one_row();
    else
      add_fill(kFillCache, *prefill_);
    if (const Graph* row = model_.find_entry("prefill_row"); row && rows_ > 1) add_fill(kFillRow, *row);
    if (rows_ > 1) add_copy_row();
    for (const bool penalties : {false, true})
      for (const bool logprobs : {false, true})
        if (rows_ == 1 && (takes_lengths() || takes_last_token_once())) add_prefill({penalties, logprobs});
    add_steps();
  }

  // Adds the entry points that choose a token for each row.
  void add_steps() {
    for (const bool logprobs : {false, true}) {
      for (const bool penalties : {false, true}) add_decode({penalties, logprobs});
      add_decode({true, logprobs, true});
    }
  }

 private:
  Parameter state(const char* name, Shape shape, DType dtype) const {
    return (Scope(model_) / "sampling").cache(name, std::move(shape), dtype);
  }

  Value inlined(Graph& graph, const Graph& from, const std::vector<Value>& inputs,
                const passes::ReplaceNode& replace = {}) const {
    const Node* head = rounding_head(from);
    const auto replace_or_widen = [&](const Node& node, const std::vector<Value>& operands) {
      if (&node == head) return widened_head(node, operands);
      return replace ? replace(node, operands) : Value();
    };
    const passes::InlinedGraph part = passes::inline_graph(graph, from, inputs, {}, replace_or_widen);
    for (const auto& [state, value] : part.updates) graph.add_update(state, value);
    return part.outputs.at("logits");
  }

  // Adds an entry point that does what `from` does, without its logits.
  void add_fill(const char* name, const Graph& from) const {
    GraphBuilder g(model_, name);
    std::vector<Value> inputs;
    for (const ValueId input : from.inputs()) {
      const ValueInfo& value = from.value(input);
      inputs.push_back(g.input(value.name, value.type.dtype, value.type.shape));
    }
    inlined(g.graph(), from, inputs);
  }

  // Adds an entry point that copies a row of every cache.
  void add_copy_row() const {
    GraphBuilder g(model_, kCopyRow);
    const Value from = g.input("from", DType::i64, {}), to = g.input("to", DType::i64, {});
    for (int32_t i = 0; i < static_cast<int32_t>(model_.states().size()); ++i) {
      const auto layout = cache_layout(model_.state(i));
      if (!layout) continue;
      const Value whole = g.graph().state(i), row = dynamic_slice(whole, from, layout->rows_axis, 1);
      g.graph().add_update(i, dynamic_update_slice(whole, row, to, layout->rows_axis));
    }
  }

  void add_decode(const SamplingFeatures& features) const {
    GraphBuilder g(model_, decode_name(features) + suffix_);
    const Value position = reshape(select(g.value(rng_), 0, 1), decode_.type(decode_.inputs()[1]).shape);
    sample(g, inlined(g.graph(), decode_, {reshape(g.value(token_), {rows_, 1}), position}), features);
  }

  // Returns true if the node slices the rows of the last token, of which the logits are computed.
  bool takes_last_token(const Node& node) const {
    const auto slice = passes::match<ops::Slice>(node);
    if (!slice) return false;
    const Dim& size = prefill_->type(slice.input(0)).shape[static_cast<int>(slice->axis)];
    return !size.is_constant() && slice->length[0] == Dim(1) && slice->start[0] + Dim(1) == size;
  }
  bool takes_last_token_once() const {
    return std::ranges::count_if(prefill_->nodes(),
                                 [&](const Node& node) { return takes_last_token(node); }) == 1;
  }

  // Returns false for a file of an older version, whose prefill reads one row and takes all of its tokens.
  bool takes_lengths() const { return has_input(*prefill_, "length"); }

  // Inlines prefill for a chunk of the only row; `last` is the index of its last token that is not padding. What is written to
  // the cache behind it is overwritten before it is read, so that updates need no length and are the same for all chunks.
  Value inlined_prefill(GraphBuilder& g, Value tokens, Value position, Value last) const {
    const Shape numbers = prefill_->type(prefill_->inputs()[1]).shape;
    std::vector<Value> inputs = {tokens, reshape(position, numbers)};
    if (takes_lengths()) inputs.push_back(reshape(last + 1, numbers));
    if (takes_text_length(model_)) inputs.push_back(reshape(g.input("text_length", DType::i64, {}), numbers));
    return inlined(g.graph(), *prefill_, inputs, [&](const Node& node, const std::vector<Value>& of) {
      if (!takes_lengths() && takes_last_token(node))
        return dynamic_slice(of[0], last, passes::match<ops::Slice>(node)->axis, 1);
      if (const auto update = passes::match<ops::DynamicUpdateSlice>(node); update && of.size() > 3)
        return emit(update.attributes, {of[0], of[1], of[2]});
      return Value();
    });
  }

  void add_fill_of_one_row() const {
    GraphBuilder g(model_, kFillCache);
    const Value tokens = g.input("tokens", DType::i64, {1, symbol("seq")}),
                position = g.input("position", DType::i64, {});
    inlined_prefill(g, tokens, position, dim_value(g.graph(), tokens.dim(1)) - 1);
  }

  void add_prefill(const SamplingFeatures& features) const {
    GraphBuilder g(model_, prefill_name(features));
    const Value tokens = g.input("tokens", DType::i64, {1, symbol("seq")}),
                position = g.input("position", DType::i64, {}), last = g.input("last", DType::i64, {});
    sample(g, inlined_prefill(g, tokens, position, last), features);
  }

  // Chooses the next token of each row from logits [rows, vocabulary], and updates the states for the next step.
  void sample(GraphBuilder& g, Value logits, const SamplingFeatures& features) const {
    const NameScope scope(g.graph(), "sampling");
    const Value rng = g.value(rng_);
    Value to_sample = logits;
    // The counts get the shape of the logits, so that all of this is one fused region.
    const auto rows = [&](const Parameter& counts) { return reshape(g.value(counts), {rows_, vocabulary_}); };
    if (features.penalties)
      to_sample = penalized(to_sample, rows(bias_), rows(in_prompt_), rows(chosen_), g.value(penalties_));
    if (features.typical) to_sample = typical(to_sample, g.value(temperature_), g.value(typical_p_));
    const Value token = sample_logits(rng, to_sample, g.value(temperature_), g.value(top_k_), g.value(top_p_),
                                      g.value(min_p_));
    g.output("token", token);
    if (features.penalties) count(g, token);
    if (rows_ > 1) {
      move_rows_on(g, token);
    } else {
      g.update(token_, token);
      g.update(rng_, rng_next(rng));
    }
    if (features.logprobs) add_logprobs(g, logits, token);
  }

  // Counts the chosen tokens. An idle row counts none.
  void count(GraphBuilder& g, Value token) const {
    Value place = token, one = g.graph().constant(one_);
    if (rows_ > 1) {
      place = token + arange(g.graph(), rows_) * vocabulary_;
      one = cast(minimum(g.value(remaining_), 1), DType::i32);
    }
    g.update(chosen_, index_add(g.value(chosen_), 0, place, one));
  }

  // Moves rows with remaining tokens on to the chosen token; the others stay where they are.
  void move_rows_on(GraphBuilder& g, Value token) const {
    const Value remaining = g.value(remaining_), rng = g.value(rng_);
    const Value is_stop = any(eq(unsqueeze(token, 1), g.value(stops_)), {1});
    const Value left = where(is_stop, scalar_like(remaining, 0), maximum(remaining - 1, 0));
    const Value goes_on = gt(left, scalar_like(left, 0));
    g.update(remaining_, left);
    g.update(token_, where(goes_on, token, g.value(token_)));
    const Value no_seed = unsqueeze(arange(g.graph(), 2), 1);  // {0}, {1}
    g.update(rng_, rng + no_seed * cast(goes_on, DType::i64));
  }

  // Adds the outputs for log-probabilities, computed from the model's own logits, [rows, vocabulary].
  void add_logprobs(GraphBuilder& g, Value logits, Value token) const {
    const Value all = log_softmax(cast(logits, DType::f32), -1);
    const ValuesAndIndices top = topk(all, std::min(kMaxTopLogprobs, vocabulary_));
    g.output("logprob", reshape(gather(all, 1, reshape(token, {rows_, 1})), {rows_}));
    g.output("top_tokens", top.indices);
    g.output("top_logprobs", top.values);
  }

  Model& model_;
  const std::string suffix_;
  const int64_t rows_;
  const Graph& decode_;
  const Graph* const prefill_;  // null: only steps are made
  const int64_t vocabulary_;
  const Parameter token_, rng_, temperature_, top_k_, top_p_, min_p_, penalties_, typical_p_, bias_,
      in_prompt_, chosen_;
  const int32_t one_;            // index of the constant that is added to a token's count
  Parameter remaining_, stops_;  // only for a cache of several rows
};

}  // namespace

std::shared_ptr<const Model> with_sampling_entries(const std::shared_ptr<const Model>& model) {
  if (!model) fail("text cannot be generated without a model");
  if (model->find_entry(kFillCache)) return model;
  const auto with = std::make_shared<Model>(*model);
  SamplingEntries(*with).add();
  return with;
}

std::shared_ptr<const Model> steps_of_first_rows(const Model& model, int64_t rows) {
  Model decoding = model;
  for (const auto& entry : model.entries())
    if (entry->name() != "decode") decoding.remove_entry(entry->name());
  if (const int32_t adapters = decoding.find_state(generation::kAdapters); adapters >= 0)
    decoding.set_shape(adapters, {rows});
  std::shared_ptr<Model> steps = passes::with_cache_size(decoding, {rows, positions_of_cache(model)});
  SamplingEntries(*steps, generation::first_rows_suffix(rows)).add_steps();
  steps->remove_entry("decode");
  return steps;
}

}  // namespace genesis::text
