// XLM-RoBERTa: Conneau et al., "Unsupervised cross-lingual representation learning at scale" (2020). A RoBERTa
// (models/families/encoder/roberta.h) with a multilingual vocabulary; bge-m3 and multilingual E5 are such models.
#include "models/families/encoder/roberta.h"

namespace genesis::models {

Family xlm_roberta_family() {
  return roberta_like("xlm_roberta", "XLM-RoBERTa encoder: as roberta, with a multilingual vocabulary",
                      "xlm-roberta", "XLMRoberta", 30522);
}

}  // namespace genesis::models
