// BERT: Devlin et al., "BERT: Pre-training of deep bidirectional transformers for language understanding" (2019). MiniLM, bge and
// many cross-encoders are BERTs.
#include "models/families/encoder/family.h"

namespace genesis::models {
namespace {

struct BertConfig : PoolerConfig {
  int64_t type_vocab_size = 2;  // types of tokens: the first and the second text of a pair

  static void fields(auto& self, auto&& visit) {
    PoolerConfig::fields(self, visit);
    visit("type_vocab_size", self.type_vocab_size);
  }
};

std::unique_ptr<Model> make_bert(const std::string& family, const BertConfig& c, uint64_t seed) {
  return make_encoder(family, c, {.types = c.type_vocab_size, .reads_types = true, .has_pooler = c.pooler},
                      seed);
}

}  // namespace

Family bert_family() {
  return {
      .name = "bert",
      .summary = "BERT encoder: learned positions, types of tokens, norms behind attention and MLP",
      .network = make_network(BertConfig{}, make_bert),
      .hugging_face = encoder_form(
          "bert", "Bert", "bert.", "embeddings.word_embeddings.weight",
          encoder_config("Bert", {},
                         {size_entry("type_vocab_size", 2), told_by_tensors("pooler"),
                          // The multilingual BERT has these, and the usual pooler.
                          ignored_entry({"directionality", "pooler_fc_size", "pooler_num_attention_heads",
                                         "pooler_num_fc_layers", "pooler_size_per_head", "pooler_type"})}),
          {"cls.predictions.transform.dense.weight", "cls.predictions.decoder", "cls.predictions.bias"})};
}

}  // namespace genesis::models
