// Shared by all four tools: exit codes, errors on one line, --json.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "executor/inspection/make_inputs.h"
#include "executor/runtime/peaks.h"
#include "executor/session.h"
#include "executor/session_options.h"
#include "models/jobs/output_files.h"
#include "models/open_model.h"
#include "schema/graph/memory_text.h"
#include "schema/messages/human_numbers.h"
#include "tools/common/command.h"

namespace genesis::tools {

// Texts of --help for a model's name.
inline constexpr const char* kModelName = "a .genesis file, or a folder of checkpoints: its newest";
inline constexpr const char* kGeneratingModelName =
    "a .genesis file with entry points prefill and decode, or a folder of checkpoints: its newest";

// Exit codes: 0 for success; 1 for a failure, with one line on stderr that says what failed, where, and what to do; 2
// for wrong usage. `body` adds flags and subcommands to the app; the work of a subcommand runs in its callback.
int run_tool(int argc, char** argv, const std::string& name, const std::string& what,
             const std::string& examples, const std::function<void(Command&)>& body);

// Options --memory-budget and --remat, which limit the memory of a training step. Commands that never train do not have them.
struct BudgetFlags {
  std::string budget;
  bool remat = false;

  void add_to(Command& app);
  bool is_given() const { return remat || !budget.empty(); }
  std::optional<int64_t> bytes() const;  // 0: as few as possible; empty: neither was given
  // Throws UsageError if a limit was given and none of these entry points of the model trains, since others ignore it.
  void check_limits_one_of(const std::vector<std::string>& entries, const Model& model) const;
};

// Options of every command that runs something. Those of `memory` are added separately.
struct RunFlags {
  std::string device = SessionOptions{}.device;
  int threads = SessionOptions{}.threads;
  bool no_optimize = false;
  std::vector<std::string> disable;  // names of passes, kernels and planning steps
  bool find_nonfinite = false;
  std::string nonfinite_page;  // page that with_nonfinite_page() writes; empty: none
  BudgetFlags memory;

  void add_to(Command& app);
  SessionOptions session_options() const;
};

// Throws UsageError if one option makes another do nothing.
void check_options(const SessionOptions& options);

using genesis::check_sizes_exist;
using genesis::human_bytes;
using jobs::check_can_write;
using models::model_file;
using models::open_model;

// Prints one JSON object on stdout with --json, else calls `text()`.
struct Output {
  bool json = false;
  void add_to(Command& app) { app.add_flag("--json", json, "print one JSON object on stdout"); }
  void print(const nlohmann::ordered_json& object, const std::function<void()>& text) const;
};

// Returns the JSON on one line. Bytes in strings that are not UTF-8 become U+FFFD.
std::string json_text(const nlohmann::ordered_json& object);
nlohmann::ordered_json peaks_json(const DevicePeaks& peaks);

}  // namespace genesis::tools
