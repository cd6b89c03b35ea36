#include "models/text/draft_source.h"

#include <algorithm>

#include "executor/generation/model_drafter.h"
#include "models/generation/generator.h"
#include "models/generation/vocabulary.h"
#include "models/open_model.h"
#include "models/text/load_tokenizer.h"
#include "models/zoo.h"

namespace genesis::text {
namespace {

// A draft means the same only if its tokens are those of the target. One model may have more rows than the tokenizer has tokens.
void check_tokens_agree(const Model& draft, const std::string& name, const DraftTarget& target) {
  const auto own = load_tokenizer("", draft, name);
  if (!own || !target.tokenizer) {
    const int64_t vocabulary = vocabulary_of(draft.entry("decode"), 2);
    if (own.has_value() != target.tokenizer.has_value() || vocabulary != target.vocabulary)
      fail(
          "{} cannot draft for {}: one has a tokenizer and the other has none, or they have {} and {} tokens",
          name, target.file, vocabulary, target.vocabulary);
    return;
  }
  const int64_t ids = std::min(own->vocab_size(), target.tokenizer->vocab_size());
  for (int64_t id = 0; id < ids; ++id)
    if (const auto mine = own->id_to_token(id), other = target.tokenizer->id_to_token(id); mine != other)
      fail("{} cannot draft for {}: it has other tokens, number {} is '{}' and not '{}'", name, target.file,
           id, mine.value_or(""), other.value_or(""));
}

std::shared_ptr<generation::Drafter> open_drafter(const std::shared_ptr<const Model>& model,
                                                  const CacheSize& cache, const SessionOptions& options) {
  const int64_t known = models::longest_text(*model), longest = known > 0 ? known : cache.positions;
  const std::shared_ptr<const Model> sized =
      models::with_cache(*model, cache.rows, std::min(cache.positions, longest));
  return generation::make_model_drafter(open_for_generation(sized, options), longest);
}

}  // namespace

std::function<std::shared_ptr<generation::Drafter>(const CacheSize& cache)> draft_source(
    const std::string& name, const DraftTarget& target, SessionOptions session) {
  if (name == "ngram") return [](const CacheSize&) { return generation::make_ngram_drafter(); };
  session.cache.reset();
  return with_context(
      [&]() -> std::function<std::shared_ptr<generation::Drafter>(const CacheSize&)> {
        const std::shared_ptr<const Model> model = models::open_model(name);
        check_tokens_agree(*model, name, target);
        return [model, session](const CacheSize& cache) { return open_drafter(model, cache, session); };
      },
      [&] { return "with --draft " + name; });
}

}  // namespace genesis::text
