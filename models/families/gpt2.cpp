// GPT-2: Radford et al., "Language models are unsupervised multitask learners" (2019). Parameters have the names of transformers
// ("transformer.h.0.attn.c_attn.weight"), but weights are [out_features, in_features]. Entry points: models/decoder.h.
#include <cmath>

#include "builder/genesis.h"
#include "models/config_sizes.h"
#include "models/decoder.h"
#include "models/families.h"
#include "models/network.h"

namespace genesis::models {
namespace {

struct Gpt2Config {
  int64_t vocab_size = 256;
  int64_t n_positions = 1024;   // longest text; also the length of the KV cache
  int64_t cache_positions = 0;  // length of the KV cache if it is shorter; 0: n_positions
  int64_t batch = 1;            // rows of the KV cache, each with its own text
  int64_t n_embd = 256;
  int64_t n_layer = 4;
  int64_t n_head = 4;
  double dropout = 0;
  double layer_norm_epsilon = 1e-5;
  bool tie_word_embeddings = true;
  double initializer_range = 0.02;
  DType dtype = DType::f32;

  static void fields(auto& self, auto&& visit) {
    visit("vocab_size", self.vocab_size);
    visit("n_positions", self.n_positions);
    visit("cache_positions", self.cache_positions);
    visit("batch", self.batch);
    visit("n_embd", self.n_embd);
    visit("n_layer", self.n_layer);
    visit("n_head", self.n_head);
    visit("dropout", self.dropout);
    visit("layer_norm_epsilon", self.layer_norm_epsilon);
    visit("tie_word_embeddings", self.tie_word_embeddings);
    visit("initializer_range", self.initializer_range);
    visit("dtype", self.dtype);
  }
  CacheSize cache_size() const { return {batch, cache_positions ? cache_positions : n_positions}; }
};

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

void check(const std::string& family, const Gpt2Config& c) {
  check_size(family, "vocab_size", c.vocab_size);
  check_size(family, "n_positions", c.n_positions);
  check_size(family, "n_embd", c.n_embd);
  check_size(family, "n_layer", c.n_layer, kMaxLayers);
  check_size(family, "n_head", c.n_head, kMaxHeads);
  check_size(family, "batch", c.batch);
  if (c.cache_positions < 0 || c.cache_positions > c.n_positions)
    fail("{}: cache_positions is {}, it must be at most n_positions {}, or 0 for these", family,
         c.cache_positions, c.n_positions);
  if (!(c.layer_norm_epsilon >= 0))
    fail("{}: layer_norm_epsilon is {}, it must not be negative", family, c.layer_norm_epsilon);
  if (!(c.initializer_range >= 0))
    fail("{}: initializer_range is {}, it must not be negative", family, c.initializer_range);
  if (c.n_embd % c.n_head != 0)
    fail("{}: n_embd {} is not a multiple of n_head {}", family, c.n_embd, c.n_head);
}

std::unique_ptr<Model> make_gpt2(const std::string& family, const Gpt2Config& config, uint64_t seed) {
  check(family, config);
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

void read_inner(SettingsReader& r) {
  const int64_t width = r.size("n_embd");
  if (r.has("n_inner") && width > 0 && r.get("n_inner") != 4 * width) r.refuse("n_inner", "4 * n_embd");
}

HuggingFaceForm in_transformers() {
  // Names that transformers (ACT2FN) has for GELU with tanh.
  const std::vector<nlohmann::json> gelu_tanh = {"gelu_new", "gelu_pytorch_tanh", "gelu_python_tanh",
                                                 "gelu_fast", "gelu_accurate"};
  return {.model_type = "gpt2",
          .class_name = "GPT2LMHeadModel",
          .config = {size_entry("vocab_size", 50257),
                     size_entry("n_positions", 1024),
                     size_entry("n_embd", 768),
                     size_entry("n_layer", 12),
                     size_entry("n_head", 12),
                     number_entry("layer_norm_epsilon", 1e-5),
                     {.settings = {}, .read = read_inner},
                     only_entry("activation_function", gelu_tanh, true),
                     only_entry("scale_attn_weights", {true}, false),
                     only_entry("scale_attn_by_inverse_layer_idx", {false}, false),
                     only_entry("add_cross_attention", {false}, false),
                     only_entry("is_causal", {true}, false),
                     flag_entry("tie_word_embeddings", true),
                     written_entry("initializer_range", {"initializer_range"}),
                     written_entry("dropout", {"attn_pdrop", "embd_pdrop", "resid_pdrop"}),
                     ignored_entry({"n_ctx", "reorder_and_upcast_attn"})},
          .prefix = "transformer.",
          .embedding = "transformer.wte.weight",
          .stored_in_out = {".c_attn.weight", ".c_proj.weight", ".c_fc.weight"}};
}

void read_feed_forward_length(SettingsReader& r) {
  const int64_t width = r.size("n_embd");
  if (r.has("feed_forward_length") && width > 0 && r.get("feed_forward_length") != 4 * width)
    r.refuse("feed_forward_length", "4 * embedding_length");
}

GgufForm in_gguf() {
  return {.architecture = "gpt2",
          .metadata = {size_entry("context_length", {}, "n_positions"),
                       size_entry("embedding_length", {}, "n_embd"),
                       size_entry("block_count", {}, "n_layer"),
                       size_entry("attention.head_count", {}, "n_head"),
                       number_entry("attention.layer_norm_epsilon", {}, "layer_norm_epsilon"),
                       {.settings = {}, .read = read_feed_forward_length}},
          .blocks = "transformer.h.",
          .outside = {{"token_embd", "transformer.wte"},
                      {"position_embd", "transformer.wpe"},
                      {"output_norm", "transformer.ln_f"},
                      {"output", "lm_head"}},
          .inside = {{"attn_norm", "ln_1"},
                     {"attn_qkv", "attn.c_attn"},
                     {"attn_output", "attn.c_proj"},
                     {"ffn_norm", "ln_2"},
                     {"ffn_up", "mlp.c_fc"},
                     {"ffn_down", "mlp.c_proj"}},
          .head_is_embedding = true};
}

}  // namespace

Family gpt2_family() {
  return {.name = "gpt2",
          .summary = "GPT-2 language model",
          .network = make_network(Gpt2Config{}, make_gpt2),
          .hugging_face = in_transformers(),
          .gguf = in_gguf(),
          .vocabulary = {.pattern = "gpt2",
                         .classes = {"GPT2Tokenizer", "GPT2TokenizerFast"},
                         .first_token = "<|endoftext|>"},
          .layers_setting = "n_layer"};
}

}  // namespace genesis::models
