#include "executor/generation/sampling_states.h"

#include <algorithm>

#include "executor/generation/logit_bias.h"

namespace genesis::generation {
namespace {

using Sizes = std::vector<int64_t>;

class SamplingStates {
 public:
  SamplingStates(Session& session, std::span<const SamplingRow> rows)
      : session_(session),
        rows_(rows),
        count_(std::ssize(rows)),
        each_(count_ == 1 ? Sizes{} : Sizes{count_}) {}

  void set_positions() {
    std::vector<int64_t> tokens, seeds, positions;
    for (const SamplingRow& row : rows_) {
      tokens.push_back(row.token);
      seeds.push_back(row.options ? static_cast<int64_t>(row.options->seed) : 0);
      positions.push_back(row.position);
    }
    set("token", Tensor::of<int64_t>({count_}, tokens));
    seeds.insert(seeds.end(), positions.begin(), positions.end());
    set("rng", Tensor::of<int64_t>(count_ == 1 ? Sizes{2} : Sizes{2, count_}, seeds));
  }

  void set_settings() {
    set_each<float>("temperature", [](const SamplingOptions& o) { return o.temperature; });
    set_each<int64_t>("top_k", [](const SamplingOptions& o) { return o.top_k; });
    set_each<float>("top_p", [](const SamplingOptions& o) { return o.top_p; });
    set_each<float>("min_p", [](const SamplingOptions& o) { return o.min_p; });
  }

  // With several rows, sets which of them are idle, and when others become idle.
  void set_ends() {
    if (count_ == 1) return;
    std::vector<int64_t> remaining, stops;
    for (const SamplingRow& row : rows_) {
      remaining.push_back(row.remaining);
      for (size_t i = 0; i < kStopsOfRow; ++i)
        stops.push_back(row.options && i < row.options->stop_tokens.size() ? row.options->stop_tokens[i]
                                                                           : -1);
    }
    set("remaining", Tensor::of<int64_t>({count_}, remaining));
    set("stops", Tensor::of<int64_t>({count_, kStopsOfRow}, stops));
  }

  void set_penalties(int64_t vocabulary) {
    std::vector<float> penalties;
    const auto add = [&](double SamplingOptions::*penalty) {
      for (const SamplingRow& row : rows_)
        penalties.push_back(static_cast<float>((row.options ? *row.options : SamplingOptions{}).*penalty));
    };
    add(&SamplingOptions::repetition_penalty);
    add(&SamplingOptions::presence_penalty);
    add(&SamplingOptions::frequency_penalty);
    set("penalties", Tensor::of<float>({3, count_}, penalties));
    set_typical();
    set_counts(vocabulary);
    set_bias(vocabulary);
  }

  void set_bias(int64_t vocabulary) {
    const auto size = static_cast<size_t>(vocabulary);
    std::vector<float> bias(rows_.size() * size, 0);
    for (size_t r = 0; r < rows_.size(); ++r)
      if (const SamplingRow& row = rows_[r]; row.options)
        add_logit_bias(*row.options, row.text, row.taken, std::span(bias).subspan(r * size, size));
    set("bias", Tensor::of<float>({count_ * vocabulary}, bias));
  }

 private:
  // Files of older versions have no such state, and no entry point that reads it.
  void set_typical() {
    if (session_.model().find_state("sampling.typical_p") < 0) return;
    std::vector<float> values;
    for (const SamplingRow& row : rows_) {
      const bool is_on = row.options && features_of(*row.options).typical;
      values.push_back(is_on ? static_cast<float>(row.options->typical_p) : 1);
    }
    set("typical_p", Tensor::of<float>({count_}, values));
  }

  void set(const char* name, const Tensor& value) {
    session_.set_state(std::string("sampling.") + name, value);
  }

  template <class T, class Setting>
  void set_each(const char* name, const Setting& setting) {
    static const SamplingOptions greedy = {.temperature = 0};
    std::vector<T> values;
    for (const SamplingRow& row : rows_)
      values.push_back(static_cast<T>(setting(row.options ? *row.options : greedy)));
    set(name, Tensor::of<T>(each_, values));
  }

  void set_counts(int64_t vocabulary) {
    const auto size = static_cast<size_t>(vocabulary);
    std::vector<int32_t> in_prompt(rows_.size() * size, 0), chosen = in_prompt;
    for (size_t r = 0; r < rows_.size(); ++r) {
      const auto& tokens = rows_[r].text;
      const size_t prompt = tokens.size() - static_cast<size_t>(rows_[r].taken);
      for (size_t i = 0; i < tokens.size(); ++i)
        ++(i < prompt ? in_prompt : chosen)[r * size + static_cast<size_t>(tokens[i])];
    }
    const Sizes shape = {count_ * vocabulary};
    set("in_prompt", Tensor::of<int32_t>(shape, in_prompt));
    set("chosen", Tensor::of<int32_t>(shape, chosen));
  }

  Session& session_;
  const std::span<const SamplingRow> rows_;
  const int64_t count_;
  const Sizes each_;
};

}  // namespace

void set_sampling_states(Session& session, std::span<const SamplingRow> rows, int64_t vocabulary,
                         bool penalties) {
  SamplingStates states(session, rows);
  states.set_positions();
  states.set_settings();
  states.set_ends();
  if (penalties) states.set_penalties(vocabulary);
}

void set_sampling_bias(Session& session, std::span<const SamplingRow> rows, int64_t vocabulary) {
  SamplingStates(session, rows).set_bias(vocabulary);
}

void set_sampling_positions(Session& session, std::span<const SamplingRow> rows) {
  SamplingStates states(session, rows);
  states.set_positions();
  states.set_ends();
}

}  // namespace genesis::generation
