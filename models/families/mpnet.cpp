// MPNet: Song et al., "MPNet: Masked and permuted pre-training for language understanding" (2020). A BERT with a bias of scores by
// relative position, which all layers share.
#include "models/families/encoder/family.h"

namespace genesis::models {
namespace {

std::unique_ptr<Model> make_mpnet(const std::string& family, const PoolerConfig& c, uint64_t seed) {
  return make_encoder(family, c,
                      {.prefix = "mpnet",
                       .layers = {.query = "attention.attn.q",
                                  .key = "attention.attn.k",
                                  .value = "attention.attn.v",
                                  .attention_output = "attention.attn.o",
                                  .attention_norm = "attention.LayerNorm"},
                       .heads = kRobertaHeads,
                       .positions = EncoderPositions::kBehindPadding,
                       .padding_idx = 1,  // it does not depend on config.json
                       .has_pooler = c.pooler,
                       .relative_buckets = 32},
                      seed);
}

}  // namespace

Family mpnet_family() {
  return {
      .name = "mpnet",
      .summary = "MPNet encoder: as roberta, without types of tokens, with a bias by relative position",
      .network = make_network(PoolerConfig{}, make_mpnet),
      .hugging_face = encoder_form("mpnet", "MPNet", "mpnet.", "embeddings.word_embeddings.weight",
                                   encoder_config("MPNet", {.vocab_size = 30527},
                                                  {only_entry("relative_attention_num_buckets", {32}, false),
                                                   told_by_tensors("pooler")}),
                                   {"lm_head.dense.weight", "lm_head.decoder", "lm_head.bias"}),
      .longest_text = [](const nlohmann::json& settings) {
        return settings.at("max_position_embeddings").get<int64_t>() - 2;
      }};
}

}  // namespace genesis::models
