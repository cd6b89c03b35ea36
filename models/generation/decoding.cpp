#include "models/generation/decoding.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "models/generation/sampling_states.h"

namespace genesis::text {
namespace {

TokenLogprob logprob_of(const NamedTensors& outputs, size_t row, int64_t token, int64_t count) {
  TokenLogprob chosen{token, static_cast<double>(outputs.at("logprob").as<float>()[row]), {}};
  const Tensor &tokens = outputs.at("top_tokens"), &logprobs = outputs.at("top_logprobs");
  const auto width = static_cast<size_t>(tokens.type().shape[1].value());
  for (size_t i = 0; i < std::min(static_cast<size_t>(count), width); ++i)
    chosen.top.push_back({tokens.as<int64_t>()[row * width + i],
                          static_cast<double>(logprobs.as<float>()[row * width + i]),
                          {}});
  return chosen;
}

}  // namespace

bool Decoding::goes_on() const { return std::ranges::any_of(rows_, &Row::goes_on); }

SamplingFeatures Decoding::features() const {
  SamplingFeatures all;
  for (const Row& row : rows_) {
    if (!row.goes_on()) continue;
    const SamplingFeatures own = features_of(row.answer->options());
    all.penalties |= own.penalties;
    all.logprobs |= own.logprobs;
  }
  return all;
}

void Decoding::begin(First first) {
  first_ = std::move(first);
  decode_ = decode_name(features());
  std::vector<SamplingRow> rows;
  for (const Row& row : rows_) {
    SamplingRow& each = rows.emplace_back(row.text.tokens, row.text.cached);
    if (!row.goes_on()) continue;
    each.options = &row.answer->options();
    each.taken = row.answer->taken();
    each.remaining = row.answer->remaining();
  }
  set_sampling_states(session_, rows, vocabulary_, features().penalties);
}

// Adds the positions to an error of the step. A device may report it when the step is started or when its result is taken.
template <class Body>
void Decoding::naming_positions(const Step& step, const Body& body) const {
  with_context(body, [&] {
    const auto& at = step.positions;
    return at.size() == 1 ? fmt::format("while the token at position {} was chosen", at[0])
                          : fmt::format("while the tokens at positions {} were chosen", fmt::join(at, ", "));
  });
}

// Starts a step. Returns false if every token that the rows still want is already under way.
bool Decoding::start() {
  Step step;
  const auto ahead = static_cast<int64_t>(under_way_.size());
  for (size_t r = 0; r < rows_.size(); ++r) {
    const Row& row = rows_[r];
    if (!row.goes_on() || row.answer->remaining() <= ahead) continue;
    step.rows.push_back(r);
    step.positions.push_back(row.text.size() + ahead);
  }
  if (step.rows.empty()) return false;
  const First first = std::exchange(first_, {});
  naming_positions(step, [&] { session_.start(first.entry.empty() ? decode_ : first.entry, first.inputs); });
  under_way_.push_back(std::move(step));
  return true;
}

// Takes the tokens of the oldest step under way. A row that has ended in the meantime ignores its token.
void Decoding::take() {
  const Step step = std::move(under_way_.front());
  under_way_.pop_front();
  NamedTensors outputs;
  naming_positions(step, [&] { outputs = session_.result(); });
  const auto tokens = outputs.at("token").as<int64_t>();
  for (const size_t r : step.rows) {
    if (!rows_[r].goes_on()) continue;
    Answer& answer = *rows_[r].answer;
    if (answer.options().logprobs)
      answer.add_logprob(logprob_of(outputs, r, tokens[r], answer.options().top_logprobs));
    answer.take(tokens[r]);
  }
}

bool Decoding::step() {
  const size_t wanted = runs_ahead_ ? 2 : 1;
  while (under_way_.size() < wanted && start()) {
  }
  if (under_way_.empty()) return false;
  take();
  return true;
}

void Decoding::drain() {
  while (!under_way_.empty()) take();
}

// Discards the steps under way. A superfluous step has only written to the cache behind the texts, where the next prompts go, and
// counted its tokens; the next call of begin() counts them anew.
void Decoding::forget() {
  for (; !under_way_.empty(); under_way_.pop_front()) try {
      session_.result();
    } catch (const Error&) {  // the outcome of the step does not matter
    }
}

}  // namespace genesis::text
