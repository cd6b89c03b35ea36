// DistilBERT: Sanh et al., "DistilBERT, a distilled version of BERT: smaller, faster, cheaper and lighter" (2019). A BERT without
// types of tokens and without a pooler.
#include "models/families/encoder/family.h"

namespace genesis::models {
namespace {

constexpr EncoderDesign kDistilBert = {.prefix = "distilbert",
                                       .layers = {.layers = "transformer.layer",
                                                  .query = "attention.q_lin",
                                                  .key = "attention.k_lin",
                                                  .value = "attention.v_lin",
                                                  .attention_output = "attention.out_lin",
                                                  .attention_norm = "sa_layer_norm",
                                                  .up = "ffn.lin1",
                                                  .down = "ffn.lin2",
                                                  .mlp_norm = "output_layer_norm"},
                                       .heads = {.dense = "pre_classifier",
                                                 .activation = [](Value x) { return relu(x); },
                                                 .mlm_dense = "vocab_transform",
                                                 .mlm_norm = "vocab_layer_norm",
                                                 .mlm_bias = "vocab_projector"}};

std::unique_ptr<Model> make_distilbert(const std::string& family, const EncoderConfig& c, uint64_t seed) {
  return make_encoder(family, c, kDistilBert, seed);
}

}  // namespace

Family distilbert_family() {
  return {.name = "distilbert",
          .summary = "DistilBERT encoder: as bert, without types of tokens and pooler",
          .network = make_network(EncoderConfig{}, make_distilbert),
          .hugging_face =
              encoder_form("distilbert", "DistilBert", "distilbert.", "embeddings.word_embeddings.weight",
                           encoder_config("DistilBert",
                                          {.num_hidden_layers = 6,
                                           .hidden_size_name = "dim",
                                           .intermediate_size_name = "hidden_dim",
                                           .layers_name = "n_layers",
                                           .heads_name = "n_heads",
                                           .activation_name = "activation",
                                           .norm_eps_name = nullptr},
                                          // the table of positions is a weight of its own either way
                                          {ignored_entry({"sinusoidal_pos_embds", "tie_weights_"})}),
                           {"vocab_transform.weight", "vocab_projector", "vocab_projector.bias"})};
}

}  // namespace genesis::models
