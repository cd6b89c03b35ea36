#include "tools/viz/data/measured_data.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "executor/runtime/roofline.h"
#include "schema/messages/human_bytes.h"

namespace genesis::viz {
namespace {

Json peaks_data(const DevicePeaks& peaks) {
  Json rows = Json::array();
  const auto add = [&](const std::string& name, double value, const char* unit) {
    if (value > 0) rows.push_back({{"name", name}, {"value", value}, {"unit", unit}});
  };
  add("products in f32", peaks.f32_gflops, "GFLOP/s");
  add("products in 16 bits", peaks.low_gflops, "GFLOP/s");
  add("memory, copying", peaks.copy_gbps, "GB/s");
  add("memory, reading", peaks.read_gbps, "GB/s");
  for (const CacheSpeed& cache : peaks.caches)
    add("cache of " + human_bytes(cache.bytes), cache.gbps, "GB/s");
  return rows;
}

// Rounds to 0.01 microseconds, which is finer than any of the clocks used.
double rounded(double us) { return std::round(us * 100) / 100; }

constexpr const char* kSpanColumns[] = {"step", "track", "start_us", "end_us"};

void append(Json& columns, const Json& more) {
  for (const Json& value : more) columns.push_back(value);
}

}  // namespace

Json timeline_data(const Timeline& timeline, int64_t rank) {
  Json tracks = Json::array(), spans;
  for (const char* column : kSpanColumns) spans[column] = Json::array();
  double total = 0;
  for (const Timeline::Track& track : timeline.tracks) {
    if (track.spans.empty()) continue;
    for (const Timeline::Span& span : track.spans) {
      spans["step"].push_back(span.step);
      spans["track"].push_back(tracks.size());
      spans["start_us"].push_back(rounded(span.start_us));
      spans["end_us"].push_back(rounded(span.end_us));
      total = std::max(total, span.end_us);
    }
    tracks.push_back({{"name", track.name}, {"rank", rank}});
  }
  return {{"total_us", rounded(total)}, {"tracks", tracks}, {"spans", spans}};
}

Json joined_timelines(const std::vector<Json>& timelines) {
  Json joined = timelines.front();
  for (size_t i = 1; i < timelines.size(); ++i) {
    const Json& one = timelines[i];
    const size_t tracks = joined["tracks"].size();
    joined["total_us"] = std::max(joined["total_us"].get<double>(), one["total_us"].get<double>());
    append(joined["tracks"], one["tracks"]);
    for (const Json& track : one["spans"]["track"])
      joined["spans"]["track"].push_back(tracks + track.get<size_t>());
    for (const char* column : {"step", "start_us", "end_us"})
      append(joined["spans"][column], one["spans"][column]);
  }
  return joined;
}

std::vector<double> step_times(const Timeline& timeline, size_t steps) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  std::vector<double> start(steps, kNever), end(steps, -kNever);
  for (const Timeline::Track& track : timeline.tracks)
    for (const Timeline::Span& span : track.spans) {
      const auto step = static_cast<size_t>(span.step);
      if (step >= steps) continue;
      start[step] = std::min(start[step], span.start_us);
      end[step] = std::max(end[step], span.end_us);
    }
  for (size_t i = 0; i < steps; ++i) end[i] = std::max(0.0, end[i] - start[i]);
  return end;
}

std::vector<double> median_times(const std::vector<std::vector<double>>& runs) {
  std::vector<double> medians;
  for (size_t step = 0; !runs.empty() && step < runs.front().size(); ++step) {
    std::vector<double> times;
    for (const std::vector<double>& run : runs) times.push_back(run[step]);
    std::ranges::sort(times);
    const size_t middle = times.size() / 2;
    medians.push_back(
        rounded(times.size() % 2 == 1 ? times[middle] : (times[middle - 1] + times[middle]) / 2));
  }
  return medians;
}

Json measured_data(const Plan& plan, const Measurement& measured, Tables& tables) {
  const std::vector<double> least = least_microseconds(plan, measured.peaks);
  std::vector<double> start, end, least_us;
  std::vector<int32_t> track, kernel;
  double total = 0;
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    start.push_back(rounded(measured.timings[i].start_us));
    end.push_back(rounded(measured.timings[i].end_us));
    least_us.push_back(rounded(least[i]));
    track.push_back(0);
    kernel.push_back(tables.string(measured.kernels[i]));
    total = std::max(total, end.back());
  }
  // A profile runs one step after another.
  Json data{{"device", measured.device},
            {"runs", measured.runs},
            {"total_us", total},
            {"tracks", Json::array({measured.device + ", one step after the other"})},
            {"steps",
             {{"start_us", start},
              {"end_us", end},
              {"median_us", measured.median_us},
              {"track", track},
              {"kernel", kernel},
              {"least_us", least_us}}},
            {"peaks", peaks_data(measured.peaks)}};
  if (!measured.timeline.is_null()) data["timeline"] = measured.timeline;
  return data;
}

}  // namespace genesis::viz
