#include "tools/viz/serve/watch.h"

#include "schema/core/error.h"
#include "tools/viz/data/page_data.h"
#include "tools/viz/files/training_data.h"
#include "tools/viz/page_file.h"
#include "tools/viz/serve/http_server.h"

namespace genesis::viz {
namespace {

constexpr int kIntervalMilliseconds = 2000;
constexpr size_t kMaxRows = 10000;  // rows per answer; a page that is behind asks again at once

class LiveRuns {
 public:
  LiveRuns(const std::filesystem::path& path, std::string token)
      : path_(path), root_("/" + std::move(token)) {
    for (const auto& file : metrics_files(path)) runs_.emplace_back(file);
    for (MetricsTail& run : runs_) run.update();
  }

  std::optional<HttpAnswer> answer(std::string_view path, std::string_view query) {
    if (path == root_ || path == root_ + "/") {
      std::string html = page();
      std::string policy = content_security_policy(html);
      return HttpAnswer{"text/html; charset=utf-8", std::move(html), std::move(policy)};
    }
    if (path == root_ + "/rows") return HttpAnswer{"application/json", data_text(rows(query))};
    return std::nullopt;
  }

 private:
  std::string page() {
    PageParts parts{.title = path_.string(), .view = "training"};
    for (MetricsTail& run : runs_) {
      run.update();
      parts.runs.push_back(run.run_data());
    }
    parts.live = {{"path", root_}, {"interval_ms", kIntervalMilliseconds}};
    return page_html(page_data(std::move(parts), Tables({})), true);
  }

  // `reset` says that the page's rows are of another run, so the rows sent are the first ones.
  Json rows(std::string_view query) {
    const size_t number = number_in(query, "run").value_or(0);
    if (number >= runs_.size()) fail("there is no run {}: there are {}", number, runs_.size());
    MetricsTail& run = runs_[number];
    run.update();
    const size_t from = number_in(query, "from").value_or(0);
    const bool reset =
        from > run.rows() || number_in(query, "generation").value_or(run.generation()) != run.generation();
    Json json{{"rows", Json::array()}, {"reset", reset}, {"generation", run.generation()}};
    size_t at = reset ? 0 : from;
    for (; at < run.rows() && json["rows"].size() < kMaxRows; ++at) json["rows"].push_back(run.row(at));
    json["next"] = at;
    return json;
  }

  const std::filesystem::path path_;
  const std::string root_;
  std::vector<MetricsTail> runs_;
};

}  // namespace

void watch(const WatchOptions& options, const std::function<void(const std::string& url)>& on_ready) {
  const std::string token = random_token();
  LiveRuns runs(options.path, token);
  HttpServer server(options.port);
  on_ready(fmt::format("http://127.0.0.1:{}/{}/", server.port(), token));
  server.serve([&](std::string_view path, std::string_view query) { return runs.answer(path, query); });
}

}  // namespace genesis::viz
