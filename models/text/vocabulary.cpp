#include "models/text/vocabulary.h"

namespace genesis::text {

int64_t vocabulary_of(const Graph& entry, int rank) {
  for (const NamedValue& output : entry.outputs())
    if (const Shape& shape = entry.type(output.value).shape; output.name == "logits" && shape.rank() == rank)
      return shape[rank - 1].value();
  fail("the entry point '{}' has no output 'logits' with {} sizes, the last of them the vocabulary",
       entry.name(), rank);
}

}  // namespace genesis::text
