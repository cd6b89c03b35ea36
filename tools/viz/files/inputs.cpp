#include "tools/viz/files/inputs.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "models/data/sources.h"
#include "schema/core/error.h"
#include "schema/file/json_text.h"

namespace genesis::viz {
namespace {

using PlainJson = nlohmann::json;

constexpr const char* kMetrics = "`genesis-run train --metrics FILE` writes such lines";
constexpr const char* kProfile = "make a profile with `genesis-run profile FILE --json`";
constexpr const char* kTrace = "`genesis-run profile FILE --trace FILE` writes traces";

// Names an unexpected JSON value for a message: "an object", "a list", "a text".
std::string found(const PlainJson& json) {
  if (json.is_array()) return "a list";
  if (json.is_null()) return "null";
  return json.is_string() ? "a text" : std::string("a") + (json.is_object() ? "n " : " ") + json.type_name();
}
const PlainJson& field(const PlainJson& object, const char* name, const std::string& where,
                       const char* expected, const char* advice) {
  if (!object.is_object()) fail("{}: expected {}, got {}: {}", where, expected, found(object), advice);
  const auto at = object.find(name);
  if (at == object.end())
    fail("{}: expected {}, got an object without '{}': {}", where, expected, name, advice);
  return *at;
}

// Returns a number. If `may_be_null`, null gives NaN, since JSON has no other way to write it.
double number(const PlainJson& value, const char* name, const std::string& where, bool may_be_null,
              const char* advice) {
  if (may_be_null && value.is_null()) return std::nan("");
  if (!value.is_number())
    fail("{}: expected a number as '{}', got {}: {}", where, name, found(value), advice);
  return value.get<double>();
}

void add_row(const PlainJson& row, const std::string& where, Losses& losses) {
  constexpr const char* kExpected = "a JSON object with numbers 'step' and 'loss'";
  const double step = number(field(row, "step", where, kExpected, kMetrics), "step", where, false, kMetrics);
  const double loss = number(field(row, "loss", where, kExpected, kMetrics), "loss", where, true, kMetrics);
  losses.training.steps.push_back(step);
  losses.training.values.push_back(loss);
  const auto evaluated = row.find("evaluation_loss");
  if (evaluated == row.end() || evaluated->is_null()) return;
  losses.evaluation.steps.push_back(step);
  losses.evaluation.values.push_back(number(*evaluated, "evaluation_loss", where, false, kMetrics));
}

PlainJson parse_json(const std::string& path, const char* what, const char* advice) {
  try {
    return parse_json_text(data::read_file(path), path);
  } catch (const Error& problem) {
    fail("{}; it is not a {}: {}", problem.message(), what, advice);
  }
}

std::string text_of(const PlainJson& object, const char* name) {
  const auto at = object.find(name);
  return at != object.end() && at->is_string() ? at->get<std::string>() : "";
}

// Returns a process or track id. Most programs write numbers, and some write texts.
std::string id_of(const PlainJson& event, const char* name) {
  const auto at = event.find(name);
  return at == event.end() ? "" : at->is_string() ? at->get<std::string>() : at->dump();
}

class TraceReader {
 public:
  explicit TraceReader(std::string path) : path_(std::move(path)) {}

  Trace read() {
    const PlainJson json = parse_json(path_, "trace", kTrace);
    const PlainJson& events = json.is_array() ? json
                                              : field(json, "traceEvents", path_ + ": not a trace",
                                                      "an object with a list 'traceEvents'", kTrace);
    if (!events.is_array())
      fail("{}: not a trace: expected a list as 'traceEvents', got {}: {}", path_, found(events), kTrace);
    for (size_t i = 0; i < events.size(); ++i) add(events[i], i);
    return finish();
  }

 private:
  using TrackId = std::pair<std::string, std::string>;  // process, thread

  void add(const PlainJson& event, size_t number) {
    if (!event.is_object())
      fail("{}, event {}: expected an object, got {}: {}", path_, number + 1, found(event), kTrace);
    const std::string kind = text_of(event, "ph"), name = text_of(event, "name"),
                      process = id_of(event, "pid");
    if (kind == "M" && event.contains("args") && event["args"].is_object()) {
      if (name == "process_name") processes_[process] = text_of(event["args"], "name");
      if (name == "thread_name") tracks_[{process, id_of(event, "tid")}] = text_of(event["args"], "name");
    }
    if (kind != "X") return;
    const std::string where = fmt::format("{}, event {}", path_, number + 1);
    constexpr const char* kExpected = "an object with 'ts' and 'dur'";
    const double start = number_of(event, "ts", where, kExpected),
                 took = number_of(event, "dur", where, kExpected);
    const TrackId track{process, id_of(event, "tid")};
    if (!spans_.contains(track)) order_.push_back(track);
    spans_[track].push_back({start, start + std::max(took, 0.0), name, text_of(event, "cat")});
  }

  static double number_of(const PlainJson& event, const char* name, const std::string& where,
                          const char* expected) {
    return number(field(event, name, where, expected, kTrace), name, where, false, kTrace);
  }

  // Returns the tracks in the order of the file.
  Trace finish() {
    Trace trace;
    if (order_.empty()) fail("{} has no steps to draw: {}", path_, kTrace);
    std::set<std::string> shown;
    for (const TrackId& track : order_)
      if (!is_alone(track.first)) shown.insert(track.first);
    for (const TrackId& track : order_) {
      if (!shown.empty() && !shown.contains(track.first)) continue;
      if (trace.tracks.empty()) trace.title = title_of(processes_[track.first], shown.size());
      trace.tracks.push_back({track_name(track, shown.size() > 1), std::move(spans_[track])});
    }
    return trace;
  }

  bool is_alone(const std::string& process) {
    return processes_[process].ends_with("one step after the other");
  }

  static std::string title_of(const std::string& process, size_t processes) {
    return processes < 2 ? process
                         : fmt::format("{}, {} ranks", process.substr(0, process.rfind(", ")), processes);
  }

  // Names a track. Of a process called "train_step on cuda:0, rank 1" it uses only the end.
  std::string track_name(const TrackId& track, bool with_process) {
    const std::string& process = processes_[track.first];
    std::string name = tracks_.contains(track) ? tracks_[track] : track.second;
    if (!with_process) return name;
    const size_t comma = process.rfind(", ");
    return (comma == std::string::npos ? process : process.substr(comma + 2)) + ", " + name;
  }

  const std::string path_;
  std::map<std::string, std::string> processes_;
  std::map<TrackId, std::string> tracks_;
  std::map<TrackId, std::vector<Trace::Span>> spans_;
  std::vector<TrackId> order_;
};

}  // namespace

Losses read_losses(const std::string& path) {
  Losses losses;
  std::istringstream in(data::read_file(path));
  int64_t number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const PlainJson row = try_parse_json_text(line);
    if (row.is_discarded() && in.eof()) break;
    const std::string where = fmt::format("{}, line {}", path, number);
    if (row.is_discarded()) fail("{}: expected a JSON object, this line is not JSON: {}", where, kMetrics);
    add_row(row, where, losses);
  }
  if (losses.training.steps.empty()) fail("{} has no steps to draw: {}", path, kMetrics);
  return losses;
}

std::map<std::string, double> read_times(const std::string& path) {
  const PlainJson json = parse_json(path, "profile", kProfile);
  const PlainJson& rows =
      field(json, "rows", path + ": not a profile", "an object with a list 'rows'", kProfile);
  if (!rows.is_array())
    fail("{}: not a profile: expected a list as 'rows', got {}: {}", path, found(rows), kProfile);
  std::map<std::string, double> times;
  for (size_t i = 0; i < rows.size(); ++i) {
    constexpr const char* kExpected = "an object with 'name' and 'us'";
    const std::string where = fmt::format("{}, row {} of 'rows'", path, i + 1);
    const PlainJson& name = field(rows[i], "name", where, kExpected, kProfile);
    if (!name.is_string()) fail("{}: expected a text as 'name', got {}: {}", where, found(name), kProfile);
    times[name.get<std::string>()] +=
        number(field(rows[i], "us", where, kExpected, kProfile), "us", where, false, kProfile);
  }
  return times;
}

Trace read_trace(const std::string& path) { return TraceReader(path).read(); }

}  // namespace genesis::viz
