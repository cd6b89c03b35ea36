// The fields by which all APIs say how texts are chosen and returned.
#pragma once

#include "models/serving/exchange.h"
#include "models/serving/fields.h"
#include "models/serving/language_model.h"
#include "models/serving/text_job.h"

namespace genesis::serving {

// Reads temperature, top_p, stop, seed, penalties, logit_bias, ignore_eos and the like. A request without a seed gets a random
// one.
text::GenerateSettings read_settings(Fields& fields, const LanguageModel& model);

struct Delivery {
  int64_t n = 1;
  bool streams = false, includes_usage = false;
};
// Reads n, stream and stream_options.
Delivery read_delivery(Fields& fields);

// Returns the headers that name the seed and the fields that change nothing here.
Headers answer_headers(const text::GenerateOptions& options, const Fields& fields);

// Checks that each prompt fits together with max_tokens, if the request gives it: what a request may need is reserved before it
// starts.
void check_length(const LanguageModel& model, const std::vector<std::vector<int64_t>>& prompts,
                  std::optional<int64_t> max_tokens);

}  // namespace genesis::serving
