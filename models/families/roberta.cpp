// RoBERTa (models/families/encoder/roberta.h).
#include "models/families/encoder/roberta.h"

namespace genesis::models {

Family roberta_family() {
  return roberta_like("roberta", "RoBERTa encoder: as bert, positions behind the padding token, other heads",
                      "roberta", "Roberta", 50265);
}

}  // namespace genesis::models
