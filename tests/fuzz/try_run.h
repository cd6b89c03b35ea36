// Does everything with an untrusted file that a user may do: loads it, plans every entry point and runs it on the
// CPU. Failures must end in genesis::Error; any other exception, crash, endless loop or sanitizer report is a
// finding.
#pragma once

#include <string>

#include "tests/fuzz/mutate.h"

namespace genesis::testing {

enum class RunOutcome { kNotLoaded, kRefused, kTooLarge, kDataFault, kRan };

struct RunCounts {
  int made = 0, not_loaded = 0, refused = 0, too_large = 0, data_faults = 0, ran = 0;
  void add(RunOutcome outcome);
  int loaded() const { return made - not_loaded; }
  std::string to_string() const;
};

// `mutator` chooses the sizes of symbols, the data and the options of the session.
RunOutcome try_run(const std::string& bytes, Mutator& mutator);

// Runs graphs number [first, first + count) until `seconds` have passed. Each must end within `seconds_each`, or the
// process names it and aborts. With `trace` every number is written to stderr before it begins.
RunCounts run_random_graphs(uint64_t first, uint64_t count, double seconds, int seconds_each,
                            bool trace = false);

}  // namespace genesis::testing
