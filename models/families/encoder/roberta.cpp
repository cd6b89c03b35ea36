#include "models/families/encoder/roberta.h"

#include "models/families/encoder/family.h"

namespace genesis::models {
namespace {

struct RobertaConfig : PoolerConfig {
  int64_t type_vocab_size = 1;
  int64_t pad_token_id = 1;  // positions begin behind it

  static void fields(auto& self, auto&& visit) {
    PoolerConfig::fields(self, visit);
    visit("type_vocab_size", self.type_vocab_size);
    visit("pad_token_id", self.pad_token_id);
  }
};

std::unique_ptr<Model> make_roberta(const std::string& family, const RobertaConfig& c, uint64_t seed) {
  return make_encoder(family, c,
                      {.prefix = "roberta",
                       .heads = kRobertaHeads,
                       .positions = EncoderPositions::kBehindPadding,
                       .padding_idx = c.pad_token_id,
                       .types = c.type_vocab_size,
                       .has_pooler = c.pooler},
                      seed);
}

ConfigEntry padding_entry() {
  return {.settings = {"pad_token_id"},
          .read =
              [](SettingsReader& r) {
                const nlohmann::json id = r.given("pad_token_id", 1);
                if (!id.is_number_integer() || id < 0 || id > (int64_t{1} << 40))
                  return r.refuse("pad_token_id", "a token, behind which positions begin");
                r.set("pad_token_id", id);
              },
          .write = [](const nlohmann::json& settings,
                      nlohmann::json& config) { config["pad_token_id"] = settings.at("pad_token_id"); }};
}

}  // namespace

Family roberta_like(const std::string& name, const std::string& summary, const std::string& model_type,
                    const std::string& stem, int64_t vocab_size) {
  RobertaConfig standard;
  return {.name = name,
          .summary = summary,
          .network = make_network(standard, make_roberta),
          .hugging_face = encoder_form(
              model_type, stem, "roberta.", "embeddings.word_embeddings.weight",
              encoder_config(stem, {.vocab_size = vocab_size},
                             {size_entry("type_vocab_size", 2), padding_entry(), told_by_tensors("pooler")}),
              {"lm_head.dense.weight", "lm_head.decoder", "lm_head.bias"}),
          .longest_text = [](const nlohmann::json& settings) {
            return settings.at("max_position_embeddings").get<int64_t>() -
                   settings.at("pad_token_id").get<int64_t>() - 1;
          }};
}

}  // namespace genesis::models
