#include "models/gpt2.h"

#include <cmath>

#include "builder/genesis.h"
#include "models/config_sizes.h"
#include "models/decoder.h"

namespace genesis::models {
namespace {

class SelfAttention : public nn::Module<SelfAttention> {
 public:
  SelfAttention(const Scope& s, const Gpt2Config& c, const init::Init& init, const init::Init& out_init)
      : Module(s),
        heads_(c.n_head),
        head_size_(c.n_embd / c.n_head),
        c_attn_(s / "c_attn", c.n_embd, 3 * c.n_embd, {.init = init}),
        c_proj_(s / "c_proj", c.n_embd, c.n_embd, {.init = out_init}),
        resid_dropout_(s / "resid_dropout", c.dropout),
        cache_(s, c.cache_size(), heads_, head_size_) {}

  Value forward(Value x, const Positions& positions) const {
    std::vector<Value> qkv = chunk(c_attn_(x), 3, -1);
    for (Value& part : qkv) part = reshape(part, {x.dim(0), x.dim(1), heads_, head_size_});
    const Value heads = cache_.attend(qkv[0], qkv[1], qkv[2], positions);
    return resid_dropout_(c_proj_(reshape(heads, x.shape())));
  }

 private:
  int64_t heads_, head_size_;
  nn::Linear c_attn_, c_proj_;
  nn::Dropout resid_dropout_;
  KeyValueCache cache_;
};

class Mlp : public nn::Module<Mlp> {
 public:
  Mlp(const Scope& s, const Gpt2Config& c, const init::Init& init, const init::Init& out_init)
      : Module(s),
        c_fc_(s / "c_fc", c.n_embd, 4 * c.n_embd, {.init = init}),
        c_proj_(s / "c_proj", 4 * c.n_embd, c.n_embd, {.init = out_init}),
        dropout_(s / "dropout", c.dropout) {}

  Value forward(Value x) const { return dropout_(c_proj_(gelu(c_fc_(x), GeluKind::kTanh))); }

 private:
  nn::Linear c_fc_, c_proj_;
  nn::Dropout dropout_;
};

class Block : public nn::Module<Block> {
 public:
  Block(const Scope& s, const Gpt2Config& c, const init::Init& init, const init::Init& out_init)
      : Module(s),
        ln_1_(s / "ln_1", c.n_embd, c.layer_norm_epsilon),
        attn_(s / "attn", c, init, out_init),
        ln_2_(s / "ln_2", c.n_embd, c.layer_norm_epsilon),
        mlp_(s / "mlp", c, init, out_init) {}

  Value forward(Value x, const Positions& positions) const {
    x = x + attn_(ln_1_(x), positions);
    return x + mlp_(ln_2_(x));
  }

 private:
  nn::LayerNorm ln_1_;
  SelfAttention attn_;
  nn::LayerNorm ln_2_;
  Mlp mlp_;
};

class Gpt2 {
 public:
  Gpt2(const Scope& s, const Gpt2Config& c, const init::Init& init, const init::Init& out_init)
      : wte_(s / "transformer" / "wte", c.vocab_size, c.n_embd, {.init = init}),
        wpe_(s / "transformer" / "wpe", c.n_positions, c.n_embd, {.init = init}),
        drop_(s / "transformer" / "drop", c.dropout),
        h_(s / "transformer" / "h", c.n_layer,
           [&](const Scope& scope) { return Block(scope, c, init, out_init); }),
        ln_f_(s / "transformer" / "ln_f", c.n_embd, c.layer_norm_epsilon),
        lm_head_(s / "lm_head", c.n_embd, c.vocab_size,
                 {.bias = false, .weight = c.tie_word_embeddings ? wte_.weight : Parameter{}, .init = init}) {
  }

  Value hidden(Value tokens, const Positions& positions) const {
    Value x = drop_(wte_(tokens) + wpe_(positions.ids));
    for (const Block& block : h_) x = block(x, positions);
    return ln_f_(x);
  }
  Value logits(Value hidden, bool wide) const { return lm_head_(hidden, wide); }

 private:
  nn::Embedding wte_, wpe_;
  nn::Dropout drop_;
  nn::ModuleList<Block> h_;
  nn::LayerNorm ln_f_;
  nn::Linear lm_head_;
};

void check(const Gpt2Config& c) {
  check_size("gpt2", "vocab_size", c.vocab_size);
  check_size("gpt2", "n_positions", c.n_positions);
  check_size("gpt2", "n_embd", c.n_embd);
  check_size("gpt2", "n_layer", c.n_layer, kMaxLayers);
  check_size("gpt2", "n_head", c.n_head, kMaxHeads);
  check_size("gpt2", "batch", c.batch);
  if (c.cache_positions < 0 || c.cache_positions > c.n_positions)
    fail("gpt2: cache_positions is {}, it must be at most n_positions {}, or 0 for these", c.cache_positions,
         c.n_positions);
  if (!(c.layer_norm_epsilon >= 0))
    fail("gpt2: layer_norm_epsilon is {}, it must not be negative", c.layer_norm_epsilon);
  if (!(c.initializer_range >= 0))
    fail("gpt2: initializer_range is {}, it must not be negative", c.initializer_range);
  if (c.n_embd % c.n_head != 0) fail("gpt2: n_embd {} is not a multiple of n_head {}", c.n_embd, c.n_head);
}

}  // namespace

std::unique_ptr<Model> make_gpt2(const Gpt2Config& config, uint64_t seed) {
  check(config);
  auto model = std::make_unique<Model>();
  // Projections back into the residual stream start smaller, scaled by their number (Radford et al., 2019).
  const init::Init out_init =
      weights_init(config.initializer_range / std::sqrt(2.0 * static_cast<double>(config.n_layer)));
  const Gpt2 net(Scope(*model, seed, config.dtype), config, weights_init(config.initializer_range), out_init);
  add_decoder_entries(*model,
                      {.hidden = [&](Value tokens, const Positions& p) { return net.hidden(tokens, p); },
                       .logits = [&](Value hidden, bool wide) { return net.logits(hidden, wide); }},
                      config.batch);
  return model;
}

}  // namespace genesis::models
