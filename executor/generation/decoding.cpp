#include "executor/generation/decoding.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "executor/generation/logit_bias.h"
#include "schema/messages/log.h"

namespace genesis::generation {
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

std::exception_ptr error_of_row(const std::exception_ptr& error, const Row& row) {
  try {
    std::rethrow_exception(error);
  } catch (const Error& of_step) {
    Error own(of_step.message());
    own.add_context(fmt::format("this text has such logits behind its first {} tokens",
                                row.goes_on() ? row.text->size() : row.text->cached + 1));
    return std::make_exception_ptr(own);
  }
}

StepRows::StepRows(const Session& session, size_t rows, bool only_all) : sizes_({rows}) {
  const std::string entry = decode_name({});
  for (size_t half = rows / 2; half > 1 && !only_all; half /= 2)
    if (session.has_entry(entry + first_rows_suffix(static_cast<int64_t>(half)))) sizes_.push_back(half);
  std::ranges::reverse(sizes_);
}

size_t StepRows::at_least(size_t count) const { return *std::ranges::lower_bound(sizes_, count); }

std::string StepRows::entry(const std::string& entry, size_t rows) const {
  return rows == sizes_.back() ? entry : entry + first_rows_suffix(static_cast<int64_t>(rows));
}

bool Decoding::goes_on() const { return std::ranges::any_of(rows_, &Row::goes_on); }

SamplingFeatures Decoding::features() const {
  SamplingFeatures all;
  for (const Row& row : rows_) {
    if (!row.goes_on()) continue;
    const SamplingFeatures own = features_of(row.task->options());
    all.penalties |= own.penalties;
    all.logprobs |= own.logprobs;
    all.typical |= own.typical;
  }
  return all;
}

// An idle row reads a token whose position nothing is lost at: the next one to be read while its prompt is read in chunks, which
// the next chunk overwrites; the last one of a text that may be continued, which the cache has already.
std::vector<SamplingRow> Decoding::sampling_rows(size_t count) const {
  std::vector<SamplingRow> rows;
  for (const Row& row : std::span(rows_).first(count)) {
    const Text& text = *row.text;
    SamplingRow& each = rows.emplace_back(text.tokens);
    const bool goes_on = row.goes_on(), is_reading = row.is_reading();
    each.position = goes_on      ? text.size() - 1
                    : is_reading ? text.cached
                                 : std::max<int64_t>(idles_at_begin_ ? 0 : text.cached - 1, 0);
    if (goes_on || is_reading || text.cached > 0)
      each.token = text.tokens[static_cast<size_t>(each.position)];
    if (!goes_on) continue;
    each.options = &row.task->options();
    each.taken = row.task->taken();
    each.remaining = row.task->remaining();
  }
  return rows;
}

// Returns the rows of steps that have all rows that go on.
size_t Decoding::wanted_size() const {
  size_t end = 1;
  for (size_t r = 0; r < rows_.size(); ++r)
    if (rows_[r].goes_on()) end = r + 1;
  return step_rows_.at_least(end);
}

bool Decoding::can_shrink() const {
  const size_t busy = busy_rows(rows_);
  return busy > 0 && busy < busy_ && step_rows_.at_least(busy) < size_;
}

bool Decoding::shrink(CacheRows& rows, CacheBudget& budget) {
  busy_ = busy_rows(rows_);
  if (busy_ == 0) return false;
  bool has_moved = true;
  try {
    has_moved = move_to_first_rows(rows, budget, step_rows_.at_least(busy_));
  } catch (const Error& error) {
    log_debug("texts stay in their rows: {}", error.message());
  }
  return has_moved || (goes_on() && wanted_size() != size_);
}

void Decoding::begin(First first) {
  first_ = std::move(first);
  size_ = wanted_size();
  decode_ = entry();
  has_old_positions_ = has_old_bias_ = false;
  set_rows_ = std::ranges::count_if(rows_, &Row::goes_on);
  set_sampling_states(session_, sampling_rows(size_), vocabulary_, features().penalties);
}

void Decoding::continue_beside_reading() { has_old_positions_ = true; }

// Returns true if biases differ from token to token: then each step waits for the tokens of the one before.
bool Decoding::follows_text() const {
  return std::ranges::any_of(
      rows_, [](const Row& row) { return row.goes_on() && bias_follows_text(row.task->options()); });
}

// Returns true if so many rows have ended since positions were set that steps would read their caches for longer than it takes to
// send them to the beginning of their texts, for which the device must rest.
bool Decoding::has_ended_rows() const {
  constexpr ptrdiff_t kShare = 32;
  if (!idles_at_begin_ || !first_.entry.empty()) return false;
  const ptrdiff_t ended = set_rows_ - std::ranges::count_if(rows_, &Row::goes_on);
  return ended > 0 && ended * kShare >= size();
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
    if (!row.goes_on() || row.task->remaining() <= ahead) continue;
    step.rows.push_back(r);
    step.positions.push_back(row.text->size() + ahead);
  }
  if (step.rows.empty()) return false;
  {
    const Stopwatch watch(step.seconds);
    launch(step);
  }
  under_way_.push_back(std::move(step));
  return true;
}

void Decoding::launch(Step& step) {
  if (std::exchange(has_old_positions_, false)) {
    set_rows_ = std::ranges::count_if(rows_, &Row::goes_on);
    set_sampling_positions(session_, sampling_rows(size_));
  }
  if (std::exchange(has_old_bias_, false)) set_sampling_bias(session_, sampling_rows(size_), vocabulary_);
  const First first = std::exchange(first_, {});
  const bool reads_prompt = !first.entry.empty();
  step.times = reads_prompt ? &work_.prompts : &work_.steps;
  step.size = reads_prompt ? first.inputs.at("tokens").numel() : size();
  naming_positions(step, [&] { session_.start(reads_prompt ? first.entry : decode_, first.inputs); });
}

void Decoding::take() {
  const Step step = std::move(under_way_.front());
  under_way_.pop_front();
  step.times->measure(
      step.size, [&] { take(step); }, step.seconds);
}

// Takes the tokens of a step. A row that has ended in the meantime ignores its token.
void Decoding::take(const Step& step) {
  NamedTensors outputs;
  naming_positions(step, [&] { outputs = session_.result(); });
  const auto tokens = outputs.at("token").as<int64_t>();
  for (const size_t r : step.rows) {
    if (!rows_[r].goes_on()) continue;
    Task& task = *rows_[r].task;
    if (task.options().logprobs)
      task.add_logprob(logprob_of(outputs, r, tokens[r], task.options().top_logprobs));
    task.take(tokens[r]);
    task.count_step();
  }
  has_old_bias_ = follows_text();
}

// Penalties, biases and log-probabilities have no place in the runs that verify drafts.
bool Decoding::speculate() {
  if (!speculation_ || !under_way_.empty() || !first_.entry.empty() || !(features() == SamplingFeatures{}))
    return false;
  double seconds = 0;
  {
    const Stopwatch watch(seconds);
    if (!speculation_->step()) return false;
  }
  work_.steps.measure(
      size(), [] {}, seconds);
  has_old_positions_ = true;
  return true;
}

// Starts the steps that may be under way. Returns false if there is none.
bool Decoding::start_steps() {
  if (has_ended_rows()) {
    if (!under_way_.empty()) return true;  // the step that is under way ends first
    has_old_positions_ = true;
  }
  const size_t wanted = runs_ahead_ && !follows_text() ? 2 : 1;
  try {
    while (under_way_.size() < wanted && start()) {
    }
  } catch (const Error&) {
    drain_before(std::current_exception());
  }
  return !under_way_.empty();
}

bool Decoding::step() {
  if (speculate()) return true;
  if (!start_steps()) return false;
  take();
  return true;
}

// Takes the tokens of the steps before the one that failed, and throws its error.
void Decoding::drain_before(const std::exception_ptr& error) {
  try {
    drain();
  } catch (const Error&) {  // the first error says more
    forget();
  }
  std::rethrow_exception(error);
}

void Decoding::drain() {
  while (!under_way_.empty()) take();
}

void Decoding::forget() {
  for (; !under_way_.empty(); under_way_.pop_front()) try {
      session_.result();
    } catch (const Error&) {  // the outcome of the step does not matter
    }
}

std::vector<size_t> Decoding::rows_of_nan() {
  std::vector<int64_t> tokens, positions;
  for (const SamplingRow& row : sampling_rows(rows_.size())) {
    tokens.push_back(row.token);
    positions.push_back(row.position);
  }
  const int64_t count = std::ssize(tokens);
  const std::vector<double> logits =
      session_
          .run("decode", {{"tokens", Tensor::of<int64_t>({count, 1}, tokens)},
                          {"position", Tensor::of<int64_t>({count}, positions)}})
          .at("logits")
          .to_doubles();
  std::vector<size_t> rows;
  const auto width = logits.size() / tokens.size();
  for (size_t r = 0; r < tokens.size(); ++r) {
    const auto begin = logits.begin() + static_cast<std::ptrdiff_t>(r * width);
    if (std::any_of(begin, begin + static_cast<std::ptrdiff_t>(width),
                    [](double x) { return std::isnan(x); }))
      rows.push_back(r);
  }
  return rows;
}

}  // namespace genesis::generation
