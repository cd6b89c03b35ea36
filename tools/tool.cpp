#include "tools/tool.h"

#include <fmt/ranges.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <map>
#include <set>

#include "executor/environment.h"
#include "passes/bind.h"

namespace genesis::tools {
namespace {

void set_up_logging(const std::string& name) {
  auto logger = spdlog::stderr_color_mt(name);
  logger->set_pattern("%n: %^%l%$: %v");
  spdlog::set_default_logger(logger);
  const std::string& level = environment().log_level;
  const char* known[] = {"trace", "debug", "info", "warn", "error", "off"};
  if (std::find(std::begin(known), std::end(known), level) == std::end(known))
    fail("GENESIS_LOG is '{}', expected one of: {}", level, fmt::join(known, ", "));
  spdlog::set_level(spdlog::level::from_str(level));
}

std::string one_line(std::string message) {
  for (char& c : message)  // names from a file may hold anything, a terminal's commands too
    if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') c = ' ';
  return message;
}

}  // namespace

int run_tool(int argc, char** argv, const std::string& name, const std::string& what,
             const std::string& examples, const std::function<void(CLI::App&)>& body) {
  std::signal(SIGPIPE, SIG_DFL);  // `genesis-run info f | head` ends quietly
  std::signal(SIGXFSZ, SIG_IGN);  // a file that grows too large is an error to name, not a death
  CLI::App app{what, name};
  app.footer(examples);
  app.set_version_flag("--version", std::string(GENESIS_VERSION));
  try {
    set_up_logging(name);
    body(app);
    app.parse(argc, argv);
    if (!std::cout.flush()) fail("the output could not be written: is the disk full?");
    return 0;
  } catch (const CLI::RuntimeError& error) {  // said already what there is to say
    return error.get_exit_code();
  } catch (const CLI::ParseError& error) {
    return app.exit(error, std::cout, std::cerr) == 0 ? 0 : 2;
  } catch (const Error& error) {
    std::cerr << name << ": error: " << one_line(error.message()) << "\n";
  } catch (const std::bad_alloc&) {
    std::cerr << name << ": error: out of memory: use smaller sizes or a machine with more memory\n";
  } catch (const std::exception& error) {
    std::cerr << name << ": error: " << one_line(error.what()) << "\n";
  }
  return 1;
}

void RunFlags::add_to(CLI::App& app) {
  app.add_option("--device", device, "where to run: cpu, cuda or cuda:N")->capture_default_str();
  app.add_option("--threads", threads, "number of threads; 0: all cores")->capture_default_str();
  app.add_flag("--no-optimise,--no-optimize", no_optimise, "run the graph as it is in the file");
  app.add_option("--disable", disable, "passes to leave out, by name (see genesis-opt --list-passes)")
      ->delimiter(',');
  app.add_flag("--find-nonfinite", find_nonfinite,
               "stop at the first node that gives a NaN or makes an infinity of finite numbers, and name it");
  memory.add_to(app);
}

void BudgetFlags::add_to(CLI::App& app) {
  app.add_option("--memory-budget", budget,
                 "bytes that the arena of a training step may take (500MB, 8GiB); values that do not fit are "
                 "computed again");
  app.add_flag("--remat", remat, "compute values again wherever that lowers the memory of a training step");
}

std::optional<int64_t> BudgetFlags::bytes() const {
  if (budget.empty()) return remat ? std::optional<int64_t>(0) : std::nullopt;
  double number = 0;
  const char* end = budget.data() + budget.size();
  const auto [stop, error] = std::from_chars(budget.data(), end, number);
  static const std::map<std::string_view, double> kUnits = {
      {"", 1},         {"B", 1},      {"KB", 1e3},     {"MB", 1e6},   {"GB", 1e9},    {"K", 0x1p10},
      {"KiB", 0x1p10}, {"M", 0x1p20}, {"MiB", 0x1p20}, {"G", 0x1p30}, {"GiB", 0x1p30}};
  const auto unit = kUnits.find(std::string_view(stop, static_cast<size_t>(end - stop)));
  if (error != std::errc() || unit == kUnits.end() || !(number > 0) || number * unit->second >= 0x1p62)
    fail("--memory-budget {}: expected a number of bytes such as 500MB or 8GiB", budget);
  return static_cast<int64_t>(number * unit->second);
}

SessionOptions RunFlags::session_options() const {
  SessionOptions options;
  options.device = device;
  options.threads = threads;
  options.optimise = !no_optimise;
  options.disabled_passes.insert(disable.begin(), disable.end());
  options.find_nonfinite = find_nonfinite;
  options.memory_budget = memory.bytes();
  return options;
}

Bindings parse_sizes(const std::vector<std::string>& sizes) {
  Bindings bindings;
  for (const std::string& text : sizes) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0) fail("--size {}: expected SYMBOL=SIZE", text);
    int64_t size = 0;
    const char *begin = text.data() + equals + 1, *end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(begin, end, size);
    if (error != std::errc() || stop != end || size < 0)
      fail("--size {}: expected SYMBOL=SIZE, where SIZE is a whole number and not negative", text);
    if (!bindings.emplace(text.substr(0, equals), size).second)
      fail("--size {}: '{}' is given twice", text, text.substr(0, equals));
  }
  return bindings;
}

void check_sizes_exist(const Model& model, const Bindings& sizes) {
  std::set<std::string> known;
  for (const auto& entry : model.entries())
    for (const std::string& symbol : passes::symbols_of(*entry)) known.insert(symbol);
  for (const auto& [symbol, size] : sizes)
    if (!known.contains(symbol))
      fail("--size {}={}: no entry point has such a size; they have: {}", symbol, size,
           known.empty() ? "none" : fmt::format("{}", fmt::join(known, ", ")));
}

void check_sizes_known(const Graph& entry, const Bindings& sizes) {
  std::string missing;
  for (const std::string& symbol : passes::symbols_of(entry))
    if (!sizes.contains(symbol)) missing += " --size " + symbol + "=N";
  if (!missing.empty())
    fail("entry point '{}' has sizes that are not known yet: give{}", entry.name(), missing);
}

void check_can_write(const std::string& path) {
  namespace fs = std::filesystem;
  if (path.empty()) return;
  std::error_code error;
  const fs::path folder = fs::path(path).has_parent_path() ? fs::path(path).parent_path() : fs::path(".");
  if (fs::is_directory(path, error)) fail("cannot write '{}': it is a folder, give a file name", path);
  if (!fs::is_directory(folder, error))
    fail("cannot write '{}': there is no folder '{}': make it first", path, folder.string());
  if (::access(folder.c_str(), W_OK | X_OK) != 0)
    fail("cannot write '{}': folder '{}': {}", path, folder.string(), std::strerror(errno));
}

void Output::print(const nlohmann::ordered_json& object, const std::function<void()>& text) const {
  if (json)
    std::cout << object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << std::endl;
  else
    text();
}

nlohmann::ordered_json peaks_json(const DevicePeaks& peaks) {
  return {{"f32_gflops", peaks.f32_gflops}, {"low_gflops", peaks.low_gflops}, {"copy_gbps", peaks.copy_gbps}};
}

std::string human_bytes(double bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  int unit = 0;
  for (; bytes >= 1024 && unit < 4; ++unit) bytes /= 1024;
  return unit == 0 ? fmt::format("{:.0f} B", bytes) : fmt::format("{:.2f} {}", bytes, kUnits[unit]);
}

std::string human_count(double count) {
  static constexpr const char* kUnits[] = {"", " k", " M", " G", " T"};
  int unit = 0;
  for (; count >= 1000 && unit < 4; ++unit) count /= 1000;
  return unit == 0 ? fmt::format("{:.0f}", count) : fmt::format("{:.2f}{}", count, kUnits[unit]);
}

std::string human_seconds(double seconds) {
  const auto whole = static_cast<int64_t>(seconds + 0.5);
  if (whole < 60) return fmt::format("{}s", whole);
  if (whole < 3600) return fmt::format("{}m{:02}s", whole / 60, whole % 60);
  return fmt::format("{}h{:02}m", whole / 3600, whole / 60 % 60);
}

}  // namespace genesis::tools
