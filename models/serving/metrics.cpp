#include "models/serving/metrics.h"

#include <fmt/core.h>
#include <unistd.h>

#include <fstream>

namespace genesis::serving {
namespace {

// Seconds.
const std::vector<double> kWaits = {0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120};
const std::vector<double> kTokens = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1};

std::string head(const std::string& name, const char* kind, const std::string& help) {
  return fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, kind);
}

std::string single(const std::string& name, const char* kind, const std::string& help, int64_t value) {
  return head(name, kind, help) + fmt::format("{} {}\n", name, value);
}

// Writes the runs and their seconds by the size that each class has at most.
std::string times(const std::string& name, const std::string& what, const char* label,
                  const generation::RunTimes& runs) {
  std::string counts = head(name + "_runs_total", "counter", what + "."),
              seconds = head(name + "_run_seconds_total", "counter", "Seconds of: " + what + ".");
  for (size_t i = 0; i < runs.classes().size(); ++i) {
    const auto& [count, sum] = runs.classes()[i];
    if (count == 0) continue;
    const std::string labels = fmt::format("{{{}=\"{}\"}}", label, uint64_t{1} << i);
    counts += fmt::format("{}_runs_total{} {}\n", name, labels, count);
    seconds += fmt::format("{}_run_seconds_total{} {}\n", name, labels, sum);
  }
  return counts + seconds;
}

int64_t resident_bytes() {
  std::ifstream in("/proc/self/statm");
  int64_t size = 0, resident = 0;
  in >> size >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

}  // namespace

void Histogram::add(double value) {
  for (size_t i = 0; i < bounds_.size(); ++i) counts_[i] += value <= bounds_[i];
  ++count_;
  sum_ += value;
}

std::string Histogram::text(const std::string& name, const std::string& help) const {
  std::string text = head(name, "histogram", help);
  for (size_t i = 0; i < bounds_.size(); ++i)
    text += fmt::format("{}_bucket{{le=\"{}\"}} {}\n", name, bounds_[i], counts_[i]);
  return text +
         fmt::format("{0}_bucket{{le=\"+Inf\"}} {1}\n{0}_sum {2}\n{0}_count {1}\n", name, count_, sum_);
}

Metrics::Metrics() : first_token_(kWaits), token_(kTokens), whole_(kWaits), queued_(kWaits) {}

void Metrics::count_answer(const std::string& route, int status) {
  const std::lock_guard lock(mutex_);
  ++answers_[{route, status}];
}

void Metrics::count_result(const generation::Result& result) {
  const std::lock_guard lock(mutex_);
  const int64_t tokens = std::ssize(result.tokens);
  ++results_[std::string(name_of(result.finish_reason))];
  prompt_tokens_ += result.prefilled + result.cached;
  cached_tokens_ += result.cached;
  drafted_tokens_ += result.drafted;
  accepted_tokens_ += result.accepted;
  generated_tokens_ += tokens;
  queued_.add(result.queued_seconds);
  const double first = result.queued_seconds + result.compile_seconds + result.prefill_seconds;
  if (tokens > 0) first_token_.add(first);
  if (tokens > 1) token_.add(result.decode_seconds / static_cast<double>(tokens - 1));
  whole_.add(first + result.decode_seconds);
}

void Metrics::set_load(const generation::Load& load, const generation::Work& work) {
  const std::lock_guard lock(mutex_);
  load_ = load;
  work_ = work;
}

void Metrics::set_rows(int64_t rows, int64_t positions, int64_t cache_bytes) {
  const std::lock_guard lock(mutex_);
  rows_ = rows;
  positions_ = positions;
  cache_bytes_ = cache_bytes;
}

std::string Metrics::counters() const {
  std::string text = head("genesis_http_answers_total", "counter", "Answers by route and HTTP status.");
  for (const auto& [key, count] : answers_)
    text += fmt::format("genesis_http_answers_total{{route=\"{}\",status=\"{}\"}} {}\n", key.first,
                        key.second, count);
  text += head("genesis_texts_total", "counter", "Texts that have ended, by the reason of their end.");
  for (const auto& [reason, count] : results_)
    text += fmt::format("genesis_texts_total{{reason=\"{}\"}} {}\n", reason, count);
  return text + single("genesis_prompt_tokens_total", "counter", "Tokens of prompts.", prompt_tokens_) +
         single("genesis_cached_tokens_total", "counter", "Tokens of prompts that the cache held already.",
                cached_tokens_) +
         single("genesis_generated_tokens_total", "counter", "Tokens that were chosen.", generated_tokens_) +
         single("genesis_drafted_tokens_total", "counter", "Tokens that were drafted.", drafted_tokens_) +
         single("genesis_accepted_tokens_total", "counter", "Drafted tokens that were chosen.",
                accepted_tokens_);
}

std::string Metrics::work() const {
  return times("genesis_prompt", "runs that read prompts, by their tokens and padding at most", "tokens",
               work_.prompts) +
         times("genesis_step", "steps that chose tokens, by the rows that they computed at most", "rows",
               work_.steps) +
         head("genesis_engine_seconds_total", "counter",
              "Seconds in which the engine has worked, plans included.") +
         fmt::format("genesis_engine_seconds_total {}\n", work_.seconds);
}

std::string Metrics::gauges() const {
  return single("genesis_texts_waiting", "gauge", "Texts that wait for a row of the cache.", load_.queued) +
         single("genesis_texts_reading", "gauge", "Texts whose prompt is read.", load_.reading) +
         single("genesis_texts_writing", "gauge", "Texts for which tokens are chosen.", load_.decoding) +
         single("genesis_step_rows", "gauge", "Rows of the cache that a step computes.", load_.step_rows) +
         single("genesis_cache_rows", "gauge", "Texts that the cache holds.", rows_) +
         single("genesis_cache_positions", "gauge", "Tokens of a row of the cache.", positions_) +
         single("genesis_cache_bytes", "gauge", "Size of the cache.", cache_bytes_) +
         single("genesis_cache_used_bytes", "gauge",
                "Memory of the cache that texts have; 0 without --memory.", load_.cache_bytes) +
         single("genesis_prefix_bytes", "gauge",
                "Memory of what is kept of earlier prompts; 0 without --prefix-cache.", load_.prefix_bytes) +
         single("genesis_resident_bytes", "gauge", "Memory of the process.", resident_bytes());
}

std::string Metrics::text() const {
  const std::lock_guard lock(mutex_);
  return counters() + work() + gauges() +
         queued_.text("genesis_queue_seconds", "Time until a text gets a row of the cache.") +
         first_token_.text("genesis_first_token_seconds", "Time to the first token.") +
         token_.text("genesis_token_seconds",
                     "Time of each token behind the first, averaged over its text.") +
         whole_.text("genesis_text_seconds", "Time of a whole text.");
}

}  // namespace genesis::serving
