#include "tools/tool.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <csignal>
#include <iostream>

#include "executor/environment.h"

namespace genesis::tools {
namespace {

void set_up_logging(const std::string& name) {
  auto logger = spdlog::stderr_color_mt(name);
  logger->set_pattern("%n: %^%l%$: %v");
  spdlog::set_default_logger(logger);
  spdlog::set_level(spdlog::level::from_str(environment().log_level));
}

std::string one_line(std::string message) {
  for (char& c : message)
    if (c == '\n') c = ' ';
  return message;
}

}  // namespace

int run_tool(int argc, char** argv, const std::string& name, const std::string& what,
             const std::string& examples, const std::function<void(CLI::App&)>& body) {
  std::signal(SIGPIPE, SIG_DFL);  // `genesis-run info f | head` ends quietly
  CLI::App app{what, name};
  app.footer(examples);
  app.set_version_flag("--version", std::string(GENESIS_VERSION));
  try {
    set_up_logging(name);
    body(app);
    app.parse(argc, argv);
    return 0;
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
  app.add_option("--device", device, "where to run: cpu")->capture_default_str();
  app.add_option("--threads", threads, "number of threads; 0: all cores")->capture_default_str();
  app.add_flag("--no-optimise,--no-optimize", no_optimise, "run the graph as it is in the file");
  app.add_option("--disable", disable, "passes to leave out, by name (see genesis-opt --list-passes)")
      ->delimiter(',');
  app.add_flag("--find-nonfinite", find_nonfinite,
               "stop at the first node that makes a NaN or an infinity, and name it");
}

SessionOptions RunFlags::session_options() const {
  SessionOptions options;
  options.device = device;
  options.threads = threads;
  options.optimise = !no_optimise;
  options.disabled_passes.insert(disable.begin(), disable.end());
  options.find_nonfinite = find_nonfinite;
  return options;
}

void Output::print(const nlohmann::ordered_json& object, const std::function<void()>& text) const {
  if (json)
    std::cout << object.dump() << std::endl;
  else
    text();
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
