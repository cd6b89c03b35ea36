// The settings that choose a token, by name: "top_k" as in generation_config.json. Its flag is --top-k.
#pragma once

#include <string>
#include <vector>

#include "models/text/generate_settings.h"
#include "schema/core/number_range.h"

namespace genesis::text {

// Calls visit(name, field of the options, field of the settings, range, value that changes nothing, help) for each setting. For
// the seed there is no such value, so -1 stands there.
template <class Visit>
void visit_sampling(Visit&& visit) {
  using Options = GenerateOptions;
  using Settings = GenerateSettings;
  visit("temperature", &Options::temperature, &Settings::temperature, Range<double>{0, 1e6}, 1.0,
        "0: always the likeliest token");
  visit("top_k", &Options::top_k, &Settings::top_k, at_least<int64_t>(0), 0,
        "choose among the k likeliest; 0: off");
  visit("top_p", &Options::top_p, &Settings::top_p, Range<double>{0, 1, true}, 1.0,
        "choose among the likeliest that make up p; 1: off");
  visit("min_p", &Options::min_p, &Settings::min_p, Range<double>{0, 1}, 0.0,
        "choose among those whose probability is p times the likeliest's or more; 0: off");
  visit("typical_p", &Options::typical_p, &Settings::typical_p, Range<double>{0, 1, true}, 1.0,
        "choose among those whose surprise is the nearest to the expected one and that make up p; 1: off");
  visit("repetition_penalty", &Options::repetition_penalty, &Settings::repetition_penalty,
        Range<double>{0, 1e6, true}, 1.0,
        "logits of tokens of the text so far are divided by it, or multiplied below 0; 1: off");
  visit("presence_penalty", &Options::presence_penalty, &Settings::presence_penalty, Range<double>{-100, 100},
        0.0, "subtracted from the logits of tokens that were written already; 0: off");
  visit("frequency_penalty", &Options::frequency_penalty, &Settings::frequency_penalty,
        Range<double>{-100, 100}, 0.0, "the same for every time that a token was written; 0: off");
  visit("no_repeat_ngram_size", &Options::no_repeat_ngram_size, &Settings::no_repeat_ngram_size,
        at_least<int64_t>(0), 0, "no sequence of this many tokens occurs twice, prompt included; 0: off");
  visit("min_tokens", &Options::min_tokens, &Settings::min_tokens, at_least<int64_t>(0), 0,
        "stop tokens are not chosen before there are this many tokens; 0: off");
  visit("seed", &Options::seed, &Settings::seed, Range<uint64_t>{}, -1, "seed of the choices");
}

struct SamplingSetting {
  std::string name, text;  // text: its value
  bool is_off;             // true: the value changes nothing
};

// Returns the settings in the order of the rows.
std::vector<SamplingSetting> sampling_settings(const GenerateOptions& options);
// Sets one setting from text. The name may be "top_k", "top-k" or "--top-k"; "max_tokens" is a setting here too.
// Throws Error with the name if there is no such setting or the value is out of range.
void set_sampling(GenerateOptions& options, const std::string& name, const std::string& value);
// Returns "top_k" for "--top-k".
std::string setting_name(const std::string& flag);

}  // namespace genesis::text
