// Serves a live page of training runs: the page itself, and new rows of their metrics.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

namespace genesis::viz {

struct WatchOptions {
  std::filesystem::path path;  // a metrics.jsonl, or a folder of runs
  int port = 0;                // 0: any free port
};

// Runs until the process ends. `on_ready` gets the page's address. Throws Error if there are no metrics or the port
// is taken.
[[noreturn]] void watch(const WatchOptions& options,
                        const std::function<void(const std::string& url)>& on_ready);

}  // namespace genesis::viz
