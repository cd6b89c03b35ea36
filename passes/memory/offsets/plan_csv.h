// Reads buffers from lines `id,lower,upper,size` and plans them, for `genesis-opt --plan-csv`. Lifetimes are half-open; sizes
// are bytes. Ids are arbitrary strings, unique in a file, and keep the file's order.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "passes/memory/offsets/offset_planner.h"

namespace genesis::passes {

struct PlanCsv {
  std::vector<std::string> ids;
  std::vector<PlanBuffer> buffers;  // one for each id
};

// Parses text whose first line may name the columns, in any order. Skips blank lines and lines that begin with '#'; accepts
// CRLF and fields in double quotes. Throws an Error with `name` and the line.
PlanCsv parse_plan_csv(std::string_view text, const std::string& name);
PlanCsv read_plan_csv(const std::string& path);

struct PlanCsvReport {
  int64_t height = 0;
  int64_t lower_bound = 0;
  double ratio = 1;
  std::vector<std::pair<std::string, int64_t>> offsets;  // id, offset; in file order
};

// Reads the file, plans it and checks the result with the independent overlap check.
PlanCsvReport plan_csv_file(const std::string& path,
                            const OffsetOptions& options = {.search_budget = kThoroughSearch});

}  // namespace genesis::passes
