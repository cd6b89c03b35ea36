// The numbers of a server, in the text format of Prometheus.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "executor/generation/engine.h"
#include "executor/generation/stopwatch.h"

namespace genesis::serving {

// Counts values by upper bounds, as Prometheus wants them.
class Histogram {
 public:
  explicit Histogram(std::vector<double> bounds) : bounds_(std::move(bounds)), counts_(bounds_.size()) {}
  void add(double value);
  std::string text(const std::string& name, const std::string& help) const;

 private:
  std::vector<double> bounds_;
  std::vector<int64_t> counts_;  // values up to each bound
  int64_t count_ = 0;
  double sum_ = 0;
};

// Any thread may use it.
class Metrics {
 public:
  void count_answer(const std::string& route, int status);
  void count_result(const generation::Result& result);
  void set_load(const generation::Load& load, const generation::Work& work);
  void set_rows(int64_t rows, int64_t positions, int64_t cache_bytes);
  std::string text() const;

 private:
  std::string counters() const;
  std::string work() const;
  std::string gauges() const;

  mutable std::mutex mutex_;
  std::map<std::pair<std::string, int>, int64_t> answers_;  // by route and status
  std::map<std::string, int64_t> results_;                  // by reason of the end
  int64_t prompt_tokens_ = 0, cached_tokens_ = 0, generated_tokens_ = 0;
  int64_t drafted_tokens_ = 0, accepted_tokens_ = 0;
  int64_t rows_ = 0, positions_ = 0, cache_bytes_ = 0;
  generation::Load load_ = {};
  generation::Work work_ = {};
  Histogram first_token_, token_, whole_, queued_;

 public:
  Metrics();
};

}  // namespace genesis::serving
