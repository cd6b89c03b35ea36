#include "tools/build/with_tokenizer.h"

#include "models/tokenizer/model_files.h"
#include "tools/common/numbers.h"

namespace genesis::tools {
namespace {

void set_vocabulary(models::Settings& settings, const std::string& tokenizer) {
  const int64_t tokens = text::Tokenizer::load(tokenizer).vocab_size();
  const auto [set, is_new] = settings.emplace("vocab_size", std::to_string(tokens));
  if (!is_new && number_or_fail<int64_t>("--set vocab_size", set->second) < tokens)
    fail("--set vocab_size={}: {} has {} tokens: leave the setting out, or set as many or more", set->second,
         tokenizer, tokens);
}

}  // namespace

std::unique_ptr<Model> make_with_tokenizer(const std::string& name, models::Settings settings, uint64_t seed,
                                           const std::string& tokenizer) {
  if (tokenizer.empty()) return models::make_model(name, settings, seed);
  set_vocabulary(settings, tokenizer);
  auto model = models::make_model(name, settings, seed);
  text::attach_tokenizer_files(*model, tokenizer);
  return model;
}

}  // namespace genesis::tools
