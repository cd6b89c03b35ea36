#include "tools/common/tool.h"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <set>

#include "executor/environment.h"
#include "executor/plugin.h"
#include "executor/runtime/device.h"
#include "executor/switches.h"
#include "passes/memory/make_plan.h"
#include "passes/pipelines.h"
#include "schema/file/io/registered_temporaries.h"
#include "tools/common/meant_words.h"
#include "tools/common/numbers.h"
#include "tools/common/option_values.h"
#include "tools/common/printable.h"
#include "tools/common/terminal_style.h"
#include "tools/common/usage.h"

namespace genesis::tools {
namespace {

// Formats the text of a log message for a terminal. Messages may contain names that come from a file.
class PrintableText : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&, spdlog::memory_buf_t& out) override {
    const std::string text = printable_lines({message.payload.data(), message.payload.size()});
    out.append(text.data(), text.data() + text.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override { return std::make_unique<PrintableText>(); }
};

void set_up_logging(const std::string& name) {
  auto logger = spdlog::stderr_color_mt(
      name, no_color_is_wanted() ? spdlog::color_mode::never : spdlog::color_mode::automatic);
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  formatter->add_flag<PrintableText>('*').set_pattern("%n: %^%l%$: %*");
  logger->set_formatter(std::move(formatter));
  spdlog::set_default_logger(logger);
  const std::string& level = environment().log_level;
  const char* known[] = {"trace", "debug", "info", "warn", "error", "off"};
  if (std::ranges::find(known, level) == std::end(known))
    fail("GENESIS_LOG is '{}', expected one of: {}", level, fmt::join(known, ", "));
  spdlog::set_level(spdlog::level::from_str(level));
}

// Opens /dev/null for each of the descriptors 0, 1 and 2 that is closed. Otherwise the next opened file would get
// that number: its bytes would be read as user input, or messages would be written into it. Standard input is then at
// its end. Writing fails, as on a full disk, because the descriptors are open only for reading. Throws Error if
// /dev/null cannot be opened.
void open_closed_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) >= 0 || errno != EBADF) continue;
    if (::open("/dev/null", O_RDONLY) < 0)
      fail("descriptor {} is closed, and /dev/null cannot stand for it: {}", stream, std::strerror(errno));
  }
}

void say_error(const std::string& name, std::string_view message) {
  std::cerr << name << ": error: " << error_line(message) << "\n";
}

void end_without_leftovers(int number) {
  remove_registered_temporaries();
  ::raise(number);  // ends the process, since the handler was reset
}

// Removes half-written files when Ctrl-C or a similar signal ends the process. Ignored signals (nohup) stay ignored.
// Commands that handle signals themselves replace these handlers while they run.
void remove_leftovers_at_signals() {
  struct sigaction end {
  }, before{};
  end.sa_handler = end_without_leftovers;
  end.sa_flags = static_cast<int>(SA_RESETHAND);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGUSR1})
    if (::sigaction(number, nullptr, &before) == 0 && before.sa_handler == SIG_DFL)
      ::sigaction(number, &end, nullptr);
}

// Throws UsageError if the first word is a command of another program and not an existing file.
void check_first_word(const std::string& tool, const std::string& word,
                      const std::vector<std::string>& commands) {
  const bool is_known = std::ranges::find(commands, word) != commands.end() || std::filesystem::exists(word);
  if (is_known || word.starts_with('-')) return;
  if (const std::string said = advice_on_command(tool, word); !said.empty())
    fail_usage("there is no command and no file '{}': {}", word, said);
}

// Adds --plugin, whose libraries are opened before a command begins.
void add_plugins(Command& command) {
  command
      .add_option(
          "--plugin",
          [](const std::vector<std::string>& paths) {
            for (const auto& path : paths) load_plugin(path);
          },
          "a shared library with ops and kernels (docs/plugins.md); stands before the command, and may be "
          "given again")
      ->take_all()
      ->type_name("FILE.so");
}

}  // namespace

int run_tool(int argc, char** argv, const std::string& name, const std::string& what,
             const std::string& examples, const std::function<void(Command&)>& body) {
  std::signal(SIGPIPE, SIG_DFL);  // `genesis-run info f | head` ends quietly
  std::signal(
      SIGXFSZ,
      SIG_IGN);  // a file that grows too large is an error with a message and does not end the process
  remove_leftovers_at_signals();
  CLI::App app{what, name};
  app.footer(examples);
  app.set_version_flag("--version", std::string(GENESIS_VERSION));
  Command command(app);
  add_plugins(command);
  try {
    open_closed_streams();  // before any other file is opened
    set_up_logging(name);
    check_no_empty_values(argc, argv);
    load_plugins(environment().plugins);
    body(command);
    if (argc > 1 && name != "genesis-run") check_first_word(name, argv[1], command_names(app));
    app.parse(argc, argv);
    if (!std::cout.flush())
      fail("the output could not be written: is the disk full, or standard output closed?");
    return 0;
  } catch (const ExitCode& end) {
    return end.code();
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error, std::cout, std::cerr);  // --help, --version
    say_error(name, with_help(app, usage_text(app, error)));
    return 2;
  } catch (const SettingError& error) {
    say_error(name, with_help(app, error.message()));
    return 2;
  } catch (const Error& error) {
    say_error(name, error.message());
  } catch (const std::bad_alloc&) {
    say_error(name, "out of memory: use smaller sizes or a machine with more memory");
  } catch (const std::exception& error) {
    say_error(name, error.what());
  }
  return 1;
}

void RunFlags::add_to(Command& app) {
  add_device(app, "--device", device,
             "device to run on: cpu, cuda, cuda:N, or auto (cuda if a GPU can be used, else cpu)");
  add_number(app, "--threads", threads, "number of threads; 0: all cores", Range<int>{0, kMaxThreads});
  app.add_flag("--no-optimize,--no-optimise", no_optimize, "run the graph as it is in the file");
  app.add_option("--disable", disable,
                 "passes to leave out, by name (see genesis-opt --list-passes), and kernels, as kernel:NAME")
      ->delimiter(',');
  app.add_flag("--find-nonfinite", find_nonfinite,
               "stop at the first node that gives a NaN, or an infinity from finite numbers, and name it");
  app.add_option(
      "--nonfinite-page", nonfinite_page,
      "with --find-nonfinite: write that node's inputs and outputs as a page for a browser, FILE.html");
}

void BudgetFlags::add_to(Command& app) {
  const auto read = [this](const std::vector<std::string>& words) {
    budget = words.back();
    bytes_or_fail("--memory-budget", budget);
  };
  app.add_option("--memory-budget", read,
                 "bytes that the arena of a training step may take (500MB, 8GiB); values that do not fit are "
                 "computed again")
      ->type_name("TEXT");
  app.add_flag("--remat", remat, "compute values again wherever that lowers the memory of a training step");
}

std::optional<int64_t> BudgetFlags::bytes() const {
  if (remat && !budget.empty())
    fail_usage("--memory-budget {} and --remat, which is a budget of 0, exclude each other", budget);
  if (budget.empty()) return remat ? std::optional<int64_t>(0) : std::nullopt;
  return bytes_or_fail("--memory-budget", budget);
}

void BudgetFlags::check_limits_one_of(const std::vector<std::string>& entries, const Model& model) const {
  const auto trains = [&](const std::string& entry) { return passes::trains(model.entry(entry)); };
  if (!is_given() || std::ranges::any_of(entries, trains)) return;
  fail_usage("{} does nothing with entry point{} {}: it limits the memory of a training step",
             remat ? "--remat" : "--memory-budget", entries.size() == 1 ? "" : "s", fmt::join(entries, ", "));
}

namespace {

void check_passes_run(const SessionOptions& options) {
  if (options.optimize) return;
  if (options.memory_budget) fail_usage("--memory-budget and --remat do nothing with --no-optimize");
  const Switches switches = parse_switches(options.disabled, target_of(resolve_device(options.device)));
  for (const std::string& pass : switches.passes)
    fail_usage("--disable {} does nothing with --no-optimize, which runs no pass", pass);
}

}  // namespace

void check_options(const SessionOptions& options) {
  check_disabled(options.disabled, options.device);
  check_passes_run(options);
  const DeviceKind* kind = find_device_kind(options.device);
  if (options.threads > 0 && kind && !kind->takes_threads)
    fail_usage("--threads {} does nothing with --device {}: it is for the CPU", options.threads,
               options.device);
}

SessionOptions RunFlags::session_options() const {
  SessionOptions options;
  options.device = device;
  options.threads = threads;
  options.optimize = !no_optimize;
  options.disabled.insert(disable.begin(), disable.end());
  options.find_nonfinite = find_nonfinite;
  options.memory_budget = memory.bytes();
  if (!nonfinite_page.empty() && !find_nonfinite)
    fail_usage("--nonfinite-page {} is for --find-nonfinite, which looks for what it shows", nonfinite_page);
  check_options(options);
  return options;
}

std::string json_text(const nlohmann::ordered_json& object) {
  return object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void Output::print(const nlohmann::ordered_json& object, const std::function<void()>& text) const {
  if (json)
    std::cout << printable_json(json_text(object)) << std::endl;
  else
    text();
}

nlohmann::ordered_json peaks_json(const DevicePeaks& peaks) {
  nlohmann::ordered_json json{{"f32_gflops", peaks.f32_gflops},
                              {"low_gflops", peaks.low_gflops},
                              {"copy_gbps", peaks.copy_gbps},
                              {"read_gbps", peaks.read_gbps}};
  for (const CacheSpeed& cache : peaks.caches)
    json["caches"].push_back({{"bytes", cache.bytes}, {"gbps", cache.gbps}});
  return json;
}

}  // namespace genesis::tools
