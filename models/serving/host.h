// The parts of a server: its models, its name, and its numbers. Routes answer from it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "models/serving/encoder_model.h"
#include "models/serving/language_model.h"
#include "models/serving/metrics.h"

namespace genesis::serving {

struct Host {
  std::string name;                        // the model's, for clients
  std::vector<std::string> adapters = {};  // names of LanguageOptions::adapters
  int64_t created = 0;                     // when the server began, in seconds since 1970
  std::atomic<bool> drains = false;        // it ends, and takes no more requests
  Metrics metrics = {};
  std::unique_ptr<LanguageModel> language = {};  // null: the model writes no texts
  std::unique_ptr<EncoderModel> encoder = {};    // null: it makes no vectors and scores no pairs
};

}  // namespace genesis::serving
