// Serves tokens as training data, read from the mapped shards on demand.
#include "models/data/row_source.h"

namespace genesis::data {

std::unique_ptr<BatchSource> token_source(TokenStream tokens, const SourceOptions& options) {
  const std::string size = fmt::format("there are {} tokens", tokens.size());
  return make_row_source(std::move(tokens), options, size);
}

}  // namespace genesis::data
