// What all four tools share: exit codes, errors on one line, --json.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "executor/session.h"
#include "executor/session_options.h"
#include "schema/graph/memory_text.h"
#include "tools/common/command.h"

namespace genesis::tools {

// 0: done. 1: could not; one line on stderr says what, where and what to do. 2: wrong usage.
// `body` adds flags and subcommands to the app; a subcommand's work runs in its callback.
int run_tool(int argc, char** argv, const std::string& name, const std::string& what,
             const std::string& examples, const std::function<void(Command&)>& body);

// --memory-budget and --remat: how much memory a training step may take.
struct BudgetFlags {
  std::string budget;
  bool remat = false;

  void add_to(Command& app);
  bool is_given() const { return remat || !budget.empty(); }
  std::optional<int64_t> bytes() const;  // 0: as few as can be; empty: neither was given
};

// Flags that every command which runs something takes.
struct RunFlags {
  std::string device = SessionOptions{}.device;
  int threads = SessionOptions{}.threads;
  bool no_optimise = false;
  std::vector<std::string> disable;  // names of passes
  bool find_nonfinite = false;
  std::string nonfinite_page;  // written by with_nonfinite_page(); empty: none
  BudgetFlags memory;

  void add_to(Command& app);
  SessionOptions session_options() const;
};

// Throws UsageError when one option makes another do nothing.
void check_options(const SessionOptions& options);

// --size SYMBOL=SIZE, as often as it was given.
Bindings parse_sizes(const std::vector<std::string>& sizes);
// Throws Error naming a size that no entry point of the model has.
void check_sizes_exist(const Model& model, const Bindings& sizes);
// Throws Error naming the symbols of the entry point's inputs that have no size yet, and the flag that gives
// one.
void check_sizes_known(const Graph& entry, const Bindings& sizes);
// Before hours of work: whether a file can be made at `path` at its end. Throws Error when not.
void check_can_write(const std::string& path);

// One JSON object on stdout, or `text()` when --json was not given.
struct Output {
  bool json = false;
  void add_to(Command& app) { app.add_flag("--json", json, "print one JSON object on stdout"); }
  void print(const nlohmann::ordered_json& object, const std::function<void()>& text) const;
};

// One line; bytes in strings that are not UTF-8 become U+FFFD.
std::string json_text(const nlohmann::ordered_json& object);
nlohmann::ordered_json peaks_json(const DevicePeaks& peaks);
using genesis::human_bytes;                 // "1.50 MiB"
std::string human_count(double count);      // "1.5 M"
std::string human_seconds(double seconds);  // "1m05s"

}  // namespace genesis::tools
