#include "models/families/encoder/encoder.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "builder/genesis.h"
#include "models/config_sizes.h"
#include "models/families/encoder/heads.h"

namespace genesis::models {
namespace {

// The keys that a layer's queries see, and a bias of their scores.
struct Sight {
  Value lengths;  // i64[batch]
  Value bias;     // [heads, seq, seq]; empty: none
};

class EncoderLayer : public nn::Module<EncoderLayer> {
 public:
  EncoderLayer(const Scope& s, const EncoderConfig& c, const EncoderLayerNames& names, const init::Init& init)
      : Module(s),
        heads_(c.num_attention_heads),
        head_size_(c.head_size()),
        activation_(c.hidden_act),
        query_(s / names.query, c.hidden_size, c.hidden_size, {.init = init}),
        key_(s / names.key, c.hidden_size, c.hidden_size, {.init = init}),
        value_(s / names.value, c.hidden_size, c.hidden_size, {.init = init}),
        attention_output_(s / names.attention_output, c.hidden_size, c.hidden_size, {.init = init}),
        attention_norm_(s / names.attention_norm, c.hidden_size, c.layer_norm_eps),
        up_(s / names.up, c.hidden_size, c.intermediate_size, {.init = init}),
        down_(s / names.down, c.intermediate_size, c.hidden_size, {.init = init}),
        mlp_norm_(s / names.mlp_norm, c.hidden_size, c.layer_norm_eps) {}

  Value forward(Value x, const Sight& sight) const {
    const Value heads =
        attention(heads_of(query_(x)), heads_of(key_(x)), heads_of(value_(x)), {}, sight.bias, sight.lengths);
    x = attention_norm_(x + attention_output_(reshape(heads, x.shape())));
    return mlp_norm_(x + down_(activated(up_(x), activation_)));
  }

 private:
  Value heads_of(Value x) const { return reshape(x, {x.dim(0), x.dim(1), heads_, head_size_}); }

  int64_t heads_, head_size_;
  Activation activation_;
  nn::Linear query_, key_, value_, attention_output_;
  nn::LayerNorm attention_norm_;
  nn::Linear up_, down_;
  nn::LayerNorm mlp_norm_;
};

class Embeddings : public nn::Module<Embeddings> {
 public:
  Embeddings(const Scope& s, const EncoderConfig& c, const EncoderDesign& design, const init::Init& init)
      : Module(s),
        positions_(design.positions),
        padding_idx_(design.padding_idx),
        word_(s / "word_embeddings", c.vocab_size, c.hidden_size, {.init = init}),
        position_(s / "position_embeddings", c.max_position_embeddings, c.hidden_size, {.init = init}),
        norm_(s / "LayerNorm", c.hidden_size, c.layer_norm_eps) {
    if (design.types > 0)
      type_.emplace(s / "token_type_embeddings", design.types, c.hidden_size,
                    nn::Embedding::Options{.init = init});
  }

  Value forward(Value tokens, const EncoderInput& input) const {
    Value x = word_(tokens);
    if (type_ && input.types)
      x = x + (*type_)(input.types);
    else if (type_)
      x = x + slice(type_->weight.in(*tokens.graph), 0, 0, 1);
    return norm_(x + position_(places(input)));
  }
  Parameter word_weight() const { return word_.weight; }

 private:
  Value places(const EncoderInput& input) const {
    if (positions_ == EncoderPositions::kCounted) return arange(*input.tokens.graph, input.tokens.dim(1));
    const Value counts =
        cast(logical_and(input.tokens != Scalar(padding_idx_), real_tokens(input)), DType::i64);
    return cumsum(counts, 1) * counts + padding_idx_;
  }

  EncoderPositions positions_;
  int64_t padding_idx_;
  nn::Embedding word_, position_;
  std::optional<nn::Embedding> type_;
  nn::LayerNorm norm_;
};

// A bias of scores by the distance of a key, in buckets: small distances have a bucket each, larger ones share buckets whose sizes
// grow like logarithms, and all from 128 on the last one. Keys before and behind a query have buckets of their own. Source: Raffel et
// al., "Exploring the limits of transfer learning with a unified text-to-text transformer", 2020.
class RelativeBias : public nn::Module<RelativeBias> {
 public:
  RelativeBias(const Scope& s, int64_t buckets, int64_t heads, const init::Init& init)
      : Module(s),
        half_(buckets / 2),
        table_(s.model().add_tensor(s.path() + ".buckets", buckets_by_distance(half_))),
        weight_(s, buckets, heads, {.init = init}) {}

  // Returns [heads, seq, seq] for tokens [batch, seq].
  Value forward(Value tokens) const {
    Graph& graph = *tokens.graph;
    const Value place = arange(graph, tokens.dim(1)), ahead = unsqueeze(place, 0) - unsqueeze(place, 1);
    const Value distance = minimum(abs(ahead), kFarthest);
    const Value near = index_select(graph.constant(table_), 0, flatten(distance));
    const Value bucket = reshape(near, ahead.shape()) + cast(ahead > 0, DType::i64) * half_;
    return permute(weight_(bucket), {2, 0, 1});
  }

 private:
  static constexpr int64_t kFarthest = 128;

  static Tensor buckets_by_distance(int64_t half) {
    const int64_t exact = half / 2;
    std::vector<int64_t> buckets;
    for (int64_t distance = 0; distance <= kFarthest; ++distance)
      buckets.push_back(distance < exact ? distance : std::min(exact + beyond(distance, exact), half - 1));
    return Tensor::of(buckets);
  }
  // Returns the number of buckets between `exact` and the one of this distance. Distances at which a bucket begins are powers of
  // two, whose logarithms divide exactly up to rounding.
  static int64_t beyond(int64_t distance, int64_t exact) {
    const double growth = std::log(static_cast<double>(distance) / static_cast<double>(exact)) /
                          std::log(static_cast<double>(kFarthest) / static_cast<double>(exact));
    return static_cast<int64_t>(growth * static_cast<double>(exact) + 1e-6);
  }

  int64_t half_;
  int32_t table_;
  nn::Embedding weight_;
};

class EncoderNetwork {
 public:
  // `base` is the scope of the base model, `root` that of the heads.
  EncoderNetwork(const Scope& root, const Scope& base, const EncoderConfig& c, const EncoderDesign& design,
                 const init::Init& init)
      : reads_types_(design.reads_types && design.types > 1),
        embeddings_(base / "embeddings", c, design, init),
        layers_(base / design.layers.layers, c.num_hidden_layers,
                [&](const Scope& scope) { return EncoderLayer(scope, c, design.layers, init); }) {
    if (design.relative_buckets > 0)
      bias_.emplace(base / "encoder" / "relative_attention_bias", design.relative_buckets,
                    c.num_attention_heads, init);
    const bool reads_pooler = c.head == EncoderHead::kSequence && !design.heads.dense;
    if (reads_pooler || (design.has_pooler && c.head == EncoderHead::kNone))
      pooler_.emplace(base / "pooler", c.hidden_size, init);
    if (c.head == EncoderHead::kMaskedLm)
      masked_.emplace(root, c, design.heads, embeddings_.word_weight(), init);
    else if (c.head != EncoderHead::kNone)
      classifier_.emplace(root, c, design.heads, pooler_, init);
  }

  Value hidden(const EncoderInput& input) const {
    const Sight sight{input.lengths, bias_ ? (*bias_)(input.tokens) : Value()};
    Value x = embeddings_(input.tokens, input);
    for (const EncoderLayer& layer : layers_) x = layer(x, sight);
    return x;
  }
  Value logits(Value hidden, bool wide) const {
    return masked_ ? (*masked_)(hidden, wide) : (*classifier_)(hidden, wide);
  }
  Value pooled(Value hidden) const { return (*pooler_)(hidden); }
  bool has_pooler() const { return pooler_.has_value(); }
  bool reads_types() const { return reads_types_; }

 private:
  bool reads_types_;
  Embeddings embeddings_;
  nn::ModuleList<EncoderLayer> layers_;
  std::optional<RelativeBias> bias_;
  std::optional<Pooler> pooler_;
  std::optional<MaskedLmHead> masked_;
  std::optional<ClassifierHead> classifier_;
};

void check(const std::string& family, const EncoderConfig& c, const EncoderDesign& design) {
  check_encoder(family, c);
  if (design.types < 0 || design.types > kMaxFeatures)
    fail("{}: type_vocab_size is {}, it must be positive", family, design.types);
  if (design.positions == EncoderPositions::kBehindPadding &&
      (design.padding_idx < 0 || design.padding_idx >= c.max_position_embeddings - 1))
    fail(
        "{}: pad_token_id is {}: positions begin behind it, so it must be from 0 to max_position_embeddings "
        "{} "
        "- 2",
        family, design.padding_idx, c.max_position_embeddings);
}

}  // namespace

std::unique_ptr<Model> make_encoder(const std::string& family, const EncoderConfig& c,
                                    const EncoderDesign& design, uint64_t seed) {
  check(family, c, design);
  auto model = std::make_unique<Model>();
  const Scope root(*model, seed, c.dtype);
  const Scope base = c.head == EncoderHead::kNone ? root : root / design.prefix;
  const init::Init init = c.initializer_range == 0 ? init::unset() : init::normal(0, c.initializer_range);
  const EncoderNetwork net(root, base, c, design, init);
  Encoder encoder{.hidden = [&](const EncoderInput& input) { return net.hidden(input); },
                  .has_types = net.reads_types(),
                  .head = c.head,
                  .problem = c.problem_type,
                  .labels = c.num_labels};
  if (net.has_pooler()) encoder.pooled = [&](Value hidden) { return net.pooled(hidden); };
  if (c.head != EncoderHead::kNone)
    encoder.logits = [&](Value hidden, const EncoderInput&, bool wide) { return net.logits(hidden, wide); };
  add_encoder_entries(*model, encoder);
  return model;
}

}  // namespace genesis::models
